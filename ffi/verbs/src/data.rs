// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data path: posting and polling. Programs call these through the tables in the context, which inline functions of the public header read.

use crate::abi::{IbvCq, IbvQp, IbvRecvWr, IbvSendWr, IbvSrq, IbvWc};
use crate::pieces::pieces;
use crate::types::{Ah, Cq, Qp, Srq, inside};
use crate::windows::bind_of;
use crate::{code, errno_of};
use bellwire_verbs::{
    Completion, Destination, Error, Extra, Opcode, QpKind, SHORT_BYTES_MAX, SendFlags, SendRequest, Sge, ShortAccess, ShortSend, join_inline,
};
use core::ffi::c_int;

/// A request as the core has it.
///
/// # Safety
/// V2.
#[inline]
unsafe fn request(qp: &Qp, wr: &IbvSendWr) -> Result<SendRequest<'static>, Error> {
    let opcode = Opcode::from_number(wr.opcode).ok_or(Error::Invalid)?;
    let (key, operands) = match opcode {
        Opcode::FetchAdd => (wr.wr[3] as u32, [wr.wr[1], 0]),
        Opcode::CompareSwap => (wr.wr[3] as u32, [wr.wr[2], wr.wr[1]]),
        _ => (wr.wr[1] as u32, [0; 2]),
    };
    let to = if qp.is_datagram() {
        let ah = core::ptr::with_exposed_provenance_mut::<crate::abi::IbvAh>(wr.wr[0] as usize);
        if ah.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: V1.
        Some(Destination { gid: unsafe { inside::<_, Ah>(ah) }.gid, qp: wr.wr[1] as u32, qkey: (wr.wr[1] >> 32) as u32 })
    } else {
        None
    };
    let extra = match opcode {
        // SAFETY: V1.
        Opcode::Bind => unsafe { bind_of(wr.bind.mw, wr.bind.rkey, &wr.bind.info) }?,
        _ if qp.kind == QpKind::XrcSend => Extra::Srq(wr.remote_srq),
        _ => Extra::None,
    };
    Ok(SendRequest {
        wr_id: wr.wr_id,
        opcode,
        flags: SendFlags::from_bits_truncate(wr.send_flags),
        // SAFETY: V2.
        pieces: unsafe { pieces(wr.sg_list, wr.num_sge) }?,
        immediate: wr.imm_data,
        address: wr.wr[0],
        key,
        operands,
        extra,
        to,
    })
}

/// Posts a request if it is one that has a short way and all is as usual.
///
/// # Safety
/// V2.
#[inline(always)]
unsafe fn posts_short(qp: &Qp, wr: &IbvSendWr) -> bool {
    const SEND: u32 = Opcode::Send as u32;
    const SEND_IMM: u32 = Opcode::SendImm as u32;
    const WRITE: u32 = Opcode::Write as u32;
    const READ: u32 = Opcode::Read as u32;
    if qp.is_datagram() || wr.sg_list.is_null() {
        return false;
    }
    if wr.num_sge != 1 {
        // SAFETY: V2.
        return unsafe { posts_joined(qp, wr) };
    }
    // SAFETY: V2.
    let piece = unsafe { *wr.sg_list };
    let (wr_id, flags) = (wr.wr_id, SendFlags::from_bits_truncate(wr.send_flags));
    match wr.opcode {
        SEND | SEND_IMM => {
            let send = ShortSend { wr_id, flags, has_immediate: wr.opcode == SEND_IMM, immediate: wr.imm_data, piece };
            // SAFETY: R2, which V2 asks of the program.
            unsafe { qp.port.post_short(qp.number, &send) }
        }
        WRITE | READ => {
            let access = ShortAccess { wr_id, flags, reads: wr.opcode == READ, address: wr.wr[0], key: wr.wr[1] as u32, piece };
            // SAFETY: R2, which V2 asks of the program.
            unsafe { qp.port.access_short(qp.number, &access) }
        }
        _ => false,
    }
}

/// The same for a send of two pieces.
///
/// # Safety
/// V2; there is a list.
#[inline(never)]
unsafe fn posts_joined(qp: &Qp, wr: &IbvSendWr) -> bool {
    let flags = SendFlags::from_bits_truncate(wr.send_flags);
    let has_immediate = wr.opcode == Opcode::SendImm as u32;
    if wr.num_sge != 2 || !qp.joins || !(has_immediate || wr.opcode == Opcode::Send as u32) {
        return false;
    }
    if !flags.contains(SendFlags::INLINE) {
        // SAFETY: V2, and so R2.
        return unsafe {
            let [lead, piece] = *wr.sg_list.cast::<[Sge; 2]>();
            qp.port.post_led(qp.number, &ShortSend { wr_id: wr.wr_id, flags, has_immediate, immediate: wr.imm_data, piece }, &lead)
        };
    }
    let mut room = [0; SHORT_BYTES_MAX];
    // SAFETY: V2, and so R2; then R2 for `room`, which outlives the call.
    unsafe {
        let Some(piece) = join_inline(&*wr.sg_list.cast::<[Sge; 2]>(), &mut room) else { return false };
        qp.port.post_short(qp.number, &ShortSend { wr_id: wr.wr_id, flags, has_immediate, immediate: wr.imm_data, piece })
    }
}

