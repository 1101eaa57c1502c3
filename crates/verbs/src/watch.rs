// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the strict mode knows of a device and of its queue pairs.

use crate::rule::{Reporter, Rule};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// What the mode knows of a device.
pub(crate) struct Strict {
    pub reporter: Reporter,
    pub seen: BTreeMap<(Rule, u32), u64>,
}

impl core::fmt::Debug for Strict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Strict").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// What the mode knows of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// For each of its sends: where its bytes lie, and their digest; nothing if they may change.
    pub seals: VecDeque<Option<Seal>>,
    /// Sends posted; and those that a device would have freed, since a completion was polled.
    pub posted: u64,
    pub freed: u64,
    /// Sends that are complete; which of them have completions that were not polled.
    pub ended: u64,
    pub told: VecDeque<u64>,
    /// The message that found no receive, and since when.
    pub refused: Option<(u32, u64)>,
}

#[derive(Debug)]
pub(crate) struct Seal {
    pub lies: Vec<Range<usize>>,
    pub digest: u64,
}
