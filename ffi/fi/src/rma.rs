// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes of peers' memory.

use crate::abi::{Fid, Iovec, MsgRma, Outcome, Table, data, error, gather};
use crate::deferring;
use crate::flags;
use crate::limits::INJECT_BYTES;
use crate::object::of;
use crate::posting::is_silent;
use crate::traced;
use bellwire_tag::{Completion, Gather, Notes, RemoteFlags, RemoteRequest, Target};
use bellwire_trace::{Kind, here};
use core::ffi::c_void;

/// The usual calls, and those of a traced program.
pub(crate) static OPS: [Table<9>; 2] = [calls::<false>(), calls::<true>()];

const fn calls<const TRACED: bool>() -> Table<9> {
    Table::new([
        one::<TRACED, false> as *const (),
        vector::<TRACED, false> as *const (),
        readmsg::<TRACED> as *const (),
        one::<TRACED, true> as *const (),
        vector::<TRACED, true> as *const (),
        writemsg::<TRACED> as *const (),
        inject::<TRACED> as *const (),
        writedata::<TRACED> as *const (),
        injectdata::<TRACED> as *const (),
    ])
}

/// What operations on remote memory take.
pub(crate) const FLAGS: u64 = flags::REMOTE_CQ_DATA
    | flags::COMPLETION
    | flags::MORE
    | flags::INJECT
    | flags::INJECT_COMPLETE
    | flags::TRANSMIT_COMPLETE
    | flags::DELIVERY_COMPLETE
    | flags::MATCH_COMPLETE
    | flags::FENCE
    | flags::READ
    | flags::WRITE;

/// How an operation with these flags is to be done; `None`: it is injected by a call of that name.
pub(crate) fn how(flags: Option<u64>, selective: bool, bytes: usize) -> Outcome<RemoteFlags> {
    let mut how = RemoteFlags::empty();
    match flags {
        None => how = RemoteFlags::INJECT | RemoteFlags::SILENT,
        Some(flags) if flags & !FLAGS != 0 => return Err(error::BAD_FLAGS),
        Some(flags) => {
            how.set(RemoteFlags::SILENT, is_silent(selective, flags));
            how.set(RemoteFlags::INJECT, flags & flags::INJECT != 0);
            how.set(RemoteFlags::FENCE, flags & flags::FENCE != 0);
        }
    }
    if how.contains(RemoteFlags::INJECT) && bytes > INJECT_BYTES { Err(error::EMSGSIZE) } else { Ok(how) }
}

/// A read or a write as its call gives it.
#[derive(Clone, Copy)]
struct Moving {
    is_write: bool,
    local: Gather,
    target: Target,
    data: Option<u64>,
    context: *mut c_void,
    flags: Option<u64>,
}

/// Reads or writes.
///
/// # Safety
/// F1, F2.
unsafe fn start(fid: *mut Fid, m: &Moving) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    if let Some(flags) = m.flags.filter(|flags| flags & flags::TRIGGER != 0) {
        let failed = Completion::new(m.context.expose_provenance(), Notes::REMOTE_MEMORY | Notes::WRITE, false);
        let m = Moving { flags: Some(flags & !flags::TRIGGER), ..*m };
        // SAFETY: the caller's; F1, F2: the endpoint is open when it begins, and its memory is the
        // program's until it completes.
        return unsafe { deferring::defer(fid, m.context, failed, move |fid| start(fid, &m)) };
    }
    let bound = ep.enabled()?;
    let flags = how(m.flags, bound.tx_selective, m.local.len())?;
    let request = RemoteRequest {
        target: Target { peer: ep.peer(bound, m.target.peer), ..m.target },
        local: m.local,
        data: m.data,
        context: m.context.expose_provenance(),
        flags,
    };
    ep.run(bound, || if m.is_write { ep.shared.endpoint.write(&request) } else { ep.shared.endpoint.read(&request) })
}

/// As [`start`]; of a traced program, it is noted.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn start_as<const TRACED: bool>(fid: *mut Fid, m: &Moving) -> Outcome {
    let ended = if TRACED { m.begin(fid) } else { None };
    // SAFETY: the caller's.
    let outcome = unsafe { start(fid, m) };
    ended.map_or(outcome, |kind| traced::end(kind, fid, outcome))
}

