// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hashing: of packets and events for the digest, and of keys for look-ups. The same on every
//! machine and in every run; not for strangers' keys.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// One more word into a hash: the two halves of a product folded, so that every bit goes
/// everywhere.
#[inline]
pub(crate) const fn fold(hash: u64, word: u64) -> u64 {
    let product = ((hash ^ word) as u128 ^ 0x632b_e59b_d9b4_e019) * (MULTIPLIER as u128);
    ((product >> 64) as u64 ^ product as u64).wrapping_add(hash.rotate_left(23))
}

/// Hash of a packet's bytes, its length included.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in words.by_ref() {
        hash = fold(hash, u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    fold(hash, u64::from_le_bytes(last))
}

/// Hasher of small keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = fold(self.0, of_bytes(bytes));
    }
    fn write_u16(&mut self, n: u16) {
        self.0 = fold(self.0, u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.0 = fold(self.0, u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = fold(self.0, n);
    }
    fn write_isize(&mut self, n: isize) {
        self.0 = fold(self.0, n as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map for look-ups. Never gone through: its order means nothing.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;
