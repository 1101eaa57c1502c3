// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that this NIC allocated, and the catalogue that tells peers what is registered in it.
//!
//! Each allocation is a memfd of its own, since a descriptor gives away the whole of its memory.
//! Numbers of allocations are never used again.

use super::layout::{CATALOGUE_BYTES, CATALOGUE_ENTRIES};
use crate::told::{CATALOGUE_WORDS, region_tag, region_words};
use crate::{Allocation, CatalogueEntry, LinkId, MapAccess};
use bellwire_memory::MemoryError;
use bellwire_memory::region::{Region, RegionKind};
use bellwire_memory::tagged_table::{MappedWords, TableWriter};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Segment {
    region: Region,
    mapped_by: BTreeSet<LinkId>,
}

/// The allocations and the catalogue of a NIC.
#[derive(Debug)]
pub(super) struct Segments {
    segments: BTreeMap<u32, Segment>,
    next: u32,
    // Before `memory`: it points into it.
    catalogue: TableWriter<MappedWords, CATALOGUE_WORDS>,
    memory: Region,
    /// The tag that each catalogue entry has now.
    tags: Vec<u64>,
}

impl Segments {
    pub(super) fn new() -> Result<Self, MemoryError> {
        let memory = Region::create("bellwire-catalogue", CATALOGUE_BYTES, RegionKind::WriterOwned)?;
        // SAFETY: M3 (tagged_table.rs): the region has these bytes and is dropped after the table.
        let words = unsafe { MappedWords::new(memory.base(), CATALOGUE_ENTRIES * CATALOGUE_WORDS) };
        Ok(Self { segments: BTreeMap::new(), next: 1, catalogue: TableWriter::new(words, CATALOGUE_ENTRIES), memory, tags: vec![0; CATALOGUE_ENTRIES] })
    }

    /// A catalogue without regions, for peers that are told of none.
    pub(super) fn blank_catalogue() -> Result<Region, MemoryError> {
        Region::create("bellwire-catalogue", CATALOGUE_BYTES, RegionKind::WriterOwned)
    }

    /// The catalogue's memory, for peers.
    pub(super) fn catalogue(&self) -> &Region {
        &self.memory
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Option<Allocation> {
        let region = Region::create("bellwire-memory", bytes, RegionKind::Shared).ok()?;
        let segment = self.next;
        self.next = self.next.checked_add(1)?;
        let allocation = Allocation { base: region.base(), length: region.len(), segment };
        self.segments.insert(segment, Segment { region, mapped_by: BTreeSet::new() });
        Some(allocation)
    }

    /// Frees an allocation; the links whose peers map it.
    pub(super) fn free(&mut self, segment: u32) -> BTreeSet<LinkId> {
        self.segments.remove(&segment).map(|s| s.mapped_by).unwrap_or_default()
    }

    /// A descriptor of an allocation for the peer of `link`.
    pub(super) fn hand_out(&mut self, segment: u32, link: LinkId, access: MapAccess) -> Option<OwnedFd> {
        let s = self.segments.get_mut(&segment)?;
        let fd = match access {
            MapAccess::Write => s.region.fd().as_fd().try_clone_to_owned().ok(),
            MapAccess::Read => s.region.read_only_fd().ok(),
        }?;
        s.mapped_by.insert(link);
        Some(fd)
    }

    pub(super) fn peers_mapping(&self, segment: u32) -> u32 {
        self.segments.get(&segment).map_or(0, |s| s.mapped_by.len() as u32)
    }

    pub(super) fn link_closed(&mut self, link: LinkId) {
        for s in self.segments.values_mut() {
            s.mapped_by.remove(&link);
        }
    }

    /// Tells peers about a region, or takes it back.
    pub(super) fn publish(&mut self, slot: usize, entry: Option<&CatalogueEntry>) {
        let Some(tag) = self.tags.get_mut(slot) else { return };
        match entry {
            Some(e) => {
                *tag = region_tag(e);
                self.catalogue.set(slot, &region_words(e));
            }
            None if *tag != 0 => {
                self.catalogue.clear(slot, *tag);
                *tag = 0;
            }
            None => {}
        }
    }
}
