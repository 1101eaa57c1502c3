// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote procedure calls (`bellwire_rpc.h`) on the crate `bellwire-rpc`: nodes, codes, reasons.
//! Handlers are in `serve.rs`, calls in `calls.rs`.
//!
//! Invariant C2: as C1, for `bellwire_rpc.h`: a node is one that was opened and not closed; a call
//! is one whose handler runs; a reply is one that was not used.

mod calls;
mod serve;

use crate::objects::{AM_Terminate, init, open_native};
use bellwire_rpc::{ADDRESS_BYTES, Address, CallError, Error, Limits, Node, Peer};
use core::ffi::{CStr, c_char, c_int, c_uint};
use std::cell::RefCell;
use std::ffi::CString;
use std::time::Duration;

pub(crate) const OK: c_int = 0;
const FAILED: c_int = 1;
const BUSY: c_int = 32;
const MOMENT: c_int = 33;
const ARGUMENT: c_int = 34;
const DEVICE: c_int = 35;
const RESOURCE: c_int = 36;
const NOT_DONE: c_int = 37;

thread_local! {
    /// What the thread's last failure was about, and the handler's number, if it was one's.
    static REASON: RefCell<(CString, c_int)> = RefCell::new((CString::default(), 0));
}

fn set_reason(text: String, number: c_int) {
    // Zero bytes end it.
    let text = text.split('\0').next().unwrap_or_default();
    let _ = REASON.try_with(|reason| *reason.borrow_mut() = (CString::new(text).unwrap_or_default(), number));
}

pub(crate) fn failure(code: c_int, text: &str) -> c_int {
    set_reason(text.to_owned(), 0);
    code
}

pub(crate) fn code(outcome: Result<(), Error>) -> c_int {
    let Err(e) = outcome else { return OK };
    set_reason(e.to_string(), 0);
    match e {
        Error::Busy => BUSY,
        Error::WrongMoment => MOMENT,
        Error::Device(_) => DEVICE,
        Error::Messages(bellwire_am::Error::Resource) => RESOURCE,
        _ => ARGUMENT,
    }
}

/// How a call ended.
pub(crate) fn end_code(e: CallError) -> c_int {
    let number = if let CallError::Failed(failure) = &e { failure.code } else { 0 };
    let text = if let CallError::Failed(failure) = &e { failure.message.clone() } else { e.to_string() };
    set_reason(text, number);
    match e {
        CallError::Failed(_) => FAILED,
        CallError::UnknownProcedure => 2,
        CallError::WrongType => 3,
        CallError::BadArguments => 4,
        CallError::BadReply => 5,
        CallError::Overloaded => 6,
        CallError::TooLarge => 7,
        CallError::Dropped => 8,
        CallError::Gone(_) => 9,
        CallError::Incompatible => 10,
        CallError::Deadline => 11,
        CallError::Cancelled => 12,
        CallError::NotStarted(e) => code(Err(e)),
        _ => 5,
    }
}

/// `bw_rpc_address_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeAddress {
    opaque: [u64; ADDRESS_BYTES / 8],
}

const _: () = assert!(size_of::<NodeAddress>() == 56);

/// The node behind a pointer.
///
/// # Safety
/// C2: NULL, or a node.
pub(crate) unsafe fn node<'n>(at: *const Node) -> Result<&'n Node, c_int> {
    // SAFETY: the caller's.
    unsafe { at.as_ref() }.ok_or_else(|| failure(ARGUMENT, "the node is NULL"))
}

/// A text.
///
/// # Safety
/// C2: NULL, or a string.
pub(crate) unsafe fn text<'t>(at: *const c_char) -> Result<&'t str, c_int> {
    if at.is_null() {
        return Err(failure(ARGUMENT, "the name is NULL"));
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(at) }.to_str().map_err(|_| failure(ARGUMENT, "the name is not UTF-8"))
}

