// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits that say how long they spin, and completion queues in `epoll`: the section "waiting" of
//! `viplx.h`. Called by programs; control plane but for the waits, which are those of `work.rs` and
//! `cq.rs`.

use crate::handles::{self, Kind};
use crate::status::{VipReturn, call};
use crate::types::{VipBoolean, VipDescriptor, VipHandle, VipUlong};
use crate::{cq, work};
use bellwire_via::WorkQueueKind;
use bellwire_via::nic::{SPIN_MAX, Spin};
use core::ffi::c_int;
use std::os::fd::IntoRawFd;
use std::time::Duration;

/// A call's own spin: as the NIC is set.
const VIPX_SPIN_NIC: u32 = u32::MAX;

fn duration_of(microseconds: u32) -> Result<Duration, VipReturn> {
    let spin = Duration::from_micros(microseconds.into());
    if spin <= SPIN_MAX { Ok(spin) } else { Err(VipReturn::InvalidParameter) }
}

fn spin_of(microseconds: u32) -> Result<Spin, VipReturn> {
    if microseconds == VIPX_SPIN_NIC { Ok(Spin::Nic) } else { duration_of(microseconds).map(Spin::For) }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxSetSpin(nic: VipHandle, microseconds: u32) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        nic.nic.set_spin(duration_of(microseconds)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxSendWait(vi: VipHandle, timeout: VipUlong, spin: u32, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| work::wait(vi, timeout, spin_of(spin)?, out, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxRecvWait(vi: VipHandle, timeout: VipUlong, spin: u32, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| work::wait(vi, timeout, spin_of(spin)?, out, WorkQueueKind::Receive))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxCQWait(cq: VipHandle, timeout: VipUlong, spin: u32, vi_out: *mut VipHandle, is_receive_out: *mut VipBoolean) -> VipReturn {
    call(|| cq::wait(cq, timeout, spin_of(spin)?, vi_out, is_receive_out))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxCQFd(cq: VipHandle, out: *mut c_int) -> VipReturn {
    call(|| {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        if out.is_null() {
            return Err(VipReturn::InvalidParameter);
        }
        let fd = nic.nic.cq_fd(cq)?.into_raw_fd();
        // SAFETY: C1, not NULL.
        unsafe { out.write(fd) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipxCQArm(cq: VipHandle) -> VipReturn {
    call(|| {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        if nic.nic.cq_arm(cq)? { Ok(()) } else { Err(VipReturn::NotDone) }
    })
}
