// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that have arrived, where they lie.

use crate::frame::{Bulk, Head};
use bellwire_memory::line_queue::LINE_WORDS;

/// A frame that has arrived, where it lies in the wire. A peer may still be writing there, so each
/// word is read once, and payload is copied out, never referenced. It is no `Copy`: code that is
/// shown a frame cannot keep it.
#[derive(Debug)]
pub struct Frame {
    head: u64,
    words: *const u64,
    payload: *const u8,
    payload_len: usize,
}

impl Frame {
    /// A frame whose word 0 was read as `head`.
    ///
    /// # Safety
    /// F1: the line's eight words at `words` (8-byte aligned) and `payload_len` bytes at `payload`
    /// stay readable as long as the value exists.
    #[inline]
    pub unsafe fn new(head: u64, words: *const u64, payload: *const u8, payload_len: usize) -> Self {
        Self { head, words, payload, payload_len }
    }

    /// Word 0, as first read; bit 0 has no meaning.
    #[inline]
    pub fn head(&self) -> Head {
        Head(self.head)
    }

    /// Word `index` of the line, read now: once per word.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        assert!(index < LINE_WORDS);
        // SAFETY: F1. Volatile: another process may be writing it.
        unsafe { self.words.add(index).read_volatile() }
    }

    /// Where the words from `index` on lie: to copy inline data from.
    #[inline]
    pub fn words_from(&self, index: usize) -> *const u8 {
        assert!(index < LINE_WORDS);
        self.words.wrapping_add(index).cast()
    }

    /// The payload beside the line.
    #[inline]
    pub fn payload(&self) -> *const u8 {
        self.payload
    }

    /// Bytes readable at `payload`, checked by the wire. The frame's own claim must be compared
    /// with it.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }
}

impl Bulk {
    /// Out of a frame; each word is read once.
    #[inline]
    pub fn load(frame: &Frame) -> Self {
        let (w1, w2, w4) = (frame.word(1), frame.word(2), frame.word(4));
        Self {
            offset: w1 as u32,
            total: (w1 >> 32) as u32,
            immediate: w2 as u32,
            length: (w2 >> 32) as u32,
            remote_address: frame.word(3),
            remote_handle: w4 as u32,
            work: (w4 >> 32) as u32,
        }
    }
}

/// The outcome of `receive`.
#[derive(Debug)]
pub enum Received {
    /// Nothing.
    Empty,
    /// A frame.
    Frame(Frame),
    /// The link is gone, or its peer sent something impossible.
    Broken,
}

/// The outcome of `peek_line`.
#[derive(Debug)]
pub enum Peeked {
    /// A line.
    Line(Frame),
    /// Nothing.
    Nothing,
    /// Nothing was done; [`Wire::receive`](crate::Wire::receive) knows more.
    Otherwise,
}
