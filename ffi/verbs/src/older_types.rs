// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shapes of the interface of 2006, as programs were compiled with them. Each object ends with
//! today's, which stands behind it.

use crate::abi::{Call, Condition, Hole, IbvAh, IbvContext, IbvCq, IbvDevice, IbvMr, IbvPd, IbvQp, IbvQpCap, IbvSrq, Mutex};
use core::ffi::{c_int, c_void};

/// A device.
#[repr(C)]
pub struct OldDevice {
    /// Of sysfs, which nothing fills.
    pub(crate) obsolete: [Hole; 2],
    pub(crate) real: *mut IbvDevice,
    pub(crate) ops: [Hole; 2],
}

/// Calls in a context's table.
pub(crate) const OLD_OPS: usize = 27;
pub(crate) const OLD_POLL_CQ: usize = 7;
pub(crate) const OLD_REQ_NOTIFY_CQ: usize = 8;
pub(crate) const OLD_POST_SRQ_RECV: usize = 16;
pub(crate) const OLD_POST_SEND: usize = 21;
pub(crate) const OLD_POST_RECV: usize = 22;

/// An open device.
#[repr(C)]
pub struct OldContext {
    pub(crate) device: *mut OldDevice,
    pub(crate) ops: [Call; OLD_OPS],
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) real: *mut IbvContext,
}

/// A protection domain.
#[repr(C)]
pub struct OldPd {
    pub(crate) context: *mut OldContext,
    pub(crate) handle: u32,
    pub(crate) real: *mut IbvPd,
}

/// A memory region.
#[repr(C)]
pub struct OldMr {
    pub(crate) context: *mut OldContext,
    pub(crate) pd: *mut OldPd,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
    pub(crate) real: *mut IbvMr,
}

/// A completion queue.
#[repr(C)]
pub struct OldCq {
    pub(crate) context: *mut OldContext,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) comp_events_completed: u32,
    pub(crate) async_events_completed: u32,
    pub(crate) real: *mut IbvCq,
}

/// A shared receive queue.
#[repr(C)]
pub struct OldSrq {
    pub(crate) context: *mut OldContext,
    pub(crate) srq_context: *mut c_void,
    pub(crate) pd: *mut OldPd,
    pub(crate) handle: u32,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) events_completed: u32,
    pub(crate) real: *mut IbvSrq,
}

/// A queue pair.
#[repr(C)]
pub struct OldQp {
    pub(crate) context: *mut OldContext,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut OldPd,
    pub(crate) send_cq: *mut OldCq,
    pub(crate) recv_cq: *mut OldCq,
    pub(crate) srq: *mut OldSrq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) qp_type: u32,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) events_completed: u32,
    pub(crate) real: *mut IbvQp,
}

/// An address handle.
#[repr(C)]
pub struct OldAh {
    pub(crate) context: *mut OldContext,
    pub(crate) pd: *mut OldPd,
    pub(crate) handle: u32,
    pub(crate) real: *mut IbvAh,
}

/// What a queue pair is made with.
#[repr(C)]
pub struct OldQpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut OldCq,
    pub(crate) recv_cq: *mut OldCq,
    pub(crate) srq: *mut OldSrq,
    pub(crate) cap: IbvQpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
}

/// The place in the table, of a call that no program makes, that marks a context as an old one.
pub(crate) const OLD_MARK: usize = 0;
/// Its address is the mark.
pub(crate) static MARK: u8 = 0;

/// Today's context, of either. (The name of one call has had one version, so programs of 2006 give
/// it theirs.)
///
/// # Safety
/// V1, or an [`OldContext`].
pub(crate) unsafe fn today(context: *mut IbvContext) -> *mut IbvContext {
    let old = context.cast::<OldContext>();
    // SAFETY: the caller's: both have a pointer there, and no context of today has this one.
    unsafe { if (*old).ops[OLD_MARK] == &raw const MARK as Call { (*old).real } else { context } }
}

/// Offsets of what programs read, as their headers had them.
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(OldContext, ops) == 8 && offset_of!(OldContext, cmd_fd) == 224 && offset_of!(OldContext, num_comp_vectors) == 232);
    assert!(offset_of!(OldMr, lkey) == 20 && offset_of!(OldCq, cqe) == 20 && offset_of!(OldSrq, mutex) == 32);
    assert!(offset_of!(OldQp, qp_num) == 52 && offset_of!(OldQp, qp_type) == 60 && offset_of!(OldQpInitAttr, cap) == 32);
};
