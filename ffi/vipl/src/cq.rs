// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues. `VipCQNotify` is in `notify.rs`.

use crate::handles::{self, Cell, Kind};
use crate::notify::is_receive;
use crate::status::{Outcome, VipReturn, call, traced};
use crate::types::{VipBoolean, VipHandle, VipUlong};
use crate::work::timeout_of;
use bellwire_via::completion_queue::CQ_ENTRIES_MAX;
use bellwire_via::nic::Spin;
use bellwire_via::{ViHandle, WorkQueueKind};

/// The number of entries asked for, if it is allowed.
fn entries_of(count: VipUlong) -> Result<usize, VipReturn> {
    match usize::try_from(count) {
        Ok(0) => Err(VipReturn::InvalidParameter),
        Ok(n) if n <= CQ_ENTRIES_MAX => Ok(n),
        _ => Err(VipReturn::ErrorResource),
    }
}

#[inline]
fn hand_over(nic: &Cell, (vi, queue): (ViHandle, WorkQueueKind), vi_out: *mut VipHandle, is_receive_out: *mut VipBoolean) -> Outcome {
    // SAFETY: C1; the caller has checked for NULL.
    unsafe { vi_out.write(nic.handle(Kind::Vi, vi)) };
    // SAFETY: C1; the caller has checked for NULL.
    unsafe { is_receive_out.write(is_receive(queue)) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateCQ(nic: VipHandle, entries: VipUlong, out: *mut VipHandle) -> VipReturn {
    traced("VipCreateCQ", [nic.addr(), entries as usize], || {
        let nic = handles::enter_nic(nic)?;
        let entries = entries_of(entries)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let cq = nic.nic.with(|e| e.create_cq(entries))?;
        // SAFETY: C1, not NULL.
        unsafe { out.write(nic.handle(Kind::Cq, cq)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyCQ(cq: VipHandle) -> VipReturn {
    traced("VipDestroyCQ", [cq.addr(), 0], || {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        Ok(nic.nic.destroy_cq(cq)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipResizeCQ(cq: VipHandle, entries: VipUlong) -> VipReturn {
    call(|| {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        nic.nic.with(|e| match e.has_cq(cq) {
            true => Ok(e.resize_cq(cq, entries_of(entries)?)?),
            false => Err(VipReturn::InvalidParameter),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQDone(cq: VipHandle, vi_out: *mut VipHandle, is_receive_out: *mut VipBoolean) -> VipReturn {
    call(|| {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        if vi_out.is_null() || is_receive_out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        match nic.nic.cq_done(cq)? {
            Some(entry) => hand_over(&nic, entry, vi_out, is_receive_out),
            None => Err(VipReturn::NotDone),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQWait(cq: VipHandle, timeout: VipUlong, vi_out: *mut VipHandle, is_receive_out: *mut VipBoolean) -> VipReturn {
    call(|| wait(cq, timeout, Spin::Nic, vi_out, is_receive_out))
}

pub(crate) fn wait(cq: VipHandle, timeout: VipUlong, spin: Spin, vi_out: *mut VipHandle, is_receive_out: *mut VipBoolean) -> Outcome {
    let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
    if vi_out.is_null() || is_receive_out.is_null() {
        return Err(VipReturn::InvalidParameter);
    }
    let entry = nic.nic.cq_wait_with(cq, timeout_of(timeout), spin)?;
    hand_over(&nic, entry, vi_out, is_receive_out)
}
