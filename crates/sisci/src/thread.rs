// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of the library, on which no handler of the program's signals runs.

use crate::error::Error;
use bellwire_memory::own_thread;
use core::ffi::CStr;
use std::thread::JoinHandle;

/// Starts a thread, which blocks all signals.
pub(crate) fn spawn(name: &CStr, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    own_thread::spawn(name, body).map_err(|_| Error::NoSpace)
}
