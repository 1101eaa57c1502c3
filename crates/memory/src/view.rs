// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of shared memory, mapped at an address of its own. Programs of shared segments ask for
//! it by offset and size, and sometimes at an address that they choose.
//!
//! Invariants
//! - V1: a view is valid for `len` bytes at `base` until it is dropped; this value alone unmaps it.
//! - V2: the page behind a view that was not placed by the program is never mapped, so a store
//!   beyond the view's last page faults.
//! - V3: the memfd is sealed against resizing (its user has checked that, as
//!   [`RemoteRegion::map`](crate::region::RemoteRegion::map) does), so each byte stays backed.

use crate::bytes::SharedBytes;
use crate::error::MemoryError;
use crate::region::Access;
use core::ffi::c_void;
use core::ops::Range;
use rustix::fd::BorrowedFd;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Where a view is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At an address of the kernel's choice.
    Anywhere,
    /// Exactly there, if nothing is mapped there yet.
    Exactly(usize),
}

/// A part of a memfd, mapped.
#[derive(Debug)]
pub struct View {
    /// The whole pages to unmap, with the page behind (V2).
    pages: *mut c_void,
    pages_len: usize,
    base: *mut u8,
    len: usize,
    access: Access,
}

// SAFETY: V1: a mapping belongs to the process, not to a thread.
unsafe impl Send for View {}
// SAFETY: V1; a shared reference gives out the address and the length only.
unsafe impl Sync for View {}

