// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moving bytes between user memory and the wire. The only place of the engine that touches user memory.
//!
//! Invariant U1: every segment given here was checked against a registered region at post, and the request counts as a user of that region (or is
//! executed before post returns), so it cannot be deregistered while it is used. That the memory is still mapped is the registering program's duty, as
//! with any registered memory.

use crate::work_queue::{Fifo, Segment, SegmentList};
use bellwire_memory::bytes;

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

    /// Calls `each(user address, offset from the start of the part, bytes)` for the pieces of bytes `offset..offset + length` of the request.
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

    /// The address of byte `offset` of the request, and how many bytes lie behind it in one piece, at most `max`. `None` at the end.
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

    /// Calls `each(user address, offset from the start of the part, bytes)` for the pieces of bytes `offset..offset + length` of the request, while it says `true`.
    pub fn each(&self, offset: u32, length: u32, mut each: impl FnMut(*mut u8, u64, usize) -> bool) -> bool {
        let mut fine = true;
        self.pieces(offset, length, |address, at, n| {
            fine = fine && each(core::ptr::with_exposed_provenance_mut(address as usize), at as u64, n);
        });
        fine
    }

    /// Copies bytes `offset..offset + length` of the request to `to`.
    ///
    /// # Safety
    /// U1 for the segments; `to` is writable for `length` bytes.
    #[inline]
    pub unsafe fn copy_out(&self, offset: u32, length: u32, to: *mut u8) {
        self.pieces(offset, length, |address, at, n| {
            // SAFETY: U1; `to + at .. + n` lies within `length`.
            unsafe { copy(to.add(at), core::ptr::with_exposed_provenance(address as usize), n) };
        });
    }

    /// Copies `length` bytes from `from` to byte `offset` of the request.
    ///
    /// # Safety
    /// U1 for the segments; `from` is readable for `length` bytes (another process may be writing them: the content is then garbage, nothing worse).
    #[inline]
    pub unsafe fn copy_in(&self, offset: u32, length: u32, from: *const u8) {
        self.pieces(offset, length, |address, at, n| {
            // SAFETY: U1; `from + at .. + n` lies within `length`.
            unsafe { copy(core::ptr::with_exposed_provenance_mut(address as usize), from.add(at), n) };
        });
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
