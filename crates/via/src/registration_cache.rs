// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registration cache: regions that outlive their registration, for the next one.
//!
//! A program or a layer that sends out of memory that it does not own registers it before and
//! deregisters it after. Registering costs by the page. The cache keeps a region whose last user
//! has released it, and gives it to the next that asks for the same bytes, or, where the algorithm
//! can tell, for a part of them. This module holds the records and decides nothing about memory;
//! the engine's calls, and when a record may still be believed, are in `engine/cached.rs`.
//!
//! | file | concern |
//! |---|---|
//! | `registration_cache.rs` | records, counts, the list of unused ones, bounds |
//! | `intervals.rs` | finding by interval: a region inside another one is found |
//! | `page_hash.rs` | finding by the hash of the first page, as the MPICH2 device's memory engine |
//! | `spans.rs` | a set of addresses: those that are watched |
//!
//! Invariants
//! - C1: a record's region is registered until the record is forgotten.
//! - C2: a record is findable (`is_indexed`) or not; if not, it ends with its last user.
//! - C3: the unused list has the findable records without users, and no others.
//! - C4: a region that peers may write or read is found only by a request for exactly its bytes,
//!   and peers may reach it only while it has users.

mod intervals;
mod page_hash;
mod spans;
#[cfg(test)]
mod tests;

use crate::attributes::MemAttributes;
use crate::handle::Handle;
use crate::registration::MemHandle;
use bellwire_memory::unmap_log::Cursor;
use bellwire_memory::unmap_watch::UnmapWatch;
use core::ops::Range;
use intervals::Intervals;
use page_hash::PageHash;
pub(crate) use spans::Spans;

/// Records that a cache keeps unless told otherwise.
pub const CACHE_ENTRIES_DEFAULT: u32 = 4096;
/// Most records that can be asked for.
pub const CACHE_ENTRIES_MAX: u32 = 65536;
/// Bytes of its regions, overlaps counted twice, unless told otherwise.
pub const CACHE_BYTES_DEFAULT: u64 = 4 << 30;

/// A record without users that was used within so many registrations for each record that is kept
/// is likely to be used again before long: more memory is used by turns than fits.
const CONTESTED_TURNS: u64 = 4;
/// Of the misses that would take the place of such a record, one in so many does.
const CONTESTED_TAKES: u32 = 32;

/// Places of the table of records found of late.
const RECENT: usize = 256;

/// Which place is an address's. Fibonacci hashing of its page, of 4096 bytes at least: buffers lie
/// at regular distances.
#[inline]
fn recent_place(start: u64) -> usize {
    ((start >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// No record.
const NONE: u32 = u32::MAX;

/// How regions are found again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheAlgorithm {
    /// By interval: any part of a region is found. When all records are in use, further regions
    /// are registered without being kept.
    #[default]
    Intervals,
    /// By the hash of the first page, with chains: found are regions that begin on the same page
    /// and are at least as long. When all records are in use, registering fails. It is the
    /// algorithm of the MPICH2 device for InfiniBand and of MVICH before it, to compare with.
    PageHash,
    /// Nothing is kept: each registration is one, and each release ends it.
    Off,
}

/// How large the registration cache of a NIC may become, and how it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// How regions are found again.
    pub algorithm: CacheAlgorithm,
    /// Records at most, up to [`CACHE_ENTRIES_MAX`].
    pub entries: u32,
    /// Bytes of the regions at most, in use or not.
    pub bytes: u64,
    /// Whether the kernel is asked to tell what is unmapped (`userfaultfd`). Without that, or where
    /// it refuses, the pages are looked at each time a region is found.
    pub watch: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { algorithm: CacheAlgorithm::default(), entries: CACHE_ENTRIES_DEFAULT, bytes: CACHE_BYTES_DEFAULT, watch: true }
    }
}

