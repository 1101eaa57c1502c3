// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection tags, registered memory and the engine's allocator, as programs call them. What they
//! are is in `registration.rs`.

use super::Engine;
use crate::attributes::{MemAttributes, PtagHandle};
use crate::error::Error;
use crate::registration::MemHandle;
use crate::user_memory;
use crate::wire::Wire;
use bellwire_memory::owned_bytes::OwnedBytes;

impl<W: Wire> Engine<W> {
    /// A new protection tag.
    pub fn create_ptag(&mut self) -> Result<PtagHandle, Error> {
        self.registry.create_ptag()
    }

    /// Destroys a tag that no VI and no region uses.
    pub fn destroy_ptag(&mut self, ptag: PtagHandle) -> Result<(), Error> {
        self.flush_cached(Some(ptag.raw()));
        self.registry.destroy_ptag(ptag)
    }

    /// Registers `length` bytes at `address`: any memory of the process.
    /// [`register_allocated`](Self::register_allocated) is the safe call, for memory of the engine.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: nothing is mapped there, or it is not writable although
    /// `attributes` permit writing; [`Error::InvalidPtag`]; [`Error::Resource`].
    ///
    /// # Safety
    /// U0: until [`deregister`](Self::deregister) has succeeded or the engine is dropped, the bytes
    /// stay mapped (strict mode, [`MemoryMode`](crate::MemoryMode), does without this), and
    /// the program accepts that they change at any time, and are read at any time, by requests of
    /// this NIC and of its peers: no reference to them lives that says otherwise. The program
    /// itself reaches them through raw pointers or atomics.
    pub unsafe fn register(&mut self, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        self.registry.register(&mut self.wire, address, length, attributes)
    }

    /// Registers memory of [`allocate`](Self::allocate), or a part of it. Safe: an allocation in
    /// which a region lies is not freed, and nobody else has a reference to it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not all of it lies in one allocation; [`Error::InvalidPtag`];
    /// [`Error::Resource`].
    pub fn register_allocated(&mut self, address: u64, length: u64, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        if !self.registry.is_engine_memory(address, length) {
            return Err(Error::InvalidParameter);
        }
        self.registry.register(&mut self.wire, address, length, attributes)
    }

    /// Ends the registration of a part of the engine's memory that holds `address`, and registers
    /// it again with the same rights: requests that name it by its old handle are refused from now
    /// on. Returns the new handle; when it does, no peer is inside by the old one.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: it is no such region; [`Error::Resource`]: a posted request
    /// uses it, or there are too many regions. It stays as it was.
    pub fn register_anew(&mut self, address: u64, handle: MemHandle) -> Result<MemHandle, Error> {
        let attributes = self.query_memory(address, handle)?;
        let (start, length) = self.region_range(handle)?;
        let new = self.register_allocated(start, length, &attributes)?;
        self.deregister(address, handle).inspect_err(|_| _ = self.deregister_region(start, new))?;
        Ok(new)
    }

    /// Registers all bytes of `memory`, of which the engine keeps a clone until they are
    /// deregistered. Safe: they live as long, and are only ever reached as atomics or by copying.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: there are none; [`Error::InvalidPtag`]; [`Error::Resource`].
    pub fn register_owned(&mut self, memory: &OwnedBytes, attributes: &MemAttributes) -> Result<MemHandle, Error> {
        let address = memory.as_ptr().expose_provenance() as u64;
        let handle = self.registry.register(&mut self.wire, address, memory.len() as u64, attributes)?;
        self.registry.keep(handle, memory.clone());
        Ok(handle)
    }

    /// Copies out of memory of [`allocate`](Self::allocate). A peer that writes there meanwhile
    /// spoils the copy, nothing else.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not all of it lies in one allocation.
    pub fn copy_from_allocated(&self, address: u64, to: &mut [u8]) -> Result<(), Error> {
        if !self.registry.is_engine_memory(address, to.len() as u64) {
            return Err(Error::InvalidParameter);
        }
        // SAFETY: U3: just checked, and no call frees an allocation meanwhile.
        unsafe { user_memory::copy(to.as_mut_ptr(), core::ptr::with_exposed_provenance(address as usize), to.len()) };
        Ok(())
    }

    /// Copies into memory of [`allocate`](Self::allocate).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not all of it lies in one allocation.
    pub fn copy_to_allocated(&mut self, address: u64, from: &[u8]) -> Result<(), Error> {
        if !self.registry.is_engine_memory(address, from.len() as u64) {
            return Err(Error::InvalidParameter);
        }
        // SAFETY: U3: just checked, and no call frees an allocation meanwhile.
        unsafe { user_memory::copy(core::ptr::with_exposed_provenance_mut(address as usize), from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Ends a registration. [`Error::Resource`] while a posted request uses it. When it returns, no
    /// peer is inside the region any more. A region of the registration cache ends with
    /// [`release_cached`](Self::release_cached).
    pub fn deregister(&mut self, address: u64, handle: MemHandle) -> Result<(), Error> {
        if self.cache.record_of(handle).is_some() {
            return Err(Error::InvalidParameter);
        }
        self.deregister_region(address, handle)
    }

    pub(super) fn deregister_region(&mut self, address: u64, handle: MemHandle) -> Result<(), Error> {
        let shared = self.registry.is_published(handle);
        let adopted = self.registry.adopted_home(handle);
        self.revoke_leases(handle);
        self.registry.deregister(&mut self.wire, address, handle)?;
        if shared {
            self.quiesce_all();
        }
        if let Some(base) = adopted {
            // Refused while other regions lie in it.
            let _ = self.registry.free(&mut self.wire, base);
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
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] also for a region of the registration cache, which others may
    /// use as it is.
    pub fn set_memory_attributes(&mut self, address: u64, handle: MemHandle, attributes: &MemAttributes) -> Result<(), Error> {
        if self.cache.record_of(handle).is_some() {
            return Err(Error::InvalidParameter);
        }
        self.revoke_leases(handle);
        self.registry.set_attributes(&mut self.wire, address, handle, attributes)?;
        self.quiesce_all();
        Ok(())
    }

    /// Memory that peers can reach directly once it is registered. Zeroed, page-aligned; freed by
    /// [`free`](Self::free). U3: it stays mapped until then, readable and writable, and only
    /// raw pointers and the engine's copies reach it. Code that dereferences the pointer promises
    /// that nobody frees the memory meanwhile.
    pub fn allocate(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        self.registry.allocate(&mut self.wire, bytes)
    }

    /// Frees memory of [`allocate`](Self::allocate). [`Error::Resource`] while a region lies in it.
    pub fn free(&mut self, base: *mut u8) -> Result<(), Error> {
        self.registry.free(&mut self.wire, base.addr() as u64)
    }

    /// Whether these bytes lie in one allocation of the engine's, at the engine's address.
    pub fn is_allocated(&self, address: u64, length: u64) -> bool {
        self.registry.is_engine_memory(address, length)
    }

    /// The allocation that holds `address`, also by pages of the program that are a second mapping
    /// of it: its number and how many peers map it.
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

    pub(super) fn quiesce_all(&mut self) {
        for link in &self.links {
            self.wire.quiesce(link.id);
        }
    }
}
