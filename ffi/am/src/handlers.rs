// SPDX-License-Identifier: MIT OR Apache-2.0
//! C functions as handlers, and the tokens that they get.

use crate::carrier::Message;
use crate::objects::{EndpointObject, endpoint};
use crate::traced;
use crate::types::{BAD_ARG, EndpointName, Handed, ReturnedMessage, code, put};
use bellwire_am::{Error, Operation};
use core::ffi::{c_int, c_void};
use std::ffi::CString;

/// `am_handler_fn_t`, of whichever type it really is.
type Function = extern "C" fn();

/// What a token points to while a handler runs.
pub(crate) struct Token<'a, 'm> {
    pub(crate) message: Message<'a, 'm>,
    endpoint: *mut EndpointObject,
    /// Replies are noted.
    pub(crate) is_traced: bool,
}

/// Calls `function` with `before` and as many arguments as there are.
macro_rules! call {
    ($function:expr, ($($type:ty),*), ($($before:expr),*), $args:expr) => {
        match *$args {
            [] => call!(@ $function, ($($type),*), ($($before),*),),
            [a] => call!(@ $function, ($($type),*), ($($before),*), a: i32),
            [a, b] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32),
            [a, b, c] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32),
            [a, b, c, d] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32),
            [a, b, c, d, e] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32),
            [a, b, c, d, e, f] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32),
            [a, b, c, d, e, f, g] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32),
            [a, b, c, d, e, f, g, h] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32),
            [a, b, c, d, e, f, g, h, i] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32),
            [a, b, c, d, e, f, g, h, i, j] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32),
            [a, b, c, d, e, f, g, h, i, j, k] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32),
            [a, b, c, d, e, f, g, h, i, j, k, l] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32, l: i32),
            [a, b, c, d, e, f, g, h, i, j, k, l, m] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32, l: i32, m: i32),
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32, l: i32, m: i32, n: i32),
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32, l: i32, m: i32, n: i32, o: i32),
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] => call!(@ $function, ($($type),*), ($($before),*), a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i32, j: i32, k: i32, l: i32, m: i32, n: i32, o: i32, p: i32),
            _ => {}
        }
    };
    (@ $function:expr, ($($type:ty),*), ($($before:expr),*), $($arg:ident: $argument:ty),*) => {{
        // SAFETY: C1: the header asks for a function of this type for a message with so many
        // arguments; all function pointers are alike.
        let function = unsafe { core::mem::transmute::<Function, extern "C" fn($($type,)* $($argument),*)>($function) };
        function($($before,)* $($arg),*)
    }};
}

impl Token<'_, '_> {
    /// Makes a reply, and notes it if the bundle is traced.
    #[inline]
    pub(crate) fn reply(&mut self, noted: (Operation, u8, usize), reply: impl FnOnce(&mut Message<'_, '_>) -> Result<(), Error>) -> Result<(), Error> {
        if self.is_traced { traced::reply(noted, || reply(&mut self.message)) } else { reply(&mut self.message) }
    }
}

/// Runs a C function for a message.
fn run(function: Function, endpoint: *mut EndpointObject, is_traced: bool, message: Message<'_, '_>) {
    let mut args = [0; bellwire_am::ARGS_MAX];
    let count = message.args().len();
    args[..count].copy_from_slice(message.args());
    let (is_short, payload) = (message.is_short(), message.payload());
    let mut token = Token { message, endpoint, is_traced };
    let token = (&raw mut token).cast::<c_void>();
    if is_short {
        call!(function, (*mut c_void), (token), &args[..count]);
    } else {
        call!(function, (*mut c_void, *const u8, usize), (token, payload.0, payload.1), &args[..count]);
    }
}

/// `am_message_t`.
#[repr(C)]
pub struct MessageView {
    num_args: c_int,
    args: *const i32,
    data: *const u8,
    nbytes: usize,
}

/// `am_message_fn_t`.
type MessageFunction = extern "C" fn(token: *mut c_void, message: *const MessageView, context: *mut c_void);

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_SetMessageHandler(ep: *mut EndpointObject, index: u8, function: Option<MessageFunction>, context: *mut c_void) -> c_int {
    let (Some(function), true) = (function, index != 0) else { return BAD_ARG };
    let (at, context) = (Handed(ep), Handed(context));
    // SAFETY: C1.
    let set = unsafe { endpoint(ep) }.and_then(|(bundle, id)| {
        let is_traced = bundle.is_traced;
        bundle.set_handler(id, index, move |message| {
            let mut args = [0; bellwire_am::ARGS_MAX];
            let count = message.args().len();
            args[..count].copy_from_slice(message.args());
            let (data, nbytes) = if message.is_short() { (core::ptr::null(), 0) } else { message.payload() };
            let view = MessageView { num_args: count as c_int, args: args.as_ptr(), data, nbytes };
            let mut token = Token { message, endpoint: at.pointer(), is_traced };
            function((&raw mut token).cast(), &raw const view, context.pointer());
        })
    });
    code(set)
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_SetHandler(ep: *mut EndpointObject, index: u8, function: Option<Function>) -> c_int {
    let Some(function) = function else { return BAD_ARG };
    let at = Handed(ep);
    // SAFETY: C1.
    let set = unsafe { endpoint(ep) }.and_then(|(bundle, id)| {
        if index == 0 {
            return bundle.set_error_handler(id, move |returned| {
                let reason = CString::new(returned.why.as_str()).unwrap_or_default();
                let mut message = ReturnedMessage::new(returned, &reason);
                // SAFETY: C1: handler 0 has this type.
                let function = unsafe { core::mem::transmute::<Function, extern "C" fn(c_int, c_int, *mut c_void)>(function) };
                function(returned.status as c_int, returned.operation as c_int, (&raw mut message).cast());
            });
        }
        let is_traced = bundle.is_traced;
        bundle.set_handler(id, index, move |message| run(function, at.pointer(), is_traced, message))
    });
    code(set)
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_SetHandlerAny(ep: *mut EndpointObject, index: *mut u8, function: Option<Function>) -> c_int {
    let (Some(function), false) = (function, index.is_null()) else { return BAD_ARG };
    let at = Handed(ep);
    // SAFETY: C1.
    let set = unsafe { endpoint(ep) }.and_then(|(bundle, id)| {
        let is_traced = bundle.is_traced;
        bundle.set_handler_any(id, move |message| run(function, at.pointer(), is_traced, message))
    });
    // SAFETY: C1.
    unsafe { put(index, set) }
}

/// The token behind a pointer.
///
/// # Safety
/// C1: NULL, or a token of a handler that runs.
#[inline]
pub(crate) unsafe fn token<'t>(token: *mut c_void) -> Result<&'t mut Token<'t, 't>, Error> {
    // SAFETY: the caller's. The handler that runs is the only user.
    unsafe { token.cast::<Token<'t, 't>>().as_mut() }.ok_or(Error::BadArgument)
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetSourceEndpoint(message: *mut c_void, name: *mut EndpointName) -> c_int {
    // SAFETY: C1.
    unsafe { put(name, token(message).map(|t| t.message.source().into())) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetDestEndpoint(message: *mut c_void, ep: *mut *mut EndpointObject) -> c_int {
    // SAFETY: C1.
    unsafe { put(ep, token(message).map(|t| t.endpoint)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AM_GetMsgTag(message: *mut c_void, tag: *mut u64) -> c_int {
    // SAFETY: C1.
    unsafe { put(tag, token(message).map(|t| t.message.tag())) }
}
