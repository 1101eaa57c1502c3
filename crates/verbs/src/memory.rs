// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registered memory, by key; and copies into and out of the pieces of requests.
//!
//! Invariants
//! - R1: the memory of a listed region is mapped, as the caller of
//!   [`Port::register`](crate::Port::register) promised or because it is the engine's own; others
//!   may be writing it, so it
//!   is only ever copied. A region that is no longer listed is not touched: each packet looks its
//!   pieces up again.
//! - R2: the pieces of an inline request, which have no key, are readable during the call that
//!   posts it, as the caller of `post_send` promised. They are copied there, and not read later.
//! - R3: nobody may rely on R1 who copies while the program does not ask for it: the helper thread,
//!   and a look before a queue pair ends. A device's pages stay when the program unmaps what it has
//!   registered, and programs do: UCX frees the receives of its datagrams, keeps them registered in
//!   its cache, and then destroys the queue pair. These copy adopted memory where the engine has
//!   it, which stays, and other memory by the kernel (`is_careful`).

mod on_demand;

use crate::types::{Access, Sge};
use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_memory::bytes;
use bellwire_via::MemHandle;
use on_demand::OnDemand;
pub use on_demand::{Prefetch, is_supported as has_on_demand};
pub(crate) use on_demand::{bring_in, copy_in, copy_out, is_on_demand_key};

/// A registered region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Its protection domain.
    pub domain: u32,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The address of the first byte in requests.
    pub iova: u64,
    /// The rights of requests on it.
    pub access: Access,
    /// Where peers can map it, if they can.
    pub adopted: Option<Adopted>,
}

/// Pages that are the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Where they are for the program.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where the engine has them.
    pub base: u64,
    /// The engine's handle of their registration.
    pub handle: u32,
}

/// Memory of the peer that may be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub key: u32,
    pub access: Access,
    /// The address of the first byte in requests, and the length.
    pub start: u64,
    pub length: u64,
    /// The engine's names for it.
    pub handle: u32,
    pub address: u64,
}

impl Grant {
    pub(crate) fn place(&self, key: u32, address: u64, length: u64, access: Access) -> Option<u64> {
        let offset = address.wrapping_sub(self.start);
        let within = offset <= self.length && length <= self.length - offset;
        (self.key == key && within && self.access.contains(access)).then(|| self.address + offset)
    }
}

/// All regions. A key is the engine's handle of the region: never zero, never the same for the next
/// region in its place.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    slots: Vec<Option<(u32, Region)>>,
    pub on_demand: OnDemand,
    /// R3.
    pub is_careful: bool,
}

/// Where bytes of a region are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bytes {
    /// Mapped (R1).
    Here(*mut u8),
    /// Of a region on demand, or perhaps unmapped (R3): the kernel copies.
    OnDemand(u64),
}

/// Why memory may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied;

