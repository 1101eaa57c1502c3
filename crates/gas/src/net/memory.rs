// SPDX-License-Identifier: MIT OR Apache-2.0
//! This process's own memory, as its peers on other hosts reach it: what they name is checked
//! against the window, and what is not in it is left to the kernel, which finds holes.
//!
//! Invariant G1 (lib.rs): the window's parts stay mapped and writable.

use bellwire_memory::atomic::{AtomicU32, AtomicU64, Ordering};
use bellwire_memory::bytes;

use crate::call::{self, Lock};
use crate::error::{Error, Why};
use crate::far::{self, Direction};
use crate::window::Window;

/// An atomic operation on an aligned word of 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds, wrapping.
    Add,
    /// Writes.
    Swap,
    /// Writes if it is what is expected.
    CompareSwap,
}

impl Atomic {
    /// As a number that travels, for a word of so many bytes.
    pub(super) fn to_bits(self, bytes: usize) -> u16 {
        self as u16 | (bytes as u16) << 8
    }

    /// The operation and the word's bytes, if it is one.
    pub(super) fn from_bits(bits: u16) -> Option<(Self, usize)> {
        let operation = match bits as u8 {
            0 => Self::Add,
            1 => Self::Swap,
            2 => Self::CompareSwap,
            _ => return None,
        };
        matches!(bits >> 8, 4 | 8).then_some((operation, usize::from(bits >> 8)))
    }

    /// Does it; returns what was there.
    ///
    /// # Safety
    /// An aligned word of `bytes` bytes, 4 or 8, is at `word`, mapped, and shared by atomic
    /// operations only.
    pub unsafe fn apply(self, word: *mut u8, bytes: usize, operand: u64, expected: u64) -> u64 {
        // SeqCst in all of them: programs build locks out of these, and know nothing of weaker
        // orders.
        const ORDER: Ordering = Ordering::SeqCst;
        if bytes == 4 {
            // SAFETY: the caller's.
            let word = unsafe { AtomicU32::from_ptr(word.cast()) };
            let (operand, expected) = (operand as u32, expected as u32);
            return u64::from(match self {
                // SeqCst: see above.
                Self::Add => word.fetch_add(operand, ORDER),
                // SeqCst: see above.
                Self::Swap => word.swap(operand, ORDER),
                // SeqCst: see above.
                Self::CompareSwap => word.compare_exchange(expected, operand, ORDER, ORDER).unwrap_or_else(|found| found),
            });
        }
        // SAFETY: the caller's.
        let word = unsafe { AtomicU64::from_ptr(word.cast()) };
        match self {
            // SeqCst: see above.
            Self::Add => word.fetch_add(operand, ORDER),
            // SeqCst: see above.
            Self::Swap => word.swap(operand, ORDER),
            // SeqCst: see above.
            Self::CompareSwap => word.compare_exchange(expected, operand, ORDER, ORDER).unwrap_or_else(|found| found),
        }
    }
}

/// The memory that peers may name.
#[derive(Debug)]
pub(super) struct Memory {
    window: Window,
    lock: Lock,
    pid: u32,
}

impl Memory {
    pub(super) fn new(window: Window, lock: Lock) -> Self {
        Self { window, lock, pid: std::process::id() }
    }

    /// Where so many bytes from an address lie, if they are in the window.
    pub(super) fn find(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let end = address.checked_add(bytes as u64)?;
        let is_in = self.window.parts().into_iter().any(|part| address >= part.0 && end <= part.1 && part.1 != 0);
        is_in.then(|| std::ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Reads so many bytes at an address.
    pub(super) fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Error> {
        if let Some(from) = self.find(address, to.len()) {
            // SAFETY: in the window (G1).
            unsafe { copy_in_words(to.as_mut_ptr(), from, to.len()) };
            return Ok(());
        }
        // SAFETY: a slice of ours.
        unsafe { far::copy(Direction::In, self.pid, address, to.as_mut_ptr(), to.len()) }
    }

    /// Writes so many bytes from `from`, which a peer may be writing, to an address.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    pub(super) unsafe fn write(&self, address: u64, from: *const u8, length: usize) -> Result<(), Error> {
        if let Some(to) = self.find(address, length) {
            // SAFETY: in the window (G1); `from` is the caller's.
            unsafe { copy_in_words(to, from, length) };
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { far::copy(Direction::Out, self.pid, address, from.cast_mut(), length) }
    }

    /// An atomic operation on a word, whose former value it returns.
    pub(super) fn atomic(&self, address: u64, (operation, bytes): (Atomic, usize), operand: u64, expected: u64) -> Result<u64, Error> {
        let word = self.find(address, bytes).filter(|_| address.is_multiple_of(bytes as u64)).ok_or(Error::NoMemoryThere)?;
        // SAFETY: aligned, in the window (G1).
        Ok(unsafe { operation.apply(word, bytes, operand, expected) })
    }

    /// Calls a function of the program on a place of the window.
    pub(super) fn call(&self, address: u64, function: u64, argument: i64) -> Result<i64, Error> {
        // First: a peer that asks for a function that does not exist runs another program.
        call::function(function).ok_or(Error::NoSuchFunction(function))?;
        let place = self.find(address, 1).ok_or(Error::NoMemoryThere)?;
        // SAFETY: in the window (G1); the requester named it (G3).
        unsafe { self.lock.call(function, place, argument) }
    }

    /// Whether so many bytes are at an address.
    pub(super) fn probe(&self, address: u64, bytes: u64) -> Result<(), Error> {
        if bytes == 0 || usize::try_from(bytes).is_ok_and(|bytes| self.find(address, bytes).is_some()) {
            return Ok(());
        }
        [address, address.wrapping_add(bytes - 1)].into_iter().try_for_each(|at| self.read(at, &mut [0]))
    }
}

impl bellwire_gasvia::Memory for Memory {
    fn find(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        self.find(address, bytes)
    }

    unsafe fn read(&self, address: u64, to: *mut u8, bytes: usize) -> Result<(), u8> {
        // SAFETY: the caller's: a buffer of this process, which nobody else uses meanwhile.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        self.read(address, to).map_err(|error| Why::of(&error) as u8)
    }

    unsafe fn write(&self, address: u64, from: *const u8, bytes: usize) -> Result<(), u8> {
        // SAFETY: the caller's.
        unsafe { self.write(address, from, bytes) }.map_err(|error| Why::of(&error) as u8)
    }
}

/// Copies; a word that is aligned on both sides in one piece, so that a reader sees the old or the
/// new value.
///
/// # Safety
/// Readable and writable for `length` bytes, which do not overlap.
unsafe fn copy_in_words(to: *mut u8, from: *const u8, length: usize) {
    let is_word = matches!(length, 1 | 2 | 4 | 8) && to.addr().is_multiple_of(length);
    // SAFETY: the caller's. A move of at most 8 bytes by `copy_small` is one load and one store.
    unsafe {
        match (is_word, length) {
            (true, 8) => bytes::copy_small(to, from, 8),
            (true, 4) => bytes::copy_small(to, from, 4),
            (true, 2) => bytes::copy_small(to, from, 2),
            (true, _) => bytes::copy_small(to, from, 1),
            (false, ..=64) => bytes::copy_small(to, from, length),
            (false, _) => bytes::copy(to, from, length),
        }
    }
}
