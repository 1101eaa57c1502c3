// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the engine's that peers can reach directly: for segments, and for what is sent from.
//!
//! Peers may write a segment at any time; so a region is read and written by copying, never as a
//! slice.
//!
//! Invariant G1: `base` is an allocation of the device's engine of `length` bytes, which lives
//! until the region is dropped, for it holds the device. Regions are dropped without the NIC's
//! token: a holder of the token gives them to `Core::garbage`.

use crate::device::Device;
use crate::status::Error;
use bellwire_memory::bytes;
use std::sync::Arc;

/// Memory of the engine's.
#[derive(Debug)]
pub struct Region {
    device: Arc<Device>,
    base: *mut u8,
    length: usize,
}

// SAFETY: G1: the memory belongs to the process; it is only copied from and to, by bytes that
// others may be writing.
unsafe impl Send for Region {}
// SAFETY: G1: the memory belongs to the process; it is only copied from and to, by bytes that
// others may be writing.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(device: &Arc<Device>, length: usize) -> Result<Arc<Self>, Error> {
        if length == 0 {
            return Err(Error::BadArgument);
        }
        let base = device.nic.with(|engine| engine.allocate(length))?;
        Ok(Arc::new(Self { device: Arc::clone(device), base, length }))
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// First byte. Readable and writable for [`len`](Self::len) bytes while the region lives; peers
    /// may be writing it, so it must never be made a slice of.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    fn holds(&self, at: usize, length: usize) -> Result<(), Error> {
        if at <= self.length && length <= self.length - at { Ok(()) } else { Err(Error::BadArgument) }
    }

    /// Where `length` bytes from `at` on lie.
    pub(crate) fn part(&self, at: usize, length: usize) -> Result<*const u8, Error> {
        self.holds(at, length).map(|()| self.base.wrapping_add(at).cast_const())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: not within the region.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        self.holds(at, to.len())?;
        // SAFETY: G1, and the range was just checked; the copy allows that peers write.
        unsafe { bytes::copy(to.as_mut_ptr(), self.base.add(at), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: not within the region.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), Error> {
        self.holds(at, from.len())?;
        // SAFETY: G1, and the range was just checked; the copy allows that peers write.
        unsafe { bytes::copy(self.base.add(at), from.as_ptr(), from.len()) };
        Ok(())
    }

    pub(crate) fn is_of(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }
}

impl Device {
    /// Memory that peers can reach directly when it is a segment, zeroed.
    ///
    /// # Errors
    /// [`Error::BadArgument`]: no bytes; [`Error::Resource`].
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Arc<Region>, Error> {
        Region::new(self, bytes)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = self.device.nic.with(|engine| engine.free(self.base));
    }
}
