// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving bytes between user memory and the wire. The only place of the engine that touches user
//! memory.
//!
//! Invariant U1: every segment given here was checked against a registered region at post, and the
//! request counts as a user of that region (or is executed before post returns), so it cannot be
//! deregistered while it is used. That the memory is still mapped is what the caller of
//! `Engine::register` promised (U0); or, in strict mode ([`MemoryMode`]), the kernel copies what is
//! not the engine's, and says when it is not there. Memory of the engine's own allocator (U3) is
//! freed only when no region lies in it.

use crate::registration::Registry;
use crate::work_queue::{Fifo, Segment, SegmentList};
use bellwire_memory::{attach, bytes};

/// Whether registered memory of the program is believed to be mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryMode {
    /// It is: a program that unmaps what is registered and used gets a fault.
    #[default]
    Trust,
    /// Each copy from or to it is made by the kernel: a request that meets memory which is not
    /// there completes with [`PROTECTION_ERROR`](crate::Status::PROTECTION_ERROR). Costs a system
    /// call a copy.
    Strict,
}

/// Whether the kernel copies within this process, and says so when memory is not there, which
/// [`MemoryMode::Strict`] needs.
pub(crate) fn kernel_copies() -> bool {
    let (from, mut to) = (*b"bellwire", [0u8; 8]);
    let (pid, address) = (std::process::id(), from.as_ptr().expose_provenance() as u64);
    // SAFETY: `to` is ours; the first page is never mapped.
    let (there, nowhere) = unsafe { (attach::read(pid, address, to.as_mut_ptr(), 8), attach::read(pid, 8, to.as_mut_ptr(), 8)) };
    there.is_ok() && nowhere.is_err() && to == from
}

impl Registry {
    /// Copies `n` bytes of registered memory at `from` to `to`. `false`: not all of it is there
    /// (strict mode); a part may have been copied.
    ///
    /// # Safety
    /// U1 for `from`; `to` is writable for `n` bytes.
    #[inline(always)]
    pub(crate) unsafe fn copy_out(&self, from: u64, to: *mut u8, n: usize) -> bool {
        if self.strict_pid == 0 {
            // SAFETY: the caller's.
            unsafe { copy(to, core::ptr::with_exposed_provenance(from as usize), n) };
            return true;
        }
        // SAFETY: the caller's.
        unsafe { self.copy_strictly(from, to, core::ptr::with_exposed_provenance(from as usize), n) }
    }

    /// Copies `n` bytes from `from` to registered memory at `to`. `false`: not all of it is there
    /// (strict mode); a part may have been copied.
    ///
    /// # Safety
    /// U1 for `to`; `from` is readable for `n` bytes (another process may be writing them).
    #[inline(always)]
    pub(crate) unsafe fn copy_in(&self, to: u64, from: *const u8, n: usize) -> bool {
        if self.strict_pid == 0 {
            // SAFETY: the caller's.
            unsafe { copy(core::ptr::with_exposed_provenance_mut(to as usize), from, n) };
            return true;
        }
        // SAFETY: the caller's.
        unsafe { self.copy_strictly(to, core::ptr::with_exposed_provenance_mut(to as usize), from, n) }
    }

    /// Copies, one side being registered memory at `registered`: the engine's own directly, the
    /// program's by the kernel.
    ///
    /// # Safety
    /// U1 for the registered side; the other is valid for `n` bytes.
    #[cold]
    #[inline(never)]
    unsafe fn copy_strictly(&self, registered: u64, to: *mut u8, from: *const u8, n: usize) -> bool {
        if n == 0 {
            return true;
        }
        if self.is_engine_memory(registered, n as u64) {
            // SAFETY: the caller's; an allocation that holds a region is not freed.
            unsafe { copy(to, from, n) };
            return true;
        }
        // SAFETY: the caller's, as far as it is mapped.
        unsafe { attach::read(self.strict_pid, from.addr() as u64, to, n) }.is_ok()
    }
}

/// A request's segments.
#[derive(Clone, Copy, Debug)]
pub struct Gather<'a> {
    list: SegmentList,
    more: &'a Fifo<Segment>,
}

impl<'a> Gather<'a> {
    /// The segments of `list`, whose overflow lies in `more`.
    #[inline]
    pub fn new(list: SegmentList, more: &'a Fifo<Segment>) -> Self {
        Self { list, more }
    }

    #[inline]
    fn segment(&self, i: u16) -> Segment {
        if self.list.count == 1 { self.list.only } else { self.more.get(self.list.more_at.wrapping_add(u32::from(i))) }
    }

