// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that can be handed to another process: sealed memfds.
//!
//! | kind | writer | seals | used for |
//! |---|---|---|---|
//! | [`RegionKind::WriterOwned`] | its creator alone | shrink, grow, future-write, seal | lines, advertisements, the catalogue, payload bytes of guarded NICs |
//! | [`RegionKind::Open`] | its creator; others could | shrink, grow, seal | payload bytes, mapped for writing by a reader that never writes (why: docs/decisions/0011) |
//! | [`RegionKind::Shared`] | any process that was given it | shrink, grow, seal | user memory that the engine allocated (mapped mode) |
//!
//! Invariants
//! - R1: a region's size never changes after creation (seals), so a mapped byte stays backed: no
//!   SIGBUS by truncation.
//! - R2: a mapping lives as long as its `Region` or `RemoteRegion`; `base` is valid for `len` bytes
//!   until then.
//! - R3: nobody but the creator ever has a writable mapping of a `WriterOwned` region: the seal is
//!   set while the descriptor is still private. The same seal refuses hole punching (which would
//!   replace live data by zeros) and `write`.
//! - R4: a remote region is a memfd of ordinary pages. One of huge pages could raise SIGBUS when
//!   the pool is empty; other files could be truncated.
//!
//! Left to the peer: in a `Shared` or `Open` region it may write, and punch holes, as it likes. It
//! spoils the data that it was given, nothing else.
//!
//! Huge pages: none, for memory that a peer can write or map. A memfd gets transparent huge pages
//! only if the administrator says so for shared memory (`shmem_enabled`, normally `never` or
//! `advise`) and then by `MADV_HUGEPAGE`, which is never given here, so `MADV_NOHUGEPAGE` is not
//! needed.
//!
//! Fork: mappings of `WriterOwned`, `Open` and remote regions are not inherited (`MADV_DONTFORK`):
//! a child that went on using its parent's lines would corrupt them silently; so it gets a plain
//! SIGSEGV at once. `Shared` regions are user memory: a child sees them like any shared mapping, at
//! the same address, and may read what its parent received. Descriptors are close-on-exec.

use crate::bytes::SharedBytes;
use crate::error::MemoryError;
use crate::reserve;
use core::ffi::c_void;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create, open};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// What a region is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Written by its creator only; others can map it for reading only.
    WriterOwned,
    /// Written by everybody who is given it.
    Shared,
    /// Written by its creator only, who never reads what is in it; others may map it for writing.
    Open,
}

impl RegionKind {
    fn seals(self) -> SealFlags {
        // SEAL: nobody can add another seal afterwards, such as one against our own writes.
        let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match self {
            Self::WriterOwned => size | SealFlags::FUTURE_WRITE,
            Self::Shared | Self::Open => size,
        }
    }
}

/// How a remote region is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    ReadOnly,
    /// For reading and writing; not possible for [`RegionKind::WriterOwned`].
    ReadWrite,
}

/// Memory created by this process, mapped for reading and writing.
///
/// ```
/// use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
///
/// let mine = Region::create("example", 4096, RegionKind::WriterOwned)?;
/// // What another process would do with the descriptor that it was handed.
/// let theirs = RemoteRegion::map(mine.read_only_fd()?, 4096, 1 << 20, Access::ReadOnly)?;
///
/// mine.bytes().copy_in(100, b"seen by both")?;
/// let mut seen = [0; 12];
/// theirs.bytes().copy_out(100, &mut seen)?;
/// assert_eq!(&seen, b"seen by both");
/// assert!(theirs.bytes().copy_out(mine.len() - 4, &mut seen).is_err());
/// # Ok::<(), bellwire_memory::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    memfd: OwnedFd,
    kind: RegionKind,
}

impl Region {
    /// Creates a region of at least `len` bytes (rounded up to whole pages), all zero, its pages
    /// reserved. `name` is seen in `/proc` only.
    ///
    /// # Errors
    /// [`MemoryError::NoMemory`] if the pages are not to be had; [`MemoryError::BadLength`];
    /// [`MemoryError::Os`] if the kernel refuses.
    pub fn create(name: &str, len: usize, kind: RegionKind) -> Result<Self, MemoryError> {
        let len = round_to_pages(len)?;
        let memfd = create_memfd(name)?;
        check_file_size(len as u64)?;
        ftruncate(&memfd, len as u64).map_err(MemoryError::from_call("ftruncate"))?;
        reserve::reserve(memfd.as_fd(), len as u64)?;
        let mapping = Mapping::new(memfd.as_fd(), len, Access::ReadWrite)?;
        if kind != RegionKind::Shared {
            mapping.keep_from_children()?;
        }
        // After the mapping: FUTURE_WRITE forbids new writable ones, ours included (R3).
        fcntl_add_seals(&memfd, kind.seals()).map_err(MemoryError::from_call("fcntl(F_ADD_SEALS)"))?;
        Ok(Self { mapping, memfd, kind })
    }

