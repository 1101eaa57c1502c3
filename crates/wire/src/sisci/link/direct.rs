// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer's memory, directly: allocations that are segments, mapped here, as far as the peer's
//! catalogue permits; and receive descriptors that the peer has published. All within a node.
//!
//! Catalogue and descriptors are written into the segments of those that read them, so a look at
//! them is a load of one's own memory.

use super::Link;
use crate::told::{Grant, Permit, Target, advert_index, advert_tag, advert_words, inside, region_tag, region_words};
use crate::{Advertisement, CatalogueEntry, Direct, Placement, RemoteAccess};
use bellwire_memory::atomic::AtomicU32;
use bellwire_memory::direct_epoch;
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
            (Some(e), _) => self.catalogue_out.set(slot, &region_words(e)),
            (None, Some(e)) => self.catalogue_out.clear(slot, region_tag(e)),
            (None, None) => {}
        }
    }

    fn own_epoch(&self) -> &AtomicU32 {
        // SAFETY: L2: a word of the peer's segment that this side alone writes.
        unsafe { &*self.own_epoch }
    }

    #[inline(always)]
    pub(in crate::sisci) fn with_granted(&mut self, wish: &RemoteAccess, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.grant.covers(wish) && !self.find_grant(wish) {
            return Direct::No;
        }
        let remote = self.grant.place(wish);
        let (catalogue, index, tag) = (&self.catalogue_in, self.grant.index, self.grant.tag);
        let outcome = inside(self.own_epoch(), self.parts().barriers, || catalogue.still(index, tag), || access(remote));
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
        let Some(p) = Permit::of(&self.catalogue_in, wish).filter(Permit::is_mappable) else { return false };
        let Some(base) = self.mapping(p.segment, p.offset, p.length, wish.write) else { return false };
        let Some(grant) = Grant::new(wish, &p, base) else { return false };
        self.grant = grant;
        true
    }

    #[inline]
    pub(in crate::sisci) fn with_advertised(&mut self, p: &Placement, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.may_map() {
            return Direct::No;
        }
        let Some(to) = Target::of(&self.adverts_in, p) else { return Direct::No };
        let Some(remote) = self.mapping(to.segment, to.at, u64::from(p.length), true) else { return Direct::No };
        inside(self.own_epoch(), self.parts().barriers, || self.adverts_in.still(to.index, to.tag), || access(remote))
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
            self.adverts_out.set(advert_index(connection, message), &advert_words(connection, message, &a));
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
}
