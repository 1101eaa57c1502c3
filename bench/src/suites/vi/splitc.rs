// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split-C's memory operations on virtual interfaces, as the AMVIA paper's section 6 has them, by
//! the public calls of libvipl: read, write, get, put and store of words, and bulk puts.
//!
//! | layout | for each pair of processes |
//! |---|---|
//! | one VI | 8 credits for everything; bulk data by gather; an acknowledgement for each second store |
//! | two VIs | 64 credits for words, 8 for bulk, which is copied before it is sent; an acknowledgement for each 16th store |
//!
//! A request takes a credit, which its reply brings back, and has the receive for that reply
//! posted: so replies need none. Nothing here waits inside a reply but for a send buffer, which a
//! completion frees. Memory is reached by offset in the peer's segment, which the receiver checks.

mod both;
mod lane;
mod measure;
mod side;

use serde::{Deserialize, Serialize};

pub use measure::run;

use crate::am::mapped::Marking;

/// How a pair of processes uses VIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vis {
    /// One for everything.
    One,
    /// One for words, one for bulk.
    Two,
}

impl Vis {
    /// Credits of each VI.
    fn credits(self) -> &'static [usize] {
        match self {
            Self::One => &[8],
            Self::Two => &[64, 8],
        }
    }

    fn gathers(self) -> bool {
        self == Self::One
    }
}

/// An operation on the other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A get that is waited for.
    Read,
    /// A put that is waited for.
    Write,
    /// Asks for a word; many may be out.
    Get,
    /// Writes a word, and hears of it; many may be out.
    Put,
    /// Writes a word, of which the other alone hears.
    Store,
}

impl Operation {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Get, Self::Put, Self::Store];

    /// As programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Get => "get",
            Self::Put => "put",
            Self::Store => "store",
        }
    }
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitcJob {
    /// `[ns of an operation]` on words of so many bytes.
    Words {
        /// Which.
        operation: Operation,
        /// Bytes, at most 8.
        bytes: usize,
        /// Operations.
        count: u64,
    },
    /// `[GB/s]` of bulk puts, which the receiver copies to their place.
    Stream {
        /// Bytes of a put.
        size: usize,
        /// Puts.
        count: u64,
    },
    /// As [`MappedJob::Steps`](crate::mapped::MappedJob::Steps), of a get.
    Steps {
        /// Gets.
        count: u64,
        /// The watcher.
        marking: Marking,
    },
}