    /// The first byte (R2); page-aligned.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base
    }

    /// Bytes mapped: a multiple of the page size.
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Never: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What it was created for.
    pub fn kind(&self) -> RegionKind {
        self.kind
    }

    /// The memfd, to be handed to a peer. (The descriptor is open for writing, which the seals make
    /// useless in a `WriterOwned` region.)
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// A second descriptor of the same memory that is open for reading only: a peer that is handed
    /// this one can map the memory for reading, unless it may open the file anew (a process of the
    /// same user can, through `/proc`; for a `WriterOwned` region the seals hold even then).
    ///
    /// # Errors
    /// [`MemoryError::NoProc`] without `/proc`.
    pub fn read_only_fd(&self) -> Result<OwnedFd, MemoryError> {
        let path = format!("/proc/self/fd/{}", self.memfd.as_raw_fd());
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR => MemoryError::NoProc,
            errno => MemoryError::os("open(/proc/self/fd)", errno),
        })
    }

    /// The region as bytes to copy from and to.
    pub fn bytes(&self) -> SharedBytes<'_> {
        // SAFETY: R2: valid for reading and writing while `self` is borrowed.
        unsafe { SharedBytes::new(self.mapping.base, self.mapping.len) }
    }
}

/// A memfd like that of a [`RegionKind::Shared`] region, for memory of which most is never used: a
/// page is taken when it is first touched. (If there is no memory left then, the kernel treats the
/// process like one that touches its own heap.) `name` is seen by [`memfd_origin`].
///
/// # Errors
/// [`MemoryError::BadLength`]; [`MemoryError::Os`] if the kernel refuses.
pub fn sparse_memfd(name: &str, len: usize) -> Result<OwnedFd, MemoryError> {
    let len = round_to_pages(len)?;
    let memfd = create_memfd(name)?;
    check_file_size(len as u64)?;
    ftruncate(&memfd, len as u64).map_err(MemoryError::from_call("ftruncate"))?;
    fcntl_add_seals(&memfd, RegionKind::Shared.seals()).map_err(MemoryError::from_call("fcntl(F_ADD_SEALS)"))?;
    Ok(memfd)
}

/// Where a memfd comes from. Neither can be changed after its creation, by nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemfdOrigin {
    /// The user whose process created it.
    pub uid: u32,
    /// The name that it was created with.
    pub name: String,
}

/// The creator of a memfd that a process has sent, and the name it was given.
///
/// # Errors
/// [`MemoryError::NotMemory`] and [`MemoryError::NotSealed`]: [`sparse_memfd`] does not make such
/// files. [`MemoryError::NoProc`].
pub fn memfd_origin(memfd: BorrowedFd<'_>) -> Result<MemfdOrigin, MemoryError> {
    checked_len(memfd, 1, u64::MAX)?;
    let stat = fstat(memfd).map_err(|_| MemoryError::NotMemory)?;
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", memfd.as_raw_fd()), Vec::new()).map_err(|_| MemoryError::NoProc)?;
    let link = link.into_string().map_err(|_| MemoryError::NotMemory)?;
    // A file without a link has the same form, but only a memfd has seals, and its name follows the
    // prefix.
    let name = link.strip_prefix("/memfd:").and_then(|rest| rest.strip_suffix(" (deleted)")).ok_or(MemoryError::NotMemory)?;
    Ok(MemfdOrigin { uid: stat.st_uid, name: name.to_owned() })
}

/// Memory created by a peer and mapped here.
#[derive(Debug)]
pub struct RemoteRegion {
    mapping: Mapping,
    access: Access,
}

impl RemoteRegion {
    /// Checks and maps what a peer has sent: a memfd of ordinary pages (R4), sealed against
    /// resizing (R1), of `len_min..=len_max` bytes. The descriptor is closed in any case; the
    /// mapping keeps the memory.
    ///
    /// # Errors
    /// [`MemoryError::NotMemory`], [`MemoryError::NotSealed`], [`MemoryError::WrongSize`]: the peer lies.
    /// [`MemoryError::Os`]: `mmap` failed; `EACCES` or `EPERM` for [`Access::ReadWrite`] means that the peer gave it for reading.
    pub fn map(memfd: OwnedFd, len_min: usize, len_max: usize, access: Access) -> Result<Self, MemoryError> {
        let len = checked_len(memfd.as_fd(), len_min as u64, len_max as u64)?;
        let mapping = Mapping::new(memfd.as_fd(), len, access)?;
        mapping.keep_from_children()?;
        Ok(Self { mapping, access })
    }