/// Posts a request.
///
/// # Safety
/// V2.
#[inline(never)]
unsafe fn post_any(qp: &Qp, wr: &IbvSendWr) -> Result<(), Error> {
    // SAFETY: V2, and so R2.
    unsafe { request(qp, wr).and_then(|r| qp.port.post_send(qp.number, &r)) }
}

/// Posts requests.
pub(crate) unsafe extern "C" fn post_send(qp: *mut IbvQp, mut wr: *mut IbvSendWr, bad: *mut *mut IbvSendWr) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Qp>(qp) };
    while !wr.is_null() {
        // SAFETY: V2.
        let outcome = unsafe { if posts_short(inner, &*wr) { Ok(()) } else { post_any(inner, &*wr) } };
        if let Err(e) = outcome {
            // SAFETY: V2.
            unsafe { *bad = wr };
            return errno_of(e);
        }
        // SAFETY: V2.
        wr = unsafe { (*wr).next };
    }
    0
}

/// Posts receives, by `post`.
#[inline]
unsafe fn receives(mut wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr, post: impl Fn(u64, &[Sge]) -> Result<(), Error>) -> c_int {
    while !wr.is_null() {
        // SAFETY: V2.
        let (wr_id, list) = unsafe { ((*wr).wr_id, pieces((*wr).sg_list, (*wr).num_sge)) };
        if let Err(e) = list.and_then(|list| post(wr_id, list)) {
            // SAFETY: V2.
            unsafe { *bad = wr };
            return errno_of(e);
        }
        // SAFETY: V2.
        wr = unsafe { (*wr).next };
    }
    0
}

/// Posts receives that are anything but one of one piece.
///
/// # Safety
/// V2.
#[inline(never)]
unsafe fn receive_any(qp: &Qp, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: V2.
    unsafe { receives(wr, bad, |id, list| qp.port.post_receive(qp.number, id, list)) }
}

/// Posts receives.
pub(crate) unsafe extern "C" fn post_recv(qp: *mut IbvQp, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: V1, V2.
    unsafe {
        let inner = inside::<_, Qp>(qp);
        if !wr.is_null()
            && (*wr).next.is_null()
            && (*wr).num_sge == 1
            && !(*wr).sg_list.is_null()
            && inner.port.post_receive_short(inner.number, (*wr).wr_id, &*(*wr).sg_list)
        {
            return 0;
        }
        receive_any(inner, wr, bad)
    }
}

/// Posts receives to a shared queue.
pub(crate) unsafe extern "C" fn post_srq_recv(srq: *mut IbvSrq, wr: *mut IbvRecvWr, bad: *mut *mut IbvRecvWr) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Srq>(srq) };
    let (mut at, mut next) = (wr, wr);
    let posted = inner.port.post_srq_all(inner.id, || {
        if next.is_null() {
            return Ok(None);
        }
        at = next;
        // SAFETY: V2.
        unsafe {
            next = (*at).next;
            Ok(Some(((*at).wr_id, pieces((*at).sg_list, (*at).num_sge)?)))
        }
    });
    posted.map_or_else(
        |e| {
            // SAFETY: V2.
            unsafe { bad.write(at) };
            errno_of(e)
        },
        |()| 0,
    )
}

/// Each field by a load of its own: an entry is mostly read just after it was written, word by word, and a load of several words would wait until all of them have left the store buffer.
#[inline(always)]
fn wc_of(c: &Completion, wc_flags: u32) -> IbvWc {
    let word = |field: &u32| {
        // SAFETY: a reference.
        unsafe { core::ptr::from_ref(field).read_volatile() }
    };
    IbvWc {
        wr_id: c.wr_id,
        status: c.status as u32,
        opcode: c.opcode as u32,
        vendor_err: c.reason as u32,
        byte_len: word(&c.byte_len),
        imm_data: word(&c.immediate),
        qp_num: word(&c.qp),
        src_qp: word(&c.source),
        wc_flags,
        ..IbvWc::default()
    }
}

/// Takes completions.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut IbvCq, most: c_int, mut to: *mut IbvWc) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Cq>(cq) };
    let found = inner.port.poll_cq(inner.id, most.max(0) as usize, |c| {
        // SAFETY: V2: room for `most`.
        unsafe {
            to.write(wc_of(c, inner.flags_of(c)));
            to = to.add(1);
        }
    });
    found.map_or(-1, |n| n as c_int)
}

/// Has the next completion told of on the channel.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut IbvCq, solicited_only: c_int) -> c_int {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Cq>(cq) };
    code(inner.port.arm_cq(inner.id, solicited_only != 0))
}
