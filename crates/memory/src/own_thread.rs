// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are Bellwire's, not the program's. One tells them by their names, which they have
//! before [`spawn`] returns. They handle none of the program's signals: some programs take those by
//! `signalfd` in one thread, and a thread that does not block them would have the program killed.

use crate::signals::Blocked;
use core::ffi::CStr;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::{Builder, JoinHandle};

/// Names of threads of ours begin so.
pub const NAME: &str = "bellwire";

/// Starts a thread. `name` begins with [`NAME`] and has 15 bytes at most.
///
/// # Errors
/// There can be no more threads.
pub fn spawn(name: &CStr, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let _blocked = Blocked::new();
    let thread = Builder::new().name(name.to_string_lossy().into_owned()).spawn(f)?;
    // A new thread names itself once it runs, which may be much later.
    // SAFETY: the handle is there, so the thread was neither joined nor detached; the name ends
    // with 0. Failure leaves the name to the thread.
    unsafe { libc::pthread_setname_np(thread.as_pthread_t(), name.as_ptr()) };
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "no /proc")]
    fn a_thread_has_its_name_before_it_runs() {
        // Each waits for the end of the test, in which others may not have run yet.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        for _ in 0..100 {
            let wait = std::sync::Arc::clone(&wait);
            let thread = spawn(c"bellwire-test", move || assert!(wait.lock().unwrap().recv().is_err())).unwrap();
            // A list of all threads may leave some out while threads of other tests end, so this
            // one alone is asked.
            let mut name = [0_u8; 16];
            // SAFETY: the handle is there; room for a name with its 0.
            assert_eq!(unsafe { libc::pthread_getname_np(thread.as_pthread_t(), name.as_mut_ptr().cast(), name.len()) }, 0);
            assert_eq!(CStr::from_bytes_until_nul(&name), Ok(c"bellwire-test"));
        }
        drop(go);
    }
}
