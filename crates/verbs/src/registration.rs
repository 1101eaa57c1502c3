// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registering memory of programs, and exchanging it for memory that peers can map
//! (`bellwire_memory::adopt`).

use crate::core::Core;
use crate::memory::{Adopted, Denied, Prefetch, Region, bring_in, is_on_demand_key};
use crate::port::Port;
use crate::progress::HostWire;
use crate::types::{Access, Error, Sge};
use crate::windows::is_window_key;
use bellwire_memory::adopt::{Adoption, How, adopt, may_adopt, pages_of, release, share};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, MemAttributes, MemHandle};
use std::ops::Range;
use std::sync::Arc;

/// Access by which a region's memory is written.
pub(crate) const WRITES: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

impl Region {
    /// Peers may change only what the owner's own requests may write.
    pub(crate) fn has_lawful_access(&self) -> bool {
        !self.access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC) || self.access.contains(Access::LOCAL_WRITE)
    }
}

impl Port {
    /// Registers memory; its key, local and remote. [`Port::allocate`](Self::allocate) is the safe
    /// way, for memory that need not be at an address of the program's choice.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Fault`]: it is not mapped, or may not be written although
    /// `access` says so; [`Error::NoMemory`].
    ///
    /// # Safety
    /// R1: until [`deregister`](Self::deregister) or the end of the device, the region's bytes stay
    /// mapped (but with [`MemoryMode::Strict`](bellwire_via::MemoryMode)), and the program
    /// accepts that requests and peers read and write them at any time, as far as `access` goes: no
    /// reference to them lives that says otherwise. Whole private pages of them may be
    /// exchanged for pages that peers map, with the same content at the same address (A1).
    pub unsafe fn register(&self, region: &Region) -> Result<u32, Error> {
        if region.length == 0 || !region.has_lawful_access() {
            return Err(Error::Invalid);
        }
        if region.access.contains(Access::ON_DEMAND) {
            let mut core = self.station.machine();
            core.domains.hold(region.domain)?;
            let key = core.regions.on_demand.insert(Region { adopted: None, ..*region });
            return key.ok_or_else(|| {
                core.domains.release(region.domain);
                Error::NoMemory
            });
        }
        let wants_remote = region.access.intersects(Access::REMOTE_WRITE | Access::REMOTE_READ);
        let pages =
            pages_of(region.address, region.length).filter(|_| self.adoption != Adoption::Never && wants_remote && region.access.contains(Access::LOCAL_WRITE));
        // Before the lock: it looks into `/proc`.
        let how = pages.as_ref().and_then(|pages| may_adopt(pages, self.adoption));
        self.station.with(|core, engine| {
            // The engine looks at the memory, brings it in, and gives the key; this layer checks
            // the rights of peers.
            let attributes = MemAttributes { ptag: core.mailbox.ptag(), rdma_write: region.access.intersects(WRITES), rdma_read: false };
            // SAFETY: R1, the caller's promise.
            let handle = unsafe { key_of_region(engine, region, &attributes) }?;
            let adopted = pages.as_ref().and_then(|pages| self.adopt(core, engine, region, pages, how));
            core.list_region(handle, Region { adopted, ..*region }).inspect_err(|_| {
                let _ = engine.deregister(region.address, handle);
                disown(engine, core.owner(), adopted);
            })?;
            Ok(handle.raw())
        })
    }

    /// Has the engine's memory take the place of whole pages of a region, if that can be.
    fn adopt(&self, core: &Core, engine: &mut Engine<HostWire>, region: &Region, pages: &Range<usize>, how: Option<How>) -> Option<Adopted> {
        if core.is_down() {
            // Peers could map it at once.
            return None;
        }
        let owner = core.owner();
        let (base, place) = match share(pages, owner) {
            Some(found) => found,
            None => {
                let how = how?;
                let base = engine.allocate(pages.len()).ok()?.expose_provenance();
                // SAFETY: A1: looked up just before; the engine's memory is new. The NIC's token is
                // held, so nobody else touches the pages while holding it.
                if !unsafe { adopt(pages, base, owner, how) } {
                    let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
                    return None;
                }
                (base, pages.clone())
            }
        };
        let attributes = MemAttributes {
            ptag: core.mailbox.ptag(),
            rdma_write: region.access.contains(Access::REMOTE_WRITE),
            rdma_read: region.access.contains(Access::REMOTE_READ),
        };
        // All of it, so that peers may map it; what of it a peer is told of is the region's part.
        let registered = engine.register_allocated(base as u64, place.len() as u64, &attributes);
        let offset = (pages.start - place.start) as u64;
        match registered {
            Ok(handle) => Some(Adopted { start: pages.start as u64, length: pages.len() as u64, base: base as u64 + offset, handle: handle.raw() }),
            Err(_) => {
                if let Some(base) = release(pages.start as u64, owner) {
                    let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
                }
                None
            }
        }
    }

