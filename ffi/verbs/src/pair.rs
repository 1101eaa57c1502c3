// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs: made, changed, asked, ended.

use crate::abi::{IbvAhAttr, IbvContext, IbvCq, IbvPd, IbvQp, IbvQpAttr, IbvQpCap, IbvQpInitAttr, IbvQpOpenAttr, IbvXrcd};
use crate::beside::or_real;
use crate::devices::Kind;
use crate::objects::address;
use crate::types::{Batch, Cq, Pd, Qp, Srq, Xrcd, context, inside};
use crate::{code, errno_of, set_errno};
use bellwire_devices::Atomics;
use bellwire_trace::call as trace;
use bellwire_verbs::{Access, Caps, Error, Gid, Given, INLINE_MAX, QpAttributes, QpInit, QpKind, QpState};
use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// Vendor of the options of extended connection establishment, of which there are none.
const ECE_VENDOR: u32 = 0xb311;

fn kind(number: u32) -> Result<QpKind, Error> {
    match number {
        2 => Ok(QpKind::Rc),
        3 => Ok(QpKind::Uc),
        4 => Ok(QpKind::Ud),
        9 => Ok(QpKind::XrcSend),
        10 => Ok(QpKind::XrcReceive),
        _ => Err(Error::Unsupported),
    }
}

/// Makes a queue pair; `attr` gets the sizes that it has.
///
/// # Safety
/// V1, V2 for `attr` up to `sq_sig_all`.
pub(crate) unsafe fn create(context: *mut IbvContext, pd: *mut IbvPd, xrcd: *mut IbvXrcd, attr: *mut IbvQpInitAttr) -> Result<*mut IbvQp, Error> {
    // SAFETY: V2. Field by field: programs of the older interface give a shorter structure.
    let (qp_context, send_cq, recv_cq, srq, cap, qp_type, signal_all) =
        unsafe { ((*attr).qp_context, (*attr).send_cq, (*attr).recv_cq, (*attr).srq, (*attr).cap, (*attr).qp_type, (*attr).sq_sig_all != 0) };
    let kind = kind(qp_type)?;
    let (sends, receives) = (kind != QpKind::XrcReceive, !matches!(kind, QpKind::XrcSend | QpKind::XrcReceive));
    if (sends && (pd.is_null() || send_cq.is_null())) || (receives && recv_cq.is_null()) || (!sends && xrcd.is_null()) || (!receives && !srq.is_null()) {
        return Err(Error::Invalid);
    }
    // SAFETY: V1.
    let (port, own, domain) = unsafe {
        let open = self::context(context);
        (Arc::clone(&open.port), open.own, if sends { inside::<_, Pd>(pd).id } else { inside::<_, Xrcd>(xrcd).id })
    };
    let (send_cq, recv_cq) = (if sends { send_cq } else { core::ptr::null_mut() }, if receives { recv_cq } else { core::ptr::null_mut() });
    let caps = Caps {
        sends: if sends { cap.max_send_wr } else { 0 },
        receives: if receives { cap.max_recv_wr } else { 0 },
        send_pieces: cap.max_send_sge.max(1),
        receive_pieces: cap.max_recv_sge.max(1),
        // Devices offer the room that they have.
        inline: cap.max_inline_data.max(64),
    };
    let limits = &own.device.limits;
    let is_within = [
        (caps.sends, limits.max_qp_wr),
        (caps.receives, limits.max_qp_wr),
        (caps.send_pieces, limits.max_sge),
        (caps.receive_pieces, limits.max_sge),
        (cap.max_inline_data, limits.max_inline),
    ];
    if is_within.into_iter().any(|(asked, most)| u64::from(asked) > most) {
        return Err(Error::Invalid);
    }
    let counted = own.count(Kind::Qp)?;
    let made = Box::into_raw(Box::new(Qp {
        public: IbvQp { context, qp_context, pd, send_cq, recv_cq, srq, state: QpState::Reset as u32, qp_type, ..IbvQp::EMPTY },
        port: Arc::clone(&port),
        number: 0,
        batch: Batch::default(),
        kind,
        joins: caps.send_pieces >= 2,
        own,
        _counted: Some(counted),
    }));
    // SAFETY: V1.
    let id_of = |cq: *mut IbvCq| if cq.is_null() { 0 } else { unsafe { inside::<_, Cq>(cq) }.id };
    // SAFETY: V1.
    let srq = (!srq.is_null()).then(|| unsafe { inside::<_, Srq>(srq) }.id);
    let (send_cq, receive_cq, cookie) = (id_of(send_cq), id_of(recv_cq), made.expose_provenance() as u64);
    let number = port.create_qp(&QpInit { kind, domain, send_cq, receive_cq, srq, caps, signal_all, cookie });
    match number {
        Ok(number) => {
            // SAFETY: just made; V2.
            unsafe {
                (*made).number = number;
                ((*made).public.qp_num, (*made).public.handle) = (number, number);
                (*attr).cap = caps_of(&caps);
            }
            Ok(made.cast())
        }
        Err(e) => {
            // SAFETY: just made; nobody has it.
            drop(unsafe { Box::from_raw(made) });
            Err(e)
        }
    }
}

