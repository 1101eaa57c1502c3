// SPDX-License-Identifier: MIT OR Apache-2.0
//! C functions as handlers of procedures, and their answers.

use super::{ARGUMENT, OK, code, data, done, failure, node, text};
use crate::types::Handed;
use bellwire_rpc::{Failure, Incoming, Node, Procedure, Reply, Signature};
use core::ffi::{c_char, c_int, c_void};

/// `bw_rpc_handler_t`.
type Handler = extern "C" fn(call: *mut c_void, arguments: *const u8, nbytes: usize, context: *mut c_void);

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_serve(at: *const Node, name: *const c_char, signature: u64, handler: Option<Handler>, context: *mut c_void) -> c_int {
    let context = Handed(context);
    // SAFETY: C2.
    let (found, name) = unsafe { (node(at), text(name)) };
    done(found.and_then(|node| {
        let (name, handler) = (name?, handler.ok_or_else(|| failure(ARGUMENT, "the handler is NULL"))?);
        let run = move |call: &mut Incoming<'_, '_>| {
            let (at, nbytes) = (call.arguments().as_ptr(), call.arguments().len());
            handler(core::ptr::from_mut(call).cast(), at, nbytes, context.pointer());
        };
        Ok(code(node.serve_bytes(name, Signature(signature), run)))
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_withdraw(at: *const Node, name: *const c_char) -> c_int {
    // SAFETY: C2.
    let (found, name) = unsafe { (node(at), text(name)) };
    done(found.and_then(|node| Ok(code(node.withdraw(name?)))))
}

/// See bellwire_rpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn bw_rpc_bytes_type(version: u32) -> u64 {
    Procedure::<Vec<u8>, Vec<u8>>::new("", version).signature().0
}

/// The call behind a pointer.
///
/// # Safety
/// C2: NULL, or a call whose handler runs.
unsafe fn incoming<'c>(call: *mut c_void) -> Result<&'c mut Incoming<'c, 'c>, c_int> {
    // SAFETY: the caller's. The handler that runs is the only user.
    unsafe { call.cast::<Incoming<'c, 'c>>().as_mut() }.ok_or_else(|| failure(ARGUMENT, "the call is NULL"))
}

/// A number and a text.
///
/// # Safety
/// C2: the text is NULL or a string.
unsafe fn reason(number: c_int, message: *const c_char) -> Result<Failure, c_int> {
    // SAFETY: the caller's.
    let message = if message.is_null() { "" } else { unsafe { text(message) }? };
    Ok(Failure::new(number, message))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_return(call: *mut c_void, result: *const c_void, nbytes: usize) -> c_int {
    // SAFETY: C2.
    let (call, result) = unsafe { (incoming(call), data(result, nbytes)) };
    done(call.and_then(|call| {
        call.reply(Ok(result?));
        Ok(OK)
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_fail(call: *mut c_void, number: c_int, message: *const c_char) -> c_int {
    // SAFETY: C2.
    let (call, why) = unsafe { (incoming(call), reason(number, message)) };
    done(call.and_then(|call| {
        call.reply(Err(&why?));
        Ok(OK)
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_refuse(call: *mut c_void) -> c_int {
    // SAFETY: C2.
    done(unsafe { incoming(call) }.map(|call| {
        call.refuse_arguments();
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_time_left(call: *mut c_void) -> i64 {
    // SAFETY: C2.
    let left = unsafe { incoming(call) }.ok().and_then(|call| call.context().time_left());
    left.map_or(-1, |left| i64::try_from(left.as_millis()).unwrap_or(i64::MAX))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_defer(call: *mut c_void, to: *mut *mut Reply) -> c_int {
    // SAFETY: C2.
    done(unsafe { incoming(call) }.and_then(|call| {
        if to.is_null() {
            return Err(failure(ARGUMENT, "the place for the reply is NULL"));
        }
        let reply = call.defer().ok_or_else(|| failure(ARGUMENT, "the call is answered, or too many are under way: its caller knows"))?;
        // SAFETY: C2, not NULL.
        unsafe { to.write(Box::into_raw(Box::new(reply))) };
        Ok(OK)
    }))
}

/// Takes a reply over.
///
/// # Safety
/// C2: NULL, or a reply that was not used.
unsafe fn taken(reply: *mut Reply) -> Result<Box<Reply>, c_int> {
    if reply.is_null() {
        return Err(failure(ARGUMENT, "the reply is NULL"));
    }
    // SAFETY: the caller's: it came from bw_rpc_defer.
    Ok(unsafe { Box::from_raw(reply) })
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_reply_return(reply: *mut Reply, result: *const c_void, nbytes: usize) -> c_int {
    // SAFETY: C2.
    let result = match unsafe { data(result, nbytes) } {
        Ok(result) => result,
        Err(code) => return code,
    };
    // SAFETY: C2.
    done(unsafe { taken(reply) }.map(|reply| {
        reply.send(Ok(result.to_vec()));
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_reply_fail(reply: *mut Reply, number: c_int, message: *const c_char) -> c_int {
    // SAFETY: C2.
    let why = match unsafe { reason(number, message) } {
        Ok(why) => why,
        Err(code) => return code,
    };
    // SAFETY: C2.
    done(unsafe { taken(reply) }.map(|reply| {
        reply.send(Err(why));
        OK
    }))
}

/// See bellwire_rpc.h.
///
/// # Safety
/// C2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_rpc_reply_cancelled(reply: *const Reply) -> c_int {
    // SAFETY: C2.
    unsafe { reply.as_ref() }.map_or(0, |reply| c_int::from(reply.is_cancelled()))
}
