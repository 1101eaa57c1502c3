// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests, gets and replies.

use crate::handlers::token;
use crate::objects::{EndpointObject, endpoint};
use crate::types::code;
use bellwire_am::{ARGS_MAX, Error, Operation};
use core::ffi::{c_int, c_void};

/// Arguments, copied.
struct Args([i32; ARGS_MAX], usize);

impl Args {
    /// # Safety
    /// C1: `args` points to `count` arguments.
    #[inline]
    unsafe fn of(count: c_int, args: *const i32) -> Result<Self, Error> {
        let count = usize::try_from(count).ok().filter(|c| *c <= ARGS_MAX && (*c == 0 || !args.is_null())).ok_or(Error::BadArgument)?;
        let mut copy = [0; ARGS_MAX];
        for (i, to) in copy.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's.
            *to = unsafe { args.add(i).read() };
        }
        Ok(Self(copy, count))
    }

    #[inline]
    fn all(&self) -> &[i32] {
        &self.0[..self.1]
    }
}

/// An index of the translation table.
#[inline]
fn entry(dest: c_int) -> Result<u32, Error> {
    u32::try_from(dest).map_err(|_| Error::BadArgument)
}

/// A payload, which may only be NULL if it is empty.
#[inline]
fn payload(source: *const c_void, nbytes: usize) -> Result<(*const u8, usize), Error> {
    if source.is_null() && nbytes != 0 { Err(Error::BadArgument) } else { Ok((source.cast(), nbytes)) }
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_Request(ep: *mut EndpointObject, dest: c_int, handler: u8, num_args: c_int, args: *const i32) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (endpoint(ep), Args::of(num_args, args)) };
    code(found.and_then(|(bundle, id)| bundle.request(id, entry(dest)?, handler, args?.all())))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_RequestI(
    ep: *mut EndpointObject,
    dest: c_int,
    handler: u8,
    source: *const c_void,
    nbytes: usize,
    num_args: c_int,
    args: *const i32,
) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (endpoint(ep), Args::of(num_args, args)) };
    code(found.and_then(|(bundle, id)| {
        // SAFETY: C1: the source is readable throughout the call.
        unsafe { bundle.request_medium(id, entry(dest)?, handler, payload(source, nbytes)?, args?.all()) }
    }))
}

/// See am.h.
///
/// # Safety
/// C1; if `is_async`, the source stays readable until the request is handled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_RequestXfer(
    ep: *mut EndpointObject,
    dest: c_int,
    offset: usize,
    handler: u8,
    source: *const c_void,
    nbytes: usize,
    is_async: c_int,
    num_args: c_int,
    args: *const i32,
) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (endpoint(ep), Args::of(num_args, args)) };
    code(found.and_then(|(bundle, id)| {
        let (dest, data, args) = (entry(dest)?, payload(source, nbytes)?, args?);
        if is_async == 0 {
            // SAFETY: C1: the source is readable throughout the call.
            unsafe { bundle.request_bulk(id, dest, handler, offset as u64, data, args.all()) }
        } else {
            // SAFETY: the caller's.
            unsafe { bundle.try_request_bulk(id, dest, handler, offset as u64, data, args.all()) }
        }
    }))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_GetXfer(
    ep: *mut EndpointObject,
    dest: c_int,
    source_offset: usize,
    handler: u8,
    dest_offset: usize,
    nbytes: usize,
    num_args: c_int,
    args: *const i32,
) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (endpoint(ep), Args::of(num_args, args)) };
    code(found.and_then(|(bundle, id)| bundle.get(id, entry(dest)?, handler, source_offset as u64, dest_offset as u64, nbytes, args?.all())))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_Reply(message: *mut c_void, handler: u8, num_args: c_int, args: *const i32) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (token(message), Args::of(num_args, args)) };
    code(found.and_then(|t| {
        let args = args?;
        t.reply((Operation::Reply, handler, 0), |message| message.reply(handler, args.all()))
    }))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_ReplyI(message: *mut c_void, handler: u8, source: *const c_void, nbytes: usize, num_args: c_int, args: *const i32) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (token(message), Args::of(num_args, args)) };
    code(found.and_then(|t| {
        let (data, args) = (payload(source, nbytes)?, args?);
        // SAFETY: C1: the source is readable throughout the call.
        t.reply((Operation::ReplyMedium, handler, nbytes), |message| unsafe { message.reply_medium(handler, data, args.all()) })
    }))
}

/// See am.h.
///
/// # Safety
/// C1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMX_ReplyXfer(
    message: *mut c_void,
    offset: usize,
    handler: u8,
    source: *const c_void,
    nbytes: usize,
    num_args: c_int,
    args: *const i32,
) -> c_int {
    // SAFETY: C1.
    let (found, args) = unsafe { (token(message), Args::of(num_args, args)) };
    code(found.and_then(|t| {
        let (data, args) = (payload(source, nbytes)?, args?);
        // SAFETY: C1: the source is readable throughout the call.
        t.reply((Operation::ReplyXfer, handler, nbytes), |message| unsafe { message.reply_bulk(handler, offset as u64, data, args.all()) })
    }))
}