fn caps_of(caps: &Caps) -> IbvQpCap {
    IbvQpCap {
        max_send_wr: caps.sends,
        max_recv_wr: caps.receives,
        max_send_sge: caps.send_pieces,
        max_recv_sge: caps.receive_pieces,
        max_inline_data: caps.inline.min(INLINE_MAX),
    }
}

/// Makes a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut IbvPd, attr: *mut IbvQpInitAttr) -> *mut IbvQp {
    or_real!(pd, ibv_create_qp(pd, attr));
    trace::call("ibv_create_qp", [pd.addr() as u64, 0], || {
        if pd.is_null() {
            set_errno(libc::EINVAL);
            return core::ptr::null_mut();
        }
        // SAFETY: the caller's.
        unsafe { create((*pd).context, pd, core::ptr::null_mut(), attr) }.unwrap_or_else(|e| {
            set_errno(errno_of(e));
            core::ptr::null_mut()
        })
    })
}

/// Opens a receiving queue pair of an XRC domain once more. Events of it keep the name that its
/// maker gave it.
pub(crate) unsafe extern "C" fn open_qp(context: *mut IbvContext, attr: *const IbvQpOpenAttr) -> *mut IbvQp {
    const NUMBER: u32 = 1;
    const DOMAIN: u32 = 2;
    const CONTEXT: u32 = 4;
    const TYPE: u32 = 8;
    // SAFETY: V2.
    let a = unsafe { &*attr };
    if a.comp_mask & !CONTEXT != NUMBER | DOMAIN | TYPE || a.xrcd.is_null() || a.qp_type != QpKind::XrcReceive as u32 {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    }
    // SAFETY: V1.
    let (port, own, domain) = unsafe {
        let open = self::context(context);
        (Arc::clone(&open.port), open.own, inside::<_, Xrcd>(a.xrcd).id)
    };
    if let Err(e) = port.open_qp(a.qp_num, domain) {
        set_errno(errno_of(e));
        return core::ptr::null_mut();
    }
    let qp_context = if a.comp_mask & CONTEXT != 0 { a.qp_context } else { core::ptr::null_mut() };
    let public = IbvQp { context, qp_context, handle: a.qp_num, qp_num: a.qp_num, state: QpState::Reset as u32, qp_type: a.qp_type, ..IbvQp::EMPTY };
    Box::into_raw(Box::new(Qp { public, port, number: a.qp_num, batch: Batch::default(), kind: QpKind::XrcReceive, joins: false, own, _counted: None })).cast()
}

/// Changes attributes and state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, mask: c_int) -> c_int {
    or_real!(qp, ibv_modify_qp(qp, attr, mask));
    trace::call("ibv_modify_qp", [qp.addr() as u64, mask as u64], || {
        // SAFETY: V1, V2.
        let (inner, a) = unsafe { (inside::<_, Qp>(qp), &*attr) };
        let outcome = modify(inner, a, mask as u32);
        if let Ok(state) = outcome {
            // SAFETY: V1.
            unsafe { (*qp).state = state as u32 };
        }
        code(outcome.map(drop))
    })
}

fn modify(qp: &Qp, a: &IbvQpAttr, mask: u32) -> Result<QpState, Error> {
    let given = Given::from_bits(mask).ok_or(Error::Invalid)?;
    let state_in = |flag, number| if given.contains(flag) { QpState::from_number(number).map(Some).ok_or(Error::Invalid) } else { Ok(None) };
    let (to, current) = (state_in(Given::STATE, a.qp_state)?, state_in(Given::CURRENT_STATE, a.cur_qp_state)?);
    if given.contains(Given::PKEY_INDEX) && a.pkey_index != 0 {
        return Err(Error::Invalid);
    }
    let limits = &qp.own.device.limits;
    let is_within = |flag, asked: u8, most| !given.contains(flag) || u64::from(asked) <= most;
    if !is_within(Given::READS_OUT, a.max_rd_atomic, limits.max_qp_init_rd_atom) || !is_within(Given::READS_IN, a.max_dest_rd_atomic, limits.max_qp_rd_atom) {
        return Err(Error::Invalid);
    }
    let wants_atomics = given.contains(Given::ACCESS) && a.qp_access_flags & Access::REMOTE_ATOMIC.bits() != 0;
    if wants_atomics && qp.own.device.atomics == Atomics::None {
        return Err(Error::Invalid);
    }
    if given.contains(Given::MTU) && a.path_mtu > qp.own.device.mtu_code() {
        return Err(Error::Invalid);
    }
    let gid: Option<Gid> = if given.contains(Given::ADDRESS) { address(&a.ah_attr, &qp.own.device)? } else { None };
    let attributes = QpAttributes {
        access: Access::from_bits_truncate(a.qp_access_flags),
        gid,
        peer: a.dest_qp_num,
        qkey: a.qkey,
        send_number: a.sq_psn,
        receive_number: a.rq_psn,
        timeout: a.timeout,
        retries: a.retry_cnt,
        rnr_retries: a.rnr_retry,
        rnr_timer: a.min_rnr_timer,
        reads_out: a.max_rd_atomic,
        reads_in: a.max_dest_rd_atomic,
        mtu: a.path_mtu as u8,
        port: a.port_num,
        drains: a.en_sqd_async_notify != 0,
    };
    qp.port.modify_qp(qp.number, to, current, &attributes, given)?;
    Ok(qp.port.query_qp(qp.number)?.0)
}

