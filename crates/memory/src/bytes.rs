// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copying to and from memory that another process may write at the same time.
//!
//! Such memory has no Rust references: two reads of a byte may differ, and the compiler must not
//! know better. Three ways:
//! - [`SharedBytes`]: checked offsets, for set-up and for whatever a peer names by offset.
//! - [`copy`], [`copy_any`]: bulk, by the C library's `memcpy`, long ones in pieces.
//! - [`copy_small`]: up to 64 bytes, a few vector moves, for every small message.
//!
//! Invariants
//! - B1: a `SharedBytes` is valid for `len` bytes while its lifetime lasts (promised to `new`).
//! - B2: after a copy returns, its destination holds one definite value, so that the checked value
//!   is the one used. The compiler may not go back to the source for it. A plain copy would not do:
//!   the optimiser replaces a read of a fresh copy by another read of the original, which turns
//!   "copy, check, use" into "check, use what the peer has written since". Hence `settle`.
//!
//! Only data race for bytes, never anything that orders other accesses: flags and tags are
//! atomics, elsewhere.

use crate::error::MemoryError;
use core::marker::PhantomData;

/// Most bytes that [`copy_small`] copies.
pub const SMALL_MAX: usize = 64;

/// A view of memory that others may write, to copy from and to.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes<'a> {
    base: *mut u8,
    len: usize,
    writable: bool,
    region: PhantomData<&'a ()>,
}

// SAFETY: B1 holds in every thread, and copies that race are allowed for (B2).
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: B1 holds in every thread, and copies that race are allowed for (B2).
unsafe impl Sync for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// `len` bytes at `base`.
    ///
    /// # Safety
    /// B1: mapped, readable and writable for `'a`, and never borrowed as a Rust reference
    /// meanwhile.
    pub unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len, writable: true, region: PhantomData }
    }

    /// `len` bytes at `base`, for reading.
    ///
    /// # Safety
    /// B1: mapped and readable for `'a`, and never borrowed as a Rust reference meanwhile.
    pub unsafe fn new_read_only(base: *const u8, len: usize) -> Self {
        Self { base: base.cast_mut(), len, writable: false, region: PhantomData }
    }

    /// Bytes in the view.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The first byte, for atomics and for [`copy`].
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    /// Copies `to.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]; nothing is copied.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.range(offset, to.len())?;
        // SAFETY: B1 and the check above; `to` is exclusively ours, so they do not overlap.
        unsafe { copy(to.as_mut_ptr(), from, to.len()) };
        Ok(())
    }

    /// Copies `from` to `offset` and on.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], [`MemoryError::ReadOnly`]; nothing is copied.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        if !self.writable {
            return Err(MemoryError::ReadOnly);
        }
        let to = self.range(offset, from.len())?;
        // SAFETY: B1, writable, and the check above; no Rust reference reaches into the view, so
        // they do not overlap.
        unsafe { copy(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies all of `from` to `offset` and on. The two may overlap.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`], [`MemoryError::ReadOnly`]; nothing is copied.
    pub fn copy_from(&self, offset: usize, from: SharedBytes<'_>) -> Result<(), MemoryError> {
        if !self.writable {
            return Err(MemoryError::ReadOnly);
        }
        let to = self.range(offset, from.len)?;
        let apart = to.addr().abs_diff(from.base.addr()) >= from.len;
        // SAFETY: B1 for both, and the check of the range; a plain move where they overlap.
        unsafe { if apart { copy(to, from.base, from.len) } else { core::ptr::copy(from.base, to, from.len) } };
        Ok(())
    }

    /// The `len` bytes from `offset` on.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`].
    pub fn part(&self, offset: usize, len: usize) -> Result<SharedBytes<'a>, MemoryError> {
        Ok(Self { base: self.range(offset, len)?, len, ..*self })
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut u8, MemoryError> {
        match offset.checked_add(len) {
            // Wrapping: never leaves the view, by this check.
            Some(end) if end <= self.len => Ok(self.base.wrapping_add(offset)),
            _ => Err(out_of_bounds(offset, len, self.len)),
        }
    }
}

#[cold]
#[inline(never)]
fn out_of_bounds(offset: usize, len: usize, size: usize) -> MemoryError {
    MemoryError::OutOfBounds { offset: offset as u64, len: len as u64, size: size as u64 }
}

