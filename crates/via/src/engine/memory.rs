// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection tags, registered memory and the engine's allocator, as programs call them. What they are is in `registration.rs`.

use super::Engine;
use crate::attributes::{MemAttributes, PtagHandle};
use crate::error::Error;
use crate::registration::MemHandle;
use crate::wire::Wire;

impl<W: Wire> Engine<W> {
    /// A new protection tag.
    pub fn create_ptag(&mut self) -> Result<PtagHandle, Error> {
        self.registry.create_ptag()
    }

    /// Destroys a tag that no VI and no region uses.
    pub fn destroy_ptag(&mut self, ptag: PtagHandle) -> Result<(), Error> {
        self.registry.destroy_ptag(ptag)
    }

    /// Registers `length` bytes at `address`. The memory must stay mapped until it is deregistered.
    pub fn register(&mut self, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        self.registry.register(&mut self.wire, address, length, attributes)
    }

    /// Ends a registration. [`Error::Resource`] while a posted request uses it. When it returns, no peer is inside the region any more.
    pub fn deregister(&mut self, address: u64, handle: MemHandle) -> Result<(), Error> {
        let shared = self.registry.is_published(handle);
        self.revoke_leases(handle);
        self.registry.deregister(&mut self.wire, address, handle)?;
        if shared {
            self.quiesce_all();
        }
        Ok(())
    }

    /// The attributes of a region that holds `address`.
    pub fn query_memory(&self, address: u64, handle: MemHandle) -> Result<MemAttributes, Error> {
        self.registry.query(address, handle)
    }

    /// First address and length of a region.
    pub fn region_range(&self, handle: MemHandle) -> Result<(u64, u64), Error> {
        self.registry.range(handle)
    }

    /// Changes a region's tag and rights. [`Error::Resource`] while a posted request uses it.
    pub fn set_memory_attributes(&mut self, address: u64, handle: MemHandle, attributes: &MemAttributes) -> Result<(), Error> {
        self.revoke_leases(handle);
        self.registry.set_attributes(&mut self.wire, address, handle, attributes)?;
        self.quiesce_all();
        Ok(())
    }

    /// Memory that peers can reach directly once it is registered. Zeroed, page-aligned; freed by [`free`](Self::free).
    pub fn allocate(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        self.registry.allocate(&mut self.wire, bytes)
    }

    /// Frees memory of [`allocate`](Self::allocate). [`Error::Resource`] while a region lies in it.
    pub fn free(&mut self, base: *mut u8) -> Result<(), Error> {
        self.registry.free(&mut self.wire, base.addr() as u64)
    }

    /// The allocation that holds `address`: its number and how many peers map it.
    pub fn allocation_at(&self, address: u64) -> Option<(u32, u32)> {
        let segment = self.registry.segment_at(address)?;
        Some((segment, self.wire.peers_mapping(segment)))
    }

    /// Whether an allocation may be mapped by peers: all its pages are registered under one tag.
    pub fn is_mappable(&self, segment: u32) -> bool {
        self.registry.mappable_tag(segment).is_some()
    }

    /// Regions registered.
    pub fn regions(&self) -> usize {
        self.registry.count()
    }

    fn quiesce_all(&mut self) {
        for link in &self.links {
            self.wire.quiesce(link.id);
        }
    }
}
