// SPDX-License-Identifier: MIT OR Apache-2.0
//! Post, done, wait: the data path. No allocation, no lock but the NIC's token.

use crate::handles::{self, Inside, Kind};
use crate::status::{Outcome, VipReturn, call};
use crate::types::{VIP_INFINITE, VipDescriptor, VipHandle, VipUlong};
use bellwire_via::descriptor::DescriptorRef;
use bellwire_via::{Completion, Error, ViHandle, WorkQueueKind};
use std::time::Duration;

/// A timeout of the C interface: milliseconds, or for ever.
#[inline]
pub(crate) fn timeout_of(ms: VipUlong) -> Option<Duration> {
    (ms != VIP_INFINITE && ms != VipUlong::MAX).then(|| Duration::from_millis(ms))
}

/// The VI of a handle, and its NIC.
#[inline]
pub(crate) fn enter_vi(vi: VipHandle) -> Result<(Inside, ViHandle), VipReturn> {
    handles::enter_object(Kind::Vi, vi)
}

/// Where a descriptor is. Its address counts as exposed: the engine makes pointers of it once it has found it in a registered region.
#[inline]
pub(crate) fn descriptor_at(descriptor: *mut VipDescriptor, handle: u32) -> DescriptorRef {
    DescriptorRef { address: descriptor.expose_provenance(), handle }
}

/// The pointer that was posted.
#[inline]
pub(crate) fn descriptor_of(completion: &Completion) -> *mut VipDescriptor {
    core::ptr::with_exposed_provenance_mut(completion.descriptor)
}

#[inline]
fn post(vi: VipHandle, descriptor: *mut VipDescriptor, handle: u32, queue: WorkQueueKind) -> Outcome {
    let (nic, vi) = enter_vi(vi)?;
    let at = descriptor_at(descriptor, handle);
    match queue {
        WorkQueueKind::Send => nic.nic.post_send_descriptor(vi, at)?,
        WorkQueueKind::Receive => nic.nic.post_receive_descriptor(vi, at)?,
    }
    Ok(())
}

/// Gives a completion to C. `None`: it was of a request without descriptor (a failed `VipxSendInline`), which nobody collects.
#[inline]
fn hand_over(completion: &Completion, out: *mut *mut VipDescriptor) -> Option<Outcome> {
    if completion.descriptor == 0 {
        return None;
    }
    // SAFETY: C1; the caller has checked for NULL.
    unsafe { out.write(descriptor_of(completion)) };
    Some(if completion.status.is_error() { Err(VipReturn::DescriptorError) } else { Ok(()) })
}

/// Nothing was there: the out pointer is NULL.
#[inline]
fn hand_over_nothing(out: *mut *mut VipDescriptor, code: VipReturn) -> Outcome {
    // SAFETY: C1; the caller has checked for NULL.
    unsafe { out.write(core::ptr::null_mut()) };
    Err(code)
}

#[inline]
fn done(vi: VipHandle, out: *mut *mut VipDescriptor, queue: WorkQueueKind) -> Outcome {
    let (nic, vi) = enter_vi(vi)?;
    if out.is_null() {
        return Err(VipReturn::InvalidParameter);
    }
    loop {
        let found = match queue {
            WorkQueueKind::Send => nic.nic.send_done(vi)?,
            WorkQueueKind::Receive => nic.nic.receive_done(vi)?,
        };
        let Some(completion) = found else { return hand_over_nothing(out, VipReturn::NotDone) };
        if let Some(outcome) = hand_over(&completion, out) {
            return outcome;
        }
    }
}

#[inline]
fn wait(vi: VipHandle, timeout: VipUlong, out: *mut *mut VipDescriptor, queue: WorkQueueKind) -> Outcome {
    let (nic, vi) = enter_vi(vi)?;
    if out.is_null() {
        return Err(VipReturn::InvalidParameter);
    }
    if nic.nic.with(|e| e.is_bound(vi, queue))? {
        return Err(VipReturn::InvalidState);
    }
    let timeout = timeout_of(timeout);
    loop {
        let found = match queue {
            WorkQueueKind::Send => nic.nic.send_wait(vi, timeout),
            WorkQueueKind::Receive => nic.nic.receive_wait(vi, timeout),
        };
        match found {
            Ok(completion) => {
                if let Some(outcome) = hand_over(&completion, out) {
                    return outcome;
                }
            }
            Err(Error::Timeout) => return hand_over_nothing(out, VipReturn::Timeout),
            Err(e) => return Err(e.into()),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipPostSend(vi: VipHandle, descriptor: *mut VipDescriptor, handle: u32) -> VipReturn {
    call(|| post(vi, descriptor, handle, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipPostRecv(vi: VipHandle, descriptor: *mut VipDescriptor, handle: u32) -> VipReturn {
    call(|| post(vi, descriptor, handle, WorkQueueKind::Receive))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendDone(vi: VipHandle, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| done(vi, out, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvDone(vi: VipHandle, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| done(vi, out, WorkQueueKind::Receive))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendWait(vi: VipHandle, timeout: VipUlong, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| wait(vi, timeout, out, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvWait(vi: VipHandle, timeout: VipUlong, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| wait(vi, timeout, out, WorkQueueKind::Receive))
}
