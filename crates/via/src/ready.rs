// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ready bitmap: which VIs have work to send. An idle VI is a zero bit and costs no polling,
//! however many there are.

/// A two-level bitmap over VI indices.
#[derive(Debug, Default)]
pub struct ReadyBitmap {
    words: Vec<u64>,
    summary: Vec<u64>,
    count: usize,
}

impl ReadyBitmap {
    /// Whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bits are set.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether a bit is set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Sets a bit.
    pub fn insert(&mut self, index: usize) {
        let word = index / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.summary.resize(word / 64 + 1, 0);
        }
        let bit = 1 << (index % 64);
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary[word / 64] |= 1 << (word % 64);
            self.count += 1;
        }
    }

    /// Clears a bit.
    pub fn remove(&mut self, index: usize) {
        let word = index / 64;
        let bit = 1 << (index % 64);
        if self.words.get(word).is_some_and(|w| w & bit != 0) {
            self.words[word] &= !bit;
            if self.words[word] == 0 {
                self.summary[word / 64] &= !(1 << (word % 64));
            }
            self.count -= 1;
        }
    }

    /// The first set bit at or after `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let here = self.words.get(word)? & (u64::MAX << (from % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let from = word + 1;
        let mut s = from / 64;
        let mut mask = u64::MAX << (from % 64);
        while s < self.summary.len() {
            let bits = self.summary[s] & mask;
            if bits != 0 {
                let w = s * 64 + bits.trailing_zeros() as usize;
                return Some(w * 64 + self.words[w].trailing_zeros() as usize);
            }
            mask = u64::MAX;
            s += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn against_a_set() {
        let mut b = ReadyBitmap::default();
        let mut s = BTreeSet::new();
        let mut x = 7u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let i = (x >> 40) as usize % 9000;
            if x >> 63 == 0 {
                b.insert(i);
                s.insert(i);
            } else {
                b.remove(i);
                s.remove(&i);
            }
            let from = (x >> 20) as usize % 9100;
            assert_eq!(b.next(from), s.range(from..).next().copied());
            assert_eq!((b.count(), b.contains(from)), (s.len(), s.contains(&from)));
            assert_eq!(b.is_empty(), s.is_empty());
        }
    }
}
