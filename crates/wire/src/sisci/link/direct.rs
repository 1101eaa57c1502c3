// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer's memory, directly: allocations that are segments, mapped here, as far as the peer's
//! catalogue permits; and receive descriptors that the peer has published. All within a node.
//!
//! Catalogue and descriptors are written into the segments of those that read them, so a look at
//! them is a load of one's own memory.

use super::Link;
use crate::sisci::layout::{advert_index, advert_tag};
use crate::{Advertisement, CatalogueEntry, Direct, NO_SEGMENT, Placement, RemoteAccess};
use bellwire_memory::direct_epoch::{self, WorkerBarrier};
use bellwire_sisci_calls::Remote;

/// Allocations of one peer that are known at a time.
const SEGMENTS_MAX: usize = 4096;

/// A peer's allocation, as far as it is known here.
#[derive(Debug)]
pub(in crate::sisci) enum Foreign {
    /// Asked for.
    Requested { write: bool },
    /// Here.
    Mapped { remote: Remote, write: bool },
    /// The owner said no; asked again only after something changed at this side.
    Refused { write: bool },
}

/// A receive descriptor that waits to be published.
#[derive(Clone, Copy, Debug)]
pub(in crate::sisci) struct Advertised {
    connection: u32,
    message: u32,
    place: Advertisement,
}

/// What the peer's catalogue said about a region, copied and checked: while the entry's tag is the
/// same, so is the rest.
#[derive(Clone, Copy, Debug)]
pub(in crate::sisci) struct Grant {
    handle: u32,
    ptag: u32,
    write: bool,
    segment: u32,
    index: usize,
    tag: u64,
    start: u64,
    length: u64,
    /// Where `start` is mapped here.
    base: *mut u8,
}

impl Grant {
    pub(in crate::sisci) const NONE: Self =
        Self { handle: 0, ptag: 0, write: false, segment: 0, index: 0, tag: 0, start: 0, length: 0, base: core::ptr::null_mut() };

    #[inline(always)]
    fn covers(&self, wish: &RemoteAccess) -> bool {
        let offset = wish.address.wrapping_sub(self.start);
        let same = self.handle == wish.handle && self.ptag == wish.ptag && self.write == wish.write && !self.base.is_null();
        same && offset <= self.length
            && wish.length <= self.length - offset
            && wish.part_offset <= wish.length
            && wish.part_length <= wish.length - wish.part_offset
    }
}

/// The words of a catalogue's entry, and its index.
fn entry_words(slot: usize, e: &CatalogueEntry) -> (usize, [u64; 8]) {
    let rights = u64::from(e.ptag) | u64::from(e.write) << 32 | u64::from(e.read) << 33;
    let tag = u64::from(e.handle) | u64::from(e.version) << 32;
    (slot, [tag, rights, e.address, e.length, u64::from(e.segment), e.segment_offset, 0, 0])
}

impl Link {
    fn may_map(&self) -> bool {
        self.parts().mapped && self.is_near()
    }

    /// Tells the peer about a region, or takes that back (the entry that it was told before).
    pub(in crate::sisci) fn publish(&self, slot: usize, entry: Option<&CatalogueEntry>, before: Option<&CatalogueEntry>) {
        if !self.may_map() || slot >= self.catalogue_out.entries() {
            return;
        }
        match (entry, before) {
            (Some(e), _) => {
                let (index, words) = entry_words(slot, e);
                self.catalogue_out.set(index, &words);
            }
            (None, Some(e)) => {
                let (index, words) = entry_words(slot, e);
                self.catalogue_out.clear(index, words[0]);
            }
            (None, None) => {}
        }
    }

    #[inline(always)]
    pub(in crate::sisci) fn with_granted(&mut self, wish: &RemoteAccess, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.grant.covers(wish) && !self.find_grant(wish) {
            return Direct::No;
        }
        // Wrapping: within the mapping, as find_grant() made sure for all of the region.
        let remote = self.grant.base.wrapping_add((wish.address.wrapping_sub(self.grant.start) + wish.part_offset) as usize);
        let (index, tag) = (self.grant.index, self.grant.tag);
        let outcome = self.inside(|link| link.catalogue_in.still(index, tag), || access(remote));
        if outcome != Direct::Done {
            // The entry has changed. It may permit the same again: the next wish looks it up anew.
            self.grant = Grant::NONE;
        }
        outcome
    }

    /// Looks a wish up in the peer's catalogue and remembers the answer. `false`: not permitted, or
    /// not mapped (yet).
    #[inline(never)]
    fn find_grant(&mut self, wish: &RemoteAccess) -> bool {
        self.grant = Grant::NONE;
        if !self.may_map() {
            return false;
        }
        let index = (wish.handle & 0xf_ffff) as usize;
        let Some([tag, rights, address, length, segment, offset, _, _]) = self.catalogue_in.get(index, u64::from(wish.handle), u64::from(u32::MAX)) else {
            return false;
        };
        let right = if wish.write { 1 << 32 } else { 1 << 33 };
        let start = wish.address.wrapping_sub(address);
        let permitted = rights as u32 == wish.ptag && rights & right != 0 && start <= length && wish.length <= length - start;
        if !permitted || segment as u32 == NO_SEGMENT {
            return false;
        }
        // All of the region must be mapped, not only the part asked for: later wishes are compared
        // with the region alone.
        let Some(base) = self.mapping(segment as u32, offset, length, wish.write) else { return false };
        let grant = Grant { handle: wish.handle, ptag: wish.ptag, write: wish.write, segment: segment as u32, index, tag, start: address, length, base };
        let covers = grant.covers(wish);
        if covers {
            self.grant = grant;
        }
        covers
    }