/// What a registration cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    /// Regions that can be found.
    pub entries: u64,
    /// Those without a user.
    pub unused: u64,
    /// Bytes of the regions that can be found.
    pub bytes: u64,
    /// Bytes of memory of which the kernel tells when they are unmapped.
    pub watched_bytes: u64,
    /// Registrations that found a region.
    pub hits: u64,
    /// Registrations that made one.
    pub misses: u64,
    /// Hits of memory that is not watched: its pages were looked at.
    pub checks: u64,
    /// Unused regions that made room.
    pub evictions: u64,
    /// Regions that ended because their memory was unmapped, moved or became other memory.
    pub unmapped: u64,
    /// Regions that were not kept: memory of the engine's allocator, more than fits, or memory that
    /// is used by turns with more than fits.
    pub uncached: u64,
}

/// A region serves a request of the same key: tag, rights, and whether it is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    ptag: u32,
    rights: u8,
}

const WRITE: u8 = 1;
const READ: u8 = 2;
const READ_ONLY: u8 = 4;

impl Key {
    pub fn of(attributes: &MemAttributes) -> Self {
        let rights = if attributes.rdma_write { WRITE } else { 0 } | if attributes.rdma_read { READ } else { 0 };
        Self { ptag: attributes.ptag.map_or(0, Handle::raw), rights }
    }

    /// The same, of memory that this process itself may not write.
    pub fn read_only(self) -> Self {
        Self { rights: self.rights | READ_ONLY, ..self }
    }

    pub fn is_read_only(self) -> bool {
        self.rights & READ_ONLY != 0
    }

    /// The rights of peers: write, read.
    pub fn remote(self) -> (bool, bool) {
        (self.rights & WRITE != 0, self.rights & READ != 0)
    }

    pub fn is_remote(self) -> bool {
        self.rights & (WRITE | READ) != 0
    }

    /// Whether a region serves only requests for exactly its bytes: peers have rights (C4), or a
    /// part may be writable although the whole is not.
    fn is_exact(self) -> bool {
        self.rights != 0
    }
}

/// A region and its users.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub span: Range<u64>,
    pub key: Key,
    pub handle: MemHandle,
    pub users: u32,
    /// It can be found (C2).
    pub is_indexed: bool,
    /// The kernel tells when it is unmapped, so that it need not be looked at.
    pub is_watched: bool,
    /// The kernel has refused to.
    pub is_unwatchable: bool,
    /// The registration that it served last.
    used_at: u64,
    /// Neighbours in the unused list.
    newer: u32,
    older: u32,
    /// The next record of the chain, for the page hash.
    chain: u32,
}

#[derive(Debug)]
enum Index {
    Intervals(Intervals),
    PageHash(PageHash),
}

/// Whom the cache asks about mappings.
#[derive(Debug)]
pub(crate) enum Watching {
    /// Nobody: looks at pages instead.
    Off,
    /// The kernel, from the first region on.
    Wanted,
    On(&'static UnmapWatch, Cursor),
}

/// Whether another record fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Free,
    /// After this unused record has gone.
    After(u32),
    /// Everything is in use, or it would never fit.
    None,
}

/// The records.
#[derive(Debug)]
pub(crate) struct RegistrationCache {
    config: CacheConfig,
    records: Vec<Record>,
    free: Vec<u32>,
    /// Record of a region, plus one, by the region's index.
    of_region: Vec<u32>,
    index: Index,
    /// Records that were found or made of late, by the page that was asked for; checked at each
    /// look, so they may be stale.
    recent: Box<[u32; RECENT]>,
    /// The unused list (C3).
    newest: u32,
    oldest: u32,
    unused: u64,
    indexed: u32,
    bytes: u64,
    /// Registrations so far.
    registrations: u64,
    /// Misses that were not kept, of the last [`CONTESTED_TAKES`].
    passed_by: u32,
    /// Records without users whose region a posted request still uses: to be tried again.
    pub lingering: Vec<u32>,
    pub watching: Watching,
    /// Addresses that are watched for certain.
    pub watched: Spans,
    pub counters: CacheInfo,
}

