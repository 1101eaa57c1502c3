// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that wrap: packet numbers and timestamps. And sets of packet numbers within one window.

use crate::config::WINDOW_PACKETS_MAX;
use bellwire_time::Instant;

const WORDS: usize = WINDOW_PACKETS_MAX / 64;

/// Whether `a` comes before `b`, both within half the range of each other.
#[inline]
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// A time as packets carry it: units of 64 ns, wrapping after 275 s.
//= P-TIME-1
#[inline]
pub(crate) const fn timestamp(now: Instant) -> u32 {
    (now.0 >> 6) as u32
}

/// A set of packet numbers, all within a window of [`WINDOW_PACKETS_MAX`]; a number is its own
/// place.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketSet {
    words: [u64; WORDS],
    count: u32,
}

impl PacketSet {
    const fn place(psn: u32) -> (usize, u32) {
        ((psn as usize / 64) % WORDS, psn % 64)
    }

    #[inline]
    pub(crate) const fn contains(&self, psn: u32) -> bool {
        let (word, bit) = Self::place(psn);
        self.words[word] >> bit & 1 != 0
    }

    // The two below count with the bit itself, not with a comparison of it: rustc before 1.96.1 may
    // lose a comparison whose result is a number first and a condition then (docs/decisions/0005,
    // `scripts/comparisons.sh`).

    /// Adds it; whether it was new.
    #[inline]
    pub(crate) fn insert(&mut self, psn: u32) -> bool {
        let (word, bit) = Self::place(psn);
        let new = !self.words[word] >> bit & 1;
        self.words[word] |= 1 << bit;
        self.count += new as u32;
        new != 0
    }

    /// Removes it; whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, psn: u32) -> bool {
        let (word, bit) = Self::place(psn);
        let there = self.words[word] >> bit & 1;
        self.words[word] &= !(1 << bit);
        self.count -= there as u32;
        there != 0
    }

    #[inline]
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The 64 numbers from `psn` on: bit `i` says whether `psn + i` is in the set.
    pub(crate) const fn word_at(&self, psn: u32) -> u64 {
        let (word, shift) = ((psn as usize / 64) % WORDS, psn % 64);
        let low = self.words[word] >> shift;
        if shift == 0 { low } else { low | self.words[(word + 1) % WORDS] << (64 - shift) }
    }

    /// The first number of the set from `from` on, looking at `span` numbers.
    pub(crate) fn first(&self, from: u32, span: u32) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let mut at = 0;
        while at < span {
            let bits = self.word_at(from.wrapping_add(at));
            if bits != 0 {
                let found = at + bits.trailing_zeros();
                return (found < span).then(|| from.wrapping_add(found));
            }
            at += 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn order_survives_the_wrap() {
        assert!(before(u32::MAX, 0) && before(0, 1) && !before(1, 0) && !before(5, 5) && before(u32::MAX - 500, 500));
    }

    #[test]
    fn timestamps_count_64_ns() {
        //= P-TIME-1
        assert_eq!(timestamp(Instant(64 * 7 + 63)), 7);
        assert_eq!(timestamp(Instant(64 << 32)), 0);
    }

    #[test]
    fn a_set_is_a_set() {
        let base = u32::MAX - 300;
        let mut set = PacketSet::default();
        let mut model = BTreeSet::new();
        let mut x = 1u32;
        for _ in 0..5000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let offset = (x >> 8) % 1000;
            let psn = base.wrapping_add(offset);
            if x >> 30 == 0 {
                assert_eq!(set.remove(psn), model.remove(&offset));
            } else {
                assert_eq!(set.insert(psn), model.insert(offset));
            }
            if model.len() > 200 {
                for gone in core::mem::take(&mut model) {
                    assert!(set.remove(base.wrapping_add(gone)));
                }
            }
            assert_eq!(set.count() as usize, model.len());
            let from = (x >> 3) % 900;
            let expected = model.range(from..from + 90).next().map(|o| base.wrapping_add(*o));
            assert_eq!(set.first(base.wrapping_add(from), 90), expected);
            let word = set.word_at(base.wrapping_add(from));
            assert!((0..64).all(|i| (word >> i & 1 == 1) == model.contains(&(from + i))));
        }
    }
}
