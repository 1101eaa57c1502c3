// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls for messages, with and without tags, as tables of C functions: each packs its
//! arguments and hands them to what the object does with them ([`Sends`], [`Receives`]). So
//! endpoints, contexts that receive only or send only, and endpoints whose buffers begin with a
//! prefix have the same calls.

use crate::abi::{Fid, Iovec, Msg, MsgTagged, Outcome, Table, data, error, gather};
use crate::flags;
use crate::posting::{Receiving, Sending};
use bellwire_tag::Gather;
use core::ffi::c_void;
use core::ptr::null_mut;

/// What an object does with receives.
pub(crate) trait Receives {
    /// What calls without flags take.
    ///
    /// # Safety
    /// F1.
    unsafe fn flags(fid: *mut Fid) -> u64;

    /// Receives, or looks.
    ///
    /// # Safety
    /// F1, F2.
    unsafe fn receive(fid: *mut Fid, r: &Receiving) -> Outcome;

    /// Receives one piece, as calls without flags do.
    ///
    /// # Safety
    /// F1, F2.
    #[inline(always)]
    unsafe fn receive_one(fid: *mut Fid, to: (*mut u8, usize), from: u64, tag: Option<(u64, u64)>, context: *mut c_void) -> Outcome {
        // SAFETY: F1, F2, the caller's promise, and so G1.
        unsafe { Self::receive(fid, &Receiving { from, to: Gather::one(to.0, to.1), tag, context, flags: Self::flags(fid) }) }
    }
}

/// What an object does with sends.
pub(crate) trait Sends {
    /// What calls without flags take.
    ///
    /// # Safety
    /// F1.
    unsafe fn flags(fid: *mut Fid) -> u64;

    /// Sends.
    ///
    /// # Safety
    /// F1, F2.
    unsafe fn send(fid: *mut Fid, s: &Sending) -> Outcome;

    /// Sends one piece to whom and with which tag `to` says, as calls without flags do.
    ///
    /// # Safety
    /// F1, F2.
    #[inline(always)]
    unsafe fn send_one(fid: *mut Fid, from: (*mut u8, usize), to: (u64, Option<u64>), data: Option<u64>, context: *mut c_void) -> Outcome {
        // SAFETY: G1, which F2 asks of the program.
        let from = unsafe { Gather::one(from.0, from.1) };
        // SAFETY: the caller's.
        unsafe { Self::send(fid, &Sending { to: to.0, from, tag: to.1, data, context, flags: Some(Self::flags(fid)) }) }
    }

    /// Injects one piece.
    ///
    /// # Safety
    /// F1, F2.
    #[inline(always)]
    unsafe fn inject_one(fid: *mut Fid, from: (*mut u8, usize), to: (u64, Option<u64>), data: Option<u64>) -> Outcome {
        // SAFETY: G1, which F2 asks of the program.
        let from = unsafe { Gather::one(from.0, from.1) };
        // SAFETY: the caller's.
        unsafe { Self::send(fid, &Sending { to: to.0, from, tag: to.1, data, context: null_mut(), flags: None }) }
    }
}

/// An object that does not do this.
pub(crate) struct Nothing;

impl Receives for Nothing {
    unsafe fn flags(_: *mut Fid) -> u64 {
        0
    }

    unsafe fn receive(_: *mut Fid, _: &Receiving) -> Outcome {
        Err(error::ENOSYS)
    }
}

impl Sends for Nothing {
    unsafe fn flags(_: *mut Fid) -> u64 {
        0
    }

    unsafe fn send(_: *mut Fid, _: &Sending) -> Outcome {
        Err(error::ENOSYS)
    }
}

/// The calls for messages without a tag.
pub(crate) const fn messages<R: Receives, S: Sends>() -> Table<9> {
    Table::new([
        recv::<R> as *const (),
        recvv::<R> as *const (),
        recvmsg::<R> as *const (),
        send::<S> as *const (),
        sendv::<S> as *const (),
        sendmsg::<S> as *const (),
        inject::<S> as *const (),
        senddata::<S> as *const (),
        injectdata::<S> as *const (),
    ])
}

/// The calls for tagged messages.
pub(crate) const fn tagged<R: Receives, S: Sends>() -> Table<9> {
    Table::new([
        trecv::<R> as *const (),
        trecvv::<R> as *const (),
        trecvmsg::<R> as *const (),
        tsend::<S> as *const (),
        tsendv::<S> as *const (),
        tsendmsg::<S> as *const (),
        tinject::<S> as *const (),
        tsenddata::<S> as *const (),
        tinjectdata::<S> as *const (),
    ])
}

/// A receive into one piece of memory.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn receive_one<R: Receives>(fid: *mut Fid, at: *mut u8, length: usize, from: u64, tag: Option<(u64, u64)>, context: *mut c_void) -> isize {
    // SAFETY: the caller's.
    data(|| unsafe { R::receive_one(fid, (at, length), from, tag, context) })
}

/// A receive into several.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn receive_some<R: Receives>(fid: *mut Fid, iov: *const Iovec, count: usize, from: u64, tag: Option<(u64, u64)>, context: *mut c_void) -> isize {
    // SAFETY: the caller's.
    data(|| unsafe { R::receive(fid, &Receiving { from, to: gather(iov, count)?, tag, context, flags: R::flags(fid) }) })
}

