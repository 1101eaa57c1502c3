// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layouts of am.h, and return codes.

use bellwire_am::{ARGS_MAX, Error, NAME_BYTES, Operation, Status};
use core::ffi::{CStr, c_char, c_int};

pub(crate) const OK: c_int = 0;
pub(crate) const NOT_INIT: c_int = 1;
pub(crate) const BAD_ARG: c_int = 2;
pub(crate) const RESOURCE: c_int = 3;
pub(crate) const NOT_SENT: c_int = 4;
pub(crate) const IN_USE: c_int = 5;

/// `en_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EndpointName {
    opaque: [u64; NAME_BYTES / 8],
}

const _: () = assert!(size_of::<EndpointName>() == NAME_BYTES && NAME_BYTES == 48);

impl From<[u8; NAME_BYTES]> for EndpointName {
    fn from(name: [u8; NAME_BYTES]) -> Self {
        let mut opaque = [0; NAME_BYTES / 8];
        for (to, from) in opaque.iter_mut().zip(name.chunks(8)) {
            *to = u64::from_ne_bytes(from.try_into().unwrap_or_default());
        }
        Self { opaque }
    }
}

impl EndpointName {
    pub(crate) fn to_bytes(self) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        for (to, from) in bytes.chunks_mut(8).zip(self.opaque) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }
}

/// A message that came back.
pub(crate) struct Came {
    pub status: Status,
    pub operation: Operation,
    pub index: u32,
    pub handler: u8,
    pub arg_count: u8,
    pub args: [i32; ARGS_MAX],
    pub source: usize,
    pub length: usize,
    pub offset: u64,
    pub destination: EndpointName,
    /// For people.
    pub why: String,
}

/// `am_returned_t`.
#[repr(C)]
pub struct ReturnedMessage {
    dest: c_int,
    handler: u8,
    num_args: c_int,
    args: [i32; ARGS_MAX],
    dest_name: EndpointName,
    source: *const u8,
    nbytes: usize,
    offset: usize,
    reason: *const c_char,
}

impl ReturnedMessage {
    /// The message, whose `reason` is valid as long as that argument is.
    pub(crate) fn new(r: &Came, reason: &CStr) -> Self {
        Self {
            dest: r.index as c_int,
            handler: r.handler,
            num_args: c_int::from(r.arg_count),
            args: r.args,
            dest_name: r.destination,
            source: core::ptr::with_exposed_provenance(r.source),
            nbytes: r.length,
            offset: r.offset as usize,
            reason: reason.as_ptr(),
        }
    }
}

/// The code of an outcome.
#[inline]
pub(crate) fn code(outcome: Result<(), Error>) -> c_int {
    match outcome {
        Ok(()) => OK,
        Err(Error::Resource) => RESOURCE,
        Err(Error::NotSent) => NOT_SENT,
        Err(Error::InUse) => IN_USE,
        Err(_) => BAD_ARG,
    }
}

/// A program's pointer, which its handler is given back.
#[derive(Debug)]
pub(crate) struct Handed<T>(pub(crate) *mut T);

// SAFETY: only handed back to C, never followed here.
unsafe impl<T> Send for Handed<T> {}

impl<T> Handed<T> {
    pub(crate) fn pointer(&self) -> *mut T {
        self.0
    }
}

/// Puts a result where a caller wants it, and says that all is well.
///
/// # Safety
/// C1: `to` is NULL or writable.
#[inline]
pub(crate) unsafe fn put<T>(to: *mut T, outcome: Result<T, Error>) -> c_int {
    if to.is_null() {
        return BAD_ARG;
    }
    match outcome {
        Ok(value) => {
            // SAFETY: the caller's.
            unsafe { to.write(value) };
            OK
        }
        Err(e) => code(Err(e)),
    }
}
