// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adoption: whole pages of registered memory of the program are exchanged, in place, for pages of
//! the engine's allocator with the same content, which peers of the same user can map. Then a
//! peer's write is a store into the program's own buffer, and the program may wait for it by
//! looking there, as it does with hardware; nobody has to run for it.
//!
//! Only what nobody can notice is exchanged (A1), and what cannot be is reached by packets. When
//! the registration ends, the pages stay where they are; the child of a fork gets copies of its
//! own.
//!
//! Invariant A1: the pages are private, anonymous, readable and writable, hold nothing but the
//! region, nothing of this process is pinned for the kernel or a device, and no thread of the
//! program sees them half exchanged: there is only the one that registers, or the others are
//! stopped when they touch them (`exchange.rs`), or all of them are (`freeze.rs`).

use crate::exchange::{PAGE, exchange, exchange_alone, stopper};
use crate::freeze::{exchange_frozen, may_freeze};
use crate::tracing::{Status, may_trace};
use bellwire_memory::mappings::{Mapping, list};
use bellwire_memory::userfault::Userfault;
use bellwire_memory::{bytes, own_thread};
use bellwire_via::nic::Adoption;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of one region that are copied for it.
const BYTES_MAX: usize = 1 << 30;
/// As `/proc` calls the engine's allocations.
const NAME: &str = "/memfd:bellwire-memory";
/// Lists of threads that are read, while some of them end.
const LISTS: u32 = 3;

/// Pages that are the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Where they are for the program.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where the engine has them.
    pub base: u64,
    /// The engine's handle of their registration.
    pub handle: u32,
}

/// The adopted memory of this process, by its address in the program.
#[derive(Debug)]
struct Place {
    pages: Range<usize>,
    /// Regions that use it; afterwards it only matters for forks.
    users: u32,
    /// The engine's memory, and whose device's it is.
    base: usize,
    owner: usize,
}

static PLACES: Mutex<Vec<Place>> = Mutex::new(Vec::new());

/// Threads that are about to fork. Locked after `PLACES`.
static FORKS: Mutex<u32> = Mutex::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn places() -> MutexGuard<'static, Vec<Place>> {
    lock(&PLACES)
}

/// The whole pages of a range.
pub(crate) fn pages_of(address: u64, length: u64) -> Option<Range<usize>> {
    let start = (address as usize).checked_next_multiple_of(PAGE)?;
    let end = (address.checked_add(length)? as usize) & !(PAGE - 1);
    (start < end && end - start <= BYTES_MAX).then_some(start..end)
}

/// The engine's memory for pages that have been adopted already, for one region more.
pub(crate) fn share(pages: &Range<usize>, owner: usize) -> Option<(usize, Range<usize>)> {
    let mut places = places();
    let place = places.iter_mut().find(|p| p.users != 0 && p.owner == owner && p.pages.start <= pages.start && pages.end <= p.pages.end)?;
    place.users += 1;
    Some((place.base, place.pages.clone()))
}

/// How pages are exchanged.
#[derive(Debug)]
pub(crate) enum How {
    /// By the only thread of the program.
    Alone,
    /// While those who touch them are stopped.
    Stopping(Userfault),
    /// While all are stopped.
    Frozen,
}

/// How pages may be exchanged (A1), as things stand; `None`: not at all.
pub(crate) fn may_adopt(pages: &Range<usize>, adoption: Adoption) -> Option<How> {
    let overlaps = places().iter().any(|p| p.users != 0 && p.pages.start < pages.end && pages.start < p.pages.end);
    let status = Status::read()?;
    // The kernel, or a device, would go on using the pages of before.
    if overlaps || status.pinned_kib != 0 {
        return None;
    }
    let how = if is_only_thread() {
        Some(How::Alone)
    } else {
        let may_trace = || adoption == Adoption::Auto && may_freeze(pages) && may_trace(&status);
        stopper().map(How::Stopping).or_else(|| may_trace().then_some(How::Frozen))
    };
    // A thread that touches pages adopted earlier is not stopped by the kernel.
    let list = list().ok()?;
    how.filter(|how| mappings(&list).is_some_and(|maps| is_plain(&maps, pages, !matches!(how, How::Stopping(_)))))
}

/// Puts the engine's memory at `base` in the place of the pages, with their content. `false`:
/// everything is as it was.
///
/// # Safety
/// A1; `base` is the engine's, for as many bytes, and nobody uses it yet.
pub(crate) unsafe fn adopt(pages: &Range<usize>, base: usize, owner: usize, how: How) -> bool {
    // Held until the place is listed: a fork meanwhile would share the pages with the child.
    let mut places = places();
    if *lock(&FORKS) != 0 {
        return false;
    }
    let done = match how {
        // SAFETY: the caller's.
        How::Alone => unsafe { exchange_alone(pages, base) },
        // SAFETY: the caller's; no thread that touches the pages holds one of the two locks.
        How::Stopping(stopper) => unsafe { exchange(stopper, pages, base) },
        // SAFETY: the caller's.
        How::Frozen => unsafe { exchange_frozen(pages, base) },
    };
    if done {
        places.retain(|p| p.users != 0 || p.pages.end <= pages.start || pages.end <= p.pages.start);
        places.push(Place { pages: pages.clone(), users: 1, base, owner });
    }
    done
}

/// A region less uses adopted pages; their place in the engine, if it was the last.
pub(crate) fn release(pages_start: u64, owner: usize) -> Option<usize> {
    let mut places = places();
    let place = places.iter_mut().find(|p| p.users != 0 && p.owner == owner && p.pages.contains(&(pages_start as usize)))?;
    place.users -= 1;
    (place.users == 0).then_some(place.base)
}

