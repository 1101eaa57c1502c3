// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the engine's allocator: segments, which peers may connect to once the engine has
//! permitted it; and the regions that peers are told of.

use crate::{Allocation, CatalogueEntry, LinkId};
use bellwire_sisci_calls::{Segment, Sisci};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
struct Allocated {
    segment: Segment,
    is_open: bool,
    given_to: BTreeSet<LinkId>,
}

/// Allocations by number, and regions by the handles' indices.
#[derive(Debug)]
pub(super) struct Allocations {
    /// Whether peers may connect.
    open: bool,
    next: u32,
    by_number: BTreeMap<u32, Allocated>,
    pub regions: BTreeMap<usize, CatalogueEntry>,
}

impl Allocations {
    pub fn new(open: bool) -> Self {
        Self { open, next: 0, by_number: BTreeMap::new(), regions: BTreeMap::new() }
    }

    pub fn allocate(&mut self, sisci: &Arc<Sisci>, bytes: usize) -> Option<Allocation> {
        let length = bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let segment = if self.open { Segment::create(sisci, None, length) } else { Segment::private(sisci, length) }.ok()?;
        let number = self.next;
        self.next = self.next.checked_add(1)?;
        let allocation = Allocation { base: segment.base(), length, segment: number };
        self.by_number.insert(number, Allocated { segment, is_open: false, given_to: BTreeSet::new() });
        Some(allocation)
    }

    /// Frees an allocation; the links whose peers may have it mapped.
    pub fn free(&mut self, number: u32) -> BTreeSet<LinkId> {
        self.by_number.remove(&number).map(|a| a.given_to).unwrap_or_default()
    }

    /// The segment of an allocation, for the peer of a link.
    pub fn give(&mut self, number: u32, link: LinkId) -> Option<u32> {
        let a = self.by_number.get_mut(&number).filter(|_| self.open)?;
        if !a.is_open {
            a.segment.open().ok()?;
            a.is_open = true;
        }
        a.given_to.insert(link);
        Some(a.segment.id())
    }

    pub fn link_closed(&mut self, link: LinkId) {
        self.by_number.values_mut().for_each(|a| _ = a.given_to.remove(&link));
    }

    pub fn peers_mapping(&self, number: u32) -> u32 {
        self.by_number.get(&number).map_or(0, |a| a.given_to.len() as u32)
    }
}
