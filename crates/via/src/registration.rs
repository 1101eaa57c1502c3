// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registered regions and protection: the bytes that each VI and peer may touch.
//!
//! Rules (VIA 1.0; design: docs/decisions/0003): a local segment must lie inside one region whose
//! tag equals the VI's, a missing tag on either side fitting all. A remote access must lie inside a
//! region with the *target VI's* tag and the right enabled; a missing tag never fits. A region that
//! a posted request uses cannot be deregistered.

use crate::attributes::{MemAttributes, Ptag, PtagHandle};
use crate::error::Error;
use crate::handle::{Handle, Slab};
use crate::status::Status;
use crate::wire::{Allocation, CatalogueEntry, MemoryKind, NO_SEGMENT, Wire};
use crate::work_queue::{Lease, Segment};
use bellwire_memory::adopt::AdoptedPages;
use bellwire_memory::owned_bytes::OwnedBytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Regions that a NIC can hold.
pub const REGIONS_MAX: usize = 1 << 18;
/// Protection tags that a NIC can hold.
pub const PTAGS_MAX: usize = 1 << 16;

/// A registered region.
#[derive(Debug)]
pub struct Region {
    start: u64,
    length: u64,
    ptag: u32,
    /// Posted requests (and descriptors) inside.
    users: u32,
    rdma_write: bool,
    rdma_read: bool,
    /// The process itself may write it.
    writable: bool,
    version: u32,
    /// Peers have been told.
    published: bool,
    /// The allocation that it lies in, or that lies in it.
    home: Option<Home>,
}

/// Names a region: VIA's memory handle.
pub type MemHandle = Handle<Region>;

/// Where a region lies, for direct placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The allocation.
    pub segment: u32,
    /// Offset of the segment asked about.
    pub offset: u64,
    /// Where the engine has the allocation.
    home: u64,
}

/// The allocation of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// Where the engine has it.
    pub base: u64,
    length: u64,
    segment: u32,
    /// Where the region begins in it; below zero, as a number that wraps, if that is before it.
    offset: u64,
}

#[derive(Debug)]
struct Owned {
    /// The pages of the program that are a second mapping of it; it ends with its last region.
    adopted: Option<AdoptedPages>,
    allocation: Allocation,
    /// The regions inside it.
    regions: Vec<MemHandle>,
    /// A receive descriptor in it has been made known to a peer.
    advertised: bool,
}

