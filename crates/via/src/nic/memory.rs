// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of a NIC with an owner: allocated, registered and freed without an address in the
//! program's hands.

use crate::attributes::MemAttributes;
use crate::error::Error;
use crate::nic::Nic;
use crate::registration::MemHandle;
use crate::work_queue::Segment;
use core::fmt;

/// Registered memory of the engine's allocator. Peers and requests of this NIC may change it at any
/// time, so it is read and written by copying. It ends with its owner; while a request that is not
/// complete uses it, that is when the NIC closes.
pub struct Memory<'n> {
    nic: &'n Nic,
    address: u64,
    length: usize,
    handle: MemHandle,
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("address", &self.address).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Nic {
    /// Zeroed memory, registered.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: no bytes; [`Error::InvalidPtag`]; [`Error::Resource`].
    pub fn allocate(&self, length: usize, attributes: &MemAttributes) -> Result<Memory<'_>, Error> {
        self.with(|engine| {
            let base = engine.allocate(length)?;
            let address = base.expose_provenance() as u64;
            match engine.register_allocated(address, length as u64, attributes) {
                Ok(handle) => Ok(Memory { nic: self, address, length, handle }),
                Err(error) => {
                    let _ = engine.free(base);
                    Err(error)
                }
            }
        })
    }
}

impl Memory<'_> {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: there is at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// First byte, as peers name it in remote requests.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// By which requests, of this NIC and of peers, name it.
    pub fn handle(&self) -> MemHandle {
        self.handle
    }

    /// `length` bytes from `at` on, for a request.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not within the memory.
    pub fn segment(&self, at: usize, length: u32) -> Result<Segment, Error> {
        Ok(Segment { address: self.place(at, length as usize)?, length, handle: self.handle.raw() })
    }

    /// Copies bytes from `at` on out.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not within the memory.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.place(at, to.len())?;
        self.nic.with(|engine| engine.copy_from_allocated(from, to))
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not within the memory.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.place(at, from.len())?;
        self.nic.with(|engine| engine.copy_to_allocated(to, from))
    }

    fn place(&self, at: usize, length: usize) -> Result<u64, Error> {
        if at <= self.length && length <= self.length - at { Ok(self.address + at as u64) } else { Err(Error::InvalidParameter) }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        self.nic.with(|engine| {
            if engine.deregister(self.address, self.handle).is_ok() {
                let _ = engine.free(core::ptr::with_exposed_provenance_mut(self.address as usize));
            }
        });
    }
}
