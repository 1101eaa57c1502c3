// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of the library, on which no handler of the program's signals runs.

use crate::error::Error;
use bellwire_memory::own_thread;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::thread::JoinHandle;

/// Starts a thread that blocks all signals.
pub(crate) fn spawn(name: &CStr, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are local variables; `sigfillset` writes the first one whole, and
    // `pthread_sigmask` the second.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = own_thread::spawn(name, body);
    // SAFETY: written above; the mask of the calling thread as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
    thread.map_err(|_| Error::NoSpace)
}
