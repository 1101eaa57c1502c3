// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of a simulated program, which engines of the same thread read and write by its address.
//!
//! It is made of cells, so that both may do so without either having it for itself. It must outlive
//! its registration; a NIC that crashed touches nothing.

use core::cell::Cell;

/// Zeroed bytes at an address that stays.
#[derive(Debug)]
pub struct Memory(Box<[Cell<u8>]>);

impl Memory {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(vec![Cell::new(0); bytes].into_boxed_slice())
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].iter().zip(bytes).for_each(|(cell, byte)| cell.set(*byte));
    }

    /// Its cells, to read.
    pub fn cells(&self) -> &[Cell<u8>] {
        &self.0
    }
}
