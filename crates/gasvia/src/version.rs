// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two ways to use VIs.

use crate::head::HEAD_BYTES;

/// How a pair of processes uses VIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// One for everything.
    One,
    /// One for words, one for bulk data.
    Two,
}

/// A VI.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub credits: usize,
    /// Bytes of a buffer.
    pub bytes: usize,
}

/// Bytes of the longest message.
const MESSAGE_BYTES: usize = 4096;
/// Bytes of the longest word.
pub(crate) const WORD_BYTES_MAX: usize = 8;
/// Bulk data in a message, at most.
pub(crate) const FRAGMENT: usize = MESSAGE_BYTES - HEAD_BYTES;

const BULK: Shape = Shape { credits: 8, bytes: MESSAGE_BYTES };
const WORDS: Shape = Shape { credits: 64, bytes: 64 };

impl Version {
    pub(crate) fn shapes(self) -> &'static [Shape] {
        match self {
            Self::One => &[BULK],
            Self::Two => &[WORDS, BULK],
        }
    }

    /// The VI for an access to so many bytes.
    pub(crate) fn lane_for(self, bytes: usize) -> usize {
        usize::from(self == Self::Two && bytes > WORD_BYTES_MAX)
    }

    /// Whether bulk data is sent from where it lies.
    pub fn gathers(self) -> bool {
        self == Self::One
    }
}

const _: () = assert!(WORDS.bytes >= HEAD_BYTES);
