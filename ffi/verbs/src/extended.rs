// SPDX-License-Identifier: MIT OR Apache-2.0
//! The newer interfaces: queue pairs whose requests are built by calls (`ibv_wr_*`), completion queues that are read by calls (`ibv_start_poll`), and limits with extensions.

use crate::abi::{Call, IbvAh, IbvContext, IbvCq, IbvCqInitAttr, IbvDeviceAttr, IbvMw, IbvMwBindInfo, IbvQp, IbvQpInitAttr};
use crate::beside::or_real;
use crate::events;
use crate::mapped::DEVICE_MEMORY_MAX;
use crate::pair;
use crate::pieces::pieces;
use crate::query::attributes;
use crate::types::{Ah, Building, Cq, Qp, context, inside};
use crate::windows::bind_of;
use crate::{code, errno_of, set_errno, traced};
use bellwire_trace::here;
use bellwire_verbs::{Destination, Error, Extra, Opcode, SendFlags, SendRequest, Sge, has_on_demand};
use core::ffi::{c_int, c_void};

const WITH_PD: u32 = 1;
const WITH_XRCD: u32 = 1 << 1;
const WITH_FLAGS: u32 = 1 << 2;
const WITH_SEND_OPS: u32 = 1 << 6;
/// Writes, sends, reads, atomics, windows, invalidation; not: segmentation, flushes, atomic writes.
const SEND_OPS: u64 = 0x3ff;
/// What a completion can be asked for: its length, immediate data, both queue pairs, and what is always the same here.
const WC_FLAGS: u64 = 0x7f | TIMES;
/// When it came: by the device's clock, by the calendar's.
const TIMES: u64 = 1 << 7 | 1 << 11;
/// The device's clock, kHz: it counts the nanoseconds of the monotonic clock.
const CLOCK_KHZ: u64 = 1_000_000;

/// Services on regions on demand: sends, receives, writes, reads, atomics, shared
/// receives.
const ON_DEMAND_SEND: u32 = 1;
const ON_DEMAND_RECEIVE: u32 = 2;
const ON_DEMAND_WRITE: u32 = 4;
const ON_DEMAND_DATAGRAMS: u32 = ON_DEMAND_SEND | ON_DEMAND_RECEIVE | 32;
const ON_DEMAND_ALL: u32 = 63;

/// A queue pair that this thread alone uses between `wr_start` and its end, as the interface asks.
///
/// # Safety
/// V1.
unsafe fn of<'a>(qp: *mut IbvQp) -> &'a mut Qp {
    // SAFETY: V1; the program calls by one thread.
    unsafe { &mut *qp.cast::<Qp>() }
}

unsafe fn begin(qp: *mut IbvQp, opcode: Opcode, key: u32, address: u64, immediate: u32, operands: [u64; 2]) {
    // SAFETY: V1.
    let qp = unsafe { of(qp) };
    let (wr_id, flags) = (qp.public.wr_id, qp.public.wr_flags);
    qp.batch.requests.push(Building {
        opcode,
        wr_id,
        flags,
        immediate,
        address,
        key,
        operands,
        extra: Extra::None,
        pieces: Vec::new(),
        inline: None,
        to: None,
    });
}

unsafe fn last<'a>(qp: *mut IbvQp) -> Option<&'a mut Building> {
    // SAFETY: V1.
    unsafe { of(qp) }.batch.requests.last_mut()
}

unsafe extern "C" fn wr_compare_swap(qp: *mut IbvQp, key: u32, address: u64, compare: u64, swap: u64) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::CompareSwap, key, address, 0, [swap, compare]) };
}

unsafe extern "C" fn wr_fetch_add(qp: *mut IbvQp, key: u32, address: u64, add: u64) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::FetchAdd, key, address, 0, [add, 0]) };
}

unsafe extern "C" fn wr_read(qp: *mut IbvQp, key: u32, address: u64) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::Read, key, address, 0, [0; 2]) };
}

unsafe extern "C" fn wr_write(qp: *mut IbvQp, key: u32, address: u64) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::Write, key, address, 0, [0; 2]) };
}