/// All regions, tags and allocations of a NIC.
#[derive(Debug)]
pub struct Registry {
    regions: Slab<Region>,
    ptags: Slab<Ptag>,
    /// Allocations by base address.
    owned: BTreeMap<u64, Owned>,
    versions: u32,
    /// Memory that lives because it is registered, by the region's handle.
    kept: BTreeMap<u32, OwnedBytes>,
    /// Strict mode ([`MemoryMode`](crate::MemoryMode)): the number of this process, by which the
    /// kernel is asked to copy; else 0.
    pub(crate) strict_pid: u32,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { regions: Slab::new(REGIONS_MAX), ptags: Slab::new(PTAGS_MAX), owned: BTreeMap::new(), versions: 0, kept: BTreeMap::new(), strict_pid: 0 }
    }

    /// Whether each copy from and to memory of the program is the kernel's.
    #[inline(always)]
    pub(crate) fn is_strict(&self) -> bool {
        self.strict_pid != 0
    }

    /// Whether these bytes lie in one allocation of the engine.
    pub(crate) fn is_engine_memory(&self, address: u64, length: u64) -> bool {
        self.allocation_around(address, length).is_some()
    }

    pub(crate) fn create_ptag(&mut self) -> Result<PtagHandle, Error> {
        self.ptags.insert(Ptag { users: 0 }).ok_or(Error::Resource)
    }

    pub(crate) fn destroy_ptag(&mut self, ptag: PtagHandle) -> Result<(), Error> {
        if self.ptags.get(ptag).ok_or(Error::InvalidParameter)?.users != 0 {
            return Err(Error::Resource);
        }
        self.ptags.remove(ptag);
        Ok(())
    }

    /// Counts a user of a tag; `None` is always valid.
    pub(crate) fn hold_ptag(&mut self, ptag: Option<PtagHandle>) -> Result<(), Error> {
        if let Some(p) = ptag {
            self.ptags.get_mut(p).ok_or(Error::InvalidPtag)?.users += 1;
        }
        Ok(())
    }

    pub(crate) fn release_ptag(&mut self, ptag: Option<PtagHandle>) {
        if let Some(p) = ptag.and_then(|p| self.ptags.get_mut(p)) {
            p.users -= 1;
        }
    }

    pub(crate) fn register<W: Wire>(&mut self, wire: &mut W, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        if address == 0 || length == 0 || address.checked_add(length).is_none() {
            return Err(Error::InvalidParameter);
        }
        let home = self.allocation_around(address, length);
        let kind = if home.is_some() { MemoryKind::Writable } else { wire.probe_memory(address, length) };
        self.register_as(wire, (address, length), attributes, kind, home)
    }

    /// The allocation of which pages of the program are a second mapping, for a region that begins
    /// at `address`.
    pub(crate) fn adopted_around(&self, address: u64, pages: &Range<u64>) -> Option<Home> {
        let (base, o) = self
            .owned
            .iter()
            .find(|(_, o)| o.adopted.as_ref().is_some_and(|a| a.start() <= pages.start && pages.end <= a.start() + o.allocation.length as u64))?;
        let start = o.adopted.as_ref().map_or(0, AdoptedPages::start);
        Some(Home { base: *base, length: o.allocation.length as u64, segment: o.allocation.segment, offset: address.wrapping_sub(start) })
    }

    /// Notes that pages of the program are a second mapping of an allocation, which then ends with
    /// its last region.
    pub(crate) fn set_adopted(&mut self, base: u64, pages: AdoptedPages) {
        if let Some(o) = self.owned.get_mut(&base) {
            o.adopted = Some(pages);
        }
    }

    /// Registers memory that is `kind` for certain, and has this allocation.
    pub(crate) fn register_as<W: Wire>(
        &mut self,
        wire: &mut W,
        (address, length): (u64, u64),
        attributes: &MemAttributes,
        kind: MemoryKind,
        home: Option<Home>,
    ) -> Result<MemHandle, Error> {
        let writable = match kind {
            MemoryKind::Writable => true,
            MemoryKind::ReadOnly if attributes.rdma_write => return Err(Error::InvalidParameter),
            MemoryKind::ReadOnly => false,
            MemoryKind::Unmapped => return Err(Error::InvalidParameter),
        };
        self.hold_ptag(attributes.ptag)?;
        let region = Region {
            start: address,
            length,
            ptag: attributes.ptag.map_or(0, Handle::raw),
            users: 0,
            rdma_write: attributes.rdma_write,
            rdma_read: attributes.rdma_read,
            writable,
            version: 0,
            published: false,
            home,
        };
        let Some(handle) = self.regions.insert(region) else {
            self.release_ptag(attributes.ptag);
            return Err(Error::Resource);
        };
        if let Some(h) = home
            && let Some(o) = self.owned.get_mut(&h.base)
        {
            o.regions.push(handle);
        }
        self.publish(wire, handle);
        Ok(handle)
    }

    /// Has a region's memory live as long as the region.
    pub(crate) fn keep(&mut self, handle: MemHandle, memory: OwnedBytes) {
        self.kept.insert(handle.raw(), memory);
    }

    pub(crate) fn deregister<W: Wire>(&mut self, wire: &mut W, address: u64, handle: MemHandle) -> Result<(), Error> {
        let r = self.regions.get(handle).ok_or(Error::InvalidParameter)?;
        if !r.holds(address, 0) {
            return Err(Error::InvalidParameter);
        }
        if r.users != 0 {
            return Err(Error::Resource);
        }
        let (ptag, home) = (r.ptag, r.home);
        if r.published {
            wire.publish(handle.index(), None);
        }
        if let Some(h) = home
            && let Some(o) = self.owned.get_mut(&h.base)
        {
            o.regions.retain(|h| *h != handle);
        }
        self.regions.remove(handle);
        self.kept.remove(&handle.raw());
        self.release_ptag((ptag != 0).then(|| Handle::from_raw(ptag)));
        Ok(())
    }

    /// The attributes of a region that holds `address`.
    pub(crate) fn query(&self, address: u64, handle: MemHandle) -> Result<MemAttributes, Error> {
        let r = self.regions.get(handle).filter(|r| r.holds(address, 1)).ok_or(Error::InvalidParameter)?;
        Ok(MemAttributes { ptag: (r.ptag != 0).then(|| Handle::from_raw(r.ptag)), rdma_write: r.rdma_write, rdma_read: r.rdma_read })
    }

    pub(crate) fn set_attributes<W: Wire>(&mut self, wire: &mut W, address: u64, handle: MemHandle, new: &MemAttributes) -> Result<(), Error> {
        let r = self.regions.get(handle).filter(|r| r.holds(address, 1)).ok_or(Error::InvalidParameter)?;
        if new.rdma_write && !r.writable {
            return Err(Error::InvalidParameter);
        }
        if r.users != 0 {
            return Err(Error::Resource);
        }
        let old = r.ptag;
        self.hold_ptag(new.ptag)?;
        self.release_ptag((old != 0).then(|| Handle::from_raw(old)));
        if let Some(r) = self.regions.get_mut(handle) {
            r.ptag = new.ptag.map_or(0, Handle::raw);
            (r.rdma_write, r.rdma_read) = (new.rdma_write, new.rdma_read);
            r.published = false;
        }
        wire.publish(handle.index(), None);
        self.publish(wire, handle);
        Ok(())
    }

    /// Gives peers rights to a region, or takes them away; requests of this process go on. `true`:
    /// peers had been told of it, so they may be inside it.
    pub(crate) fn set_remote_rights<W: Wire>(&mut self, wire: &mut W, handle: MemHandle, write: bool, read: bool) -> bool {
        let Some(r) = self.regions.get_mut(handle).filter(|r| (r.rdma_write, r.rdma_read) != (write, read)) else { return false };
        (r.rdma_write, r.rdma_read) = (write, read);
        let was_published = core::mem::take(&mut r.published);
        if was_published {
            wire.publish(handle.index(), None);
        }
        self.publish(wire, handle);
        was_published
    }

    /// Whether this process may write a region.
    pub(crate) fn is_writable(&self, handle: MemHandle) -> bool {
        self.regions.get(handle).is_some_and(|r| r.writable)
    }

    /// Tells peers about a region that they might reach directly.
    fn publish<W: Wire>(&mut self, wire: &mut W, handle: MemHandle) {
        self.versions = self.versions.wrapping_add(1).max(1);
        let version = self.versions;
        let Some(r) = self.regions.get_mut(handle) else { return };
        r.version = version;
        // Memory of the program is told only for reading, by cross-memory attach.
        if r.ptag == 0 || !(r.rdma_read || r.rdma_write && r.home.is_some()) {
            return;
        }
        r.published = true;
        let (address, length, segment_offset) = r.part_told();
        wire.publish(
            handle.index(),
            Some(&CatalogueEntry {
                handle: handle.raw(),
                version,
                ptag: r.ptag,
                write: r.rdma_write,
                read: r.rdma_read,
                address,
                length,
                segment: r.home.map_or(NO_SEGMENT, |h| h.segment),
                segment_offset,
            }),
        );
    }

    /// Checks one local segment for a VI with tag `ptag` (0: none). `write`: the engine will write
    /// it. Zero bytes are always fine.
    #[inline(always)]
    pub(crate) fn check_local(&self, s: &Segment, ptag: u32, write: bool) -> Result<(), Status> {
        if s.length == 0 {
            return Ok(());
        }
        match self.regions.get(Handle::from_raw(s.handle)) {
            Some(r) if r.holds(s.address, u64::from(s.length)) && (ptag == 0 || r.ptag == 0 || r.ptag == ptag) && (!write || r.writable) => Ok(()),
            _ => Err(Status::PROTECTION_ERROR),
        }
    }

    /// Whether the region covers `length` bytes at `address`, any tag: for descriptors themselves.
    #[inline(always)]
    pub(crate) fn covers(&self, handle: u32, address: u64, length: u64) -> bool {
        self.regions.get(Handle::from_raw(handle)).is_some_and(|r| r.holds(address, length) && r.writable)
    }

    /// Whether a peer of a VI with tag `ptag` may write (or read) these bytes. Zero bytes always.
    #[inline]
    pub(crate) fn permits_remote(&self, handle: u32, address: u64, length: u64, ptag: u32, write: bool) -> bool {
        if length == 0 {
            return true;
        }
        match self.regions.get(Handle::from_raw(handle)) {
            Some(r) => r.holds(address, length) && ptag != 0 && r.ptag == ptag && if write { r.rdma_write } else { r.rdma_read },
            None => false,
        }
    }

    /// Where a segment lies, if it is inside an allocation.
    #[inline]
    pub(crate) fn place_of(&self, s: &Segment) -> Option<Place> {
        let r = self.regions.get(Handle::from_raw(s.handle))?;
        let home = r.home?;
        let offset = home.offset.wrapping_add(s.address.wrapping_sub(r.start));
        let is_inside = offset <= home.length && u64::from(s.length) <= home.length - offset;
        is_inside.then_some(Place { segment: home.segment, offset, home: home.base })
    }

    /// Lets a queue of a VI with tag `ptag` rely on a region, if it may (and, with `write`, write
    /// it).
    pub(crate) fn lease(&mut self, handle: u32, ptag: Option<u32>, write: bool) -> Option<Lease> {
        let r = self.regions.get_mut(Handle::from_raw(handle))?;
        let fits = ptag.is_none_or(|tag| tag == 0 || r.ptag == 0 || r.ptag == tag);
        // Memory that the fast paths copy must not be able to vanish (descriptors have no tag
        // asked for).
        let kernels = self.strict_pid != 0 && ptag.is_some() && r.home.is_none();
        if !fits || write && !r.writable || kernels {
            return None;
        }
        r.users += 1;
        Some(Lease { handle, users: 0, start: r.start, length: r.length })
    }

    /// Whether peers have been told of a region.
    pub(crate) fn is_published(&self, handle: MemHandle) -> bool {
        self.regions.get(handle).is_some_and(|r| r.published)
    }

    /// Whether anything holds a region.
    pub(crate) fn is_held(&self, handle: MemHandle) -> bool {
        self.regions.get(handle).is_some_and(|r| r.users != 0)
    }

    #[inline(always)]
    pub(crate) fn hold(&mut self, handle: u32) {
        if let Some(r) = self.regions.get_mut(Handle::from_raw(handle)) {
            r.users += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn release(&mut self, handle: u32) {
        if let Some(r) = self.regions.get_mut(Handle::from_raw(handle)) {
            debug_assert!(r.users > 0, "released more often than held");
            r.users -= 1;
        }
    }

    pub(crate) fn allocate<W: Wire>(&mut self, wire: &mut W, bytes: usize) -> Result<*mut u8, Error> {
        if bytes == 0 {
            return Err(Error::InvalidParameter);
        }
        let allocation = wire.allocate(bytes).ok_or(Error::Resource)?;
        self.owned.insert(allocation.base.expose_provenance() as u64, Owned { adopted: None, allocation, regions: Vec::new(), advertised: false });
        Ok(allocation.base)
    }

    pub(crate) fn free<W: Wire>(&mut self, wire: &mut W, address: u64) -> Result<(), Error> {
        let o = self.owned.get(&address).ok_or(Error::InvalidParameter)?;
        if !o.regions.is_empty() {
            return Err(Error::Resource);
        }
        wire.free(o.allocation.segment);
        self.owned.remove(&address);
        Ok(())
    }

    /// The one tag under which an allocation may be mapped by peers: all its pages are registered,
    /// under one tag. (Pages are what mapping gives away; so a page that holds nothing registered,
    /// or memory of another tag, forbids it.)
    pub(crate) fn mappable_tag(&self, segment: u32) -> Option<u32> {
        let o = self.owned.values().find(|o| o.allocation.segment == segment)?;
        let mut ranges = Vec::with_capacity(o.regions.len());
        let mut tag = 0;
        for h in &o.regions {
            let r = self.regions.get(*h)?;
            if r.ptag == 0 || (tag != 0 && r.ptag != tag) {
                return None;
            }
            tag = r.ptag;
            let (_, length, offset) = r.part_told();
            ranges.push((offset, offset + length));
        }
        ranges.sort_unstable();
        const PAGE: u64 = 4096;
        let mut covered = 0;
        for (from, to) in ranges {
            if from / PAGE * PAGE > covered {
                return None;
            }
            covered = covered.max(to.div_ceil(PAGE) * PAGE);
        }
        (covered >= o.allocation.length as u64 && tag != 0).then_some(tag)
    }

    /// Whether peers have a reason to write an allocation.
    pub(crate) fn is_writable_by_peers(&self, segment: u32) -> bool {
        self.owned
            .values()
            .find(|o| o.allocation.segment == segment)
            .is_some_and(|o| o.advertised || o.regions.iter().any(|h| self.regions.get(*h).is_some_and(|r| r.rdma_write)))
    }

    /// Notes that a receive descriptor in an allocation is being made known.
    #[inline]
    pub(crate) fn mark_advertised(&mut self, place: Place) {
        if let Some(o) = self.owned.get_mut(&place.home) {
            o.advertised = true;
        }
    }

    fn allocation_around(&self, address: u64, length: u64) -> Option<Home> {
        let (base, o) = self.owned.range(..=address).next_back()?;
        let (offset, bytes) = (address - base, o.allocation.length as u64);
        (offset.checked_add(length)? <= bytes).then_some(Home { base: *base, length: bytes, segment: o.allocation.segment, offset })
    }

    /// The segment of an allocation that holds `address`, or of which a second mapping does.
    pub(crate) fn segment_at(&self, address: u64) -> Option<u32> {
        let own = self.allocation_around(address, 1);
        own.or_else(|| self.adopted_around(address, &(address..address + 1))).map(|home| home.segment)
    }

    /// Where the engine has the allocation of a region, if pages of the program are a second
    /// mapping of it.
    pub(crate) fn adopted_home(&self, handle: MemHandle) -> Option<u64> {
        let base = self.regions.get(handle)?.home?.base;
        self.owned.get(&base).is_some_and(|o| o.adopted.is_some()).then_some(base)
    }

    /// First address and length of a region.
    pub(crate) fn range(&self, handle: MemHandle) -> Result<(u64, u64), Error> {
        self.regions.get(handle).map(|r| (r.start, r.length)).ok_or(Error::InvalidParameter)
    }

    /// Bytes registered and allocated.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.regions.iter().map(|(_, r)| r.length).sum(), self.owned.values().map(|o| o.allocation.length as u64).sum())
    }

    /// Regions registered.
    pub(crate) fn count(&self) -> usize {
        self.regions.len()
    }
}

impl Region {
    #[inline(always)]
    fn holds(&self, address: u64, length: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        offset <= self.length && length <= self.length - offset
    }

    /// Of what peers may be told: first address, bytes, and where they begin in the allocation. All
    /// of it, but for a region that is larger than the allocation in it.
    fn part_told(&self) -> (u64, u64, u64) {
        let Some(home) = self.home else { return (self.start, self.length, 0) };
        if home.offset <= home.length {
            return (self.start, self.length.min(home.length - home.offset), home.offset);
        }
        let before = home.offset.wrapping_neg();
        (self.start + before, (self.length - before).min(home.length), 0)
    }
}