    /// Changes a registration. With the same memory it keeps its key, and is no longer mapped by
    /// peers; with other memory it gets a new one, which is returned. If it fails, all stays as it
    /// was.
    ///
    /// # Errors
    /// As [`register`](Self::register); [`Error::Invalid`]: there is no region with that key.
    ///
    /// # Safety
    /// R1 for the region as `change` leaves it.
    pub unsafe fn register_again(&self, key: u32, change: impl FnOnce(&mut Region)) -> Result<u32, Error> {
        if is_on_demand_key(key) {
            return self.change_on_demand(key, change);
        }
        let old = *self.station.machine().regions.get(key).ok_or(Error::Invalid)?;
        let mut region = old;
        region.adopted = None;
        change(&mut region);
        if (region.address, region.length, region.iova) != (old.address, old.length, old.iova) {
            // SAFETY: R1, the caller's promise.
            let new = unsafe { self.register(&region) }?;
            self.deregister(key)?;
            return Ok(new);
        }
        if !region.has_lawful_access() {
            return Err(Error::Invalid);
        }
        self.station.with(|core, engine| {
            let attributes = MemAttributes { ptag: core.mailbox.ptag(), rdma_write: region.access.intersects(WRITES), rdma_read: false };
            engine.set_memory_attributes(region.address, MemHandle::from_raw(key), &attributes).map_err(|e| match e {
                bellwire_via::Error::Resource => Error::Busy,
                _ => Error::Fault,
            })?;
            core.domains.hold(region.domain)?;
            let before = core.unlist_region(key)?;
            disown(engine, core.owner(), before.adopted);
            core.regions.insert(MemHandle::from_raw(key), region);
            Ok(key)
        })
    }

    /// Changes a region on demand: of nothing but its description.
    fn change_on_demand(&self, key: u32, change: impl FnOnce(&mut Region)) -> Result<u32, Error> {
        let mut core = self.station.machine();
        let old = *core.regions.on_demand.get_mut(key).ok_or(Error::Invalid)?;
        let mut region = old;
        change(&mut region);
        region.access |= Access::ON_DEMAND;
        if region.length == 0 || !region.has_lawful_access() {
            return Err(Error::Invalid);
        }
        core.domains.hold(region.domain)?;
        core.domains.release(old.domain);
        if let Some(place) = core.regions.on_demand.get_mut(key) {
            *place = region;
        }
        Ok(key)
    }

    /// The protection domain of the region with that key, if there is one.
    pub fn region_domain(&self, key: u32) -> Option<u32> {
        let mut core = self.station.machine();
        if is_on_demand_key(key) {
            return core.regions.on_demand.get_mut(key).map(|r| r.domain);
        }
        core.regions.get(key).map(|r| r.domain)
    }

    /// Ends a registration. When it returns, nobody is inside the memory.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn deregister(&self, key: u32) -> Result<(), Error> {
        if is_on_demand_key(key) {
            return self.station.machine().unlist_region(key).map(drop);
        }
        self.station.with(|core, engine| {
            let region = core.unlist_region(key)?;
            disown(engine, core.owner(), region.adopted);
            Ok(engine.deregister(region.address, MemHandle::from_raw(key))?)
        })
    }
}

/// Registers a region with the engine, which looks at the memory and brings it in; its handle is
/// the key. Those that memory windows have (W1) are left out: a few of each slot's thousands.
///
/// # Safety
/// R1 for the region, as long as the handle is registered.
pub(crate) unsafe fn key_of_region<W: Wire>(engine: &mut Engine<W>, region: &Region, attributes: &MemAttributes) -> Result<MemHandle, Error> {
    loop {
        // SAFETY: U0 of the engine is what R1, the caller's promise, says.
        let registered = unsafe { engine.register(region.address, region.length, attributes) };
        let handle = registered.map_err(|e| match e {
            bellwire_via::Error::Resource => Error::NoMemory,
            _ => Error::Fault,
        })?;
        if !is_window_key(handle.raw()) && !is_on_demand_key(handle.raw()) {
            return Ok(handle);
        }
        engine.deregister(region.address, handle)?;
    }
}

/// The engine's memory of a region, if it has some, is given back; the program keeps the pages.
pub(crate) fn disown<W: Wire>(engine: &mut Engine<W>, owner: usize, adopted: Option<Adopted>) {
    let Some(adopted) = adopted else { return };
    let _ = engine.deregister(adopted.base, MemHandle::from_raw(adopted.handle));
    if let Some(base) = release(adopted.start, owner) {
        let _ = engine.free(core::ptr::with_exposed_provenance_mut(base));
    }
}

impl Core {
    /// The owner of memory that this device adopts.
    pub(crate) fn owner(&self) -> usize {
        Arc::as_ptr(&self.events).addr()
    }
}

impl Port {
    /// Brings memory of regions on demand in before requests use it.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a range is not of a region of the domain with that right;
    /// [`Error::Fault`]: it is not there.
    pub fn prefetch(&self, domain: u32, advice: Prefetch, pieces: &[Sge]) -> Result<(), Error> {
        let access = if advice == Prefetch::Write { Access::LOCAL_WRITE } else { Access::empty() };
        for p in pieces {
            let length = u64::from(p.length);
            let place = {
                let core = self.station.machine();
                if core.regions.find(p.key, domain, p.address, length, access).is_ok() {
                    continue;
                }
                core.regions.on_demand.range(p.key, domain, p.address, length, access).map_err(|Denied| Error::Invalid)?
            };
            let brought = bring_in(place, length, advice == Prefetch::Write);
            if advice != Prefetch::IfThere {
                brought.map_err(|Denied| Error::Fault)?;
            }
        }
        Ok(())
    }
}