    #[inline]
    pub(in crate::sisci) fn with_advertised(&mut self, p: &Placement, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.may_map() {
            return Direct::No;
        }
        let (index, tag) = (advert_index(p.connection, p.message), advert_tag(p.connection, p.message));
        let Some([_, place, base, _]) = self.adverts_in.get(index, tag, u64::MAX) else { return Direct::No };
        if p.total > (place >> 32) as u32 {
            return Direct::No;
        }
        let Some(at) = base.checked_add(u64::from(p.offset)) else { return Direct::No };
        let Some(remote) = self.mapping(place as u32, at, u64::from(p.length), true) else { return Direct::No };
        self.inside(|link| link.adverts_in.still(index, tag), || access(remote))
    }

    /// The address here of bytes `at..at + length` of a peer's allocation, if it is mapped; if not,
    /// it is asked for.
    #[inline]
    fn mapping(&mut self, segment: u32, at: u64, length: u64, write: bool) -> Option<*mut u8> {
        if self.recent.0 != segment || self.recent.1.is_null() || (write && !self.recent.3) {
            self.find_mapping(segment, write)?;
        }
        let (_, base, bytes, _) = self.recent;
        let end = at.checked_add(length)?;
        // Wrapping: within the mapping, by this check.
        (end <= bytes as u64).then(|| base.wrapping_add(at as usize))
    }

    #[cold]
    #[inline(never)]
    fn find_mapping(&mut self, segment: u32, write: bool) -> Option<()> {
        match self.held.foreign.get(&segment) {
            Some(Foreign::Mapped { remote, write: writable }) if *writable || !write => {
                self.recent = (segment, remote.base(), remote.bytes(), *writable);
                return Some(());
            }
            Some(Foreign::Requested { write: w } | Foreign::Refused { write: w }) if *w || !write => return None,
            _ => {}
        }
        if self.held.foreign.len() < SEGMENTS_MAX {
            // A read-only mapping stays in use until the writable one comes.
            if !matches!(self.held.foreign.get(&segment), Some(Foreign::Mapped { .. })) {
                self.held.foreign.insert(segment, Foreign::Requested { write });
            }
            if !self.wanted.contains(&(segment, write)) {
                self.wanted.push((segment, write));
            }
        }
        None
    }

    /// Forgets a mapping, and gives what is to be given up.
    pub(in crate::sisci) fn forget(&mut self, segment: u32) -> Option<Foreign> {
        if self.grant.segment == segment {
            self.grant = Grant::NONE;
        }
        if self.recent.0 == segment {
            self.recent = (0, core::ptr::null_mut(), 0, false);
        }
        self.held.foreign.remove(&segment)
    }

    /// Publishes a receive descriptor: now, or with others when there are `together`.
    #[inline]
    pub(in crate::sisci) fn advertise(&mut self, connection: u32, message: u32, place: Advertisement, together: usize) {
        if self.may_map() {
            self.unpublished.push(Advertised { connection, message, place });
            if self.unpublished.len() >= together {
                self.publish_descriptors();
            }
        }
    }

    /// Publishes the receive descriptors that wait.
    #[inline]
    pub(in crate::sisci) fn publish_descriptors(&mut self) {
        for Advertised { connection, message, place: a } in self.unpublished.drain(..) {
            let words = [advert_tag(connection, message), u64::from(a.segment) | u64::from(a.length) << 32, a.offset, 0];
            self.adverts_out.set(advert_index(connection, message), &words);
        }
    }

    #[inline]
    pub(in crate::sisci) fn withdraw(&mut self, connection: u32, message: u32) {
        if self.may_map() {
            self.unpublished.retain(|a| (a.connection, a.message) != (connection, message));
            self.adverts_out.clear(advert_index(connection, message), advert_tag(connection, message));
        }
    }

    /// What to wait away from before our memory is ours again; after the heavy barrier.
    pub(in crate::sisci) fn peer_inside(&self) -> Option<u32> {
        // SAFETY: L2: the word lies in our own segment.
        direct_epoch::inside(unsafe { &*self.peer_epoch })
    }

    /// Whether the peer has left.
    pub(in crate::sisci) fn peer_has_left(&self, seen: u32) -> bool {
        // SAFETY: L2: the word lies in our own segment.
        direct_epoch::has_left(unsafe { &*self.peer_epoch }, seen)
    }

    /// Runs `access` with the epoch odd, if the permission still holds then (E1 of
    /// direct_epoch.rs).
    #[inline]
    fn inside(&self, permitted: impl FnOnce(&Self) -> bool, access: impl FnOnce()) -> Direct {
        // SAFETY: L2: a word of the peer's segment that this side alone writes.
        let epoch = unsafe { &*self.own_epoch };
        direct_epoch::enter(epoch, if self.parts().barriers { WorkerBarrier::Light } else { WorkerBarrier::Full });
        let still = permitted(self);
        if still {
            access();
        }
        direct_epoch::leave(epoch);
        if still { Direct::Done } else { Direct::No }
    }
}
