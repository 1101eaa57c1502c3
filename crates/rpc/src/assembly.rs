// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large values out of the parts in which they arrive, in order. Memory grows with what has come,
//! not with what was announced.

use bellwire_am::Payload;

/// A value that is arriving.
#[derive(Debug)]
pub(crate) struct Assembly {
    data: Vec<u8>,
    total: u64,
}

/// What a part did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// There is more to come.
    More,
    /// The value is whole.
    Whole,
    /// It cannot be: out of order, or beyond the end.
    Wrong,
    /// There is no memory for it.
    NoMemory,
}

impl Assembly {
    /// A value of so many bytes.
    pub(crate) fn new(total: u64) -> Self {
        Self { data: Vec::new(), total }
    }

    /// Bytes of the whole.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes the part at `offset`.
    pub(crate) fn take(&mut self, offset: u64, part: &Payload<'_>) -> Part {
        let (at, more) = (self.data.len(), part.len());
        let end = at as u64 + more as u64;
        if offset != at as u64 || more == 0 || end > self.total {
            return Part::Wrong;
        }
        if self.data.try_reserve(more).is_err() {
            return Part::NoMemory;
        }
        self.data.resize(at + more, 0);
        part.read(0, &mut self.data[at..]);
        if end == self.total { Part::Whole } else { Part::More }
    }

    /// The value.
    pub(crate) fn into_data(self) -> Vec<u8> {
        self.data
    }
}
