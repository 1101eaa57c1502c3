// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shapes that libfabric's objects have: identifiers, tables of calls, messages. And the wall
//! that panics do not pass.
//!
//! A table is its size in bytes and its calls in the order of the public header; callers look at
//! the size before they use what newer versions have added, so ours say what they have.

use bellwire_memory::event::Bell;
use core::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call in a table. Its type is that of the place in the public header.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Call(pub *const ());

// SAFETY: a function's address.
unsafe impl Sync for Call {}

/// A table of calls.
#[repr(C)]
pub(crate) struct Table<const N: usize> {
    size: usize,
    calls: [Call; N],
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new(calls: [*const (); N]) -> Self {
        let mut of = [Call(core::ptr::null()); N];
        let mut i = 0;
        while i < N {
            of[i] = Call(calls[i]);
            i += 1;
        }
        Self { size: size_of::<Self>(), calls: of }
    }
}

/// The address of a table, as objects have it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableRef(*const c_void);

impl TableRef {
    pub(crate) const fn to<const N: usize>(table: &'static Table<N>) -> Self {
        Self((&raw const *table).cast())
    }

    pub(crate) const NONE: Self = Self(core::ptr::null());
}

/// `struct fid`.
#[repr(C)]
pub(crate) struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: TableRef,
}

