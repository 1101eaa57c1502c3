// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of a program that a NIC may read and write while the program has it too: bytes that are
//! only reached as atomics, and that live as long as anybody holds them.
//!
//! It is for programs that need no address: a call that is given a clone needs no promise.

use crate::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

/// Bytes at an address that stays. A clone is the same bytes.
#[derive(Clone, Debug)]
pub struct OwnedBytes(Arc<[AtomicU8]>);

impl OwnedBytes {
    /// So many zeros.
    pub fn new(length: usize) -> Self {
        Self((0..length).map(|_| AtomicU8::new(0)).collect())
    }

    /// First byte. Valid for [`len`](Self::len) bytes as long as a clone lives; others may be
    /// writing there.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    ///
    /// # Panics
    /// When there is none at `at`.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        // Relaxed: data, ordered by the completion of a request.
        self.0[at].load(Ordering::Relaxed)
    }

    /// Changes a byte.
    ///
    /// # Panics
    /// When there is none at `at`.
    #[inline]
    pub fn set_byte(&self, at: usize, byte: u8) {
        // Relaxed: data, ordered by the posting of a request.
        self.0[at].store(byte, Ordering::Relaxed);
    }

    /// Copies bytes from `at` on out.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        let from = &self.0[at..at + to.len()];
        // Relaxed: data, ordered by the completion of a request.
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn write(&self, at: usize, from: &[u8]) {
        let to = &self.0[at..at + from.len()];
        // Relaxed: data, ordered by the posting of a request.
        to.iter().zip(from).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    }
}
