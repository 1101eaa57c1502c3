// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a region by the hash of its first page, with chains: the "Dynamic Memory Engine" of the
//! MPICH2 device for InfiniBand (its report, section 2.4.2), which has it from MVICH.
//!
//! A record serves a request that begins on the same page and has at most as many pages. So a
//! region that begins in the middle of another one is registered again, which its authors name as
//! the limit of the algorithm.

use super::{Key, NONE, Record};
use core::ops::Range;

#[derive(Debug)]
pub(super) struct PageHash {
    /// The first record of each chain; a power of two of them.
    heads: Vec<u32>,
    page_shift: u32,
}

impl PageHash {
    pub fn new(records: u32) -> Self {
        let heads = (records.max(1) as usize * 2).next_power_of_two();
        Self { heads: vec![NONE; heads], page_shift: rustix::param::page_size().trailing_zeros() }
    }

    fn head(&self, start: u64) -> usize {
        // Fibonacci hashing: neighbouring pages spread over the table.
        let mixed = (start >> self.page_shift).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.heads.len() - 1)
    }

    pub fn find(&self, records: &[Record], key: Key, span: &Range<u64>) -> Option<u32> {
        let mut at = self.heads[self.head(span.start)];
        while at != NONE {
            let r = &records[at as usize];
            let fits = r.key == key && r.span.start == span.start && if key.is_exact() { r.span.end == span.end } else { r.span.end >= span.end };
            if fits {
                return Some(at);
            }
            at = r.chain;
        }
        None
    }

    pub fn insert(&mut self, records: &mut [Record], id: u32) {
        let head = self.head(records[id as usize].span.start);
        records[id as usize].chain = core::mem::replace(&mut self.heads[head], id);
    }

    pub fn remove(&mut self, records: &mut [Record], id: u32) {
        let (head, next) = (self.head(records[id as usize].span.start), records[id as usize].chain);
        let mut at = self.heads[head];
        if at == id {
            self.heads[head] = next;
            return;
        }
        while at != NONE {
            let r = &mut records[at as usize];
            if r.chain == id {
                r.chain = next;
                return;
            }
            at = r.chain;
        }
    }
}
