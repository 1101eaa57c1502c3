// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tagged messages.

use crate::abi::{Fid, Iovec, MsgTagged, Table, data, error, gather};
use crate::endpoint::of;
use crate::flags;
use crate::message::{Receiving, Sending, receive, send_out};
use bellwire_tag::Gather;
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

unsafe extern "C" fn recv(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, from: u64, tag: u64, ignore: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { receive(ep, &Receiving { from, to: Gather::one(at, length), tag: Some((tag, ignore)), context, flags: of(ep).rx_flags }) })
}

unsafe extern "C" fn recvv(
    ep: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { receive(ep, &Receiving { from, to: gather(iov, count)?, tag: Some((tag, ignore)), context, flags: of(ep).rx_flags }) })
}

unsafe extern "C" fn recvmsg(ep: *mut Fid, msg: *const MsgTagged, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F1, F2.
        unsafe { receive(ep, &Receiving { from: m.address, to: gather(m.iov, m.count)?, tag: Some((m.tag, m.ignore)), context: m.context, flags }) }
    })
}

unsafe extern "C" fn send(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, to: u64, tag: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: Some(tag), data: None, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn sendv(ep: *mut Fid, iov: *const Iovec, _desc: *mut *mut c_void, count: usize, to: u64, tag: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: gather(iov, count)?, tag: Some(tag), data: None, context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn sendmsg(ep: *mut Fid, msg: *const MsgTagged, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        let data = (flags & flags::REMOTE_CQ_DATA != 0).then_some(m.data);
        // SAFETY: F1, F2.
        unsafe { send_out(ep, &Sending { to: m.address, from: gather(m.iov, m.count)?, tag: Some(m.tag), data, context: m.context, flags: Some(flags) }) }
    })
}

unsafe extern "C" fn inject(ep: *mut Fid, at: *mut u8, length: usize, to: u64, tag: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: Some(tag), data: None, context: core::ptr::null_mut(), flags: None }) })
}

unsafe extern "C" fn senddata(ep: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, with: u64, to: u64, tag: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe { send_out(ep, &Sending { to, from: Gather::one(at, length), tag: Some(tag), data: Some(with), context, flags: Some(of(ep).tx_flags) }) })
}

unsafe extern "C" fn injectdata(ep: *mut Fid, at: *mut u8, length: usize, with: u64, to: u64, tag: u64) -> isize {
    // SAFETY: F1, F2.
    data(|| unsafe {
        send_out(ep, &Sending { to, from: Gather::one(at, length), tag: Some(tag), data: Some(with), context: core::ptr::null_mut(), flags: None })
    })
}
