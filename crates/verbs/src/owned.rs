// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory with an owner: of the engine's allocator, registered, and reached by copying. A program
//! that needs no memory at an address of its own choice registers without a promise.

use crate::memory::{Adopted, Region};
use crate::port::Port;
use crate::registration::{WRITES, key_of_region};
use crate::types::{Access, Error, Sge};
use bellwire_via::{MemAttributes, MemHandle};

/// Registered memory of the device's. Requests and peers may change it at any time, so it is read
/// and written by copying. It ends with its owner.
#[derive(Debug)]
pub struct Memory<'p> {
    port: &'p Port,
    address: u64,
    length: u32,
    key: u32,
}

impl Port {
    /// Zeroed memory, registered in a protection domain. Requests call its first byte by its
    /// address.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no bytes, or remote writes without [`Access::LOCAL_WRITE`];
    /// [`Error::NoMemory`].
    pub fn allocate(&self, domain: u32, length: u32, access: Access) -> Result<Memory<'_>, Error> {
        let bytes = u64::from(length);
        let asked = Region { domain, address: 0, length: bytes, iova: 0, access, adopted: None };
        if length == 0 || !asked.has_lawful_access() {
            return Err(Error::Invalid);
        }
        self.station.with(|core, engine| {
            let base = engine.allocate(length as usize).map_err(|_| Error::NoMemory)?;
            let address = base.expose_provenance() as u64;
            let region = Region { address, iova: address, ..asked };
            let ptag = core.mailbox.ptag();
            let rights = |rdma_write, rdma_read| MemAttributes { ptag, rdma_write, rdma_read };
            // SAFETY: R1: memory of the engine, which is not freed while a region lies in it.
            let handle = unsafe { key_of_region(engine, &region, &rights(access.intersects(WRITES), false)) };
            let made = handle.and_then(|handle| {
                // Peers map it by a registration of its own, as they map adopted pages.
                let is_shown = self.is_mapped && access.intersects(Access::REMOTE_WRITE | Access::REMOTE_READ);
                let shown = rights(access.contains(Access::REMOTE_WRITE), access.contains(Access::REMOTE_READ));
                let shown = if is_shown { engine.register_allocated(address, bytes, &shown).ok() } else { None };
                let adopted = shown.map(|shown| Adopted { start: address, length: bytes, base: address, handle: shown.raw() });
                core.list_region(handle, Region { adopted, ..region }).inspect_err(|_| {
                    [Some(handle), shown].into_iter().flatten().for_each(|h| _ = engine.deregister(address, h));
                })?;
                Ok(handle.raw())
            });
            let key = made.inspect_err(|_| _ = engine.free(base))?;
            Ok(Memory { port: self, address, length, key })
        })
    }
}

impl Memory<'_> {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Never: there is at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The address of the first byte in requests.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its key, local and remote.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// `length` bytes from `at` on, as a piece of a request.
    ///
    /// # Errors
    /// [`Error::Invalid`]: not within the memory.
    pub fn piece(&self, at: usize, length: u32) -> Result<Sge, Error> {
        Ok(Sge { address: self.place(at, length as usize)?, length, key: self.key })
    }

    /// Copies bytes from `at` on out.
    ///
    /// # Errors
    /// [`Error::Invalid`]: not within the memory.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.place(at, to.len())?;
        self.port.station.with(|_, engine| Ok(engine.copy_from_allocated(from, to)?))
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Errors
    /// [`Error::Invalid`]: not within the memory.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.place(at, from.len())?;
        self.port.station.with(|_, engine| Ok(engine.copy_to_allocated(to, from)?))
    }

    fn place(&self, at: usize, length: usize) -> Result<u64, Error> {
        if at <= self.len() && length <= self.len() - at { Ok(self.address + at as u64) } else { Err(Error::Invalid) }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let _ = self.port.station.with(|core, engine| -> Result<(), Error> {
            let region = core.unlist_region(self.key)?;
            if let Some(shown) = region.adopted {
                engine.deregister(shown.base, MemHandle::from_raw(shown.handle))?;
            }
            engine.deregister(self.address, MemHandle::from_raw(self.key))?;
            Ok(engine.free(core::ptr::with_exposed_provenance_mut(self.address as usize))?)
        });
    }
}
