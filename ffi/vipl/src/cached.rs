// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registered memory through the registration cache (`viplx.h`).

use crate::ext::{fill_info, size_of_info};
use crate::handles;
use crate::memory::{attributes_of, start_of};
use crate::status::{VipReturn, call};
use crate::types::{VipHandle, VipMemAttributes, VipUlong, VipxCacheInfo};
use bellwire_via::{MemAttributes, MemHandle};
use core::ffi::c_void;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxRegisterCached(
    nic: VipHandle,
    address: *mut c_void,
    length: VipUlong,
    attributes: *const VipMemAttributes,
    out: *mut u32,
) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        // SAFETY: C1; NULL has a meaning.
        let attributes = unsafe { attributes.as_ref() }.map_or(Ok(MemAttributes::default()), |a| attributes_of(&nic, a))?;
        let start = start_of(address, length)?;
        // SAFETY: U0, which VipxRegisterCached asks of its caller (C1).
        let handle = nic.nic.with(|e| unsafe { e.register_cached(start, length, &attributes) })?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(handle.raw()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxReleaseCached(nic: VipHandle, address: *mut c_void, handle: u32) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let (at, handle) = (address.addr() as u64, MemHandle::from_raw(handle));
        Ok(nic.nic.with(|e| e.release_cached(at, handle))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryCache(nic: VipHandle, info: *mut VipxCacheInfo) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let size = size_of_info(info, size_of::<VipxCacheInfo>())?;
        let seen = nic.nic.with(|e| e.registration_cache());
        let filled = VipxCacheInfo {
            size,
            reserved: 0,
            regions: seen.entries,
            unused: seen.unused,
            bytes: seen.bytes,
            watched_bytes: seen.watched_bytes,
            hits: seen.hits,
            misses: seen.misses,
            checks: seen.checks,
            evictions: seen.evictions,
            unmapped: seen.unmapped,
            uncached: seen.uncached,
        };
        // SAFETY: C1, not NULL.
        unsafe { fill_info(info, &filled, size) };
        Ok(())
    })
}
