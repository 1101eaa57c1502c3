// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls, and how they end. Results are given to C as memory of `malloc`, so that `bw_rpc_free`
//! needs no length.

use super::{ARGUMENT, NOT_DONE, OK, RESOURCE, code, data, done, end_code, failure, node, text};
use bellwire_rpc::{CallError, Node, Outstanding, Peer, Signature};
use core::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the operands of a call in C")]
pub unsafe extern "C" fn bw_rpc_start(
    at: *const Node,
    peer: u64,
    name: *const c_char,
    signature: u64,
    arguments: *const c_void,
    nbytes: usize,
    milliseconds: i64,
    pending: *mut u64,
) -> c_int {
    // SAFETY: C2.
    let (found, name, arguments, pending) = unsafe { (node(at), text(name), data(arguments, nbytes), pending.as_mut()) };
    done(found.and_then(|node| {
        let pending = pending.ok_or_else(|| failure(ARGUMENT, "the place for the call is NULL"))?;
        let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        let started = node.start_bytes(Peer::from_bits(peer), name?, Signature(signature), arguments?, time);
        Ok(code(started.map(|call| *pending = call.to_bits())))
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_is_done(at: *const Node, pending: u64) -> c_int {
    // SAFETY: C2.
    unsafe { node(at) }.map_or(0, |node| c_int::from(node.is_done(Outstanding::from_bits(pending))))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_wait(at: *const Node, pending: u64) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| code(node.wait_for(Outstanding::from_bits(pending)))))
}

/// Gives an outcome to C.
///
/// # Safety
/// C2: the places are NULL or writable.
unsafe fn give(outcome: Result<Vec<u8>, CallError>, result: *mut *mut c_void, nbytes: *mut usize) -> c_int {
    let (data, end) = match outcome {
        Ok(data) => (data, OK),
        Err(e) => (Vec::new(), end_code(e)),
    };
    if !nbytes.is_null() {
        // SAFETY: the caller's.
        unsafe { nbytes.write(data.len()) };
    }
    if result.is_null() {
        return end;
    }
    let mut memory = core::ptr::null_mut();
    if end == OK {
        // SAFETY: any number of bytes may be asked for; one at least, so that NULL means that there
        // is none.
        memory = unsafe { malloc(data.len().max(1)) };
        if memory.is_null() {
            return failure(RESOURCE, "no memory for the result");
        }
        // SAFETY: there is room for as many bytes in memory of its own.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), memory.cast(), data.len()) };
    }
    // SAFETY: the caller's.
    unsafe { result.write(memory) };
    end
}

unsafe extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_take(at: *const Node, pending: u64, result: *mut *mut c_void, nbytes: *mut usize) -> c_int {
    // SAFETY: C2.
    let node = match unsafe { node(at) } {
        Ok(node) => node,
        Err(code) => return code,
    };
    let call = Outstanding::from_bits(pending);
    match node.take(call) {
        // SAFETY: C2.
        Some(outcome) => unsafe { give(outcome, result, nbytes) },
        None if node.is_done(call) => failure(ARGUMENT, "there is no such call: it was taken"),
        None => failure(NOT_DONE, "the call is not over"),
    }
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_cancel(at: *const Node, pending: u64) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| {
        node.cancel(Outstanding::from_bits(pending));
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_abandon(at: *const Node, pending: u64) -> c_int {
    // SAFETY: C2.
    done(unsafe { node(at) }.map(|node| {
        node.abandon(Outstanding::from_bits(pending));
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the operands of a call in C")]
pub unsafe extern "C" fn bw_rpc_call(
    at: *const Node,
    peer: u64,
    name: *const c_char,
    signature: u64,
    arguments: *const c_void,
    nbytes: usize,
    milliseconds: i64,
    result: *mut *mut c_void,
    result_nbytes: *mut usize,
) -> c_int {
    let mut pending = 0;
    // SAFETY: C2.
    let started = unsafe { bw_rpc_start(at, peer, name, signature, arguments, nbytes, milliseconds, &raw mut pending) };
    if started != OK {
        return started;
    }
    // SAFETY: C2.
    let waited = unsafe { bw_rpc_wait(at, pending) };
    if waited != OK {
        // SAFETY: C2.
        unsafe { bw_rpc_abandon(at, pending) };
        return waited;
    }
    // SAFETY: C2.
    unsafe { bw_rpc_take(at, pending, result, result_nbytes) }
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2: NULL, or a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_free(result: *mut c_void) {
    // SAFETY: C2: it came from malloc in give().
    unsafe { free(result) };
}
