// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages without a tag; and what tagged ones have in common with them.

use crate::abi::{Fid, Iovec, Msg, Outcome, Table, code, data, error, gather};
use crate::bound::is_silent;
use crate::cm::Connector;
use crate::endpoint::of;
use crate::flags;
use crate::hints::INJECT_BYTES;
use crate::trigger::{self, Work};
use bellwire_tag::{Gather, Peek, ReceiveFlags, SendFlags, SendOut, Want};
use core::ffi::c_void;

pub(crate) static OPS: Table<9> = Table::new([
    recv as *const (),
    recvv as *const (),
    recvmsg as *const (),
    send as *const (),
    sendv as *const (),
    sendmsg as *const (),
    inject as *const (),
    senddata as *const (),
    injectdata as *const (),
]);

/// A send as its call gives it.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub to: u64,
    pub from: Gather,
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub context: *mut c_void,
    /// Operation flags; `None`: injected by a call of that name.
    pub flags: Option<u64>,
}

const SEND_FLAGS: u64 = flags::REMOTE_CQ_DATA
    | flags::COMPLETION
    | flags::MORE
    | flags::INJECT
    | flags::INJECT_COMPLETE
    | flags::TRANSMIT_COMPLETE
    | flags::DELIVERY_COMPLETE
    | flags::FENCE;

/// Sends.
///
/// # Safety
/// F1, F2.
#[inline]
pub(crate) unsafe fn send_out(fid: *mut Fid, s: &Sending) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bindings = ep.enabled()?;
    let mut how = SendFlags::empty();
    match s.flags {
        None => {
            how = SendFlags::INJECT;
            if s.from.len() > INJECT_BYTES {
                return Err(error::EMSGSIZE);
            }
        }
        Some(flags) => {
            if flags & !SEND_FLAGS != 0 {
                // SAFETY: the caller's.
                return if flags & flags::TRIGGER != 0 { unsafe { trigger::defer(fid, Work::Send(*s)) } } else { Err(error::BAD_FLAGS) };
            }
            how.set(SendFlags::SILENT, is_silent(bindings.tx_selective, flags));
            if flags & (flags::INJECT | flags::DELIVERY_COMPLETE | flags::FENCE) != 0 {
                how.set(SendFlags::DELIVERY, flags & flags::DELIVERY_COMPLETE != 0);
                how.set(SendFlags::FENCE, flags & flags::FENCE != 0);
                if flags & flags::INJECT != 0 {
                    if s.from.len() > INJECT_BYTES {
                        return Err(error::EMSGSIZE);
                    }
                    how |= SendFlags::INJECT | SendFlags::COUNTED;
                }
            }
        }
    }
    let send = SendOut { peer: ep.peer(s.to), tag: s.tag, data: s.data, from: s.from, context: s.context.expose_provenance(), flags: how };
    ep.shared.endpoint.send(&mut ep.shared.report(), &send).map_err(|e| ep.failed(e))
}

/// A receive as its call gives it.
pub(crate) struct Receiving {
    pub from: u64,
    pub to: Gather,
    pub tag: Option<(u64, u64)>,
    pub context: *mut c_void,
    pub flags: u64,
}

const RECEIVE_FLAGS: u64 = flags::COMPLETION | flags::MORE | flags::MULTI_RECV | flags::RECV;
pub(crate) const LOOK_FLAGS: u64 = flags::PEEK | flags::CLAIM | flags::DISCARD;

/// What a receive wants; without `FI_DIRECTED_RECV` it does not matter what the source is said to be.
#[inline]
pub(crate) fn want(r: &Receiving, is_selective: bool, is_directed: bool) -> Outcome<Want> {
    if r.flags & !(RECEIVE_FLAGS | if r.tag.is_some() { LOOK_FLAGS } else { 0 }) != 0 {
        return Err(error::BAD_FLAGS);
    }
    let mut how = ReceiveFlags::empty();
    how.set(ReceiveFlags::SILENT, is_silent(is_selective, r.flags));
    if r.flags & flags::MULTI_RECV != 0 && r.tag.is_none() {
        how |= ReceiveFlags::MULTI;
    }
    let source = (r.from != flags::ADDR_NONE && is_directed).then_some(r.from);
    let (tag, ignore) = r.tag.unwrap_or((0, 0));
    Ok(Want { tagged: r.tag.is_some(), source, tag, ignore, to: r.to, context: r.context.expose_provenance(), flags: how })
}

/// Receives, or looks.
///
/// # Safety
/// F1, F2.
#[inline]
pub(crate) unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome {
    // SAFETY: the caller's.
    let ep = unsafe { of(fid) };
    let bindings = ep.enabled()?;
    if ep.shared.connector.as_ref().is_some_and(Connector::is_over) {
        return Err(error::ENOTCONN);
    }
    if bindings.receives.is_some() {
        // They are posted to the context that it shares.
        return Err(error::BAD_STATE);
    }
    let want = want(r, bindings.rx_selective, ep.shared.connector.is_none() && ep.caps & flags::DIRECTED_RECV != 0)?;
    let (endpoint, report) = (&ep.shared.endpoint, &mut ep.shared.report());
    if r.flags & LOOK_FLAGS == 0 {
        return endpoint.receive(report, &want).map_err(|e| ep.failed(e));
    }
    let looked = match (r.flags & flags::PEEK != 0, r.flags & flags::CLAIM != 0, r.flags & flags::DISCARD != 0) {
        (true, false, false) => endpoint.peek(report, &want, Peek::Look),
        (true, true, false) => endpoint.peek(report, &want, Peek::Claim),
        (true, false, true) => endpoint.peek(report, &want, Peek::Discard),
        (false, true, discard) => endpoint.take_claimed(report, &want, discard),
        _ => return Err(error::BAD_FLAGS),
    };
    looked.map_err(code)
}

unsafe extern "C" fn recv(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, from: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { receive(ep, &Receiving { from, to: Gather::one(at, length), tag: None, context, flags: of(ep).rx_flags }) })
}

unsafe extern "C" fn recvv(ep: *mut Fid, iov: *const Iovec, _desc: *mut *mut c_void, count: usize, from: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { receive(ep, &Receiving { from, to: gather(iov, count)?, tag: None, context, flags: of(ep).rx_flags }) })
}

unsafe extern "C" fn recvmsg(ep: *mut Fid, msg: *const Msg, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F1, F2.
        unsafe { receive(ep, &Receiving { from: m.address, to: gather(m.iov, m.count)?, tag: None, context: m.context, flags }) }
    })
}

unsafe extern "C" fn send(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: None, data: None, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn sendv(ep: *mut Fid, iov: *const Iovec, _desc: *mut *mut c_void, count: usize, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: gather(iov, count)?, tag: None, data: None, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn sendmsg(ep: *mut Fid, msg: *const Msg, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        let data = (flags & flags::REMOTE_CQ_DATA != 0).then_some(m.data);
        // SAFETY: F1, F2.
        unsafe { send_out(ep, &Sending { to: m.address, from: gather(m.iov, m.count)?, tag: None, data, context: m.context, flags: Some(flags) }) }
    })
}

unsafe extern "C" fn inject(ep: *mut Fid, at: *mut u8, length: usize, to: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: None, data: None, context: core::ptr::null_mut(), flags: None }) })
}

unsafe extern "C" fn senddata(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, with: u64, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: None, data: Some(with), context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn injectdata(ep: *mut Fid, at: *mut u8, length: usize, with: u64, to: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: None, data: Some(with), context: core::ptr::null_mut(), flags: None }) })
}
