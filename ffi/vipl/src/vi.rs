// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual interfaces: made, queried, changed, destroyed.

use crate::handles::{self, Cell, Kind};
use crate::memory::{boolean, ptag_handle, ptag_of};
use crate::status::{Outcome, VipReturn, call, traced};
use crate::types::{VIP_FALSE, VIPX_VI_RNR_WAIT, VipBoolean, VipHandle, VipViAttributes, VipxViAttributes};
use crate::work::enter_vi;
use bellwire_via::{Reliability, ViAttributes};
use core::ffi::c_int;

/// Attributes from C, without extensions.
fn attributes_of(nic: &Cell, a: &VipViAttributes) -> Result<ViAttributes, VipReturn> {
    Ok(ViAttributes {
        reliability: Reliability::from_bits(a.reliability_level).ok_or(VipReturn::InvalidReliabilityLevel)?,
        max_transfer_bytes: a.max_transfer_size,
        qos: a.qos.expose_provenance() as u64,
        ptag: ptag_of(nic, a.ptag)?,
        rdma_write: a.enable_rdma_write != VIP_FALSE,
        rdma_read: a.enable_rdma_read != VIP_FALSE,
        rnr_wait: false,
    })
}

/// Attributes for C.
pub(crate) fn attributes_for_c(a: &ViAttributes, ptag: VipHandle) -> VipViAttributes {
    VipViAttributes {
        reliability_level: a.reliability as u16,
        max_transfer_size: a.max_transfer_bytes,
        qos: core::ptr::with_exposed_provenance_mut(a.qos as usize),
        ptag,
        enable_rdma_write: boolean(a.rdma_write),
        enable_rdma_read: boolean(a.rdma_read),
    }
}

/// The extension as the program that calls was compiled: at least the first version.
fn extension_of(extension: *const VipxViAttributes) -> Result<Option<VipxViAttributes>, VipReturn> {
    if extension.is_null() {
        return Ok(None);
    }
    // SAFETY: C1: whatever the version, Size is there.
    let size = unsafe { (*extension).size };
    if (size as usize) < size_of::<VipxViAttributes>() {
        return Err(VipReturn::InvalidParameter);
    }
    // SAFETY: C1, and Size says that the structure is no shorter.
    let x = unsafe { extension.read() };
    if x.flags & !VIPX_VI_RNR_WAIT != 0 {
        return Err(VipReturn::InvalidParameter);
    }
    Ok(Some(x))
}

fn create(
    nic: VipHandle,
    attributes: *const VipViAttributes,
    extension: *const VipxViAttributes,
    send_cq: VipHandle,
    receive_cq: VipHandle,
    out: *mut VipHandle,
) -> Outcome {
    let nic = handles::enter_nic(nic)?;
    // SAFETY: C1.
    let given = unsafe { attributes.as_ref() }.ok_or(VipReturn::InvalidParameter)?;
    if out.is_null() {
        return Err(VipReturn::InvalidParameter);
    }
    let extension = extension_of(extension)?;
    let send_cq = nic.optional(Kind::Cq, send_cq)?;
    let receive_cq = nic.optional(Kind::Cq, receive_cq)?;
    let srq = nic.optional(Kind::Srq, extension.map_or(core::ptr::null_mut(), |x| x.srq))?;
    let mut attributes = attributes_of(&nic, given)?;
    attributes.rnr_wait = extension.is_some_and(|x| x.flags & VIPX_VI_RNR_WAIT != 0);
    let vi = nic.nic.with(|e| e.create_vi(&attributes, send_cq, receive_cq, srq))?;
    // SAFETY: C1, not NULL.
    unsafe { out.write(nic.handle(Kind::Vi, vi)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateVi(
    nic: VipHandle,
    attributes: *const VipViAttributes,
    send_cq: VipHandle,
    receive_cq: VipHandle,
    out: *mut VipHandle,
) -> VipReturn {
    traced("VipCreateVi", [nic.addr(), 0], || create(nic, attributes, core::ptr::null(), send_cq, receive_cq, out))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxCreateVi(
    nic: VipHandle,
    attributes: *const VipViAttributes,
    extension: *const VipxViAttributes,
    send_cq: VipHandle,
    receive_cq: VipHandle,
    out: *mut VipHandle,
) -> VipReturn {
    traced("VipxCreateVi", [nic.addr(), 0], || create(nic, attributes, extension, send_cq, receive_cq, out))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyVi(vi: VipHandle) -> VipReturn {
    traced("VipDestroyVi", [vi.addr(), 0], || {
        let (nic, vi) = enter_vi(vi)?;
        Ok(nic.nic.with(|e| e.destroy_vi(vi))?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryVi(
    vi: VipHandle,
    state_out: *mut c_int,
    attributes_out: *mut VipViAttributes,
    send_empty_out: *mut VipBoolean,
    receive_empty_out: *mut VipBoolean,
) -> VipReturn {
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        if state_out.is_null() || attributes_out.is_null() || send_empty_out.is_null() || receive_empty_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let (state, a, send_empty, receive_empty) = nic.nic.with(|e| {
            // A program that watches the state may call nothing else: what the peer has sent, its
            // farewell perhaps, is taken in here too.
            e.progress();
            e.query_vi(vi)
        })?;
        let attributes = attributes_for_c(&a, ptag_handle(&nic, a.ptag));
        // SAFETY: C1, not NULL.
        unsafe { state_out.write(state as c_int) };
        // SAFETY: C1, not NULL.
        unsafe { attributes_out.write(attributes) };
        // SAFETY: C1, not NULL.
        unsafe { send_empty_out.write(boolean(send_empty)) };
        // SAFETY: C1, not NULL.
        unsafe { receive_empty_out.write(boolean(receive_empty)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetViAttributes(vi: VipHandle, attributes: *const VipViAttributes) -> VipReturn {
    traced("VipSetViAttributes", [vi.addr(), 0], || {
        let (nic, vi) = enter_vi(vi)?;
        // SAFETY: C1.
        let given = unsafe { attributes.as_ref() }.ok_or(VipReturn::InvalidParameter)?;
        let rnr_wait = nic.nic.with(|e| e.query_vi(vi))?.1.rnr_wait;
        let attributes = ViAttributes { rnr_wait, ..attributes_of(&nic, given)? };
        Ok(nic.nic.with(|e| e.set_vi_attributes(vi, &attributes))?)
    })
}
