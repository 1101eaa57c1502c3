// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a program that is traced. Those of the data path stand in the tables in place of
//! the usual ones ([`crate::tables`], [`crate::extended`]), so the usual ones know nothing of it.
//! Calls that set something up ask (`bellwire_trace::call`).

use crate::abi::{IbvCq, IbvQp, IbvRecvWr, IbvSendWr, IbvSrq, IbvWc};
use crate::data;
use crate::pieces::pieces;
use crate::types::{Cq, Qp, Srq, inside};
use bellwire_trace::call::Outcome;
use bellwire_trace::{Kind, here};
use bellwire_verbs::{Completion, SendRequest, Sge};
use core::ffi::c_int;

fn bytes_of(pieces: &[Sge]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.length)).sum()
}

/// A request of the newer interface.
pub(crate) fn note_request(qp: u32, r: &SendRequest<'_>) {
    let rest = [r.opcode as u64, u64::from(r.flags.bits()), r.pieces.len() as u64, r.address, u64::from(r.key)];
    here::note_more(Kind::PostSend, qp, [r.wr_id, bytes_of(r.pieces)], &rest);
}

/// The outcome of its post.
pub(crate) fn note_posted(qp: u32, outcome: c_int) {
    here::note(Kind::PostSendEnd, qp, [outcome.word(), 0]);
}

/// As [`data::post_send`], one by one.
pub(crate) unsafe extern "C" fn post_send(qp: *mut IbvQp, mut wr: *mut IbvSendWr, bad: *mut *mut IbvSendWr) -> c_int {
    // SAFETY: V1.
    let number = unsafe { inside::<_, Qp>(qp) }.number;
    while !wr.is_null() {
        // A copy, to be posted alone, so that each has its own end: the list stays as it is.
        // SAFETY: V2.
        let mut request = unsafe { wr.read() };
        let next = core::mem::replace(&mut request.next, core::ptr::null_mut());
        // SAFETY: V2.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge) }.unwrap_or_default();
        let rest = [request.opcode.into(), request.send_flags.into(), pieces.len() as u64, request.wr[0], request.wr[1] & u64::from(u32::MAX)];
        here::note_more(Kind::PostSend, number, [request.wr_id, bytes_of(pieces)], &rest);
        let mut refused = core::ptr::null_mut();
        // SAFETY: the caller's.
        let outcome = unsafe { data::post_send(qp, &raw mut request, &raw mut refused) };
        note_posted(number, outcome);
        if outcome != 0 {
            // SAFETY: V2.
            unsafe { *bad = wr };
            return outcome;
        }
        wr = next;
    }
    0
}

/// Notes the receives of a list, and has them posted.
///
/// # Safety
/// V2.
unsafe fn receives(object: u32, wr: *mut IbvRecvWr, post: impl FnOnce() -> c_int) -> c_int {
    let mut at = wr;
    while !at.is_null() {
        // SAFETY: V2.
        let request = unsafe { &*at };
        // SAFETY: V2.
        let pieces = unsafe { pieces(request.sg_list, request.num_sge) }.unwrap_or_default();
        here::note_more(Kind::PostReceive, object, [request.wr_id, bytes_of(pieces)], &[pieces.len() as u64]);
        at = request.next;
    }
    let outcome = post();
    here::note(Kind::PostReceiveEnd, object, [outcome.word(), 0]);
    outcome
}

/// As [`data::post_recv`].
pub(crate) unsafe extern "C" fn post_recv(qp: *mut IbvQp, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: V1.
    let number = unsafe { inside::<_, Qp>(qp) }.number;
    // SAFETY: the caller's.
    unsafe { receives(number, wr, || data::post_recv(qp, wr, bad)) }
}

/// As [`data::post_srq_recv`].
pub(crate) unsafe extern "C" fn post_srq_recv(srq: *mut IbvSrq, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: V1.
    let id = unsafe { inside::<_, Srq>(srq) }.id;
    // SAFETY: the caller's.
    unsafe { receives(id, wr, || data::post_srq_recv(srq, wr, bad)) }
}

/// As [`data::poll_cq`]; looks that find nothing are counted.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut IbvCq, most: c_int, to: *mut IbvWc) -> c_int {
    // SAFETY: V1.
    let id = unsafe { inside::<_, Cq>(cq) }.id;
    // SAFETY: the caller's.
    let found = unsafe { data::poll_cq(cq, most, to) };
    if found == 0 {
        here::note_empty_look();
        return 0;
    }
    here::note(Kind::Poll, id, [0; 2]);
    for at in 0..found.max(0) as usize {
        // SAFETY: V2: so many were written.
        let wc = unsafe { &*to.add(at) };
        here::note_more(Kind::WorkCompletion, wc.qp_num, [wc.wr_id, wc.status.into()], &[wc.opcode.into(), wc.byte_len.into()]);
    }
    here::note(Kind::PollEnd, id, [found.word(), 0]);
    found
}

/// Notes a completion of the newer interface, or a look that found none.
pub(crate) fn note_completion(c: Option<&Completion>) {
    match c {
        None => here::note_empty_look(),
        Some(c) => here::note_more(Kind::WorkCompletion, c.qp, [c.wr_id, c.status as u64], &[c.opcode as u64, c.byte_len.into()]),
    }
}
