// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics.

use crate::abi::{Fid, Iovec, MsgAtomic, Outcome, Table, control, data, error};
use crate::flags;
use crate::object::of;
use crate::rma::how;
use crate::traced;
use bellwire_tag::{AtomicOp, AtomicRequest, DataType, EAGER_BYTES_MAX, Form, Gather, PIECES_MAX, Target};
use bellwire_trace::{Kind, here};
use core::ffi::{c_int, c_void};

/// The usual calls, and those of a traced program.
pub(crate) static OPS: [Table<13>; 2] = [calls::<false>(), calls::<true>()];

const fn calls<const TRACED: bool>() -> Table<13> {
    Table::new([
        write::<TRACED> as *const (),
        writev::<TRACED> as *const (),
        writemsg::<TRACED> as *const (),
        inject::<TRACED> as *const (),
        readwrite::<TRACED> as *const (),
        readwritev::<TRACED> as *const (),
        readwritemsg::<TRACED> as *const (),
        compwrite::<TRACED> as *const (),
        compwritev::<TRACED> as *const (),
        compwritemsg::<TRACED> as *const (),
        writevalid as *const (),
        readwritevalid as *const (),
        compwritevalid as *const (),
    ])
}

/// The types by their numbers.
pub(crate) const TYPES: [DataType; 16] = {
    use DataType::*;
    [I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, ComplexF32, ComplexF64, LongDouble, ComplexLongDouble, I128, U128]
};

/// What is to be done, if it can be.
fn what(data_type: c_int, op: c_int, form: Form) -> Outcome<(DataType, AtomicOp)> {
    let of = usize::try_from(data_type).ok().and_then(|at| TYPES.get(at).copied());
    let op = u8::try_from(op).ok().and_then(AtomicOp::from_bits);
    of.zip(op).filter(|(of, op)| op.allows(*of, form)).ok_or(error::EOPNOTSUPP)
}

/// How many values one operation takes: operands and what to compare with travel together.
fn most(of: DataType, form: Form) -> usize {
    EAGER_BYTES_MAX / of.bytes() / if form == Form::Compare { 2 } else { 1 }
}

fn valid(data_type: c_int, op: c_int, form: Form, count: *mut usize) -> Outcome {
    let (of, _) = what(data_type, op, form)?;
    // SAFETY: F2.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = most(of, form);
    }
    Ok(())
}

/// An atomic as its call gives it; vectors count values.
struct Asking {
    form: Form,
    operands: (*const Iovec, usize),
    compare: (*const Iovec, usize),
    result: (*const Iovec, usize),
    target: Target,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
    flags: Option<u64>,
}

const NOTHING: (*const Iovec, usize) = (core::ptr::null(), 0);

/// The pieces of a vector that counts values.
///
/// # Safety
/// F2.
unsafe fn values(of: (*const Iovec, usize), bytes: usize) -> Outcome<Gather> {
    if of.1 > PIECES_MAX || (of.0.is_null() && of.1 != 0) {
        return Err(error::EINVAL);
    }
    // SAFETY: F2.
    let pieces = (0..of.1).map(|i| unsafe { *of.0.add(i) });
    // SAFETY: G1, which F2 asks of the program.
    unsafe { Gather::of(pieces.map(|v| (v.at, v.length.saturating_mul(bytes)))) }.ok_or(error::EMSGSIZE)
}

/// # Safety
/// F1, F2.
unsafe fn start(fid: *mut Fid, a: &Asking) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let (data_type, op) = what(a.data_type, a.op, a.form)?;
    let bytes = data_type.bytes();
    // SAFETY: the caller's. A plain read has no operands, whatever is passed in their place.
    let (operands, compare, result) = unsafe {
        let operands = if op == AtomicOp::Read { Gather::NONE } else { values(a.operands, bytes)? };
        (operands, values(a.compare, bytes)?, values(a.result, bytes)?)
    };
    let bound = ep.enabled()?;
    let flags = how(a.flags, bound.tx_selective, operands.len())?;
    let count = if op == AtomicOp::Read { result.len() } else { operands.len() } / bytes;
    if count == 0 {
        return Err(error::EINVAL);
    }
    let context = a.context.expose_provenance();
    let request = AtomicRequest {
        target: Target { peer: ep.peer(bound, a.target.peer), ..a.target },
        data_type,
        op,
        form: a.form,
        count,
        operands,
        compare,
        result,
        context,
        flags,
    };
    ep.run(bound, || ep.shared.endpoint.atomic(&request))
}