impl Regions {
    /// Calls `f` with every region.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Region)) {
        self.slots.iter().flatten().for_each(|(_, region)| f(region));
    }

    pub(crate) fn insert(&mut self, handle: MemHandle, region: Region) {
        let at = handle.index();
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
        }
        self.slots[at] = Some((handle.raw(), region));
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Region> {
        let slot = self.slots.get_mut(MemHandle::from_raw(key).index())?;
        let (_, region) = slot.take_if(|(k, _)| *k == key)?;
        Some(region)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Region> {
        let (k, region) = self.slots.get_mut(MemHandle::from_raw(key).index())?.as_mut()?;
        (*k == key).then_some(region)
    }

    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&Region> {
        match self.slots.get(MemHandle::from_raw(key).index()) {
            Some(Some((k, region))) if *k == key => Some(region),
            _ => None,
        }
    }

    /// Where `length` bytes that a request calls `address` lie.
    #[inline(always)]
    pub(crate) fn find(&self, key: u32, domain: u32, address: u64, length: u64, access: Access) -> Result<*mut u8, Denied> {
        let region = self.get(key).filter(|r| r.domain == domain && r.access.contains(access)).ok_or(Denied)?;
        let offset = address.checked_sub(region.iova).ok_or(Denied)?;
        if offset.checked_add(length).is_none_or(|end| end > region.length) {
            return Err(Denied);
        }
        Ok(core::ptr::with_exposed_provenance_mut((region.address + offset) as usize))
    }

    /// How bytes that were found are copied now (R3).
    #[inline(always)]
    pub(crate) fn with_care(&self, key: u32, here: *mut u8, length: u64) -> Bytes {
        if self.is_careful { self.carefully(key, here, length) } else { Bytes::Here(here) }
    }

    #[cold]
    #[inline(never)]
    fn carefully(&self, key: u32, here: *mut u8, length: u64) -> Bytes {
        let at = here.addr() as u64;
        let adopted = self.get(key).and_then(|region| region.adopted);
        let kept = adopted.and_then(|a| at.checked_sub(a.start).filter(|offset| offset.saturating_add(length) <= a.length).map(|offset| a.base + offset));
        kept.map_or(Bytes::OnDemand(at), |kept| Bytes::Here(core::ptr::with_exposed_provenance_mut(kept as usize)))
    }

    /// The same for regions of every kind.
    #[inline]
    pub(crate) fn bytes(&self, key: u32, domain: u32, address: u64, length: u64, access: Access) -> Result<Bytes, Denied> {
        match self.find(key, domain, address, length, access) {
            Ok(here) => Ok(self.with_care(key, here, length)),
            Err(Denied) => self.on_demand.range(key, domain, address, length, access).map(Bytes::OnDemand),
        }
    }

    /// Whether all pieces may be used so.
    pub(crate) fn check(&self, pieces: &[Sge], domain: u32, access: Access) -> Result<(), Denied> {
        pieces.iter().filter(|p| p.length != 0).try_for_each(|p| self.bytes(p.key, domain, p.address, u64::from(p.length), access).map(drop))
    }

    /// Where `n` bytes from byte `at` on lie, if in one piece.
    #[inline]
    pub(crate) fn contiguous(&self, pieces: &[Sge], domain: u32, at: usize, n: usize, access: Access) -> Result<Option<*mut u8>, Denied> {
        let mut before = 0;
        for p in pieces {
            let length = p.length as usize;
            if at >= before && at + n <= before + length {
                return match self.bytes(p.key, domain, p.address + (at - before) as u64, n as u64, access)? {
                    Bytes::Here(here) => Ok(Some(here)),
                    Bytes::OnDemand(_) => Ok(None),
                };
            }
            before += length;
        }
        Ok(None)
    }

    /// Copies bytes `at..at + to.len()` of the pieces out.
    pub(crate) fn gather(&self, pieces: &[Sge], domain: u32, at: usize, to: &mut [u8]) -> Result<(), Denied> {
        let base = to.as_mut_ptr();
        self.each(pieces, domain, at, to.len(), Access::empty(), |from, done, n| match from {
            // SAFETY: R1, just looked up; `to` has `done + n` bytes at least.
            Bytes::Here(here) => unsafe {
                bytes::copy(base.add(done), here, n);
                Ok(())
            },
            // SAFETY: `to` has `done + n` bytes at least.
            Bytes::OnDemand(from) => unsafe { copy_out(from, base.add(done), n) },
        })
    }

    /// Copies `n` bytes to byte `at` of the pieces and on.
    ///
    /// # Safety
    /// `from` is readable for `n` bytes; somebody may be writing them.
    #[inline]
    pub(crate) unsafe fn scatter(&self, pieces: &[Sge], domain: u32, at: usize, from: *const u8, n: usize) -> Result<(), Denied> {
        self.each(pieces, domain, at, n, Access::LOCAL_WRITE, |to, done, part| match to {
            // SAFETY: R1, just looked up; the caller's for `from`.
            Bytes::Here(here) => unsafe {
                bytes::copy(here, from.add(done), part);
                Ok(())
            },
            // SAFETY: the caller's for `from`; a region that requests may write.
            Bytes::OnDemand(to) => unsafe { copy_in(to, from.add(done), part) },
        })
    }

    #[inline]
    fn each(
        &self,
        pieces: &[Sge],
        domain: u32,
        at: usize,
        n: usize,
        access: Access,
        mut copy: impl FnMut(Bytes, usize, usize) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let (mut before, mut done) = (0, 0);
        for p in pieces {
            if done == n {
                break;
            }
            let length = p.length as usize;
            let skip = (at + done).saturating_sub(before).min(length);
            let part = (length - skip).min(n - done);
            if part != 0 {
                copy(self.bytes(p.key, domain, p.address + skip as u64, part as u64, access)?, done, part)?;
                done += part;
            }
            before += length;
        }
        if done == n { Ok(()) } else { Err(Denied) }
    }

    /// Writes `n` bytes where a peer said. The bytes at the end come last: programs look at them to
    /// see that all is there.
    ///
    /// # Safety
    /// As [`scatter`](Self::scatter); `to` is what [`find`](Self::find) gave for as many bytes.
    #[inline]
    pub(crate) unsafe fn place(to: *mut u8, from: *const u8, n: usize) {
        let body = if n <= 8 { 0 } else { (n - 1) & !7 };
        // SAFETY: the caller's.
        unsafe {
            if body != 0 {
                bytes::copy(to, from, body);
                // Release: a reader that sees the end of the bytes sees those before; pairs with
                // the program's own reads.
                bellwire_memory::atomic::fence(Ordering::Release);
            }
            bytes::copy(to.add(body), from.add(body), n - body);
        }
    }

    /// Stores what an atomic has found.
    ///
    /// # Safety
    /// `to` is writable for eight bytes.
    pub(crate) unsafe fn keep(to: *mut u8, value: u64) {
        // SAFETY: the caller's.
        unsafe { bytes::copy(to, value.to_ne_bytes().as_ptr(), 8) };
    }

    /// Changes eight bytes at `at` in one step; returns their value before.
    ///
    /// # Safety
    /// `at` is what [`find`](Self::find) gave for eight bytes to write, and a multiple of eight.
    pub(crate) unsafe fn change(at: *mut u8, operand: u64, compare: Option<u64>) -> u64 {
        debug_assert!(at.addr().is_multiple_of(8));
        // SAFETY: the caller's; all who change it do so atomically, or take what they get.
        let word = unsafe { &*at.cast::<AtomicU64>() };
        match compare {
            // AcqRel: atomics on remote memory order what is around them in each process.
            None => word.fetch_add(operand, Ordering::AcqRel),
            // AcqRel, Acquire: as above.
            Some(expected) => word.compare_exchange(expected, operand, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| found),
        }
    }
}
