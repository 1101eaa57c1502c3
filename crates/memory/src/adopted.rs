// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's own pages made shareable where they lie: their contents move into a memfd, which
//! then takes their place at the same address. Dropping the value puts private pages back.
//!
//! Whole pages only, since a neighbour in the same page would be shared too. A store by another
//! thread while the pages are exchanged may be lost, so nobody may write them meanwhile.
//!
//! Invariants
//! - A1: the pages exchanged are private, readable and writable ones of this process, as
//!   `/proc/self/maps` shows: nothing is mapped where nothing was.
//! - A2: they are put back only while the memfd still lies there.

use crate::bytes;
use crate::error::MemoryError;
use crate::mappings::{self, Mapping};
use crate::region::{Region, RegionKind};
use core::ffi::c_void;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed, munmap};

/// Pages of the program that are shared now.
#[derive(Debug)]
pub struct Adopted {
    memfd: OwnedFd,
    address: usize,
    len: usize,
}

impl Adopted {
    /// Exchanges `len` bytes at `address`, both multiples of the page size.
    ///
    /// # Errors
    /// [`MemoryError::BadLength`] for parts of pages; [`MemoryError::Os`] with `EFAULT` unless all
    /// of it is private memory that can be read and written; [`MemoryError::NoMemory`];
    /// [`MemoryError::NoProc`].
    ///
    /// # Safety
    /// No Rust reference reaches into the pages, and no other thread writes them during the call.
    pub unsafe fn new(address: usize, len: usize) -> Result<Self, MemoryError> {
        let page = rustix::param::page_size();
        if len == 0 || address == 0 || !address.is_multiple_of(page) || !len.is_multiple_of(page) || address.checked_add(len).is_none() {
            return Err(MemoryError::BadLength { len });
        }
        if !covered(address, len, |mapping| mapping.rights.starts_with("rw") && mapping.rights.ends_with('p'))? {
            return Err(MemoryError::Os { call: "mremap", errno: Errno::FAULT });
        }
        let region = Region::create("bellwire-adopted", len, RegionKind::Shared)?;
        // SAFETY: the region's own pages and the program's, which are readable (A1), do not
        // overlap.
        unsafe { bytes::copy_any(region.base(), address as *const u8, len) };
        let memfd = region.fd().try_clone_to_owned().map_err(|error| os("dup", &error))?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let pages = unsafe { mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, memfd.as_fd(), 0) };
        let pages = pages.map_err(|errno| MemoryError::os("mmap", errno))?;
        // SAFETY: A1, and the caller promises that nobody writes the pages meanwhile; they have
        // the same contents afterwards.
        unsafe { put(pages, address, len) }?;
        Ok(Self { memfd, address, len })
    }

    /// The memory, to be handed to a peer.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// Where it lies.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: no pages cannot be exchanged.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let Ok(stat) = fstat(&self.memfd) else { return };
        // A2: the program may have unmapped it, and mapped something else there.
        if !covered(self.address, self.len, |mapping| mapping.inode == stat.st_ino && mapping.rights.starts_with("rw")).unwrap_or(false) {
            return;
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let pages = unsafe { mmap_anonymous(core::ptr::null_mut(), self.len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let Ok(pages) = pages else { return };
        // SAFETY: A2: the memfd's pages are there; the new ones do not overlap them.
        unsafe { bytes::copy_any(pages.cast(), self.address as *const u8, self.len) };
        // SAFETY: A2; the pages have the same contents afterwards.
        let _ = unsafe { put(pages, self.address, self.len) };
    }
}

/// Moves the mapping at `pages` to `address`, over what is there.
///
/// # Safety
/// The pages at `address` may be replaced; nobody else knows the `len` bytes at `pages`.
unsafe fn put(pages: *mut c_void, address: usize, len: usize) -> Result<(), MemoryError> {
    // SAFETY: the caller's promise.
    let moved = unsafe { mremap_fixed(pages, len, len, MremapFlags::MAYMOVE, address as *mut c_void) };
    moved.map(|_| ()).map_err(|errno| {
        // SAFETY: still there, and nobody else knows of them.
        let _ = unsafe { munmap(pages, len) };
        MemoryError::os("mremap", errno)
    })
}

fn os(call: &'static str, error: &std::io::Error) -> MemoryError {
    MemoryError::os(call, Errno::from_io_error(error).unwrap_or(Errno::INVAL))
}

/// Whether each page of the range is of a mapping that is `wanted`.
fn covered(address: usize, len: usize, wanted: impl Fn(&Mapping<'_>) -> bool) -> Result<bool, MemoryError> {
    let text = mappings::list().map_err(|_| MemoryError::NoProc)?;
    let (mut next, end) = (address, address.saturating_add(len));
    for mapping in text.lines().filter_map(Mapping::parse) {
        if mapping.range.contains(&next) && wanted(&mapping) {
            next = mapping.range.end;
        }
    }
    Ok(next >= end)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::region::{Access, RemoteRegion};
    use std::os::unix::fs::FileExt;

    /// Nothing else in the process holds these bytes.
    const WRITTEN: [u8; 16] = *b"adopted by this!";

    /// `len` bytes of private memory.
    fn pages(len: usize) -> usize {
        // SAFETY: a new mapping.
        unsafe { mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.unwrap().addr()
    }

    #[test]
    fn pages_are_shared_and_private_again() {
        let at = pages(8192);
        let word = at as *mut u32;
        // SAFETY: mapped above, used by this test alone.
        unsafe { word.write_volatile(7) };
        // SAFETY: this test's own pages.
        let adopted = unsafe { Adopted::new(at, 8192) }.unwrap();
        let theirs = RemoteRegion::map(adopted.fd().try_clone_to_owned().unwrap(), 1, 1 << 20, Access::ReadWrite).unwrap();
        let mut seen = [0; 4];
        theirs.bytes().copy_out(0, &mut seen).unwrap();
        assert_eq!(u32::from_ne_bytes(seen), 7);
        theirs.bytes().copy_in(0, &9u32.to_ne_bytes()).unwrap();
        // SAFETY: mapped above.
        assert_eq!(unsafe { word.read_volatile() }, 9);
        drop(adopted);
        theirs.bytes().copy_in(0, &11u32.to_ne_bytes()).unwrap();
        // SAFETY: mapped above.
        assert_eq!(unsafe { word.read_volatile() }, 9, "private again");
    }

    #[test]
    fn what_is_no_private_memory_is_refused() {
        let at = pages(8192);
        // SAFETY: this test's own pages; all of these are refused.
        unsafe {
            assert!(Adopted::new(at + 8, 4096).is_err() && Adopted::new(at, 100).is_err() && Adopted::new(0, 4096).is_err());
            assert!(matches!(Adopted::new(at, 1 << 40), Err(MemoryError::Os { errno: Errno::FAULT, .. })));
            let adopted = Adopted::new(at, 4096).unwrap();
            assert!(matches!(Adopted::new(at, 4096), Err(MemoryError::Os { errno: Errno::FAULT, .. })), "shared already");
            (at as *mut [u8; 16]).write_volatile(WRITTEN);
            // Unmapped meanwhile: nothing is put there.
            munmap(at as *mut c_void, 8192).unwrap();
            drop(adopted);
        }
        // Another thread may have mapped something there, so what was written tells it.
        let mut there = [0; WRITTEN.len()];
        let read = std::fs::File::open("/proc/self/mem").unwrap().read_at(&mut there, at as u64);
        assert!(read.is_err() || there != WRITTEN, "put there again");
    }
}