/// As [`start`]; of a traced program, it is noted.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn start_as<const TRACED: bool>(fid: *mut Fid, a: &Asking) -> Outcome {
    if TRACED {
        // SAFETY: the caller's.
        unsafe { a.begin(fid) };
    }
    // SAFETY: the caller's.
    let outcome = unsafe { start(fid, a) };
    if TRACED { traced::end(Kind::FiAtomicEnd, fid, outcome) } else { outcome }
}

impl Asking {
    /// Notes that the call begins.
    ///
    /// # Safety
    /// F2.
    #[inline(never)]
    unsafe fn begin(&self, fid: *mut Fid) {
        let vector = if self.operands.1 == 0 { self.result } else { self.operands };
        // SAFETY: the caller's.
        let values = unsafe { values(vector, 1) }.map_or(0, |values| values.len());
        let (target, flags) = (&self.target, self.flags.unwrap_or(flags::INJECT));
        let rest = [target.peer, flags, target.address, target.key, u64::from(self.data_type.cast_unsigned()), u64::from(self.op.cast_unsigned())];
        here::note_more(Kind::FiAtomic, traced::object(fid), [self.context.expose_provenance() as u64, values as u64], &rest);
    }
}

/// As [`start_as`], of a message structure.
///
/// # Safety
/// F1, F2.
unsafe fn start_message<const TRACED: bool>(
    fid: *mut Fid,
    form: Form,
    msg: *const MsgAtomic,
    compare: (*const Iovec, usize),
    result: (*const Iovec, usize),
    flags: u64,
) -> Outcome {
    // SAFETY: F2.
    let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
    if m.rma_count != 1 {
        return Err(error::EINVAL);
    }
    // SAFETY: F2.
    let rma = unsafe { m.rma.as_ref() }.ok_or(error::EINVAL)?;
    let target = Target { peer: m.address, address: rma.address, key: rma.key };
    let (operands, context, flags) = ((m.iov, m.count), m.context, Some(flags & !flags::REMOTE_CQ_DATA));
    // SAFETY: the caller's.
    unsafe { start_as::<TRACED>(fid, &Asking { form, operands, compare, result, target, data_type: m.data_type, op: m.op, context, flags }) }
}

unsafe extern "C" fn write<const TRACED: bool>(
    ep: *mut Fid,
    at: *mut u8,
    count: usize,
    _desc: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let one = Iovec { at, length: count };
    // SAFETY: F1, F2.
    unsafe { writev::<TRACED>(ep, &one, core::ptr::null_mut(), 1, peer, address, key, data_type, op, context) }
}

unsafe extern "C" fn writev<const TRACED: bool>(
    ep: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let target = Target { peer, address, key };
    let (form, operands, compare, result) = (Form::Plain, (iov, count), NOTHING, NOTHING);
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Asking { form, operands, compare, result, target, data_type, op, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn writemsg<const TRACED: bool>(ep: *mut Fid, msg: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { start_message::<TRACED>(ep, Form::Plain, msg, NOTHING, NOTHING, flags) })
}

unsafe extern "C" fn inject<const TRACED: bool>(
    ep: *mut Fid,
    at: *mut u8,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
) -> isize {
    let (one, target) = (Iovec { at, length: count }, Target { peer, address, key });
    let (form, operands, compare, result, context) = (Form::Plain, (&raw const one, 1), NOTHING, NOTHING, core::ptr::null_mut());
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Asking { form, operands, compare, result, target, data_type, op, context, flags: None }) })
}