/// Bytes to read; NULL is right for none.
///
/// # Safety
/// C2: so many readable bytes.
pub(crate) unsafe fn data<'d>(at: *const core::ffi::c_void, nbytes: usize) -> Result<&'d [u8], c_int> {
    if nbytes == 0 {
        return Ok(&[]);
    }
    if at.is_null() || nbytes > isize::MAX as usize {
        return Err(failure(ARGUMENT, "the bytes are NULL, or too many"));
    }
    // SAFETY: the caller's.
    Ok(unsafe { core::slice::from_raw_parts(at.cast(), nbytes) })
}

/// Runs the body of a C function; a panic of a program's handler in Rust does not pass.
pub(crate) fn done(outcome: Result<c_int, c_int>) -> c_int {
    outcome.unwrap_or_else(|code| code)
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_open(to: *mut *mut Node) -> c_int {
    if to.is_null() {
        return failure(ARGUMENT, "the place for the node is NULL");
    }
    let device = match init(open_native) {
        Ok(library) => library.native.clone(),
        Err(why) => return failure(DEVICE, &why),
    };
    let opened = device.ok_or_else(|| Error::Device("the library has no NIC".to_owned())).and_then(|device| Node::on(&device));
    match opened {
        Ok(node) => {
            // SAFETY: C2, not NULL.
            unsafe { to.write(Box::into_raw(Box::new(node))) };
            OK
        }
        Err(e) => {
            AM_Terminate();
            code(Err(e))
        }
    }
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_close(at: *mut Node) -> c_int {
    if at.is_null() {
        return failure(ARGUMENT, "the node is NULL");
    }
    // SAFETY: C2.
    if unsafe { &*at }.is_in_handler() {
        return failure(MOMENT, "not within a handler");
    }
    // SAFETY: C2: it came from bw_rpc_open, and nobody uses it any more.
    drop(unsafe { Box::from_raw(at) });
    AM_Terminate();
    OK
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_address(at: *const Node, to: *mut NodeAddress) -> c_int {
    // SAFETY: C2.
    let (found, to) = unsafe { (node(at), to.as_mut()) };
    done(found.and_then(|node| {
        let to = to.ok_or_else(|| failure(ARGUMENT, "the place for the address is NULL"))?;
        for (word, bytes) in to.opaque.iter_mut().zip(node.address().to_bytes().chunks(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok(OK)
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_set_limits(at: *const Node, window: c_uint, served: c_uint, memory: u64) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| {
        node.set_limits(Limits { window, served, memory });
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_connect(at: *const Node, address: *const NodeAddress, peer: *mut u64) -> c_int {
    // SAFETY: C2.
    let (found, address, peer) = unsafe { (node(at), address.as_ref(), peer.as_mut()) };
    done(found.and_then(|node| {
        let (Some(address), Some(peer)) = (address, peer) else { return Err(failure(ARGUMENT, "the address or the place for the peer is NULL")) };
        let bytes: Vec<u8> = address.opaque.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let connected = Address::from_bytes(&bytes).and_then(|address| node.connect(&address));
        Ok(code(connected.map(|connected| *peer = connected.to_bits())))
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_disconnect(at: *const Node, peer: u64) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| code(node.disconnect(Peer::from_bits(peer)))))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_poll(at: *const Node) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| code(node.poll().map(drop))))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_sleep(at: *const Node, milliseconds: c_int) -> c_int {
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| {
        let slept = node.wait(time).and_then(|_| {
            while node.poll()? != 0 {}
            Ok(())
        });
        code(slept)
    }))
}

/// See bellwire_rpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn bw_rpc_reason() -> *const c_char {
    // A thread that is ending has none any more.
    REASON.try_with(|reason| reason.borrow().0.as_ptr()).unwrap_or(c"".as_ptr())
}

/// See bellwire_rpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn bw_rpc_failure() -> c_int {
    REASON.try_with(|reason| reason.borrow().1).unwrap_or(0)
}