impl View {
    /// Maps `len` bytes from `offset` on, which need not be aligned to pages.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]; [`MemoryError::BadLength`] for no bytes; [`MemoryError::Os`]:
    /// `EEXIST` if something is mapped at the address asked for, `EINVAL` if the address and the
    /// offset lie differently in their pages, `EACCES` for memory that was given for reading.
    pub fn map(memfd: BorrowedFd<'_>, offset: usize, len: usize, access: Access, at: At) -> Result<Self, MemoryError> {
        let page = rustix::param::page_size();
        let size = fstat(memfd).map_err(|_| MemoryError::NotMemory)?.st_size;
        let size = usize::try_from(size).map_err(|_| MemoryError::NotMemory)?;
        let outside = MemoryError::OutOfBounds { offset: offset as u64, len: len as u64, size: size as u64 };
        if len == 0 {
            return Err(MemoryError::BadLength { len });
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(outside);
        }
        let inside = offset % page;
        let mapped = (inside + len).checked_next_multiple_of(page).ok_or(outside)?;
        let prot = match access {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let file_offset = (offset - inside) as u64;
        let (pages, pages_len) = match at {
            At::Exactly(address) => {
                let first = address.wrapping_sub(inside);
                if first % page != 0 || first == 0 {
                    return Err(MemoryError::Os { call: "mmap", errno: Errno::INVAL });
                }
                // SAFETY: FIXED_NOREPLACE refuses an address where something is mapped.
                let pages = unsafe { mmap(first as *mut c_void, mapped, prot, MapFlags::SHARED | MapFlags::FIXED_NOREPLACE, memfd, file_offset) };
                let pages = pages.map_err(|errno| MemoryError::os("mmap", errno))?;
                if pages.addr() != first {
                    // A kernel before 4.17 takes the flag for a hint.
                    // SAFETY: mapped just now, and nobody knows of it.
                    let _ = unsafe { munmap(pages, mapped) };
                    return Err(MemoryError::Os { call: "mmap", errno: Errno::EXIST });
                }
                (pages, mapped)
            }
            At::Anywhere => {
                let reserved = mapped.checked_add(page).ok_or(outside)?;
                // SAFETY: a new mapping at an address of the kernel's choice touches no other.
                let pages = unsafe { mmap_anonymous(core::ptr::null_mut(), reserved, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE) };
                let pages = pages.map_err(|errno| MemoryError::os("mmap", errno))?;
                // SAFETY: the pages replaced are the first ones of those that were reserved above.
                let done = unsafe { mmap(pages, mapped, prot, MapFlags::SHARED | MapFlags::FIXED, memfd, file_offset) };
                if let Err(errno) = done {
                    // SAFETY: reserved above, and nobody knows of it.
                    let _ = unsafe { munmap(pages, reserved) };
                    return Err(MemoryError::os("mmap", errno));
                }
                (pages, reserved)
            }
        };
        Ok(Self { pages, pages_len, base: pages.cast::<u8>().wrapping_add(inside), len, access })
    }

    /// The first byte asked for (V1). Others may write the memory at any time.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The addresses of the pages that hold the bytes asked for.
    pub fn pages(&self) -> Range<u64> {
        let page = rustix::param::page_size();
        let (first, end) = (self.base.addr() / page * page, (self.base.addr() + self.len).next_multiple_of(page));
        first as u64..end as u64
    }

    /// Unmaps some of its [`pages`](Self::pages), by number: the next access maps each again, or
    /// waits if they are watched for that. The memory stays as it is.
    pub fn hide(&self, pages: Range<usize>) {
        let (page, all) = (rustix::param::page_size(), self.pages());
        let begin = (all.start as usize).saturating_add(pages.start.saturating_mul(page));
        let end = (all.start as usize).saturating_add(pages.end.saturating_mul(page)).min(all.end as usize);
        if begin < end {
            // SAFETY: V1: pages of the view, of shared memory: they are mapped anew from the memfd.
            let _ = unsafe { rustix::mm::madvise(begin as *mut c_void, end - begin, rustix::mm::Advice::LinuxDontNeed) };
        }
    }

    /// Bytes asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an empty view is refused.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The view as bytes to copy from, and to if mapped so.
    pub fn bytes(&self) -> SharedBytes<'_> {
        // SAFETY: V1: valid while `self` is borrowed, for writing too if mapped so.
        unsafe {
            match self.access {
                Access::ReadWrite => SharedBytes::new(self.base, self.len),
                Access::ReadOnly => SharedBytes::new_read_only(self.base, self.len),
            }
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: V1 ends here. It cannot fail for a range that was mapped as a whole.
        let _ = unsafe { munmap(self.pages, self.pages_len) };
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::region::{Region, RegionKind};

    fn os(result: Result<View, MemoryError>) -> Errno {
        match result {
            Err(MemoryError::Os { errno, .. }) => errno,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_is_seen_where_it_lies() {
        let region = Region::create("view", 3 * 4096, RegionKind::Shared).unwrap();
        region.bytes().copy_in(4090, b"over the edge").unwrap();
        let view = View::map(region.fd(), 4090, 13, Access::ReadWrite, At::Anywhere).unwrap();
        let mut seen = [0; 13];
        view.bytes().copy_out(0, &mut seen).unwrap();
        assert_eq!(&seen, b"over the edge");
        view.bytes().copy_in(0, b"O").unwrap();
        region.bytes().copy_out(4090, &mut seen).unwrap();
        assert_eq!(seen[0], b'O');
        assert!(View::map(region.fd(), 0, 4096, Access::ReadOnly, At::Anywhere).unwrap().bytes().copy_in(0, b"x").is_err());
    }

    #[test]
    fn addresses_that_are_taken_or_crooked_are_refused() {
        let region = Region::create("view", 8192, RegionKind::Shared).unwrap();
        let view = View::map(region.fd(), 0, 4096, Access::ReadWrite, At::Anywhere).unwrap();
        let taken = view.base().addr();
        assert_eq!(os(View::map(region.fd(), 0, 4096, Access::ReadWrite, At::Exactly(taken))), Errno::EXIST);
        assert_eq!(os(View::map(region.fd(), 0, 4096, Access::ReadWrite, At::Exactly(taken + 8))), Errno::INVAL);
        drop(view);
        // Another thread may map something there before this one does.
        let free = || {
            let somewhere = View::map(region.fd(), 0, 4096, Access::ReadWrite, At::Anywhere).unwrap().base().addr();
            let there = View::map(region.fd(), 16, 100, Access::ReadWrite, At::Exactly(somewhere + 16));
            there.ok().map(|view| (view.base().addr(), somewhere + 16))
        };
        let (there, wanted) = core::iter::repeat_with(free).take(100).flatten().next().unwrap();
        assert_eq!(there, wanted);
        for (offset, len) in [(8192, 1), (1, 8192), (usize::MAX, 2), (2, usize::MAX)] {
            assert!(matches!(View::map(region.fd(), offset, len, Access::ReadWrite, At::Anywhere), Err(MemoryError::OutOfBounds { .. })));
        }
        assert!(matches!(View::map(region.fd(), 0, 0, Access::ReadWrite, At::Anywhere), Err(MemoryError::BadLength { .. })));
    }
}
