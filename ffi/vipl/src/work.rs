// SPDX-License-Identifier: MIT OR Apache-2.0
//! Post, done, wait: the data path. No allocation, no lock but the NIC's token.

use crate::handles::{self, Inside, Kind};
use crate::status::{self, Outcome, VipReturn, call, guard};
use crate::types::{VIP_INFINITE, VipDescriptor, VipHandle, VipUlong};
use bellwire_via::descriptor::DescriptorRef;
use bellwire_via::nic::Spin;
use bellwire_via::{Completion, Error, ViHandle, WorkQueueKind};
use std::time::Duration;

const SEND: u8 = WorkQueueKind::Send as u8;
const RECEIVE: u8 = WorkQueueKind::Receive as u8;

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

/// Where a descriptor is. Its address counts as exposed: the engine makes pointers of it once it
/// has found it in a registered region.
#[inline]
pub(crate) fn descriptor_at(descriptor: *mut VipDescriptor, handle: u32) -> DescriptorRef {
    DescriptorRef { address: descriptor.expose_provenance(), handle }
}

/// The pointer that was posted.
#[inline]
pub(crate) fn descriptor_of(completion: &Completion) -> *mut VipDescriptor {
    core::ptr::with_exposed_provenance_mut(completion.descriptor)
}

/// One function for each queue, so that each C call has its path in one piece.
#[inline(always)]
fn post<const QUEUE: u8>(vi: VipHandle, descriptor: *mut VipDescriptor, handle: u32) -> VipReturn {
    handles::with_object(Kind::Vi, vi, |nic, vi| {
        let at = descriptor_at(descriptor, handle);
        let posted = if QUEUE == SEND { nic.nic.post_send_descriptor(vi, at) } else { nic.nic.post_receive_descriptor(vi, at) };
        match posted {
            Ok(()) => VipReturn::Success,
            Err(error) => error.into(),
        }
    })
}

/// Gives a completion to C. `None`: it was of a request without descriptor (a failed
/// `VipxSendInline`), which nobody collects.
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

#[inline(always)]
fn done<const QUEUE: u8>(vi: VipHandle, out: *mut *mut VipDescriptor) -> VipReturn {
    if out.is_null() {
        return VipReturn::InvalidParameter;
    }
    handles::with_object(Kind::Vi, vi, |nic, vi| {
        loop {
            let completion = match if QUEUE == SEND { nic.nic.send_done(vi) } else { nic.nic.receive_done(vi) } {
                Ok(Some(completion)) => completion,
                Ok(None) => return status::code(hand_over_nothing(out, VipReturn::NotDone)),
                Err(error) => return error.into(),
            };
            if let Some(outcome) = hand_over(&completion, out) {
                return status::code(outcome);
            }
        }
    })
}

#[inline]
pub(crate) fn wait(vi: VipHandle, timeout: VipUlong, spin: Spin, out: *mut *mut VipDescriptor, queue: WorkQueueKind) -> Outcome {
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
            WorkQueueKind::Send => nic.nic.send_wait_with(vi, timeout, spin),
            WorkQueueKind::Receive => nic.nic.receive_wait_with(vi, timeout, spin),
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
    guard(|| post::<SEND>(vi, descriptor, handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipPostRecv(vi: VipHandle, descriptor: *mut VipDescriptor, handle: u32) -> VipReturn {
    guard(|| post::<RECEIVE>(vi, descriptor, handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendDone(vi: VipHandle, out: *mut *mut VipDescriptor) -> VipReturn {
    guard(|| done::<SEND>(vi, out))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvDone(vi: VipHandle, out: *mut *mut VipDescriptor) -> VipReturn {
    guard(|| done::<RECEIVE>(vi, out))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendWait(vi: VipHandle, timeout: VipUlong, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| wait(vi, timeout, Spin::Nic, out, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvWait(vi: VipHandle, timeout: VipUlong, out: *mut *mut VipDescriptor) -> VipReturn {
    call(|| wait(vi, timeout, Spin::Nic, out, WorkQueueKind::Receive))
}
