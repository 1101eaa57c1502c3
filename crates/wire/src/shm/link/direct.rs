// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peer's memory, directly: what its catalogue permits, where it is mapped, and that nobody is
//! inside when it is withdrawn; and advertised receives, ours and the peer's. Cross-memory attach,
//! where nothing is mapped.

use crate::shm::layout::{advert_index, advert_tag};
use crate::shm::link::{Foreign, Link};
use crate::{Advertisement, Direct, NO_SEGMENT, Placement, RemoteAccess};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::attach::{self, AttachError};
use bellwire_memory::direct_epoch::{self, WorkerBarrier};
use bellwire_memory::pidfd;
use rustix::fd::AsFd;

/// Allocations of one peer that are mapped at a time.
pub(super) const SEGMENTS_MAX: usize = 4096;

/// An entry of the peer's catalogue, copied; a wish that it permits lies within `address` and
/// `length`. All of it is the peer's claim.
#[derive(Clone, Copy, Debug)]
struct Permit {
    index: usize,
    tag: u64,
    address: u64,
    length: u64,
    /// The allocation that the region is in, [`NO_SEGMENT`] for memory that cannot be mapped, and
    /// where in it.
    segment: u32,
    offset: u64,
}

/// What the peer's catalogue said about a region, copied and checked: while the entry's tag is the
/// same, so is the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) handle: u32,
    pub(super) ptag: u32,
    pub(super) write: bool,
    pub(super) segment: u32,
    pub(super) index: usize,
    pub(super) tag: u64,
    pub(super) start: u64,
    pub(super) length: u64,
    /// Where `start` is mapped here.
    pub(super) base: *mut u8,
}

impl Grant {
    pub(crate) const NONE: Self = Self { handle: 0, ptag: 0, write: false, segment: 0, index: 0, tag: 0, start: 0, length: 0, base: core::ptr::null_mut() };

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

impl Link {
    #[inline(always)]
    pub(in crate::shm) fn with_granted(&mut self, wish: &RemoteAccess, access: impl FnOnce(*mut u8)) -> Direct {
        if !self.grant.covers(wish) && !self.find_grant(wish) {
            return Direct::No;
        }
        // Wrapping: within the mapping, as find_grant() made sure for all of the region.
        let remote = self.grant.base.wrapping_add((wish.address.wrapping_sub(self.grant.start) + wish.part_offset) as usize);
        let (catalogue, index, tag) = (&self.catalogue_in, self.grant.index, self.grant.tag);
        let outcome = inside(self.own_epoch, self.parts.barriers, || catalogue.still(index, tag), || access(remote));
        if outcome != Direct::Done {
            // The entry has changed. It may permit the same again: the next wish looks it up anew.
            self.grant = Grant::NONE;
        }
        outcome
    }

    /// What the peer's catalogue says of the region that a wish is about, if it permits it.
    fn permitted(&self, wish: &RemoteAccess) -> Option<Permit> {
        let index = (wish.handle & 0xf_ffff) as usize;
        let [tag, rights, address, length, place, offset, _, _] = self.catalogue_in.get(index, u64::from(wish.handle), u64::from(u32::MAX))?;
        let right = if wish.write { 1 << 32 } else { 1 << 33 };
        let start = wish.address.wrapping_sub(address);
        let permitted = rights as u32 == wish.ptag && rights & right != 0 && start <= length && wish.length <= length - start;
        permitted.then_some(Permit { index, tag, address, length, segment: place as u32, offset })
    }

    /// Looks a wish up in the peer's catalogue and remembers the answer. `false`: not permitted, or
    /// not mapped (yet).
    #[inline(never)]
    fn find_grant(&mut self, wish: &RemoteAccess) -> bool {
        self.grant = Grant::NONE;
        if !self.parts.mapped {
            return false;
        }
        let Some(Permit { index, tag, address, length, segment, offset }) = self.permitted(wish) else { return false };
        if segment == NO_SEGMENT {
            return false;
        }
        // All of the region must be mapped, not only the part asked for: later wishes are compared
        // with the region alone.
        let Some(base) = self.mapping(segment, offset, length, wish.write) else { return false };
        let grant = Grant { handle: wish.handle, ptag: wish.ptag, write: wish.write, segment, index, tag, start: address, length, base };
        let covers = grant.covers(wish);
        if covers {
            self.grant = grant;
        }
        covers
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
        let Some(Permit { index, tag, segment: NO_SEGMENT, .. }) = self.permitted(wish) else { return Direct::No };
        let (epoch, barriers) = (self.own_epoch, self.parts.barriers);
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
        let (index, tag) = (advert_index(p.connection, p.message), advert_tag(p.connection, p.message));
        let Some([_, place, base, _]) = self.adverts_in.get(index, tag, u64::MAX) else { return Direct::No };
        if p.total > (place >> 32) as u32 {
            return Direct::No;
        }
        let Some(at) = base.checked_add(u64::from(p.offset)) else { return Direct::No };
        let Some(remote) = self.mapping(place as u32, at, u64::from(p.length), true) else { return Direct::No };
        let adverts = &self.adverts_in;
        inside(self.own_epoch, self.parts.barriers, || adverts.still(index, tag), || access(remote))
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
            let tag = advert_tag(connection, message);
            self.adverts_out.set(advert_index(connection, message), &[tag, u64::from(a.segment) | u64::from(a.length) << 32, a.offset, 0]);
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

/// Runs `access` with the epoch odd, if the permission still holds then (E1 of direct_epoch.rs).
#[inline]
pub(super) fn inside(epoch: *const AtomicU32, barriers: bool, permitted: impl FnOnce() -> bool, access: impl FnOnce()) -> Direct {
    // SAFETY: L2: our own epoch word.
    let epoch = unsafe { &*epoch };
    direct_epoch::enter(epoch, if barriers { WorkerBarrier::Light } else { WorkerBarrier::Full });
    let still = permitted();
    if still {
        access();
    }
    direct_epoch::leave(epoch);
    if still { Direct::Done } else { Direct::No }
}
