// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of a simulated program, which engines read and write by its address. An engine that
//! registers it keeps it.

use bellwire_via::{Engine, Error, MemAttributes, MemHandle, OwnedBytes, wire::Wire};

/// Zeroed bytes at an address that stays.
#[derive(Debug)]
pub struct Memory(OwnedBytes);

impl Memory {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(OwnedBytes::new(bytes))
    }

    /// Registers all of it.
    ///
    /// # Errors
    /// As [`Engine::register_owned`].
    pub fn register<W: Wire>(&self, engine: &mut Engine<W>, rights: &MemAttributes) -> Result<MemHandle, Error> {
        engine.register_owned(&self.0, rights)
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
        self.0.write(at, bytes);
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        self.0.read(at, bytes);
    }

    /// A byte.
    ///
    /// # Panics
    /// When there is none at `at`.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        self.0.byte(at)
    }

    /// Changes a byte.
    ///
    /// # Panics
    /// When there is none at `at`.
    #[inline]
    pub fn set_byte(&self, at: usize, byte: u8) {
        self.0.set_byte(at, byte);
    }

    /// Makes `length` bytes from `at` on all the same.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn fill(&self, at: usize, length: usize, byte: u8) {
        (at..at + length).for_each(|i| self.0.set_byte(i, byte));
    }
}
