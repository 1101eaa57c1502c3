// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending this process, also from within its exit handlers.
//!
//! A program's exit handler may end the job, as GASNet's does, when the job is ending already:
//! [`std::process::exit`] aborts if the same thread calls it again.

use std::sync::{Mutex, PoisonError};

/// The thread in which the process ends, by the C library's name for it: its own is gone by the
/// time that exit handlers run.
static ENDS_IN: Mutex<Option<usize>> = Mutex::new(None);

/// Ends this process with an exit status. From within an exit handler, the handlers that are left
/// run, and this status counts.
pub fn end_process(code: i32) -> ! {
    // SAFETY: asks for a number.
    let me = unsafe { libc::pthread_self() } as usize;
    let again = {
        let mut ends_in = ENDS_IN.lock().unwrap_or_else(PoisonError::into_inner);
        let again = *ends_in == Some(me);
        // Another thread's later call must not make it forget the first.
        ends_in.get_or_insert(me);
        again
    };
    if again {
        // SAFETY: this thread is inside `exit` already. The C library takes each handler off its
        // list before it calls it, so that the inner call goes on with the rest.
        unsafe { libc::exit(code) }
    }
    // If another thread ends the process, this call waits for that.
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::end_process;
    use std::process::Command;

    const AGAIN: &str = "BELLWIRE_TEST_ENDS_AGAIN";

    extern "C" fn at_exit() {
        end_process(5);
    }

    #[test]
    fn ends_within_an_exit_handler() {
        if std::env::var_os(AGAIN).is_some() {
            // SAFETY: a function without arguments that does not unwind.
            assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
            end_process(7);
        }
        let test = "exiting::tests::ends_within_an_exit_handler";
        let status = Command::new(std::env::current_exe().unwrap()).args(["--exact", test]).env(AGAIN, "1").status().unwrap();
        assert_eq!(status.code(), Some(5), "{status}");
    }
}
