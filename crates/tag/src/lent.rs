// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages that a peer of the same host may copy out of our memory: where they lie.
//!
//! The payload of an Announce tells it, if both processes have shown that they may read each other:
//! the address and the value of the connection's word, then address and length of each piece. The
//! receiver copies the message, then reads the word, and answers by Done. If anything fails it asks
//! for the message in parts, as if nothing had been told.
//!
//! Invariants
//! - L1: while a message is lent, its connection's word has the value that was told. The word is
//!   cleared before the program gets back memory that the peer has not reported as read. So a
//!   receiver that finds the value after its copy has copied the message. The value is random: no
//!   other use of that memory, by another program in this process (`exec`) for one, has it.

use crate::gather::{Gather, PIECES_MAX};
use bellwire_memory::atomic::{AtomicU64, Ordering, fence};
use bellwire_memory::bytes;

const WORDS_MAX: usize = 2 + 2 * PIECES_MAX;

/// A connection's word.
#[derive(Debug)]
pub(crate) struct Word {
    cell: Box<AtomicU64>,
    value: u64,
}

impl Word {
    pub(crate) fn new() -> Option<Self> {
        let mut value = [0; 8];
        rustix::rand::getrandom(&mut value, rustix::rand::GetRandomFlags::empty()).ok()?;
        // Never 0, which it is cleared to.
        let value = u64::from_le_bytes(value) | 1;
        Some(Self { cell: Box::new(AtomicU64::new(value)), value })
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(&*self.cell).expose_provenance() as u64
    }

    /// The payload of an Announce that lends a message.
    pub(crate) fn lends(&self, from: &Gather) -> Box<[u8]> {
        let pieces = from.pieces().filter(|(_, length)| *length != 0);
        let pieces = pieces.flat_map(|(at, length)| [at.expose_provenance() as u64, length as u64]);
        [self.address(), self.value].into_iter().chain(pieces).flat_map(u64::to_le_bytes).collect()
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // L1. Relaxed: the fence is before whatever the program does with its memory; it pairs with
        // the fence of `holds` in the reading process.
        self.cell.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        // Read by another process: the store is not for nothing, though the word is freed next.
        core::hint::black_box(&self.cell);
    }
}

/// Where a peer says that a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lent {
    /// Address and value of the word.
    word: (u64, u64),
    /// Addresses and lengths.
    pieces: [(u64, u64); PIECES_MAX],
}

impl Lent {
    /// From a payload of `n` bytes, for a message of `length`. `None`: it says nothing valid.
    ///
    /// # Safety
    /// The payload is readable for `n` bytes.
    pub(crate) unsafe fn parse(payload: *const u8, n: usize, length: u64) -> Option<Self> {
        let mut words = [0u64; WORDS_MAX];
        if n > size_of_val(&words) || n < 32 || !n.is_multiple_of(16) {
            return None;
        }
        // SAFETY: the caller's; there is room. The copy allows that the payload changes.
        unsafe { bytes::copy(words.as_mut_ptr().cast(), payload, n) };
        let words = words.map(u64::from_le);
        let mut pieces = [(0, 0); PIECES_MAX];
        let mut sum = 0u64;
        for (piece, pair) in pieces.iter_mut().zip(words[2..n / 8].chunks_exact(2)) {
            *piece = (pair[0], pair[1]);
            sum = sum.checked_add(pair[1])?;
        }
        (sum == length).then_some(Self { word: (words[0], words[1]), pieces })
    }

    /// Where byte `at` lies, and how many bytes there are from it on in one piece.
    pub(crate) fn at(&self, mut at: u64) -> Option<(u64, u64)> {
        for (address, length) in self.pieces {
            if at < length {
                return Some((address.wrapping_add(at), length - at));
            }
            at -= length;
        }
        None
    }

    /// The pieces lie where nothing is mapped.
    #[cfg(test)]
    pub(crate) fn forget_pieces(&mut self) {
        self.pieces.iter_mut().for_each(|(address, _)| *address = 4096);
    }

    /// Whether the message was still lent when `read` reads the word, which is after it was copied.
    pub(crate) fn holds(&self, read: impl FnOnce(u64, *mut u8, usize) -> bool) -> bool {
        // L1: pairs with the fence of `Word::drop`.
        fence(Ordering::Acquire);
        let mut word = [0u8; 8];
        read(self.word.0, word.as_mut_ptr(), word.len()) && u64::from_ne_bytes(word) == self.word.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(words: &[u64], n: usize, length: u64) -> Option<Lent> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        // SAFETY: a slice.
        unsafe { Lent::parse(bytes.as_ptr(), n.min(bytes.len()), length) }
    }

    proptest! {
        #[test]
        fn anything_is_parsed_or_refused(words in proptest::collection::vec(any::<u64>(), 0..12), n in 0usize..100, length: u64) {
            if let Some(lent) = parse(&words, n, length) {
                prop_assert!(lent.at(length).is_none() && lent.at(u64::MAX).is_none());
            }
        }

        #[test]
        fn pieces_are_found(pieces in proptest::collection::vec((any::<u64>(), 1u64..1000), 1..=PIECES_MAX), some: prop::sample::Index) {
            let length: u64 = pieces.iter().map(|p| p.1).sum();
            let words: Vec<u64> = [1, 2].into_iter().chain(pieces.iter().flat_map(|p| [p.0, p.1])).collect();
            prop_assert_eq!(parse(&words, 8 * words.len(), length + 1), None);
            prop_assert_eq!(parse(&words, 8 * words.len() - 8, length), None);
            let lent = parse(&words, 8 * words.len(), length).unwrap();
            let at = some.index(length as usize) as u64;
            let (mut before, mut expected) = (0, None);
            for (address, n) in pieces {
                if at >= before && at < before + n {
                    expected = Some((address.wrapping_add(at - before), before + n - at));
                }
                before += n;
            }
            prop_assert_eq!(lent.at(at), expected);
            prop_assert_eq!(lent.at(length), None);
        }
    }

    #[test]
    fn a_word_says_whether_the_message_is_still_lent() {
        let word = Word::new().unwrap();
        let lent = Lent { word: (word.address(), word.value), pieces: [(0, 0); PIECES_MAX] };
        let read = |address: u64, to: *mut u8, n: usize| {
            assert_eq!((address, n), (word.address(), 8));
            let value = word.cell.load(Ordering::Relaxed).to_ne_bytes();
            // SAFETY: there is room for the word.
            unsafe { bytes::copy(to, value.as_ptr(), n) };
            true
        };
        assert!(lent.holds(read));
        word.cell.store(0, Ordering::Relaxed);
        assert!(!lent.holds(read), "cleared");
        assert!(!lent.holds(|_, _, _| false), "not readable");
    }
}