impl RegistrationCache {
    /// An empty one, which watches nothing.
    pub fn new(config: CacheConfig) -> Self {
        let config = CacheConfig { entries: config.entries.min(CACHE_ENTRIES_MAX), ..config };
        let index = match config.algorithm {
            CacheAlgorithm::PageHash => Index::PageHash(PageHash::new(config.entries)),
            _ => Index::Intervals(Intervals::default()),
        };
        Self {
            watching: if config.watch { Watching::Wanted } else { Watching::Off },
            config,
            records: Vec::new(),
            free: Vec::new(),
            of_region: Vec::new(),
            index,
            recent: Box::new([NONE; RECENT]),
            newest: NONE,
            oldest: NONE,
            unused: 0,
            indexed: 0,
            bytes: 0,
            registrations: 0,
            passed_by: 0,
            lingering: Vec::new(),
            watched: Spans::default(),
            counters: CacheInfo::default(),
        }
    }

    pub fn algorithm(&self) -> CacheAlgorithm {
        self.config.algorithm
    }

    pub fn info(&self) -> CacheInfo {
        CacheInfo { entries: u64::from(self.indexed), unused: self.unused, bytes: self.bytes, watched_bytes: self.watched.bytes(), ..self.counters }
    }

    pub fn record(&self, id: u32) -> &Record {
        &self.records[id as usize]
    }

    pub fn record_mut(&mut self, id: u32) -> &mut Record {
        &mut self.records[id as usize]
    }

    /// The record of a region, if the cache made it.
    #[inline]
    pub fn record_of(&self, handle: MemHandle) -> Option<u32> {
        let id = self.of_region.get(handle.index())?.checked_sub(1)?;
        (self.records[id as usize].handle == handle).then_some(id)
    }

    /// A record found of late that serves a request for `asked`, if it need not be looked at. The
    /// page hash does without this table.
    #[inline]
    pub fn recent(&self, key: Key, asked: &Range<u64>) -> Option<u32> {
        let id = self.recent[recent_place(asked.start)];
        let r = self.records.get(id as usize)?;
        let fits = if key.is_exact() { r.span == *asked } else { r.span.start <= asked.start && asked.end <= r.span.end };
        (fits && r.key == key && r.is_indexed && r.is_watched).then_some(id)
    }

    /// A request from `start` on was served by a record.
    pub fn remember(&mut self, start: u64, id: u32) {
        if matches!(self.index, Index::Intervals(_)) {
            self.recent[recent_place(start)] = id;
        }
    }

    /// A findable record that serves a request for `span`.
    pub fn find(&self, key: Key, span: &Range<u64>) -> Option<u32> {
        match &self.index {
            Index::Intervals(index) => index.find(key, span),
            Index::PageHash(index) => index.find(&self.records, key, span),
        }
    }

    /// Counts a user.
    pub fn hold(&mut self, id: u32) {
        if self.records[id as usize].users == 0 {
            self.unlist(id);
        }
        self.registrations += 1;
        let record = &mut self.records[id as usize];
        record.users += 1;
        record.used_at = self.registrations;
    }

    /// Counts a user less; whether it was the last one.
    pub fn release(&mut self, id: u32) -> bool {
        let record = &mut self.records[id as usize];
        debug_assert!(record.users > 0, "released more often than held");
        record.users -= 1;
        let is_last = record.users == 0;
        if is_last && record.is_indexed {
            self.list(id);
        }
        is_last
    }