/// A send of one piece of memory; with data for the receiver's completion, or none.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn send_one<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, to: u64, tag: Option<u64>, with: Option<u64>, context: *mut c_void) -> isize {
    // SAFETY: the caller's.
    data(|| unsafe { S::send_one(fid, (at, length), (to, tag), with, context) })
}

/// A send of several.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn send_some<S: Sends>(fid: *mut Fid, iov: *const Iovec, count: usize, to: u64, tag: Option<u64>, context: *mut c_void) -> isize {
    // SAFETY: the caller's.
    data(|| unsafe { S::send(fid, &Sending { to, from: gather(iov, count)?, tag, data: None, context, flags: Some(S::flags(fid)) }) })
}

/// A send whose memory is the program's again when the call returns, and of which it hears no more.
///
/// # Safety
/// F1, F2.
#[inline(always)]
unsafe fn inject_one<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, to: u64, tag: Option<u64>, with: Option<u64>) -> isize {
    // SAFETY: the caller's.
    data(|| unsafe { S::inject_one(fid, (at, length), (to, tag), with) })
}

unsafe extern "C" fn recv<R: Receives>(fid: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, from: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { receive_one::<R>(fid, at, length, from, None, context) }
}

unsafe extern "C" fn recvv<R: Receives>(fid: *mut Fid, iov: *const Iovec, _desc: *mut *mut c_void, count: usize, from: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { receive_some::<R>(fid, iov, count, from, None, context) }
}

unsafe extern "C" fn recvmsg<R: Receives>(fid: *mut Fid, msg: *const Msg, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F1, F2.
        unsafe { R::receive(fid, &Receiving { from: m.address, to: gather(m.iov, m.count)?, tag: None, context: m.context, flags }) }
    })
}

unsafe extern "C" fn trecv<R: Receives>(
    fid: *mut Fid,
    at: *mut u8,
    length: usize,
    _desc: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: F1, F2.
    unsafe { receive_one::<R>(fid, at, length, from, Some((tag, ignore)), context) }
}

unsafe extern "C" fn trecvv<R: Receives>(
    fid: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: F1, F2.
    unsafe { receive_some::<R>(fid, iov, count, from, Some((tag, ignore)), context) }
}

unsafe extern "C" fn trecvmsg<R: Receives>(fid: *mut Fid, msg: *const MsgTagged, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        // SAFETY: F1, F2.
        unsafe { R::receive(fid, &Receiving { from: m.address, to: gather(m.iov, m.count)?, tag: Some((m.tag, m.ignore)), context: m.context, flags }) }
    })
}

unsafe extern "C" fn send<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_one::<S>(fid, at, length, to, None, None, context) }
}

unsafe extern "C" fn sendv<S: Sends>(fid: *mut Fid, iov: *const Iovec, _desc: *mut *mut c_void, count: usize, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_some::<S>(fid, iov, count, to, None, context) }
}

unsafe extern "C" fn sendmsg<S: Sends>(fid: *mut Fid, msg: *const Msg, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        let data = (flags & flags::REMOTE_CQ_DATA != 0).then_some(m.data);
        // SAFETY: F1, F2.
        unsafe { S::send(fid, &Sending { to: m.address, from: gather(m.iov, m.count)?, tag: None, data, context: m.context, flags: Some(flags) }) }
    })
}

unsafe extern "C" fn inject<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, to: u64) -> isize {
    // SAFETY: F1, F2.
    unsafe { inject_one::<S>(fid, at, length, to, None, None) }
}

unsafe extern "C" fn senddata<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, with: u64, to: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_one::<S>(fid, at, length, to, None, Some(with), context) }
}

unsafe extern "C" fn injectdata<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, with: u64, to: u64) -> isize {
    // SAFETY: F1, F2.
    unsafe { inject_one::<S>(fid, at, length, to, None, Some(with)) }
}

unsafe extern "C" fn tsend<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, _desc: *mut c_void, to: u64, tag: u64, context: *mut c_void) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_one::<S>(fid, at, length, to, Some(tag), None, context) }
}

unsafe extern "C" fn tsendv<S: Sends>(
    fid: *mut Fid,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_some::<S>(fid, iov, count, to, Some(tag), context) }
}

unsafe extern "C" fn tsendmsg<S: Sends>(fid: *mut Fid, msg: *const MsgTagged, flags: u64) -> isize {
    data(|| {
        // SAFETY: F2.
        let m = unsafe { msg.as_ref() }.ok_or(error::EINVAL)?;
        let data = (flags & flags::REMOTE_CQ_DATA != 0).then_some(m.data);
        // SAFETY: F1, F2.
        unsafe { S::send(fid, &Sending { to: m.address, from: gather(m.iov, m.count)?, tag: Some(m.tag), data, context: m.context, flags: Some(flags) }) }
    })
}

unsafe extern "C" fn tinject<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, to: u64, tag: u64) -> isize {
    // SAFETY: F1, F2.
    unsafe { inject_one::<S>(fid, at, length, to, Some(tag), None) }
}

unsafe extern "C" fn tsenddata<S: Sends>(
    fid: *mut Fid,
    at: *mut u8,
    length: usize,
    _desc: *mut c_void,
    with: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: F1, F2.
    unsafe { send_one::<S>(fid, at, length, to, Some(tag), Some(with), context) }
}

unsafe extern "C" fn tinjectdata<S: Sends>(fid: *mut Fid, at: *mut u8, length: usize, with: u64, to: u64, tag: u64) -> isize {
    // SAFETY: F1, F2.
    unsafe { inject_one::<S>(fid, at, length, to, Some(tag), Some(with)) }
}