/// Whether the program has one thread.
fn is_only_thread() -> bool {
    (0..LISTS).find_map(|_| programs_threads()).is_some_and(|threads| threads <= 1)
}

/// The threads that are not ours; none, if one ended while they were counted.
fn programs_threads() -> Option<u32> {
    let mut threads = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let name = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        threads += u32::from(!name.starts_with(own_thread::NAME));
    }
    Some(threads)
}

/// The mappings of a list.
fn mappings(list: &str) -> Option<Vec<Mapping<'_>>> {
    list.lines().map(Mapping::parse).collect()
}

/// Whether pages are private and anonymous memory, readable and writable; or, if that may be, were
/// adopted earlier.
fn is_plain(maps: &[Mapping<'_>], pages: &Range<usize>, may_be_ours: bool) -> bool {
    let mut at = pages.start;
    for Mapping { range, rights, name, .. } in maps {
        if at >= pages.end || range.end <= at {
            continue;
        }
        let is_private = *rights == "rw-p" && (name.is_empty() || *name == "[heap]" || name.starts_with("[anon:"));
        let is_ours = may_be_ours && *rights == "rw-s" && name.starts_with(NAME);
        if range.start > at || !(is_private || is_ours) {
            return false;
        }
        at = range.end;
    }
    at >= pages.end
}

/// What a fork is to give the child copies of.
static FORKING: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// To be called before a fork: finds what of the program's memory is shared because it was adopted.
/// Nothing is adopted until the fork is over.
pub fn before_fork() {
    let mut places = places();
    *lock(&FORKS) += 1;
    if places.is_empty() {
        return;
    }
    let Ok(list) = list() else { return };
    let Some(maps) = mappings(&list) else { return };
    let is_there = |p: &Place| maps.iter().any(|m| m.range.start <= p.pages.start && p.pages.end <= m.range.end && m.name.starts_with(NAME));
    places.retain(|p| p.users != 0 || is_there(p));
    let found = places.iter().filter(|p| is_there(p)).map(|p| p.pages.clone()).collect();
    *FORKING.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// To be called in the parent after a fork, or one that failed.
pub fn after_fork_in_parent() {
    let mut forks = lock(&FORKS);
    *forks = forks.saturating_sub(1);
}

/// To be called in the child of a fork: it gets copies of what was found.
pub fn after_fork_in_child() {
    // If another thread held it, nothing is adopted in this child.
    if let Ok(mut forks) = FORKS.try_lock() {
        *forks = 0;
    }
    // Nobody else runs in the child; a lock that another thread held at the fork is left alone.
    let Ok(mut found) = FORKING.try_lock() else { return };
    for pages in found.drain(..) {
        let length = pages.len();
        // SAFETY: new memory; the pages are mapped, as was just found out in the parent; the copy
        // takes their place.
        unsafe {
            let Ok(copy) = mmap_anonymous(core::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) else { return };
            let at = core::ptr::with_exposed_provenance_mut::<u8>(pages.start);
            bytes::copy(copy.cast(), at, length);
            if mremap_fixed(copy, length, length, MremapFlags::MAYMOVE, at.cast()).is_err() {
                let _ = munmap(copy, length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages() {
        assert_eq!(pages_of(4096, 4096), Some(4096..8192));
        assert_eq!(pages_of(4097, 8190), None);
        assert_eq!(pages_of(4095, 4098), Some(4096..8192));
        assert_eq!(pages_of(4096, u64::MAX), None);
    }

    #[test]
    fn what_is_plain() {
        let map = |from: usize, to: usize, rights, name| Mapping { range: from..to, rights, offset: 0, device: "00:00", inode: 0, name };
        let maps =
            [map(4096, 8192, "rw-p", ""), map(8192, 12288, "rw-p", "[heap]"), map(12288, 16384, "rw-s", "/dev/shm/x"), map(20480, 24576, "rw-p", "[stack]")];
        assert!(is_plain(&maps, &(4096..12288), true));
        assert!(!is_plain(&maps, &(4096..16384), true), "shared memory of the program's own");
        assert!(!is_plain(&maps, &(16384..20480), true), "nothing there");
        assert!(!is_plain(&maps, &(20480..24576), true), "a stack");
    }

    /// Memory that the kernel has pinned for itself is left alone: it would go on reading and
    /// writing the pages of before.
    #[test]
    fn pinned_memory_is_left_alone() {
        const REGISTER_BUFFERS: libc::c_long = 0;
        let length = 16 * PAGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { mmap_anonymous(core::ptr::null_mut(), length, rights, MapFlags::PRIVATE) }.unwrap();
        let pages = at.addr()..at.addr() + length;
        let mut parameters = [0_u32; 30];
        // SAFETY: room for the parameters, which have 120 bytes.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
        if ring < 0 {
            eprintln!("SKIPPED: no io_uring");
            return;
        }
        let buffer = libc::iovec { iov_base: at, iov_len: length };
        // SAFETY: one buffer, which is mapped.
        if unsafe { libc::syscall(libc::SYS_io_uring_register, ring, REGISTER_BUFFERS, &raw const buffer, 1) } != 0 {
            eprintln!("SKIPPED: no buffers of io_uring");
            return;
        }
        assert!(Status::read().unwrap().pinned_kib >= (length / 1024) as u64);
        assert!(may_adopt(&pages, Adoption::Auto).is_none());
        // SAFETY: this test's own descriptor and mapping.
        unsafe {
            libc::close(ring as i32);
            munmap(at, length).unwrap();
        }
    }
}
