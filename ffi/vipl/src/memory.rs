// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection tags and registered memory.

use crate::handles::{self, Cell, Kind};
use crate::status::{Outcome, VipReturn, call, traced};
use crate::types::{VIP_FALSE, VIP_TRUE, VipBoolean, VipHandle, VipMemAttributes, VipUlong};
use bellwire_via::{Error, MemAttributes, MemHandle, PtagHandle};
use core::ffi::c_void;

/// Longest region, bytes: more than machines have.
pub(crate) const REGISTER_BLOCK_BYTES_MAX: VipUlong = 1 << 44;

/// A boolean for C.
pub(crate) fn boolean(value: bool) -> VipBoolean {
    if value { VIP_TRUE } else { VIP_FALSE }
}

/// A tag among attributes: NULL for none.
pub(crate) fn ptag_of(nic: &Cell, ptag: VipHandle) -> Result<Option<PtagHandle>, VipReturn> {
    nic.optional(Kind::Ptag, ptag).map_err(|_| VipReturn::InvalidPtag)
}

/// A tag for C: NULL for none.
pub(crate) fn ptag_handle(nic: &Cell, ptag: Option<PtagHandle>) -> VipHandle {
    ptag.map_or(core::ptr::null_mut(), |p| nic.handle(Kind::Ptag, p))
}

pub(crate) fn attributes_of(nic: &Cell, a: &VipMemAttributes) -> Result<MemAttributes, VipReturn> {
    let ptag = ptag_of(nic, a.ptag)?;
    let (rdma_write, rdma_read) = (a.enable_rdma_write != VIP_FALSE, a.enable_rdma_read != VIP_FALSE);
    if ptag.is_none() && (rdma_write || rdma_read) {
        return Err(VipReturn::InvalidPtag);
    }
    Ok(MemAttributes { ptag, rdma_write, rdma_read })
}

/// First byte of memory that is to be registered, if there can be so much of it.
pub(crate) fn start_of(address: *mut c_void, length: VipUlong) -> Result<u64, VipReturn> {
    // The engine makes pointers of registered addresses.
    let start = address.expose_provenance() as u64;
    if address.is_null() || length == 0 || start.checked_add(length).is_none() {
        return Err(VipReturn::InvalidParameter);
    }
    if length > REGISTER_BLOCK_BYTES_MAX { Err(VipReturn::ErrorResource) } else { Ok(start) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreatePtag(nic: VipHandle, out: *mut VipHandle) -> VipReturn {
    traced("VipCreatePtag", [nic.addr(), 0], || {
        let nic = handles::enter_nic(nic)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let ptag = nic.nic.with(|e| e.create_ptag())?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(nic.handle(Kind::Ptag, ptag)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyPtag(nic: VipHandle, ptag: VipHandle) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let ptag = nic.object(Kind::Ptag, ptag).ok_or(VipReturn::InvalidParameter)?;
        Ok(nic.nic.with(|e| e.destroy_ptag(ptag))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRegisterMem(
    nic: VipHandle,
    address: *mut c_void,
    length: VipUlong,
    attributes: *const VipMemAttributes,
    out: *mut u32,
) -> VipReturn {
    traced("VipRegisterMem", [address.addr(), length as usize], || {
        let nic = handles::enter_nic(nic)?;
        if address.is_null() || length == 0 || out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1; NULL has a meaning.
        let attributes = unsafe { attributes.as_ref() }.map_or(Ok(MemAttributes::default()), |a| attributes_of(&nic, a))?;
        let start = start_of(address, length)?;
        // SAFETY: U0, which VipRegisterMem asks of its caller (C1).
        let handle = unsafe { nic.nic.register(start, length, &attributes) }?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(handle.raw()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDeregisterMem(nic: VipHandle, address: *mut c_void, handle: u32) -> VipReturn {
    traced("VipDeregisterMem", [address.addr(), handle as usize], || {
        let nic = handles::enter_nic(nic)?;
        let (at, handle) = (address.addr() as u64, MemHandle::from_raw(handle));
        Ok(nic.nic.with(|e| {
            // VIA wants the very address that was registered; the engine would take any of the
            // region.
            if e.region_range(handle)?.0 != at {
                return Err(Error::InvalidParameter);
            }
            e.deregister(at, handle)
        })?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryMem(nic: VipHandle, address: *mut c_void, handle: u32, out: *mut VipMemAttributes) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let a = nic.nic.with(|e| e.query_memory(address.addr() as u64, MemHandle::from_raw(handle)))?;
        let seen = VipMemAttributes { ptag: ptag_handle(&nic, a.ptag), enable_rdma_write: boolean(a.rdma_write), enable_rdma_read: boolean(a.rdma_read) };
        // SAFETY: C1, not NULL.
        unsafe { out.write(seen) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetMemAttributes(nic: VipHandle, address: *mut c_void, handle: u32, attributes: *const VipMemAttributes) -> VipReturn {
    call(|| -> Outcome {
        let nic = handles::enter_nic(nic)?;
        // SAFETY: C1.
        let attributes = unsafe { attributes.as_ref() }.ok_or(VipReturn::InvalidParameter)?;
        let (at, handle) = (address.addr() as u64, MemHandle::from_raw(handle));
        nic.nic.with(|e| e.query_memory(at, handle).map(drop))?;
        let attributes = attributes_of(&nic, attributes)?;
        Ok(nic.nic.with(|e| e.set_memory_attributes(at, handle, &attributes))?)
    })
}