    /// The first byte (R2); page-aligned. The peer may write the memory at any time.
    pub fn base(&self) -> *const u8 {
        self.mapping.base
    }

    /// The first byte for writing, if mapped so.
    pub fn base_mut(&self) -> Option<*mut u8> {
        (self.access == Access::ReadWrite).then_some(self.mapping.base)
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Never: an empty one is refused.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The region as bytes to copy from, and to if mapped so.
    pub fn bytes(&self) -> SharedBytes<'_> {
        // SAFETY: R2: valid while `self` is borrowed, for writing too if mapped so.
        unsafe {
            match self.access {
                Access::ReadWrite => SharedBytes::new(self.mapping.base, self.mapping.len),
                Access::ReadOnly => SharedBytes::new_read_only(self.mapping.base, self.mapping.len),
            }
        }
    }
}

/// The size of a peer's memfd after all checks.
fn checked_len(memfd: BorrowedFd<'_>, min: u64, max: u64) -> Result<usize, MemoryError> {
    // A peer may send any descriptor, so every refusal of these calls means that it is not what it
    // should be.
    let file_system = fstatfs(memfd).map_err(|_| MemoryError::NotMemory)?;
    if file_system.f_type != TMPFS_MAGIC {
        return Err(MemoryError::NotMemory);
    }
    // Seals before size: only then is the size final (R1). A file of a mounted tmpfs cannot be
    // sealed, so it fails here.
    let wanted = SealFlags::SHRINK | SealFlags::GROW;
    let seals = fcntl_get_seals(memfd).map_err(|_| MemoryError::NotMemory)?;
    if !seals.contains(wanted) {
        return Err(MemoryError::NotSealed { missing: wanted.difference(seals).bits() });
    }
    let stat = fstat(memfd).map_err(|_| MemoryError::NotMemory)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(MemoryError::NotMemory);
    }
    let len = u64::try_from(stat.st_size).map_err(|_| MemoryError::NotMemory)?;
    let wrong = MemoryError::WrongSize { len, min: min.max(1), max };
    if len < min.max(1) || len > max {
        return Err(wrong);
    }
    usize::try_from(len).map_err(|_| wrong)
}

/// `f_type` of tmpfs, where memfds of ordinary pages live; those of huge pages live in hugetlbfs.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// The limit of file sizes (`ulimit -f`) holds for memfds too, and a process that goes beyond it is
/// killed by a signal instead of being told.
fn check_file_size(len: u64) -> Result<(), MemoryError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX);
    if len > limit { Err(MemoryError::Os { call: "ftruncate", errno: Errno::FBIG }) } else { Ok(()) }
}

fn create_memfd(name: &str) -> Result<OwnedFd, MemoryError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => memfd_create(name, flags).map_err(MemoryError::from_call("memfd_create")),
        result => result.map_err(MemoryError::from_call("memfd_create")),
    }
}

fn round_to_pages(len: usize) -> Result<usize, MemoryError> {
    let rounded = len.checked_next_multiple_of(rustix::param::page_size()).filter(|&l| l != 0 && isize::try_from(l).is_ok());
    rounded.ok_or(MemoryError::BadLength { len })
}

/// A shared mapping; unmapped on drop.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value alone unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out the address and the length only; access through the address
// is its user's affair (R2).
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(memfd: BorrowedFd<'_>, len: usize, access: Access) -> Result<Self, MemoryError> {
        let prot = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { mmap(core::ptr::null_mut(), len, prot, MapFlags::SHARED, memfd, 0) };
        Ok(Self { base: base.map_err(MemoryError::from_call("mmap"))?.cast(), len })
    }

    fn keep_from_children(&self) -> Result<(), MemoryError> {
        // SAFETY: R2: our own mapping; the advice changes nothing in this process.
        let done = unsafe { madvise(self.base.cast::<c_void>(), self.len, Advice::LinuxDontFork) };
        done.map_err(MemoryError::from_call("madvise(MADV_DONTFORK)"))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: R2 ends here; nobody else unmaps it. It cannot fail for a range that was mapped
        // as a whole.
        let _ = unsafe { munmap(self.base.cast::<c_void>(), self.len) };
    }
}

#[cfg(all(test, not(loom), not(miri)))]
#[path = "region/tests.rs"]
mod tests;