unsafe extern "C" fn readwrite<const TRACED: bool>(
    ep: *mut Fid,
    at: *mut u8,
    count: usize,
    _desc: *mut c_void,
    result: *mut u8,
    _result_desc: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let (operands, result) = (Iovec { at, length: count }, Iovec { at: result, length: count });
    let none = core::ptr::null_mut();
    // SAFETY: F1, F2.
    unsafe { readwritev::<TRACED>(ep, &operands, none, 1, &result, none, 1, peer, address, key, data_type, op, context) }
}

unsafe extern "C" fn readwritev<const TRACED: bool>(
    ep: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    result: *const Iovec,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let target = Target { peer, address, key };
    let (form, operands, compare, result) = (Form::Fetch, (iov, count), NOTHING, (result, result_count));
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Asking { form, operands, compare, result, target, data_type, op, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn readwritemsg<const TRACED: bool>(
    ep: *mut Fid,
    msg: *const MsgAtomic,
    result: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    flags: u64,
) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { start_message::<TRACED>(ep, Form::Fetch, msg, NOTHING, (result, count), flags) })
}

unsafe extern "C" fn compwrite<const TRACED: bool>(
    ep: *mut Fid,
    at: *mut u8,
    count: usize,
    _desc: *mut c_void,
    compare: *mut u8,
    _compare_desc: *mut c_void,
    result: *mut u8,
    _result_desc: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let [operands, compare, result] = [at, compare, result].map(|at| Iovec { at, length: count });
    let target = Target { peer, address, key };
    let (form, operands, compare, result) = (Form::Compare, (&raw const operands, 1), (&raw const compare, 1), (&raw const result, 1));
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Asking { form, operands, compare, result, target, data_type, op, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn compwritev<const TRACED: bool>(
    ep: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const Iovec,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *const Iovec,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: u64,
    address: u64,
    key: u64,
    data_type: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    let target = Target { peer, address, key };
    let (form, operands, compare, result) = (Form::Compare, (iov, count), (compare, compare_count), (result, result_count));
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Asking { form, operands, compare, result, target, data_type, op, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn compwritemsg<const TRACED: bool>(
    ep: *mut Fid,
    msg: *const MsgAtomic,
    compare: *const Iovec,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *const Iovec,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { start_message::<TRACED>(ep, Form::Compare, msg, (compare, compare_count), (result, result_count), flags) })
}

unsafe extern "C" fn writevalid(_: *mut Fid, data_type: c_int, op: c_int, count: *mut usize) -> c_int {
    control(|| valid(data_type, op, Form::Plain, count))
}

unsafe extern "C" fn readwritevalid(_: *mut Fid, data_type: c_int, op: c_int, count: *mut usize) -> c_int {
    control(|| valid(data_type, op, Form::Fetch, count))
}

unsafe extern "C" fn compwritevalid(_: *mut Fid, data_type: c_int, op: c_int, count: *mut usize) -> c_int {
    control(|| valid(data_type, op, Form::Compare, count))
}

/// `struct fi_atomic_attr`.
#[repr(C)]
pub(crate) struct AtomicAttr {
    pub count: usize,
    pub size: usize,
}

/// `fi_query_atomic`.
pub(crate) unsafe extern "C" fn query(_domain: *mut Fid, data_type: c_int, op: c_int, attr: *mut AtomicAttr, flags: u64) -> c_int {
    control(|| {
        // FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC, FI_TAGGED.
        let form = match flags & (1 << 58 | 1 << 59) {
            0 => Form::Plain,
            f if f == 1 << 58 => Form::Fetch,
            f if f == 1 << 59 => Form::Compare,
            _ => return Err(error::EINVAL),
        };
        if flags & flags::TAGGED != 0 {
            return Err(error::EOPNOTSUPP);
        }
        let (of, _) = what(data_type, op, form)?;
        // SAFETY: F2.
        let attr = unsafe { attr.as_mut() }.ok_or(error::EINVAL)?;
        (attr.count, attr.size) = (most(of, form), of.bytes());
        Ok(())
    })
}