/// Copies `len` bytes; source or destination may be written by others meanwhile (the bytes copied
/// are then some mixture).
///
/// By the C library's `memcpy`, which picks the widest moves of the machine it runs on. The
/// compiler cannot see into it, and `settle` keeps it from reasoning about its meaning, so the
/// source is read by that call and by nothing else. Long copies go in pieces: see `PIECE`.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    if len > PIECES_FROM {
        // SAFETY: the caller's promise.
        unsafe { copy_pieces(to, from, len) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { copy_piece(to, from, len) };
    }
    settle(to);
}

/// The same of places that may overlap.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes.
#[inline]
pub unsafe fn copy_any(to: *mut u8, from: *const u8, len: usize) {
    if len > PIECES_FROM && to.addr().abs_diff(from.addr()) >= len {
        // SAFETY: the caller's promise, and the check.
        unsafe { copy_pieces(to, from, len) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy(from, to, len) };
    }
    settle(to);
}

/// Bytes that are copied at a time of what is long. The C library moves blocks up to some limit by
/// the processor's own block move (`rep movsb`), and longer ones by loops of vector moves; on AMD's
/// processors the limit is the second-level cache, 1 MiB, and the loops are slower from there on:
/// 57 GB/s against 68 at 1 MiB, 15 against 23 at 16 MiB (docs/decisions/0032).
const PIECE: usize = 256 << 10;
/// Longer ones are cut.
const PIECES_FROM: usize = 512 << 10;

/// # Safety
/// As for [`copy`].
#[cold]
#[inline(never)]
unsafe fn copy_pieces(to: *mut u8, from: *const u8, len: usize) {
    for at in (0..len).step_by(PIECE) {
        // SAFETY: a part of what the caller promises.
        unsafe { copy_piece(to.add(at), from.add(at), PIECE.min(len - at)) };
    }
}

/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_piece(to: *mut u8, from: *const u8, len: usize) {
    // Miri does not link the C library's; it also has no other process.
    #[cfg(miri)]
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, len);
    }
    #[cfg(not(miri))]
    // SAFETY: the caller's promise.
    unsafe {
        libc::memcpy(to.cast(), from.cast(), len);
    }
}

/// Copies up to [`SMALL_MAX`] bytes without a call: by size class, two to four loads that may
/// overlap, then as many stores. Every load comes before every store. With a constant `len` only
/// the moves remain.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, `len <= SMALL_MAX`, and they do not
/// overlap.
#[inline(always)]
pub unsafe fn copy_small(to: *mut u8, from: *const u8, len: usize) {
    debug_assert!(len <= SMALL_MAX);
    // SAFETY: each class reads and writes [0, size) and [len - size, len) (and for the largest two
    // of each), with size <= len: within the caller's promise.
    unsafe {
        if len >= 32 {
            let (a, b) = (load::<Vector>(from), load::<Vector>(from.add(16)));
            let (c, d) = (load::<Vector>(from.add(len - 32)), load::<Vector>(from.add(len - 16)));
            store(to, a);
            store(to.add(16), b);
            store(to.add(len - 32), c);
            store(to.add(len - 16), d);
        } else if len >= 16 {
            ends::<Vector>(to, from, len);
        } else if len >= 8 {
            ends::<u64>(to, from, len);
        } else if len >= 4 {
            ends::<u32>(to, from, len);
        } else if len >= 2 {
            ends::<u16>(to, from, len);
        } else if len == 1 {
            store(to, load::<u8>(from));
        }
    }
    settle(to);
}

/// Sixteen bytes in one register where there is one.
#[cfg(target_arch = "x86_64")]
type Vector = core::arch::x86_64::__m128i;
#[cfg(target_arch = "aarch64")]
type Vector = core::arch::aarch64::uint8x16_t;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Vector = u128;

/// Copies the first and the last `size_of::<W>()` bytes of `len`, which may overlap.
///
/// # Safety
/// As for [`copy_small`], and `size_of::<W>() <= len`.
#[inline(always)]
unsafe fn ends<W: Copy>(to: *mut u8, from: *const u8, len: usize) {
    let last = len - size_of::<W>();
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (load::<W>(from), load::<W>(from.add(last)));
        store(to, a);
        store(to.add(last), b);
    }
}

