// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeded randomness in independent streams: PCG-64-MCG, whose numbers are the same on every
//! machine. Used by all that draws here, and by the fabric.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The stream of this number under this seed. Streams of one seed have nothing to do with each
    /// other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let low = Self::mix(seed, stream);
        let high = Self::mix(low, stream);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// Two numbers into one, every bit of both counting (the finaliser of splitmix64).
    pub const fn mix(a: u64, b: u64) -> u64 {
        let mut x = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x632b_e59b_d9b4_e019);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number below `end`, which is not zero. The bias, at most `end` in 2^64, is left.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing lies below zero");
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last, "an empty range");
        if first == 0 && last == u64::MAX { self.next_u64() } else { first + self.below(last - first + 1) }
    }
}
