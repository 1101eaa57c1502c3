// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer's memory, directly: what its catalogue permits, where it is mapped, and that nobody is
//! inside when it is withdrawn; and advertised receives, ours and the peer's. Cross-memory attach,
//! where nothing is mapped.

use crate::shm::link::{Foreign, Link};
use crate::told::{Grant, Permit, Target, advert_index, advert_tag, advert_words, inside};
use crate::{Advertisement, Direct, Placement, RemoteAccess};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::attach::{self, AttachError};
use bellwire_memory::direct_epoch;
use bellwire_memory::pidfd;
use rustix::fd::AsFd;

/// Allocations of one peer that are mapped at a time.
pub(super) const SEGMENTS_MAX: usize = 4096;

impl Link {
    #[inline(always)]
    pub(in crate::shm) fn with_granted(&mut self, wish: &RemoteAccess, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.grant.covers(wish) && !self.find_grant(wish) {
            return Direct::No;
        }
        let remote = self.grant.place(wish);
        let (catalogue, index, tag) = (&self.catalogue_in, self.grant.index, self.grant.tag);
        let outcome = inside(self.own_epoch(), self.parts.barriers, || catalogue.still(index, tag), || access(remote));
        if outcome != Direct::Done {
            // The entry has changed. It may permit the same again: the next wish looks it up anew.
            self.grant = Grant::NONE;
        }
        outcome
    }

    fn own_epoch(&self) -> &AtomicU32 {
        // SAFETY: L2: our own epoch word.
        unsafe { &*self.own_epoch }
    }

    /// Looks a wish up in the peer's catalogue and remembers the answer. `false`: not permitted, or
    /// not mapped (yet).
    #[inline(never)]
    fn find_grant(&mut self, wish: &RemoteAccess) -> bool {
        self.grant = Grant::NONE;
        if !self.parts.mapped {
            return false;
        }
        let Some(p) = Permit::of(&self.catalogue_in, wish).filter(Permit::is_mappable) else { return false };
        let Some(base) = self.mapping(p.segment, p.offset, p.length, wish.write) else { return false };
        let Some(grant) = Grant::new(wish, &p, base) else { return false };
        self.grant = grant;
        true
    }

    /// Whether each side can read the other's memory. Only then is it used: a process that the peer
    /// can attach to has nothing left to protect from it, while a peer that we read and that may
    /// not read us could make us wait in a fault of its own making.
    pub(in crate::shm) fn attaches(&self) -> bool {
        // SAFETY: L2. Relaxed: compared with a number that the peer can only have read out of our
        // memory.
        let theirs = unsafe { (*self.peer_proof).load(Ordering::Relaxed) };
        self.parts.mapped && !self.attach_failed && self.parts.proof != 0 && self.parts.nonce != 0 && theirs == self.parts.nonce
    }

    /// Whether the peer's process is there still. Asked after reading its memory: somebody else may
    /// have got its number by then, and what was read would be his.
    fn peer_lives(&self) -> bool {
        self.parts.loopback || self.parts.pidfd.as_ref().is_some_and(|p| !pidfd::has_exited(p.as_fd()).unwrap_or(true))
    }

    /// Copies from the peer's process.
    ///
    /// # Safety
    /// `to` may be written for `length` bytes.
    pub(in crate::shm) unsafe fn pull(&mut self, address: u64, to: *mut u8, length: usize) -> bool {
        if !self.attaches() {
            return false;
        }
        // SAFETY: the caller's.
        let read = unsafe { attach::read(self.parts.peer_pid, address, to, length) };
        if !matches!(read, Ok(()) | Err(AttachError::Unmapped)) {
            self.attach_failed = true;
        }
        read.is_ok() && self.peer_lives()
    }