    /// A record with one user, which is found from now on if `is_indexed`.
    pub fn insert(&mut self, key: Key, span: Range<u64>, handle: MemHandle, is_indexed: bool) -> u32 {
        self.registrations += 1;
        let record = Record {
            span,
            key,
            handle,
            users: 1,
            is_indexed,
            is_watched: false,
            is_unwatchable: false,
            used_at: self.registrations,
            newer: NONE,
            older: NONE,
            chain: NONE,
        };
        let bytes = record.span.end - record.span.start;
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id as usize] = record;
                id
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        let at = handle.index();
        if self.of_region.len() <= at {
            self.of_region.resize(at + 1, 0);
        }
        self.of_region[at] = id + 1;
        if is_indexed {
            self.indexed += 1;
            self.bytes += bytes;
            match &mut self.index {
                Index::Intervals(index) => index.insert(&self.records[id as usize], id),
                Index::PageHash(index) => index.insert(&mut self.records, id),
            }
        }
        id
    }

    /// Records that a new one for `span` makes useless, for it serves whatever they do.
    pub fn inside(&self, key: Key, span: &Range<u64>) -> Option<u32> {
        match &self.index {
            Index::Intervals(index) => index.inside(key, span),
            Index::PageHash(_) => None,
        }
    }

    /// The watched records that a new one for `span` can be merged with, by rising addresses.
    pub fn mergeable(&self, key: Key, span: &Range<u64>) -> Vec<u32> {
        match &self.index {
            Index::Intervals(index) if !key.is_exact() => index.overlapping(&self.records, key, span),
            _ => Vec::new(),
        }
    }

    /// A record is no longer found. It stays for its users.
    pub fn unindex(&mut self, id: u32) {
        let record = &self.records[id as usize];
        if !record.is_indexed {
            return;
        }
        self.indexed -= 1;
        self.bytes -= record.span.end - record.span.start;
        if record.users == 0 {
            self.unlist(id);
        }
        match &mut self.index {
            Index::Intervals(index) => index.remove(&self.records[id as usize]),
            Index::PageHash(index) => index.remove(&mut self.records, id),
        }
        self.records[id as usize].is_indexed = false;
    }

    /// A record's region has been deregistered.
    pub fn forget(&mut self, id: u32) {
        debug_assert!(!self.records[id as usize].is_indexed && self.records[id as usize].users == 0);
        let handle = self.records[id as usize].handle;
        self.of_region[handle.index()] = 0;
        self.free.push(id);
    }

    /// Whether `bytes` more fit.
    pub fn room(&self, bytes: u64) -> Room {
        if bytes > self.config.bytes || self.config.entries == 0 {
            return Room::None;
        }
        if self.indexed < self.config.entries && self.bytes <= self.config.bytes - bytes {
            return Room::Free;
        }
        if self.oldest == NONE { Room::None } else { Room::After(self.oldest) }
    }

    /// Whether a miss is to pass by rather than take the place of an unused record. If more memory
    /// is used by turns than fits, taking the oldest's place makes each registration a miss, for
    /// the oldest is the next to be used. So the records stay, and serve their share; one miss in
    /// [`CONTESTED_TAKES`] takes a place, so that memory that is used from now on gets in.
    /// ("Bimodal insertion", Qureshi and others, Adaptive Insertion Policies, 2007.) A record that
    /// was not used for long is not contested.
    pub fn passes_by(&mut self, oldest: u32) -> bool {
        let age = self.registrations - self.records[oldest as usize].used_at;
        if matches!(self.index, Index::PageHash(_)) || age > CONTESTED_TURNS * u64::from(self.indexed) {
            return false;
        }
        self.passed_by = (self.passed_by + 1) % CONTESTED_TAKES;
        self.passed_by != 0
    }

    /// The findable records that have a byte in common with `range`. Looks at all: memory is
    /// unmapped seldom.
    pub fn overlapping(&self, range: &Range<u64>) -> Vec<u32> {
        let is_hit = |r: &Record| r.is_indexed && r.span.start < range.end && range.start < r.span.end;
        self.records.iter().zip(0u32..).filter(|(r, _)| is_hit(r)).map(|(_, id)| id).collect()
    }

    /// The unused records, those of one tag if one is given.
    pub fn unused_of(&self, ptag: Option<u32>) -> Vec<u32> {
        let is_hit = |r: &Record| r.is_indexed && r.users == 0 && ptag.is_none_or(|p| p == r.key.ptag);
        self.records.iter().zip(0u32..).filter(|(r, _)| is_hit(r)).map(|(_, id)| id).collect()
    }

    // ---- the unused list

    fn list(&mut self, id: u32) {
        let second = self.newest;
        let record = &mut self.records[id as usize];
        (record.newer, record.older) = (NONE, second);
        match self.records.get_mut(second as usize) {
            Some(r) => r.newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
        self.unused += 1;
    }

    fn unlist(&mut self, id: u32) {
        let record = &self.records[id as usize];
        let (newer, older) = (record.newer, record.older);
        match self.records.get_mut(newer as usize) {
            Some(r) => r.older = older,
            None => self.newest = older,
        }
        match self.records.get_mut(older as usize) {
            Some(r) => r.newer = newer,
            None => self.oldest = newer,
        }
        self.unused -= 1;
    }
}
