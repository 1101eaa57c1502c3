// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting and polling by the interface of 2006: each request is made anew in today's shape, and
//! posted by the call in the table of today's context.

use crate::abi::{self, Call, IbvContext, IbvRecvWr, IbvSendWr, IbvWc};
use crate::older_types::{OldAh, OldCq, OldQp, OldSrq};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Datagrams.
const UD: u32 = 4;

/// A request to send.
#[repr(C)]
pub(super) struct OldSendWr {
    next: *mut OldSendWr,
    wr_id: u64,
    sg_list: *const bellwire_verbs::Sge,
    num_sge: c_int,
    opcode: u32,
    send_flags: u32,
    imm_data: u32,
    /// As in today's; of a datagram, the first word is an old address handle.
    wr: [u64; 4],
}

/// A receive.
#[repr(C)]
pub(super) struct OldRecvWr {
    next: *mut OldRecvWr,
    wr_id: u64,
    sg_list: *const bellwire_verbs::Sge,
    num_sge: c_int,
}

/// A call in the table of today's context.
///
/// # Safety
/// V1.
unsafe fn op(context: *mut IbvContext, place: usize) -> Call {
    // SAFETY: the caller's.
    unsafe { (*context).ops[place] }
}

type PostSend<T> = unsafe extern "C" fn(*mut T, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int;
type PostReceive<T> = unsafe extern "C" fn(*mut T, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int;

pub(super) unsafe extern "C" fn poll_cq(cq: *mut OldCq, room: c_int, to: *mut IbvWc) -> c_int {
    // SAFETY: V1, V2: the call at that place has this type.
    unsafe {
        let real = (*cq).real;
        let call: unsafe extern "C" fn(*mut abi::IbvCq, c_int, *mut IbvWc) -> c_int = core::mem::transmute(op((*real).context, abi::OP_POLL_CQ));
        call(real, room, to)
    }
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut OldCq, solicited_only: c_int) -> c_int {
    // SAFETY: V1: the call at that place has this type.
    unsafe {
        let real = (*cq).real;
        let call: unsafe extern "C" fn(*mut abi::IbvCq, c_int) -> c_int = core::mem::transmute(op((*real).context, abi::OP_REQ_NOTIFY_CQ));
        call(real, solicited_only)
    }
}

pub(super) unsafe extern "C" fn post_send(qp: *mut OldQp, first: *mut OldSendWr, bad: *mut *mut OldSendWr) -> c_int {
    // SAFETY: V1, V2: the call at that place has this type; the list ends with NULL. Zero is a
    // value of each field.
    unsafe {
        let real = (*qp).real;
        let call: PostSend<abi::IbvQp> = core::mem::transmute(op((*real).context, abi::OP_POST_SEND));
        let mut at = first;
        while !at.is_null() {
            let old = &*at;
            let mut wr: IbvSendWr = core::mem::zeroed();
            (wr.wr_id, wr.sg_list, wr.num_sge, wr.opcode) = (old.wr_id, old.sg_list, old.num_sge, old.opcode);
            (wr.send_flags, wr.imm_data, wr.wr) = (old.send_flags, old.imm_data, old.wr);
            if (*qp).qp_type == UD {
                let ah = core::ptr::with_exposed_provenance_mut::<OldAh>(old.wr[0] as usize);
                wr.wr[0] = if ah.is_null() { 0 } else { (*ah).real.expose_provenance() as u64 };
            }
            let outcome = call(real, &raw mut wr, &mut null_mut());
            if outcome != 0 {
                bad.write(at);
                return outcome;
            }
            at = old.next;
        }
    }
    0
}

/// Posts receives one by one.
///
/// # Safety
/// V1, V2: `post` posts one to the queue.
unsafe fn post_receives(first: *mut OldRecvWr, bad: *mut *mut OldRecvWr, post: impl Fn(*mut IbvRecvWr) -> c_int) -> c_int {
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's: the list ends with NULL.
        let old = unsafe { &*at };
        let mut wr = IbvRecvWr { wr_id: old.wr_id, next: null_mut(), sg_list: old.sg_list, num_sge: old.num_sge };
        let outcome = post(&raw mut wr);
        if outcome != 0 {
            // SAFETY: V2.
            unsafe { bad.write(at) };
            return outcome;
        }
        at = old.next;
    }
    0
}

pub(super) unsafe extern "C" fn post_recv(qp: *mut OldQp, first: *mut OldRecvWr, bad: *mut *mut OldRecvWr) -> c_int {
    // SAFETY: V1, V2: the call at that place has this type.
    unsafe {
        let real = (*qp).real;
        let call: PostReceive<abi::IbvQp> = core::mem::transmute(op((*real).context, abi::OP_POST_RECV));
        post_receives(first, bad, |wr| call(real, wr, &mut null_mut()))
    }
}

pub(super) unsafe extern "C" fn post_srq_recv(srq: *mut OldSrq, first: *mut OldRecvWr, bad: *mut *mut OldRecvWr) -> c_int {
    // SAFETY: V1, V2: the call at that place has this type.
    unsafe {
        let real = (*srq).real;
        let call: PostReceive<abi::IbvSrq> = core::mem::transmute(op((*real).context, abi::OP_POST_SRQ_RECV));
        post_receives(first, bad, |wr| call(real, wr, &mut null_mut()))
    }
}

const _: () = assert!(size_of::<OldSendWr>() == 72 && size_of::<*mut c_void>() == 8);