impl Moving {
    /// Notes that the call begins; the kind of its end.
    #[inline(never)]
    fn begin(&self, fid: *mut Fid) -> Option<Kind> {
        let (begin, end) = if self.is_write { (Kind::FiWrite, Kind::FiWriteEnd) } else { (Kind::FiRead, Kind::FiReadEnd) };
        let (target, flags) = (&self.target, self.flags.unwrap_or(flags::INJECT));
        let begins = [self.context.expose_provenance() as u64, self.local.len() as u64];
        here::note_more(begin, traced::object(fid), begins, &[target.peer, flags, target.address, target.key]);
        Some(end)
    }
}

/// As [`start_as`], of a message structure.
///
/// # Safety
/// F1, F2.
unsafe fn start_message<const TRACED: bool>(fid: *mut Fid, is_write: bool, msg: *const MsgRma, flags: u64) -> Outcome {
    // SAFETY: F2.
    let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
    if m.rma_count != 1 {
        return Err(error::EINVAL);
    }
    // SAFETY: F2.
    let (rma, local) = unsafe { (m.rma.as_ref().ok_or(error::EINVAL)?, gather(m.iov, m.count)?) };
    if rma.length != local.len() {
        return Err(error::EINVAL);
    }
    let target = Target { peer: m.address, address: rma.address, key: rma.key };
    let data = (is_write && flags & flags::REMOTE_CQ_DATA != 0).then_some(m.data);
    // SAFETY: the caller's.
    unsafe { start_as::<TRACED>(fid, &Moving { is_write, local, target, data, context: m.context, flags: Some(flags) }) }
}

/// `fi_read` and `fi_write`.
unsafe extern "C" fn one<const TRACED: bool, const IS_WRITE: bool>(
    ep: *mut Fid,
    at: *mut u8,
    length: usize,
    _desc: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: G1, which F2 asks of the program.
    let (local, target) = (unsafe { Gather::one(at, length) }, Target { peer, address, key });
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Moving { is_write: IS_WRITE, local, target, data: None, context, flags: Some(of(ep).tx_flags) }) })
}

/// `fi_readv` and `fi_writev`.
unsafe extern "C" fn vector<const TRACED: bool, const IS_WRITE: bool>(
    ep: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let target = Target { peer, address, key };
    // SAFETY: F1, F2.
    data(|| unsafe {
        start_as::<TRACED>(ep, &Moving { is_write: IS_WRITE, local: gather(iov, count)?, target, data: None, context, flags: Some(of(ep).tx_flags) })
    })
}

unsafe extern "C" fn readmsg<const TRACED: bool>(ep: *mut Fid, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { start_message::<TRACED>(ep, false, msg, flags) })
}

unsafe extern "C" fn writemsg<const TRACED: bool>(ep: *mut Fid, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { start_message::<TRACED>(ep, true, msg, flags) })
}

unsafe extern "C" fn inject<const TRACED: bool>(ep: *mut Fid, at: *mut u8, length: usize, peer: u64, address: u64, key: u64) -> isize {
    // SAFETY: G1, which F2 asks of the program.
    let (local, target) = (unsafe { Gather::one(at, length) }, Target { peer, address, key });
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Moving { is_write: true, local, target, data: None, context: core::ptr::null_mut(), flags: None }) })
}

unsafe extern "C" fn writedata<const TRACED: bool>(
    ep: *mut Fid,
    at: *mut u8,
    length: usize,
    _desc: *mut c_void,
    with: u64,
    peer: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: G1, which F2 asks of the program.
    let (local, target) = (unsafe { Gather::one(at, length) }, Target { peer, address, key });
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Moving { is_write: true, local, target, data: Some(with), context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn injectdata<const TRACED: bool>(ep: *mut Fid, at: *mut u8, length: usize, with: u64, peer: u64, address: u64, key: u64) -> isize {
    // SAFETY: G1, which F2 asks of the program.
    let (local, target) = (unsafe { Gather::one(at, length) }, Target { peer, address, key });
    // SAFETY: F1, F2.
    data(|| unsafe { start_as::<TRACED>(ep, &Moving { is_write: true, local, target, data: Some(with), context: core::ptr::null_mut(), flags: None }) })
}