/// Attributes and state, and what it was made with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, mask: c_int, init: *mut IbvQpInitAttr) -> c_int {
    or_real!(qp, ibv_query_qp(qp, attr, mask, init));
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Qp>(qp) };
    let (state, a, made) = match inner.port.query_qp(inner.number) {
        Ok(found) => found,
        Err(e) => return errno_of(e),
    };
    let cap = caps_of(&made.caps);
    let gid = a.gid.unwrap_or_default();
    let half = |at: usize| u64::from_ne_bytes(gid[at..at + 8].try_into().unwrap_or_default());
    let ah_attr = IbvAhAttr { dgid: [half(0), half(8)], is_global: u8::from(a.gid.is_some()), port_num: a.port, ..IbvAhAttr::default() };
    let out = IbvQpAttr {
        qp_state: state as u32,
        cur_qp_state: state as u32,
        path_mtu: u32::from(a.mtu),
        qkey: a.qkey,
        rq_psn: a.receive_number,
        sq_psn: a.send_number,
        dest_qp_num: a.peer,
        qp_access_flags: a.access.bits(),
        cap,
        ah_attr,
        max_rd_atomic: a.reads_out,
        max_dest_rd_atomic: a.reads_in,
        min_rnr_timer: a.rnr_timer,
        port_num: a.port,
        timeout: a.timeout,
        retry_cnt: a.retries,
        rnr_retry: a.rnr_retries,
        sq_draining: u8::from(a.drains),
        ..IbvQpAttr::default()
    };
    // SAFETY: V1, V2; the shorter structure of the older interface.
    unsafe {
        attr.write(out);
        (*qp).state = state as u32;
        (*init).qp_context = (*qp).qp_context;
        ((*init).send_cq, (*init).recv_cq, (*init).srq) = ((*qp).send_cq, (*qp).recv_cq, (*qp).srq);
        (*init).cap = cap;
        (*init).qp_type = (*qp).qp_type;
        (*init).sq_sig_all = c_int::from(made.signal_all);
    }
    0
}

/// Ends a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut IbvQp) -> c_int {
    or_real!(qp, ibv_destroy_qp(qp));
    trace::call("ibv_destroy_qp", [qp.addr() as u64, 0], || {
        // SAFETY: V1.
        let inner = unsafe { inside::<_, Qp>(qp) };
        let outcome = inner.port.destroy_qp(inner.number);
        if matches!(outcome, Ok(()) | Err(Error::InChild)) {
            let cookie = qp.addr() as u64;
            inner.port.events().discard(|e| e.cookie == cookie);
            // SAFETY: V1; it is used no more.
            drop(unsafe { Box::from_raw(qp.cast::<Qp>()) });
            return 0;
        }
        code(outcome)
    })
}

/// Extended connection establishment: this device has no options, and says so under its own vendor
/// number, which programs pass on as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut IbvQp, ece: *mut [u32; 3]) -> c_int {
    or_real!(qp, ibv_query_ece(qp, ece));
    // SAFETY: V2.
    unsafe { ece.write([ECE_VENDOR, 0, 0]) };
    0
}

/// Extended connection establishment: options of a peer of whatever vendor change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(qp: *mut IbvQp, ece: *mut [u32; 3]) -> c_int {
    or_real!(qp, ibv_set_ece(qp, ece));
    // SAFETY: V2.
    if unsafe { *ece }[2] == 0 { 0 } else { libc::EINVAL }
}

/// Whether the bytes of a message are written in order: they are not promised to be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(qp: *mut IbvQp, op: u32, flags: u32) -> c_int {
    or_real!(qp, ibv_query_qp_data_in_order(qp, op, flags));
    0
}

/// Drivers of before 2017 called this as they were loaded. They drive devices of the kernel, which
/// are not listed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_register_driver(_name: *const c_char, _init: *const c_void) {}