/// `FI_CLASS_..`.
pub(crate) mod class {
    pub(crate) const FABRIC: usize = 1;
    pub(crate) const DOMAIN: usize = 2;
    pub(crate) const EP: usize = 3;
    pub(crate) const SEP: usize = 4;
    pub(crate) const RX_CTX: usize = 5;
    pub(crate) const SRX_CTX: usize = 6;
    pub(crate) const TX_CTX: usize = 7;
    pub(crate) const STX_CTX: usize = 8;
    pub(crate) const PEP: usize = 9;
    pub(crate) const AV: usize = 11;
    pub(crate) const MR: usize = 12;
    pub(crate) const EQ: usize = 13;
    pub(crate) const CQ: usize = 14;
    pub(crate) const CNTR: usize = 15;
    pub(crate) const WAIT: usize = 16;
    pub(crate) const POLL: usize = 17;
    pub(crate) const CONNREQ: usize = 18;
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Iovec {
    pub at: *mut u8,
    pub length: usize,
}

/// `struct fi_msg`.
#[repr(C)]
pub(crate) struct Msg {
    pub iov: *const Iovec,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub address: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// `struct fi_msg_tagged`.
#[repr(C)]
pub(crate) struct MsgTagged {
    pub iov: *const Iovec,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub address: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// `struct fi_rma_iov`, and `fi_rma_ioc` with a count for the length.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RmaIov {
    pub address: u64,
    pub length: usize,
    pub key: u64,
}

/// `struct fi_msg_rma`.
#[repr(C)]
pub(crate) struct MsgRma {
    pub iov: *const Iovec,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub address: u64,
    pub rma: *const RmaIov,
    pub rma_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// `struct fi_msg_atomic`; its vectors count values.
#[repr(C)]
pub(crate) struct MsgAtomic {
    pub iov: *const Iovec,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub address: u64,
    pub rma: *const RmaIov,
    pub rma_count: usize,
    pub data_type: c_int,
    pub op: c_int,
    pub context: *mut c_void,
    pub data: u64,
}

/// What a call returns: 0 or more, or an error's number with a minus sign.
pub(crate) type Outcome<T = ()> = Result<T, c_int>;

/// Numbers of errors: those of the operating system, and libfabric's.
pub(crate) mod error {
    pub(crate) use libc::{
        EACCES, EAGAIN, EBUSY, ECANCELED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINVAL, EMSGSIZE, ENODATA, ENOMEM, ENOMSG, ENOSYS, ENOTCONN, EOPNOTSUPP,
    };
    /// `FI_ETOOSMALL`.
    pub(crate) const TOO_SMALL: i32 = 257;
    /// `FI_EOPBADSTATE`.
    pub(crate) const BAD_STATE: i32 = 258;
    /// `FI_EAVAIL`.
    pub(crate) const AVAILABLE: i32 = 259;
    /// `FI_EBADFLAGS`.
    pub(crate) const BAD_FLAGS: i32 = 260;
    /// `FI_ENOCQ`.
    pub(crate) const NO_CQ: i32 = 263;
    /// `FI_ETRUNC`.
    pub(crate) const TRUNCATED: i32 = 265;
    /// `FI_ENOKEY`.
    pub(crate) const NO_KEY: i32 = 266;
    /// `FI_ENOAV`.
    pub(crate) const NO_AV: i32 = 267;
}

/// Runs the body of a call; a panic does not pass into C.
#[cfg(panic = "abort")]
#[inline(always)]
fn guard(body: impl FnOnce() -> isize) -> isize {
    body()
}

/// Runs the body of a call; a panic does not pass into C.
#[cfg(panic = "unwind")]
fn guard(body: impl FnOnce() -> isize) -> isize {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(-(libc::EFAULT as isize))
}

/// Runs the body of a call that returns `ssize_t`.
#[inline(always)]
pub(crate) fn sized(body: impl FnOnce() -> Outcome<usize>) -> isize {
    guard(|| match body() {
        Ok(n) => n as isize,
        Err(e) => -(e as isize),
    })
}

/// Runs the body of a call that returns `ssize_t`, 0 at best.
#[inline(always)]
pub(crate) fn data(body: impl FnOnce() -> Outcome) -> isize {
    sized(|| body().map(|()| 0))
}

/// Runs the body of a call that returns `int`.
#[inline(always)]
pub(crate) fn control(body: impl FnOnce() -> Outcome) -> c_int {
    data(body) as c_int
}

/// A call that is not there. Whatever its arguments are, they are not looked at.
pub(crate) extern "C" fn none() -> isize {
    -(error::ENOSYS as isize)
}

/// Calls of an object that has none of a kind.
pub(crate) static NOTHING: Table<13> = Table::new([none as *const (); 13]);

/// The pieces that an iovec names.
///
/// # Safety
/// F2 for `count` of them.
pub(crate) unsafe fn gather(iov: *const Iovec, count: usize) -> Outcome<bellwire_tag::Gather> {
    if count > bellwire_tag::PIECES_MAX || (iov.is_null() && count != 0) {
        return Err(error::EINVAL);
    }
    // SAFETY: F2.
    let pieces = (0..count).map(|i| unsafe { *iov.add(i) });
    // SAFETY: G1, which F2 asks of the program.
    unsafe { bellwire_tag::Gather::of(pieces.map(|v| (v.at, v.length))) }.ok_or(error::EMSGSIZE)
}

/// An error of the endpoint's as a number.
pub(crate) fn code(e: bellwire_tag::Error) -> c_int {
    use bellwire_tag::Error;
    match e {
        Error::Again => error::EAGAIN,
        Error::Unreachable => error::EHOSTUNREACH,
        Error::TooLong => error::EMSGSIZE,
        Error::Resource => error::ENOMEM,
        Error::InChild => error::BAD_STATE,
        _ => error::EINVAL,
    }
}

/// Closes an object: its memory is given back.
///
/// # Safety
/// F1, of an object that a `Box` was made for; nobody uses it any more.
pub(crate) unsafe fn drop_object<T>(fid: *mut Fid) {
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
}

/// Closes an object whose shared part nobody else uses.
///
/// # Safety
/// F1, of an object that a `Box` was made for.
pub(crate) unsafe fn close_unused<T, S>(fid: *mut Fid, shared: impl FnOnce(&T) -> &Arc<S>) -> Outcome {
    // SAFETY: the caller's.
    if Arc::strong_count(shared(unsafe { &*fid.cast::<T>() })) != 1 {
        return Err(error::EBUSY);
    }
    // SAFETY: the caller's.
    unsafe { drop_object::<T>(fid) };
    Ok(())
}

/// When a wait of so many milliseconds ends; less than none: never.
pub(crate) fn deadline(milliseconds: c_int) -> Option<Instant> {
    u64::try_from(milliseconds).ok().map(|ms| Instant::now() + Duration::from_millis(ms))
}

/// `FI_WAIT_NONE` and its like: how a queue can be waited for.
pub(crate) mod wait {
    use core::ffi::c_int;
    pub(crate) const NONE: c_int = 0;
    pub(crate) const UNSPEC: c_int = 1;
    pub(crate) const SET: c_int = 2;
    pub(crate) const FD: c_int = 3;
    pub(crate) const YIELD: c_int = 5;
}

/// What `fi_control` is asked for.
pub(crate) mod command {
    use core::ffi::c_int;
    pub(crate) const GETOPSFLAG: c_int = 2;
    pub(crate) const SETOPSFLAG: c_int = 3;
    pub(crate) const ALIAS: c_int = 4;
    pub(crate) const GETWAIT: c_int = 5;
    pub(crate) const ENABLE: c_int = 6;
    pub(crate) const BACKLOG: c_int = 7;
    pub(crate) const REFRESH: c_int = 14;
    pub(crate) const GETWAITOBJ: c_int = 16;
}

/// `FI_GETWAIT` and `FI_GETWAITOBJ`, of an object that is waited for in this way.
///
/// # Safety
/// F2.
pub(crate) unsafe fn tell_wait(asked: c_int, argument: *mut c_void, kind: c_int, bell: Option<&Bell>) -> Outcome {
    let value = match (asked, bell) {
        (command::GETWAIT, Some(bell)) => bell.fd().as_raw_fd(),
        (command::GETWAITOBJ, _) => kind,
        _ => return Err(error::ENOSYS),
    };
    // SAFETY: the caller's.
    *unsafe { argument.cast::<c_int>().as_mut() }.ok_or(error::EINVAL)? = value;
    Ok(())
}

/// Hands an object to C.
pub(crate) fn give<T>(object: T, to: *mut *mut T) -> Outcome {
    if to.is_null() {
        return Err(error::EINVAL);
    }
    // SAFETY: F2.
    unsafe { *to = Box::into_raw(Box::new(object)) };
    Ok(())
}