unsafe extern "C" fn wr_write_imm(qp: *mut IbvQp, key: u32, address: u64, immediate: u32) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::WriteImm, key, address, immediate, [0; 2]) };
}

unsafe extern "C" fn wr_send(qp: *mut IbvQp) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::Send, 0, 0, 0, [0; 2]) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut IbvQp, immediate: u32) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::SendImm, 0, 0, immediate, [0; 2]) };
}

unsafe extern "C" fn wr_bind_mw(qp: *mut IbvQp, mw: *mut IbvMw, key: u32, info: *const IbvMwBindInfo) {
    // SAFETY: V1, V2.
    unsafe {
        begin(qp, Opcode::Bind, 0, 0, 0, [0; 2]);
        match (bind_of(mw, key, &*info), last(qp)) {
            (Ok(extra), Some(b)) => b.extra = extra,
            _ => of(qp).batch.failed = Some(Error::Invalid),
        }
    }
}

unsafe extern "C" fn wr_local_inv(qp: *mut IbvQp, key: u32) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::LocalInvalidate, 0, 0, key, [0; 2]) };
}

unsafe extern "C" fn wr_send_inv(qp: *mut IbvQp, key: u32) {
    // SAFETY: V1.
    unsafe { begin(qp, Opcode::SendInvalidate, 0, 0, key, [0; 2]) };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut IbvQp, srq: u32) {
    // SAFETY: V1.
    if let Some(b) = unsafe { last(qp) } {
        b.extra = Extra::Srq(srq);
    }
}