    /// Calls `each(user address, offset from the start of the part, bytes)` for the pieces of bytes
    /// `offset..offset + length` of the request.
    #[inline]
    fn pieces(&self, offset: u32, length: u32, mut each: impl FnMut(u64, usize, usize)) {
        let (mut skip, mut left, mut at) = (offset, length, 0usize);
        for i in 0..self.list.count {
            if left == 0 {
                break;
            }
            let s = self.segment(i);
            if skip >= s.length {
                skip -= s.length;
                continue;
            }
            let n = (s.length - skip).min(left);
            each(s.address + u64::from(skip), at, n as usize);
            at += n as usize;
            left -= n;
            skip = 0;
        }
        debug_assert_eq!(left, 0, "the request has that many bytes");
    }

    /// The address of byte `offset` of the request, and how many bytes lie behind it in one piece,
    /// at most `max`. `None` at the end.
    pub fn piece_at(&self, offset: u32, max: u32) -> Option<(u64, u32)> {
        let mut skip = offset;
        for i in 0..self.list.count {
            let s = self.segment(i);
            if skip < s.length {
                return Some((s.address + u64::from(skip), (s.length - skip).min(max)));
            }
            skip -= s.length;
        }
        None
    }

    /// Calls `each(user address, offset from the start of the part, bytes)` for the pieces of bytes
    /// `offset..offset + length` of the request, while it says `true`.
    pub fn each(&self, offset: u32, length: u32, mut each: impl FnMut(*mut u8, u64, usize) -> bool) -> bool {
        let mut fine = true;
        self.pieces(offset, length, |address, at, n| {
            fine = fine && each(core::ptr::with_exposed_provenance_mut(address as usize), at as u64, n);
        });
        fine
    }

    /// Shows `each` the first `length` bytes of a request of a VI with tag `ptag`, in parts with
    /// their offsets, until one of them is not in registered memory. The request may be complete,
    /// so its memory is checked anew; the caller has the engine, in which nothing can be
    /// deregistered meanwhile.
    #[cold]
    pub(crate) fn show(&self, registry: &Registry, ptag: u32, length: u32, mut each: impl FnMut(u64, &[u8])) {
        const PART: u32 = 1 << 16;
        let mut part = Vec::new();
        for i in 0..self.list.count {
            if registry.check_local(&self.segment(i), ptag, false).is_err() {
                return;
            }
        }
        let all = (0..self.list.count).fold(0u32, |sum, i| sum.saturating_add(self.segment(i).length));
        let length = length.min(all);
        for at in (0..length).step_by(PART as usize) {
            let some = (length - at).min(PART);
            part.resize(some as usize, 0);
            // SAFETY: U1: all segments were checked just now, and the registry stays as it is;
            // `part` has `some` bytes.
            if !unsafe { self.copy_out(registry, at, some, part.as_mut_ptr()) } {
                return;
            }
            each(at.into(), &part);
        }
    }

    /// Copies bytes `offset..offset + length` of the request to `to`. `false`: not all of them are
    /// there (strict mode).
    ///
    /// # Safety
    /// U1 for the segments; `to` is writable for `length` bytes.
    #[inline]
    pub unsafe fn copy_out(&self, registry: &Registry, offset: u32, length: u32, to: *mut u8) -> bool {
        let mut fine = true;
        self.pieces(offset, length, |address, at, n| {
            // SAFETY: U1; `to + at .. + n` lies within `length`.
            fine = fine && unsafe { registry.copy_out(address, to.add(at), n) };
        });
        fine
    }

    /// Copies `length` bytes from `from` to byte `offset` of the request. `false`: not all of its
    /// memory is there (strict mode).
    ///
    /// # Safety
    /// U1 for the segments; `from` is readable for `length` bytes (another process may be writing
    /// them: the content is then garbage, nothing worse).
    #[inline]
    pub unsafe fn copy_in(&self, registry: &Registry, offset: u32, length: u32, from: *const u8) -> bool {
        let mut fine = true;
        self.pieces(offset, length, |address, at, n| {
            // SAFETY: U1; `from + at .. + n` lies within `length`.
            fine = fine && unsafe { registry.copy_in(address, from.add(at), n) };
        });
        fine
    }
}

/// Copies `n` bytes between memory that may be shared with another process.
///
/// # Safety
/// Both ranges are mapped, readable and writable respectively; they may overlap only if equal.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    if n <= 64 {
        // SAFETY: the caller's.
        unsafe { bytes::copy_small(to, from, n) };
    } else {
        // SAFETY: the caller's.
        unsafe { bytes::copy(to, from, n) };
    }
}