    /// As [`with_granted`](Self::with_granted) for reading a region in memory that cannot be
    /// mapped.
    ///
    /// # Safety
    /// Each destination that `access` names may be written for the length that it names.
    pub(in crate::shm) unsafe fn pull_granted(
        &mut self,
        wish: &RemoteAccess,
        access: impl FnOnce(&mut dyn FnMut(u64, *mut u8, usize) -> bool) -> bool,
    ) -> Direct {
        if !self.attaches() || wish.write {
            return Direct::No;
        }
        let Some(Permit { index, tag, .. }) = Permit::of(&self.catalogue_in, wish).filter(|p| !p.is_mappable()) else { return Direct::No };
        let (epoch, barriers) = (self.own_epoch(), self.parts.barriers);
        let (mut whole, mut refused) = (false, false);
        let direct = inside(
            epoch,
            barriers,
            || self.catalogue_in.still(index, tag),
            || {
                let mut copy = |offset: u64, to: *mut u8, length: usize| {
                    let fits = offset <= wish.length && length as u64 <= wish.length - offset;
                    // SAFETY: the caller's: `to` may be written for `length` bytes.
                    let read = if fits { unsafe { attach::read(self.parts.peer_pid, wish.address + offset, to, length) } } else { Err(AttachError::Refused) };
                    // Memory that is not there, ours or the peer's, is that request's matter.
                    refused |= !matches!(read, Ok(()) | Err(AttachError::Unmapped));
                    read.is_ok()
                };
                whole = access(&mut copy);
            },
        );
        let alive = self.peer_lives();
        if direct == Direct::Done && !(whole && alive) {
            self.attach_failed |= refused || !alive;
            return Direct::No;
        }
        direct
    }

    #[inline]
    pub(in crate::shm) fn with_advertised(&mut self, p: &Placement, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.parts.mapped {
            return Direct::No;
        }
        let Some(to) = Target::of(&self.adverts_in, p) else { return Direct::No };
        let Some(remote) = self.mapping(to.segment, to.at, u64::from(p.length), true) else { return Direct::No };
        inside(self.own_epoch(), self.parts.barriers, || self.adverts_in.still(to.index, to.tag), || access(remote))
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
        match self.foreign.get(&segment) {
            Some(Foreign::Mapped(region)) => {
                let writable = region.base_mut().is_some();
                if writable || !write {
                    self.recent = (segment, region.base().cast_mut(), region.len(), writable);
                    return Some(());
                }
            }
            Some(Foreign::Requested { write: w } | Foreign::Refused { write: w }) if *w || !write => return None,
            _ => {}
        }
        if self.foreign.len() < SEGMENTS_MAX {
            // A read-only mapping stays in use until the writable one comes.
            if !matches!(self.foreign.get(&segment), Some(Foreign::Mapped(_))) {
                self.foreign.insert(segment, Foreign::Requested { write });
            }
            if !self.wanted.contains(&(segment, write)) {
                self.wanted.push((segment, write));
            }
        }
        None
    }

    /// Forgets a mapping.
    pub(in crate::shm) fn forget(&mut self, segment: u32) {
        self.foreign.remove(&segment);
        if self.grant.segment == segment {
            self.grant = Grant::NONE;
        }
        if self.recent.0 == segment {
            self.recent = (0, core::ptr::null_mut(), 0, false);
        }
    }

    #[inline]
    pub(in crate::shm) fn advertise(&self, connection: u32, message: u32, a: &Advertisement) {
        if self.parts.mapped {
            self.adverts_out.set(advert_index(connection, message), &advert_words(connection, message, a));
        }
    }

    #[inline]
    pub(in crate::shm) fn withdraw(&self, connection: u32, message: u32) {
        self.adverts_out.clear(advert_index(connection, message), advert_tag(connection, message));
    }

    /// What to wait away from before our memory is ours again; after the heavy barrier.
    pub(in crate::shm) fn peer_inside(&self) -> Option<u32> {
        // SAFETY: L2.
        direct_epoch::inside(unsafe { &*self.peer_epoch })
    }

    /// Whether the peer has left.
    pub(in crate::shm) fn peer_has_left(&self, seen: u32) -> bool {
        // SAFETY: L2.
        direct_epoch::has_left(unsafe { &*self.peer_epoch }, seen)
    }
}
