// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of this side that a peer's request names: by the key of a region, of a window over
//! one, or of a region on demand. Each key is looked up once for a request.

use crate::core::Core;
use crate::memory::{Bytes, Denied, bring_in, copy_in};
use crate::qp::Receiving;
use crate::types::Access;
use crate::windows::is_window_key;

/// Memory that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Registered memory (R1).
    Registered(*mut u8),
    /// Memory of a region on demand, which need not be there.
    OnDemand(u64),
}

impl Reached {
    /// Its address.
    pub(crate) fn address(self) -> usize {
        match self {
            Self::Registered(at) => at.addr(),
            Self::OnDemand(at) => at as usize,
        }
    }

    /// Its address once it is there and may be written: eight bytes, for an atomic.
    pub(crate) fn word(self) -> Result<*mut u8, Denied> {
        match self {
            Self::Registered(at) => Ok(at),
            Self::OnDemand(at) => bring_in(at, 8, true).map(|()| core::ptr::with_exposed_provenance_mut(at as usize)),
        }
    }

    /// Writes `from` at `offset`.
    ///
    /// # Safety
    /// R1 holds until the end of the call for the range that was asked for, and the bytes lie
    /// within it; `from` is readable.
    pub(crate) unsafe fn write(self, offset: usize, (from, length): (*const u8, usize)) -> Result<(), Denied> {
        match self {
            // SAFETY: R1, and what the caller promises.
            Self::Registered(at) => unsafe { crate::memory::Regions::place(at.wrapping_add(offset), from, length) },
            // SAFETY: the caller promises that `from` is readable; the program registered this
            // memory to be written.
            Self::OnDemand(at) => unsafe { copy_in(at + offset as u64, from, length) }?,
        }
        Ok(())
    }
}

impl From<Bytes> for Reached {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Here(at) => Self::Registered(at),
            Bytes::OnDemand(at) => Self::OnDemand(at),
        }
    }
}

/// What a read takes, by a key that is looked up again as the bytes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadFrom {
    pub key: u32,
    pub address: u64,
    /// What the region must allow.
    pub access: Access,
}

impl Core {
    /// The memory that a request names, if it may use it so.
    pub(crate) fn reach(&self, receiving: &Receiving, key: u32, address: u64, length: u64, access: Access) -> Option<Reached> {
        if !receiving.access.contains(access) {
            return None;
        }
        if let Ok(at) = self.regions.find(key, receiving.domain, address, length, access) {
            return Some(self.regions.with_care(key, at, length).into());
        }
        if is_window_key(key) {
            let beneath = self.beneath(receiving.number, receiving.domain, key, address, length, access)?;
            let at = self.regions.find(beneath.region, receiving.domain, beneath.address, length, Access::empty()).ok()?;
            return Some(self.regions.with_care(beneath.region, at, length).into());
        }
        self.regions.on_demand.range(key, receiving.domain, address, length, access).ok().map(Reached::OnDemand)
    }

    /// What a read takes. A window is checked now; its bytes are read by the key of its region.
    pub(crate) fn reach_to_read(&self, receiving: &Receiving, key: u32, address: u64, length: u64) -> Option<ReadFrom> {
        let access = Access::REMOTE_READ;
        if length == 0 {
            return Some(ReadFrom { key, address, access });
        }
        if !is_window_key(key) {
            return self.reach(receiving, key, address, length, access).map(|_| ReadFrom { key, address, access });
        }
        if !receiving.access.contains(access) {
            return None;
        }
        let beneath = self.beneath(receiving.number, receiving.domain, key, address, length, access)?;
        self.regions.find(beneath.region, receiving.domain, beneath.address, length, Access::empty()).ok()?;
        Some(ReadFrom { key: beneath.region, address: beneath.address, access: Access::empty() })
    }
}
