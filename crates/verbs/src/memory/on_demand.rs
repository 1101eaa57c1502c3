// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions on demand: memory that need not be there when it is registered, up to the whole address
//! space. Nothing is pinned and nobody maps it; the kernel copies, so a page that is missing when a
//! request comes is an error, not a fault.
//!
//! Invariant D1: the twelve highest bits of such a key are `0xffe`, which no other key has
//! (`key_of_region`, W1).

use super::{Denied, Region};
use crate::types::Access;
use bellwire_memory::attach;
use rustix::mm::{Advice, madvise};
use std::collections::BTreeMap;

const KEY_BASE: u32 = 0xffe << 20;
const KEY_MASK: u32 = (1 << 20) - 1;
const PAGE: u64 = 4096;

/// Whether a key is of the kind that regions on demand have (D1).
#[inline]
pub(crate) fn is_on_demand_key(key: u32) -> bool {
    key & !KEY_MASK == KEY_BASE
}

/// All regions on demand.
#[derive(Debug, Default)]
pub(crate) struct OnDemand {
    regions: BTreeMap<u32, Region>,
    next: u32,
}

impl OnDemand {
    pub(crate) fn insert(&mut self, region: Region) -> Option<u32> {
        if self.regions.len() > KEY_MASK as usize / 2 {
            return None;
        }
        loop {
            let key = KEY_BASE | (self.next & KEY_MASK);
            self.next = self.next.wrapping_add(1);
            if let std::collections::btree_map::Entry::Vacant(slot) = self.regions.entry(key) {
                slot.insert(region);
                return Some(key);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Region> {
        self.regions.remove(&key)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Region> {
        self.regions.get_mut(&key)
    }

    /// The address of `length` bytes that a request calls `address`.
    #[cold]
    pub(crate) fn range(&self, key: u32, domain: u32, address: u64, length: u64, access: Access) -> Result<u64, Denied> {
        let region = self.regions.get(&key).filter(|r| r.domain == domain && r.access.contains(access)).ok_or(Denied)?;
        let offset = address.checked_sub(region.iova).ok_or(Denied)?;
        if offset.checked_add(length).is_none_or(|end| end > region.length) {
            return Err(Denied);
        }
        region.address.checked_add(offset).ok_or(Denied)
    }
}

/// Copies out of memory that may be missing.
///
/// # Safety
/// `to` is writable for `n` bytes.
pub(crate) unsafe fn copy_out(from: u64, to: *mut u8, n: usize) -> Result<(), Denied> {
    // SAFETY: the caller's; the kernel checks `from`.
    unsafe { attach::read(std::process::id(), from, to, n) }.map_err(|_| Denied)
}

/// Copies into memory that may be missing.
///
/// # Safety
/// `from` is readable for `n` bytes. The program has registered the `n` bytes at `to` to be
/// written, as far as they are there.
pub(crate) unsafe fn copy_in(to: u64, from: *const u8, n: usize) -> Result<(), Denied> {
    let to = core::ptr::with_exposed_provenance_mut(to as usize);
    // SAFETY: the caller's; the kernel checks `to`.
    unsafe { attach::read(std::process::id(), from.expose_provenance() as u64, to, n) }.map_err(|_| Denied)
}

/// Brings pages in, to be read or written; an error: they are not there.
pub(crate) fn bring_in(address: u64, length: u64, to_write: bool) -> Result<(), Denied> {
    let start = address & !(PAGE - 1);
    let Some(end) = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE)) else { return Err(Denied) };
    let advice = if to_write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    // SAFETY: bringing pages in changes nothing of what they hold; the kernel checks the range.
    unsafe { madvise(core::ptr::with_exposed_provenance_mut(start as usize), (end - start) as usize, advice) }.map_err(|_| Denied)
}

/// Whether regions on demand can be had here: the kernel copies within this process and brings
/// pages in.
pub fn is_supported() -> bool {
    let (from, mut to) = ([7u8; 8], [0u8; 8]);
    let at = from.as_ptr().expose_provenance() as u64;
    // SAFETY: `to` is ours.
    unsafe { copy_out(at, to.as_mut_ptr(), 8) }.is_ok() && to == from && bring_in(at, 8, false).is_ok()
}

/// What a program advises about memory of its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// It will be read.
    Read,
    /// It will be written.
    Write,
    /// It will be used; pages that are missing may stay so.
    IfThere,
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn whole() -> Region {
        Region { domain: 1, address: 0, length: u64::MAX, iova: 0, access: Access::LOCAL_WRITE | Access::ON_DEMAND, adopted: None }
    }

    #[test]
    fn missing_memory_is_an_error() {
        assert!(is_supported());
        let mut bytes = [1u8, 2, 3, 4];
        let at = bytes.as_mut_ptr().expose_provenance() as u64;
        let mut to = [0u8; 4];
        // SAFETY: our own arrays; the address 4096 is never mapped.
        unsafe {
            assert_eq!(copy_out(at, to.as_mut_ptr(), 4), Ok(()));
            assert_eq!(copy_in(at, [9u8, 8, 7, 6].as_ptr(), 4), Ok(()));
            assert_eq!((copy_out(4096, to.as_mut_ptr(), 4), copy_in(4096, to.as_ptr(), 4)), (Err(Denied), Err(Denied)));
        }
        assert_eq!((to, bytes), ([1, 2, 3, 4], [9, 8, 7, 6]));
        assert_eq!((bring_in(at, 4, true), bring_in(4096, 4, false), bring_in(u64::MAX, 4, false)), (Ok(()), Err(Denied), Err(Denied)));
    }

    #[test]
    fn ranges_keys_and_domains_are_checked() {
        let mut regions = OnDemand::default();
        let key = regions.insert(whole()).unwrap();
        assert!(is_on_demand_key(key) && !crate::windows::is_window_key(key));
        assert_eq!(regions.range(key, 1, 5000, 100, Access::LOCAL_WRITE), Ok(5000));
        assert_eq!(regions.range(key, 2, 5000, 100, Access::LOCAL_WRITE), Err(Denied));
        assert_eq!(regions.range(key, 1, 5000, 100, Access::REMOTE_READ), Err(Denied));
        assert_eq!(regions.range(key, 1, 5000, u64::MAX, Access::empty()), Err(Denied));
        assert_eq!(regions.range(key + 1, 1, 5000, 100, Access::empty()), Err(Denied));
        assert_ne!(regions.insert(whole()), Some(key));
        assert!(regions.remove(key).is_some() && regions.remove(key).is_none());
    }
}
