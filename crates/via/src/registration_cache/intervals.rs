// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a region by the interval that it covers.
//!
//! Of the regions of one key none lies inside another: a new one takes the place of those inside
//! it, and a request for a part of one finds that one. Then both ends rise together, and the only
//! candidate for an interval is the last region that begins at or before it. Regions that overlap
//! otherwise are merged by the engine if they are watched, for then only the new pages have to be
//! looked at; else they stay side by side.
//!
//! Regions of an exact key (C4) serve their own interval only, and may lie inside each other.

use super::{Key, Record};
use core::ops::Range;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// Records by key, first byte and end.
    by_start: BTreeMap<(Key, u64, u64), u32>,
}

impl Intervals {
    pub fn find(&self, key: Key, span: &Range<u64>) -> Option<u32> {
        if key.is_exact() {
            return self.by_start.get(&(key, span.start, span.end)).copied();
        }
        let ((found, _, end), id) = self.by_start.range(..=(key, span.start, u64::MAX)).next_back()?;
        (*found == key && *end >= span.end).then_some(*id)
    }

    /// A record within `span`.
    pub fn inside(&self, key: Key, span: &Range<u64>) -> Option<u32> {
        if key.is_exact() {
            return None;
        }
        let ((found, _, end), id) = self.by_start.range((key, span.start, 0)..).next()?;
        (*found == key && *end <= span.end).then_some(*id)
    }

    /// The watched records that have a byte in common with `span`, by rising addresses.
    pub fn overlapping(&self, records: &[Record], key: Key, span: &Range<u64>) -> Vec<u32> {
        let before = self.by_start.range((key, 0, 0)..(key, span.end, 0)).rev();
        let mut found: Vec<u32> = before.take_while(|((_, _, end), _)| *end > span.start).map(|(_, id)| *id).collect();
        found.retain(|id| records[*id as usize].is_watched);
        found.reverse();
        found
    }

    pub fn insert(&mut self, record: &Record, id: u32) {
        let before = self.by_start.insert((record.key, record.span.start, record.span.end), id);
        debug_assert!(before.is_none(), "it would have been found");
    }

    pub fn remove(&mut self, record: &Record) {
        self.by_start.remove(&(record.key, record.span.start, record.span.end));
    }
}
