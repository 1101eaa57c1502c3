// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that peers may reach, by key. Operations on it are carried out by the owner, under one
//! lock: so atomics of all endpoints of a process exclude each other, and memory that is withdrawn
//! is no longer touched when [`Regions::remove`] has returned.
//!
//! Invariant R1: a region's memory stays mapped, with the rights that it was given with, until it
//! is removed: promised to [`Regions::insert`], or kept by it ([`Regions::insert_owned`]).

use crate::ends::Counter;
use bellwire_memory::owned_bytes::OwnedBytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

bitflags::bitflags! {
    /// What peers may do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u8 {
        /// Read.
        const READ = 1;
        /// Write.
        const WRITE = 2;
    }
}

/// A region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Its first byte.
    pub start: usize,
    /// Its bytes.
    pub length: usize,
    /// What peers call its first byte.
    pub base: u64,
    /// What they may do.
    pub access: Access,
}

/// Counters that hear when peers touch a region, and in which ways.
type Watchers = Vec<(Arc<Counter>, Access)>;

/// A part of a region that a peer may reach as it asks.
pub(crate) struct Found<'a> {
    pub at: *mut u8,
    watchers: &'a Watchers,
}

impl Found<'_> {
    /// A peer has done so.
    pub(crate) fn touched(&self, how: Access) {
        self.watchers.iter().filter(|(_, of)| of.contains(how)).for_each(|(counter, _)| counter.count(false));
    }
}

/// All regions of a domain, by key.
#[derive(Debug, Default)]
pub struct Regions {
    by_key: BTreeMap<u64, (Region, Watchers)>,
    /// Memory that lives because it is listed.
    kept: BTreeMap<u64, OwnedBytes>,
    next_key: u64,
}

/// Regions that several endpoints share.
#[derive(Clone, Debug, Default)]
pub struct SharedRegions(Arc<Mutex<Regions>>);

impl SharedRegions {
    /// The regions, for this thread alone.
    pub fn lock(&self) -> MutexGuard<'_, Regions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Regions {
    /// Lists a region under `key`. `false`: the key is taken.
    ///
    /// # Safety
    /// R1: the region's bytes stay mapped until it is removed, and the program accepts that peers
    /// read and write them at any time, as far as its rights go: no reference to them lives that
    /// says otherwise.
    pub unsafe fn insert(&mut self, key: u64, region: Region) -> bool {
        if self.by_key.contains_key(&key) {
            return false;
        }
        self.by_key.insert(key, (region, Watchers::new()));
        true
    }

    /// Lists all of `memory` under `key`, of which a clone is kept until it is removed; `base` is
    /// what peers call its first byte. `false`: the key is taken.
    pub fn insert_owned(&mut self, key: u64, memory: &OwnedBytes, base: u64, access: Access) -> bool {
        let region = Region { start: memory.as_ptr().expose_provenance(), length: memory.len(), base, access };
        // SAFETY: R1: the memory lives as long as the clone, and is reached as atomics or by
        // copying.
        let is_listed = unsafe { self.insert(key, region) };
        if is_listed {
            self.kept.insert(key, memory.clone());
        }
        is_listed
    }

    /// A key that is not in use.
    pub fn free_key(&mut self) -> u64 {
        loop {
            self.next_key += 1;
            if !self.by_key.contains_key(&self.next_key) {
                return self.next_key;
            }
        }
    }

    /// Takes a region back.
    pub fn remove(&mut self, key: u64) -> Option<Region> {
        self.kept.remove(&key);
        self.by_key.remove(&key).map(|(region, _)| region)
    }

    /// From now on `counter` counts when a peer touches a region in one of these ways. `false`:
    /// there is no such region.
    pub fn watch(&mut self, key: u64, counter: &Arc<Counter>, how: Access) -> bool {
        let region = self.by_key.get_mut(&key);
        let is_there = region.is_some();
        region.into_iter().for_each(|(_, watchers)| watchers.push((Arc::clone(counter), how)));
        is_there
    }

    /// Where `length` bytes at a peer's `address` lie, if all of that is permitted.
    #[inline]
    pub(crate) fn find(&self, key: u64, address: u64, length: usize, access: Access) -> Option<Found<'_>> {
        let (r, watchers) = self.by_key.get(&key)?;
        let offset = usize::try_from(address.wrapping_sub(r.base)).ok()?;
        let within = offset <= r.length && length <= r.length - offset;
        (within && r.access.contains(access)).then(|| Found { at: core::ptr::with_exposed_provenance_mut(r.start + offset), watchers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_inside_and_permitted() {
        let mut regions = Regions::default();
        let region = Region { start: 0x1000, length: 100, base: 7, access: Access::READ };
        // SAFETY: R1: nothing is read or written there.
        unsafe { assert!(regions.insert(5, region) && !regions.insert(5, region)) };
        let found = |key, address, length, access| regions.find(key, address, length, access).map(|found| found.at.addr());
        assert_eq!(found(5, 7, 100, Access::READ), Some(0x1000));
        assert_eq!(found(5, 106, 1, Access::READ), Some(0x1063));
        assert_eq!(found(5, 107, 0, Access::READ), Some(0x1064));
        for (key, address, length, access) in [
            (5, 7, 101, Access::READ),
            (5, 6, 1, Access::READ),
            (5, 108, 0, Access::READ),
            (5, 8, usize::MAX, Access::READ),
            (5, u64::MAX, 9, Access::READ),
            (5, 7, 1, Access::WRITE),
            (4, 7, 1, Access::READ),
        ] {
            assert_eq!(found(key, address, length, access), None);
        }
        assert_eq!(regions.free_key(), 1);
        assert!(regions.remove(5).is_some() && regions.find(5, 7, 1, Access::READ).is_none());
    }
}
