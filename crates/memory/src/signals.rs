// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals are the program's: no thread of ours handles one, and none comes between steps that must
//! not be interrupted.

use core::mem::MaybeUninit;

/// While it lives, its thread gets no signals. A thread that is started meanwhile never does.
#[must_use]
#[derive(Debug)]
pub struct Blocked {
    /// The mask of before. Miri knows no masks.
    before: Option<libc::sigset_t>,
    /// The mask is a thread's: it is put back where it was taken.
    _here: core::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks all signals of this thread.
    pub fn new() -> Self {
        let before = (!cfg!(miri)).then(|| {
            let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            // SAFETY: the first call writes its set whole, and so does the second, which cannot
            // fail: it is given a known request and two sets of this function's own.
            unsafe {
                libc::sigfillset(all.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
                before.assume_init()
            }
        });
        Self { before, _here: core::marker::PhantomData }
    }
}

impl Default for Blocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the mask that this thread had: the type stays on its thread.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: without a new set it only writes the mask that there is.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no masks of signals")]
    fn blocked_for_a_while_and_in_threads_of_ours_for_ever() {
        assert!(!is_blocked(libc::SIGUSR2));
        {
            let _blocked = Blocked::new();
            assert!(is_blocked(libc::SIGUSR2));
        }
        assert!(!is_blocked(libc::SIGUSR2));
        let thread = crate::own_thread::spawn(c"bellwire-test", || assert!(is_blocked(libc::SIGUSR2))).unwrap();
        thread.join().unwrap();
        assert!(!is_blocked(libc::SIGUSR2));
    }
}
