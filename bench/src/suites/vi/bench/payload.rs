// SPDX-License-Identifier: MIT OR Apache-2.0
//! What messages contain and how it is checked inside the timed loops.
//!
//! A message of n bytes is a fixed pattern, stamped with its sequence number in its first and last
//! whole word. The receiver checks either the *ends* (length and both stamps; the data is otherwise
//! left untouched, as other libraries' benchmarks do) or *all*: every byte is read, compared
//! exactly up to [`SMALL_MAX`] bytes and by a sum of its words beyond. Invariant P1: the memory
//! given to these functions is valid for `len` bytes and its owner, by the protocol of the
//! benchmark, is the caller while it is inside.

/// Up to this many bytes, every byte is compared in every variant.
pub const SMALL_MAX: usize = 64;

/// How much of received data the receiver reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// Length and both ends only (everything, for messages up to [`SMALL_MAX`]).
    Ends,
    /// Every byte.
    All,
}

/// The fixed part of messages of one length.
#[derive(Debug, Clone)]
pub struct Pattern {
    len: usize,
    /// Words of the pattern for exact comparison, stamps zero; only for small messages.
    words: [u64; SMALL_MAX / 8],
    /// Sum of all words and tail bytes with the stamps zero.
    sum: u64,
}

fn pattern_byte(index: usize) -> u8 {
    (index as u8).wrapping_mul(31).wrapping_add(7)
}

impl Pattern {
    /// The pattern of messages of `len` bytes.
    pub fn new(len: usize) -> Self {
        let mut bytes: Vec<u8> = (0..len).map(pattern_byte).collect();
        for offset in stamp_offsets(len).into_iter().flatten() {
            bytes[offset..offset + 8].fill(0);
        }
        let mut words = [0; SMALL_MAX / 8];
        if len <= SMALL_MAX {
            for (index, chunk) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                words[index] = u64::from_ne_bytes(word);
            }
        }
        // SAFETY: P1: the vector is ours and `len` bytes long.
        let sum = unsafe { sum(bytes.as_ptr(), len) };
        Pattern { len, words, sum }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether messages are empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the pattern, unstamped.
    ///
    /// # Safety
    /// P1 for writing.
    pub unsafe fn fill(&self, address: *mut u8) {
        for index in 0..self.len {
            // SAFETY: P1, in range.
            unsafe { address.add(index).write(pattern_byte(index)) };
        }
    }

    /// Writes the sequence number into both ends.
    ///
    /// # Safety
    /// P1 for writing.
    #[inline]
    pub unsafe fn stamp(&self, address: *mut u8, sequence: u64) {
        // SAFETY: P1; offsets from `stamp_offsets` leave room for a word, and short messages take
        // their length in bytes.
        unsafe {
            if self.len < 8 {
                core::ptr::copy_nonoverlapping(sequence.to_le_bytes().as_ptr(), address, self.len);
                return;
            }
            address.cast::<u64>().write_unaligned(sequence);
            if self.len >= 16 {
                address.add(last_stamp(self.len)).cast::<u64>().write_unaligned(sequence);
            }
        }
    }

    /// Whether the message at `address` is the one with this sequence number, as far as `touch`
    /// looks.
    ///
    /// # Safety
    /// P1 for reading.
    #[inline]
    pub unsafe fn matches(&self, address: *const u8, sequence: u64, touch: Touch) -> bool {
        // SAFETY: P1, handed on.
        unsafe {
            if self.len == 8 {
                return address.cast::<u64>().read_unaligned() == sequence;
            }
            if self.len <= SMALL_MAX {
                return self.matches_small(address, sequence);
            }
            if touch == Touch::All {
                return sum(address, self.len) == self.sum.wrapping_add(sequence.wrapping_mul(2));
            }
            address.cast::<u64>().read_unaligned() == sequence && address.add(last_stamp(self.len)).cast::<u64>().read_unaligned() == sequence
        }
    }

    /// Exact comparison of every byte.
    ///
    /// # Safety
    /// P1 for reading, and `len` is at most [`SMALL_MAX`].
    #[inline]
    unsafe fn matches_small(&self, address: *const u8, sequence: u64) -> bool {
        // SAFETY: P1; whole words first, then the bytes behind them, all below `len`.
        unsafe {
            if self.len < 8 {
                let bytes = sequence.to_le_bytes();
                return (0..self.len).all(|index| address.add(index).read() == bytes[index]);
            }
            let (whole, last) = (self.len / 8, last_stamp(self.len) / 8);
            let mut difference = 0;
            for index in 0..whole {
                let stamp = if index == 0 || index == last { sequence } else { 0 };
                difference |= address.cast::<u64>().add(index).read_unaligned() ^ (self.words[index] | stamp);
            }
            let tail = (whole * 8..self.len).all(|index| address.add(index).read() == pattern_byte(index));
            difference == 0 && tail
        }
    }
}

/// Offset of the last whole word of a message of at least 8 bytes.
#[inline]
fn last_stamp(len: usize) -> usize {
    (len / 8 - 1) * 8
}

fn stamp_offsets(len: usize) -> [Option<usize>; 2] {
    match len {
        0..8 => [None, None],
        8..16 => [Some(0), None],
        _ => [Some(0), Some(last_stamp(len))],
    }
}

/// Sum of all whole words and of the bytes behind them.
///
/// # Safety
/// P1 for reading.
#[inline]
pub unsafe fn sum(address: *const u8, len: usize) -> u64 {
    let mut lanes = [0u64; 8];
    let whole = len / 64;
    let mut total = 0u64;
    // SAFETY: P1: offsets stay below `len`.
    unsafe {
        for block in 0..whole {
            let words = address.add(block * 64).cast::<[u64; 8]>().read_unaligned();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = lane.wrapping_add(word);
            }
        }
        for index in whole * 8..len / 8 {
            total = total.wrapping_add(address.cast::<u64>().add(index).read_unaligned());
        }
        for index in len / 8 * 8..len {
            total = total.wrapping_add(u64::from(address.add(index).read()));
        }
    }
    lanes.iter().fold(total, |sum, lane| sum.wrapping_add(*lane))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize, sequence: u64) -> (Pattern, Vec<u8>) {
        let pattern = Pattern::new(len);
        let mut bytes = vec![0u8; len];
        // SAFETY: P1: the vector is ours and `len` bytes long.
        unsafe {
            pattern.fill(bytes.as_mut_ptr());
            pattern.stamp(bytes.as_mut_ptr(), sequence);
        }
        (pattern, bytes)
    }

    #[test]
    fn what_was_stamped_matches() {
        for len in (0..200).chain([4096, 4097, 65536]) {
            for touch in [Touch::Ends, Touch::All] {
                let (pattern, bytes) = message(len, 0x0102_0304_0506_0708);
                // SAFETY: P1: the piece is as long as what it is given to.
                let matches = |sequence| unsafe { pattern.matches(bytes.as_ptr(), sequence, touch) };
                assert!(matches(0x0102_0304_0506_0708), "{len}");
                assert!(len == 0 || !matches(0x0102_0304_0506_0709), "{len}");
            }
        }
    }

    #[test]
    fn every_byte_counts_when_all_is_read() {
        for len in [1, 7, 8, 9, 15, 16, 17, 56, 63, 64, 65, 100, 1000] {
            for index in 0..len {
                let (pattern, mut bytes) = message(len, 99);
                bytes[index] ^= 0x10;
                // SAFETY: P1: the piece is as long as what it is given to.
                assert!(!unsafe { pattern.matches(bytes.as_ptr(), 99, Touch::All) }, "byte {index} of {len}");
            }
        }
    }
}