/// What is not offered (`send_ops_flags`): the batch fails. Takes whatever arguments its kin do.
unsafe extern "C" fn wr_unsupported(qp: *mut IbvQp) {
    // SAFETY: V1.
    unsafe { of(qp) }.batch.failed = Some(Error::Unsupported);
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut IbvQp, ah: *mut IbvAh, peer: u32, qkey: u32) {
    // SAFETY: V1.
    unsafe {
        let gid = inside::<_, Ah>(ah).gid;
        if let Some(b) = last(qp) {
            b.to = Some(Destination { gid, qp: peer, qkey });
        }
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut IbvQp, at: *const u8, length: usize) {
    // SAFETY: V1, V2.
    if let Some(b) = unsafe { last(qp) } {
        // SAFETY: V2.
        let data = if length == 0 { &[] } else { unsafe { core::slice::from_raw_parts(at, length) } };
        b.inline = Some(data.to_vec());
    }
}

/// `struct ibv_data_buf`.
#[repr(C)]
struct DataBuf {
    at: *const u8,
    length: usize,
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut IbvQp, count: usize, list: *const DataBuf) {
    // SAFETY: V1.
    let Some(b) = (unsafe { last(qp) }) else { return };
    let mut data = Vec::new();
    for i in 0..count {
        // SAFETY: V2.
        unsafe {
            let buffer = &*list.add(i);
            if buffer.length != 0 {
                data.extend_from_slice(core::slice::from_raw_parts(buffer.at, buffer.length));
            }
        }
    }
    b.inline = Some(data);
}

unsafe extern "C" fn wr_set_sge(qp: *mut IbvQp, key: u32, address: u64, length: u32) {
    // SAFETY: V1.
    if let Some(b) = unsafe { last(qp) } {
        b.pieces = vec![Sge { address, length, key }];
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut IbvQp, count: usize, list: *const Sge) {
    // SAFETY: V1, V2.
    if let Some(b) = unsafe { last(qp) } {
        // SAFETY: V2.
        match unsafe { pieces(list, c_int::try_from(count).unwrap_or(c_int::MAX)) } {
            Ok(list) => b.pieces = list.to_vec(),
            // SAFETY: V1.
            Err(error) => unsafe { of(qp) }.batch.failed = Some(error),
        }
    }
}

unsafe extern "C" fn wr_start(qp: *mut IbvQp) {
    // SAFETY: V1.
    let batch = &mut unsafe { of(qp) }.batch;
    batch.requests.clear();
    batch.failed = None;
}

unsafe extern "C" fn wr_abort(qp: *mut IbvQp) {
    // SAFETY: V1.
    unsafe { wr_start(qp) };
}

/// Posts what was built.
unsafe extern "C" fn wr_complete<const TRACED: bool>(qp: *mut IbvQp) -> c_int {
    // SAFETY: V1.
    let qp = unsafe { of(qp) };
    if let Some(why) = qp.batch.failed {
        qp.batch.requests.clear();
        return errno_of(why);
    }
    for b in core::mem::take(&mut qp.batch.requests) {
        let mut flags = SendFlags::from_bits_truncate(b.flags) - SendFlags::INLINE;
        let mut pieces = b.pieces;
        if let Some(data) = &b.inline {
            flags |= SendFlags::INLINE;
            pieces = vec![Sge { address: data.as_ptr().expose_provenance() as u64, length: data.len() as u32, key: 0 }];
        }
        let request = SendRequest {
            wr_id: b.wr_id,
            opcode: b.opcode,
            flags,
            pieces: &pieces,
            immediate: b.immediate,
            address: b.address,
            key: b.key,
            operands: b.operands,
            extra: b.extra,
            to: b.to,
        };
        if TRACED {
            traced::note_request(qp.number, &request);
        }
        // SAFETY: R2, which V2 asks of the program.
        let posted = unsafe { qp.port.post_send(qp.number, &request) };
        if TRACED {
            traced::note_posted(qp.number, code(posted));
        }
        if let Err(e) = posted {
            return errno_of(e);
        }
    }
    0
}

/// Makes a queue pair of the newer interface.
pub(crate) unsafe extern "C" fn create_qp_ex(context: *mut IbvContext, attr: *mut IbvQpInitAttr) -> *mut IbvQp {
    // SAFETY: V2.
    let a = unsafe { &*attr };
    let unknown = a.comp_mask & !(WITH_PD | WITH_XRCD | WITH_FLAGS | WITH_SEND_OPS) != 0
        || (a.comp_mask & WITH_FLAGS != 0 && a.create_flags != 0)
        || (a.comp_mask & WITH_SEND_OPS != 0 && a.send_ops_flags & !SEND_OPS != 0);
    let (pd, xrcd) =
        (if a.comp_mask & WITH_PD != 0 { a.pd } else { core::ptr::null_mut() }, if a.comp_mask & WITH_XRCD != 0 { a.xrcd } else { core::ptr::null_mut() });
    if unknown || (pd.is_null() && xrcd.is_null()) {
        set_errno(if unknown { libc::EOPNOTSUPP } else { libc::EINVAL });
        return core::ptr::null_mut();
    }
    // SAFETY: V1, V2.
    match unsafe { pair::create(context, pd, xrcd, attr) } {
        Err(e) => {
            set_errno(errno_of(e));
            core::ptr::null_mut()
        }
        Ok(qp) => {
            // SAFETY: just made.
            unsafe { (*qp).calls = calls() };
            qp
        }
    }
}

/// In the order of the public header.
fn calls() -> [Call; 21] {
    [
        wr_compare_swap as Call,
        wr_fetch_add as Call,
        wr_bind_mw as Call,
        wr_local_inv as Call,
        wr_read as Call,
        wr_write as Call,
        wr_write_imm as Call,
        wr_send as Call,
        wr_send_imm as Call,
        wr_send_inv as Call,
        wr_unsupported as Call,
        wr_set_ud_addr as Call,
        wr_set_xrc_srqn as Call,
        wr_set_inline_data as Call,
        wr_set_inline_data_list as Call,
        wr_set_sge as Call,
        wr_set_sge_list as Call,
        wr_start as Call,
        if here::is_on() { wr_complete::<true> as Call } else { wr_complete::<false> as Call },
        wr_abort as Call,
        wr_unsupported as Call,
    ]
}

/// The newer side of a queue pair; NULL: it was made by the older interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut IbvQp) -> *mut IbvQp {
    or_real!(qp, ibv_qp_to_qp_ex(qp));
    // SAFETY: V1.
    if unsafe { (*qp).calls[0] }.is_null() { core::ptr::null_mut() } else { qp }
}

// ---- completion queues

/// Makes a completion queue of the newer interface.
pub(crate) unsafe extern "C" fn create_cq_ex(context: *mut IbvContext, attr: *const IbvCqInitAttr) -> *mut IbvCq {
    const FLAGS: u32 = 1;
    const PARENT_DOMAIN: u32 = 2;
    /// Used by one thread, and overruns ignored.
    const KNOWN_FLAGS: u32 = 3;
    // SAFETY: V2.
    let a = unsafe { &*attr };
    if a.wc_flags & !WC_FLAGS != 0 || a.comp_mask & !(FLAGS | PARENT_DOMAIN) != 0 || (a.comp_mask & FLAGS != 0 && a.flags & !KNOWN_FLAGS != 0) {
        set_errno(libc::EOPNOTSUPP);
        return core::ptr::null_mut();
    }
    let Ok(entries) = c_int::try_from(a.cqe) else {
        set_errno(libc::EINVAL);
        return core::ptr::null_mut();
    };
    let cq = events::create(context, entries, a.cq_context, a.channel, a.comp_vector);
    if !cq.is_null() {
        let known: [Call; 18] = [
            if here::is_on() { start_poll::<true> as Call } else { start_poll::<false> as Call },
            if here::is_on() { next_poll::<true> as Call } else { next_poll::<false> as Call },
            end_poll as Call,
            read_opcode as Call,
            read_vendor_err as Call,
            read_byte_len as Call,
            read_imm_data as Call,
            read_qp_num as Call,
            read_src_qp as Call,
            read_wc_flags as Call,
            read_nothing as Call,
            read_nothing as Call,
            read_nothing as Call,
            read_completion_ts as Call,
            read_nothing as Call,
            read_nothing as Call,
            read_nothing as Call,
            read_completion_wallclock_ns as Call,
        ];
        // SAFETY: just made; nobody else has it.
        let inner = unsafe { &mut *cq.cast::<Cq>() };
        inner.public.calls = known;
        // Without stamps if it was closed meanwhile, which is no queue any more.
        inner.is_stamped = a.wc_flags & TIMES != 0 && inner.port.stamp_cq(inner.id).is_ok();
    }
    cq
}

/// Takes the next completion, to be read.
unsafe extern "C" fn next_poll<const TRACED: bool>(cq: *mut IbvCq) -> c_int {
    // SAFETY: V1; the program polls a queue by one thread at a time.
    let inner = unsafe { &mut *cq.cast::<Cq>() };
    let mut current = None;
    let found = if inner.is_stamped {
        inner.port.poll_stamped(inner.id).map(|found| {
            if let Some((completion, stamp)) = found {
                (current, inner.stamp) = (Some(completion), stamp);
            }
        })
    } else {
        inner.port.poll_cq(inner.id, 1, |c| current = Some(*c)).map(drop)
    };
    if TRACED {
        traced::note_completion(current.as_ref());
    }
    inner.current = current;
    match (found, &inner.current) {
        (Err(e), _) => errno_of(e),
        (Ok(()), Some(c)) => {
            (inner.public.status, inner.public.wr_id) = (c.status as u32, c.wr_id);
            0
        }
        _ => libc::ENOENT,
    }
}

unsafe extern "C" fn start_poll<const TRACED: bool>(cq: *mut IbvCq, attr: *const u32) -> c_int {
    // SAFETY: V2.
    if !attr.is_null() && unsafe { *attr } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: the caller's.
    unsafe { next_poll::<TRACED>(cq) }
}

unsafe extern "C" fn end_poll(_cq: *mut IbvCq) {}

macro_rules! readers {
    ($($name:ident: $field:expr;)*) => {
        $(unsafe extern "C" fn $name(cq: *mut IbvCq) -> u32 {
            let read: fn(&bellwire_verbs::Completion) -> u32 = $field;
            // SAFETY: V1.
            unsafe { inside::<_, Cq>(cq) }.current.as_ref().map_or(0, read)
        })*
    };
}
readers! {
    read_opcode: |c| c.opcode as u32;
    read_vendor_err: |c| c.reason as u32;
    read_byte_len: |c| c.byte_len;
    read_imm_data: |c| c.immediate;
    read_qp_num: |c| c.qp;
    read_src_qp: |c| c.source;
    read_nothing: |_| 0;
}

unsafe extern "C" fn read_wc_flags(cq: *mut IbvCq) -> u32 {
    // SAFETY: V1.
    let inner = unsafe { inside::<_, Cq>(cq) };
    inner.current.as_ref().map_or(0, |c| inner.flags_of(c))
}

unsafe extern "C" fn read_completion_ts(cq: *mut IbvCq) -> u64 {
    // SAFETY: V1.
    unsafe { inside::<_, Cq>(cq) }.stamp.monotonic
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut IbvCq) -> u64 {
    // SAFETY: V1.
    unsafe { inside::<_, Cq>(cq) }.stamp.real
}

/// `struct ibv_values_ex`.
#[repr(C)]
pub(crate) struct IbvValues {
    comp_mask: u32,
    raw_clock: [i64; 2],
}

/// What the device's clock shows, as cycles: whole seconds are none of its.
pub(crate) unsafe extern "C" fn query_rt_values(_context: *mut IbvContext, to: *mut IbvValues) -> c_int {
    const RAW_CLOCK: u32 = 1;
    // SAFETY: V2.
    let to = unsafe { &mut *to };
    if to.comp_mask & !RAW_CLOCK != 0 {
        return libc::EOPNOTSUPP;
    }
    if to.comp_mask & RAW_CLOCK != 0 {
        to.raw_clock = [0, bellwire_verbs::clock() as i64];
    }
    0
}

// ---- limits

/// `struct ibv_device_attr_ex`, of which is offered beyond the first part: regions on demand, the
/// clock, capabilities, memory of the device, the number of ports.
pub(crate) unsafe extern "C" fn query_device_ex(public: *mut IbvContext, input: *const u32, to: *mut c_void, room: usize) -> c_int {
    const ON_DEMAND_AT: usize = 240;
    const ON_DEMAND_XRC_AT: usize = 392;
    const CLOCK_AT: usize = 264;
    const CAPABILITIES_AT: usize = 280;
    const DEVICE_MEMORY_AT: usize = 376;
    const PORTS_AT: usize = 396;
    // SAFETY: V2.
    if room < size_of::<IbvDeviceAttr>() || (!input.is_null() && unsafe { *input } != 0) {
        return errno_of(Error::Invalid);
    }
    // SAFETY: V2: `room` bytes.
    unsafe {
        to.cast::<u8>().write_bytes(0, room);
        let attributes = attributes(context(public).own);
        to.cast::<IbvDeviceAttr>().write(attributes);
        if has_on_demand() && room >= ON_DEMAND_XRC_AT + 4 {
            // Explicit regions and the whole address space; then what each service does with them,
            // RC, UC, UD.
            to.byte_add(ON_DEMAND_AT).cast::<u64>().write(3);
            to.byte_add(ON_DEMAND_AT + 8).cast::<[u32; 3]>().write([ON_DEMAND_ALL, ON_DEMAND_SEND | ON_DEMAND_RECEIVE | ON_DEMAND_WRITE, ON_DEMAND_DATAGRAMS]);
            to.byte_add(ON_DEMAND_XRC_AT).cast::<u32>().write(ON_DEMAND_ALL);
        }
        if room >= CLOCK_AT + 16 {
            // All bits of a time stamp count; the clock's rate.
            to.byte_add(CLOCK_AT).cast::<[u64; 2]>().write([u64::MAX, CLOCK_KHZ]);
        }
        if room >= CAPABILITIES_AT + 8 {
            to.byte_add(CAPABILITIES_AT).cast::<u64>().write(u64::from(attributes.device_cap_flags));
        }
        if room >= DEVICE_MEMORY_AT + 8 {
            to.byte_add(DEVICE_MEMORY_AT).cast::<u64>().write(DEVICE_MEMORY_MAX);
        }
        if room >= PORTS_AT + 4 {
            to.byte_add(PORTS_AT).cast::<u32>().write(1);
        }
    }
    0
}
