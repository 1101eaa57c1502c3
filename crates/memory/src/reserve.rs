// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking the pages of a memfd at once, after a look at what there is.
//!
//! A memfd's pages are taken when they are first touched. If there is none left then, the process
//! is not told: it is killed, by the memory cgroup or by SIGBUS. So pages are taken at creation,
//! and since `fallocate` under a small cgroup also gets the process killed instead of failing, the
//! headroom is looked up before. Between the look and the taking others may take memory too; the
//! margin covers the usual case, and the rest is a limit of what Linux offers.
//!
//! Looking costs more than taking a few pages, and a process of a large job creates some hundred
//! regions at once; so a look that saw plenty counts for a moment (`look.rs`).
//!
//! Called by [`crate::region::Region::create`]. The parsers are pure functions of the kernel's
//! texts.

#[path = "reserve/look.rs"]
mod look;

use crate::error::MemoryError;
use rustix::fd::BorrowedFd;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::path::{Component, Path, PathBuf};

/// Bytes left free besides those asked for: page tables, the kernel's per-processor batches, and
/// what the program does next.
pub const MARGIN_BYTES: u64 = 8 << 20;

/// Bytes taken per call: an interrupted call gives back all it took, so a large one might never end
/// under a busy timer signal.
const STEP_BYTES: u64 = 16 << 20;

/// Reserves `len` bytes of pages for `memfd`, which has at least that size.
///
/// # Errors
/// [`MemoryError::NoMemory`] if less than `len` and [`MARGIN_BYTES`] is available, before anything
/// is taken, or if the kernel runs out in between.
pub fn reserve(memfd: BorrowedFd<'_>, len: u64) -> Result<(), MemoryError> {
    let wanted = len.saturating_add(MARGIN_BYTES);
    if !look::is_seen(len) {
        let available = available_bytes();
        if available < wanted {
            return Err(MemoryError::NoMemory { wanted, available });
        }
        look::saw(available);
    }
    let mut at = 0;
    while at < len {
        let step = STEP_BYTES.min(len - at);
        match fallocate(memfd, FallocateFlags::empty(), at, step) {
            Ok(()) => at += step,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::NOMEM) => return Err(MemoryError::NoMemory { wanted, available: available_bytes() }),
            // Kernels and sandboxes without it take pages at first touch; nothing better is to be
            // had there.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(errno) => return Err(MemoryError::os("fallocate", errno)),
        }
    }
    Ok(())
}

/// Bytes that this process could take now: the least of the machine's available memory and the
/// headroom of each memory cgroup above it. `u64::MAX` where nothing is known. Reads a few small
/// files; for set-up, not for the data path.
pub fn available_bytes() -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| parse_mem_available(&text)).unwrap_or(u64::MAX);
    machine.min(cgroup_headroom())
}

fn cgroup_headroom() -> u64 {
    let Some(own) = read("/proc/self/cgroup") else { return u64::MAX };
    let mounts = parse_mounts(&read("/proc/self/mountinfo").unwrap_or_default());
    let mut least = u64::MAX;
    for (version, path) in parse_own_cgroups(&own) {
        let default = Mount { version, root: PathBuf::from("/"), point: PathBuf::from(default_mount_point(version)) };
        let mount = mounts.iter().find(|m| m.version == version).unwrap_or(&default);
        for dir in levels(mount, &path) {
            least = least.min(headroom_of(version, &dir));
        }
    }
    least
}

fn default_mount_point(version: Version) -> &'static str {
    match version {
        Version::V1 => "/sys/fs/cgroup/memory",
        Version::V2 => "/sys/fs/cgroup",
    }
}

/// The headroom of one cgroup directory; unlimited if it has no limit, or none that we can read.
fn headroom_of(version: Version, dir: &Path) -> u64 {
    let (limit, usage, cache_key) = match version {
        Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        Version::V2 => ("memory.max", "memory.current", "inactive_file"),
    };
    let Some(limit) = read(dir.join(limit)).and_then(|text| parse_limit(&text)) else { return u64::MAX };
    let Some(usage) = read(dir.join(usage)).and_then(|text| text.trim().parse::<u64>().ok()) else { return u64::MAX };
    let cache = read(dir.join("memory.stat")).and_then(|text| parse_stat(&text, cache_key)).unwrap_or(0);
    headroom(limit, usage, cache)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    // Bytes first: a cgroup may have a name that is not UTF-8, which must not hide the other lines.
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The kind of a memory cgroup hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where a hierarchy is mounted: `root` of the hierarchy is seen at `point`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    root: PathBuf,
    point: PathBuf,
}

/// The bytes that may still be taken below `limit`: unused ones, and file pages that the kernel
/// would drop first.
fn headroom(limit: u64, usage: u64, cache: u64) -> u64 {
    limit.saturating_sub(usage.saturating_sub(cache))
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn parse_mem_available(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    rest.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// A limit file's number; `None` for "max". (Version 1 has no word for it, but a number beyond any
/// memory: then the headroom is as large.)
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The value of `key` in memory.stat.
fn parse_stat(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        if name == key { value.trim().parse().ok() } else { None }
    })
}

/// The memory cgroups of /proc/self/cgroup: `hierarchy:controllers:path`; version 2 is `0::path`.
fn parse_own_cgroups(text: &str) -> Vec<(Version, PathBuf)> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            if hierarchy == "0" && controllers.is_empty() {
                Some((Version::V2, PathBuf::from(path)))
            } else if controllers.split(',').any(|c| c == "memory") {
                Some((Version::V1, PathBuf::from(path)))
            } else {
                None
            }
        })
        .collect()
}

/// The memory cgroup mounts of /proc/self/mountinfo:
/// `id parent dev root point options [optional..] - type source super-options`.
fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let (kind, super_options) = (right.next()?, right.nth(1).unwrap_or(""));
            let version = match kind {
                "cgroup2" => Version::V2,
                "cgroup" if super_options.split(',').any(|o| o == "memory") => Version::V1,
                _ => return None,
            };
            let mut left = left.split(' ').skip(3);
            let (root, point) = (left.next()?, left.next()?);
            Some(Mount { version, root: unescape(root), point: unescape(point) })
        })
        .collect()
}

/// Undoes the kernel's `\040` escapes.
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = field.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = (bytes[at] == b'\\').then(|| bytes.get(at + 1..at + 4)).flatten();
        let value = octal.and_then(|digits| core::str::from_utf8(digits).ok()).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// The directories whose limits apply: that of the cgroup at `path`, and each above it, up to the
/// mount point. If the mount does not show the path (another cgroup namespace, a bind mount), the
/// mount point alone.
fn levels(mount: &Mount, path: &Path) -> Vec<PathBuf> {
    let outside = path.components().any(|c| c == Component::ParentDir);
    let below = if outside { Path::new("") } else { path.strip_prefix(&mount.root).unwrap_or(Path::new("")) };
    let own = if below.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(below) };
    own.ancestors().take_while(|dir| dir.starts_with(&mount.point)).map(Path::to_path_buf).collect()
}

#[cfg(test)]
#[path = "reserve/tests.rs"]
mod tests;
