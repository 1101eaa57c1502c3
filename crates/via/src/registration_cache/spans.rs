// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of addresses, as intervals that do not touch.

use core::ops::Range;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// Ends by first addresses.
    ends: BTreeMap<u64, u64>,
}

impl Spans {
    /// Intervals.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn bytes(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether all of `span` is in the set.
    pub fn covers(&self, span: &Range<u64>) -> bool {
        self.ends.range(..=span.start).next_back().is_some_and(|(_, end)| *end >= span.end)
    }

    pub fn add(&mut self, span: &Range<u64>) {
        let (mut start, mut end) = (span.start, span.end);
        while let Some((s, e)) = self.ends.range(..=end).next_back().map(|(s, e)| (*s, *e))
            && e >= start
        {
            (start, end) = (start.min(s), end.max(e));
            self.ends.remove(&s);
        }
        self.ends.insert(start, end);
    }

    pub fn cut(&mut self, span: &Range<u64>) {
        while let Some((s, e)) = self.ends.range(..span.end).next_back().map(|(s, e)| (*s, *e))
            && e > span.start
        {
            self.ends.remove(&s);
            if s < span.start {
                self.ends.insert(s, span.start);
            }
            if e > span.end {
                self.ends.insert(span.end, e);
            }
        }
    }
}