/// # Safety
/// `from` is readable for the bytes of `W`, a type for which any bytes are a value.
#[inline]
unsafe fn load<W: Copy>(from: *const u8) -> W {
    // SAFETY: the caller's promise; any alignment.
    unsafe { from.cast::<W>().read_unaligned() }
}

/// # Safety
/// `to` is writable for the bytes of `W`.
#[inline]
unsafe fn store<W: Copy>(to: *mut u8, value: W) {
    // SAFETY: the caller's promise; any alignment.
    unsafe { to.cast::<W>().write_unaligned(value) }
}

/// Ends a copy (B2): to the compiler it reads and writes all memory, so it must have stored the
/// destination and may not take the source's value from memory again. No instruction.
#[inline]
fn settle(to: *mut u8) {
    #[cfg(not(miri))]
    // SAFETY: an empty sequence of instructions.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) to, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = to;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + 3) as u8).collect()
    }

    #[test]
    fn small_copies_write_exactly_len_bytes() {
        let source = pattern(SMALL_MAX + 8);
        for len in 0..=SMALL_MAX {
            for (from_at, to_at) in [(0, 0), (1, 3), (7, 2)] {
                let mut target = vec![0xEEu8; SMALL_MAX + 16];
                // SAFETY: both buffers have the bytes.
                unsafe { copy_small(target.as_mut_ptr().add(to_at), source.as_ptr().add(from_at), len) };
                assert_eq!(target[to_at..to_at + len], source[from_at..from_at + len], "len {len}");
                assert!(target[..to_at].iter().chain(&target[to_at + len..]).all(|&b| b == 0xEE), "len {len}: outside");
            }
        }
    }

    #[test]
    fn bulk_copies() {
        for len in [0, 1, 65, 4096, 100_003, PIECES_FROM, PIECES_FROM + 1, 3 * PIECE, 3 * PIECE + 7] {
            let source = pattern(len);
            let mut target = vec![0u8; len + 1];
            // SAFETY: both buffers have the bytes.
            unsafe { copy(target.as_mut_ptr(), source.as_ptr(), len) };
            assert_eq!((&target[..len], target[len]), (&source[..], 0));
        }
    }

    #[test]
    fn places_that_overlap() {
        let len = 3 * PIECE + 7;
        for (from, to) in [(0, 5), (5, 0), (0, PIECE), (PIECE, 0), (0, len), (len, 0)] {
            let mut memory = pattern(2 * len);
            let expected = memory[from..from + len].to_vec();
            // SAFETY: both ranges are inside.
            unsafe { copy_any(memory.as_mut_ptr().add(to), memory.as_ptr().add(from), len) };
            assert!(memory[to..to + len] == expected[..], "{from} to {to}");
        }
    }

    #[test]
    fn offsets_are_checked() {
        let mut memory = pattern(100);
        // SAFETY: B1: `memory` outlives the view and is not used meanwhile.
        let view = unsafe { SharedBytes::new(memory.as_mut_ptr(), 100) };
        let mut ten = [0; 10];
        view.copy_out(90, &mut ten).unwrap();
        assert_eq!(ten[..], pattern(100)[90..]);
        for offset in [91, 100, 101, usize::MAX, usize::MAX - 9] {
            let wrong = Err(MemoryError::OutOfBounds { offset: offset as u64, len: 10, size: 100 });
            assert_eq!(view.copy_out(offset, &mut ten), wrong);
            assert_eq!(view.copy_in(offset, &ten), wrong);
            assert!(view.part(offset, 10).is_err());
        }
        view.copy_out(100, &mut []).unwrap();
        let part = view.part(50, 20).unwrap();
        assert!(part.copy_in(11, &ten).is_err());
        part.copy_in(10, &ten).unwrap();
        let mut got = [0; 10];
        view.copy_out(60, &mut got).unwrap();
        assert_eq!(got, ten);
    }

    #[test]
    fn views_for_reading_cannot_be_written() {
        let memory = pattern(8);
        // SAFETY: B1.
        let view = unsafe { SharedBytes::new_read_only(memory.as_ptr(), 8) };
        assert_eq!(view.copy_in(0, &[1]), Err(MemoryError::ReadOnly));
        assert_eq!(view.part(1, 2).unwrap().copy_in(0, &[1]), Err(MemoryError::ReadOnly));
    }
}
