// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that the two measuring processes share for the raw limits: one memfd mapping, reached word by word.
//!
//! Invariants: S1, a [`SharedMap`] covers `len` mapped bytes from `base` until it is dropped. S2, every offset is checked against `len`.
//! S3, words are 8-byte aligned because `base` is page aligned and word offsets are multiples of 8.
//! The layout (who writes which line) belongs to the modules of `bellwire_bench::limits`.
// The atomics come through the memory crate; the lint sees through the re-export.
#![allow(clippy::disallowed_types)]

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bellwire_memory::atomic::{AtomicU64, Ordering};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::clock::Patience;
use crate::error::Error;

/// Bytes of a cache line as far as the limits are concerned.
pub const LINE_BYTES: usize = 64;
/// Words of a line.
pub const LINE_WORDS: usize = LINE_BYTES / 8;

/// A shared mapping. Dropping it unmaps.
#[derive(Debug)]
pub struct SharedMap {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only reached through atomics and raw pointers.
unsafe impl Send for SharedMap {}
// SAFETY: shared references give out atomics and raw pointers only.
unsafe impl Sync for SharedMap {}

/// A new memfd of `len` bytes.
///
/// # Errors
/// What the operating system says.
pub fn create(len: usize) -> Result<OwnedFd, Error> {
    let fd = memfd_create("bellwire-perf", MemfdFlags::CLOEXEC)?;
    ftruncate(&fd, len as u64)?;
    Ok(fd)
}

impl SharedMap {
    /// Maps `len` bytes of `fd`, faulted in.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn map(fd: impl AsFd, len: usize) -> Result<Self, Error> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE, fd, 0)? };
        Ok(SharedMap { base: base.cast(), len })
    }

    /// The address of `len` bytes at `offset`.
    ///
    /// # Panics
    /// If they do not lie inside the mapping: a programming error of a limit.
    pub fn bytes(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "S2: {len} bytes at {offset} of {}", self.len);
        self.base.wrapping_add(offset)
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If it does not lie inside the mapping or is not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> Word<'_> {
        assert!(offset.is_multiple_of(8), "S3: word at {offset}");
        let address = self.bytes(offset, 8).cast::<u64>();
        // SAFETY: S1, S2 and S3: mapped, in range, aligned; atomics are the only references made into the mapping.
        Word(unsafe { AtomicU64::from_ptr(address) })
    }

    /// `count` lines from byte `offset` on.
    ///
    /// # Panics
    /// If they do not lie inside the mapping or are not aligned.
    pub fn lines(&self, offset: usize, count: usize) -> &[Line] {
        assert!(offset.is_multiple_of(LINE_BYTES), "S3: line at {offset}");
        let first = self.bytes(offset, count * LINE_BYTES).cast::<Line>().cast_const();
        // SAFETY: S1, S2 and S3, checked for the whole line; a `Line` is nothing but atomic words,
        // for which shared writing is defined.
        unsafe { core::slice::from_raw_parts(first, count) }
    }

    /// Both processes call this with the same, ever higher `epoch`; returns when both have.
    ///
    /// # Errors
    /// If the other process does not come within `time`.
    pub fn meet(&self, first: bool, epoch: u64, time: Duration) -> Result<(), Error> {
        let (own, other) = if first { (0, 2 * LINE_BYTES) } else { (2 * LINE_BYTES, 0) };
        self.word(own).publish(epoch);
        let mut patience = Patience::lasting(time);
        while self.word(other).observe() < epoch {
            std::hint::spin_loop();
            patience.tick()?;
        }
        Ok(())
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: S1: this range was mapped by `map` and nothing borrows from it any more (words borrow `self`).
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

/// One shared cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Line([AtomicU64; LINE_WORDS]);

impl Line {
    /// One of its words.
    #[inline]
    pub fn word(&self, index: usize) -> Word<'_> {
        Word(&self.0[index])
    }
}

const _: () = assert!(size_of::<Line>() == LINE_BYTES && align_of::<Line>() == LINE_BYTES);

/// One shared word.
#[derive(Debug, Clone, Copy)]
pub struct Word<'m>(&'m AtomicU64);

impl Word<'_> {
    /// Makes everything written before visible to who observes this value.
    #[inline]
    pub fn publish(self, value: u64) {
        // Release: publishes the writes before it; pairs with the Acquire of `observe` in the other process.
        self.0.store(value, Ordering::Release);
    }

    /// Reads a value that the other side published.
    #[inline]
    pub fn observe(self) -> u64 {
        // Acquire: makes the writes before the matching `publish` visible.
        self.0.load(Ordering::Acquire)
    }

    /// Writes payload.
    #[inline]
    pub fn put(self, value: u64) {
        // Relaxed: payload, ordered by the `publish` that follows it.
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads payload.
    #[inline]
    pub fn get(self) -> u64 {
        // Relaxed: payload, ordered by the `observe` before it.
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_share() {
        let fd = create(8192).unwrap();
        let (one, two) = (SharedMap::map(&fd, 8192).unwrap(), SharedMap::map(&fd, 8192).unwrap());
        one.word(4096).publish(7);
        assert_eq!(two.word(4096).observe(), 7);
    }

    #[test]
    fn meeting_needs_both() {
        let fd = create(4096).unwrap();
        let (one, two) = (SharedMap::map(&fd, 4096).unwrap(), SharedMap::map(&fd, 4096).unwrap());
        assert!(one.meet(true, 1, Duration::from_millis(5)).is_err());
        two.meet(false, 1, Duration::from_secs(5)).unwrap();
        one.meet(true, 1, Duration::from_secs(5)).unwrap();
    }

    #[test]
    #[should_panic(expected = "S2")]
    fn outside_is_refused() {
        let map = SharedMap::map(create(4096).unwrap(), 4096).unwrap();
        let _ = map.bytes(4090, 8);
    }
}
