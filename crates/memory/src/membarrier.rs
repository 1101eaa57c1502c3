// SPDX-License-Identifier: MIT OR Apache-2.0
//! The asymmetric barrier: one side of Dekker's protocol pays for both.
//!
//! Two parties that each write one word and then read the other's need a full fence between the two
//! accesses on *both* sides, or both may miss the other's write. When one side runs millions of
//! times a second and the other rarely, the frequent one can do with a compiler fence ([`light`])
//! if the rare one makes the kernel run a full fence on every processor on which the other side is
//! running:
//!
//! ```text
//!  frequent side (sender, token owner)       rare side (sleeper, revoker)
//!  A = 1                                     B = 1
//!  light()         a compiler fence          private_expedited() / global_expedited()   an interrupt to the others' processors, 1 to 20 us
//!  read B                                    read A
//! ```
//!
//! A thread of the frequent side is either running when the barrier is issued, and then fences
//! there, or not, and then the context switch has fenced. So either it had already written A, and
//! the rare side sees it; or it has yet to read B, and sees that.
//!
//! - *Private*: reaches the threads of this process. Used by the progress token.
//! - *Global*: reaches every process **that has registered itself** (the frequent side registers;
//!   the rare side need not). Used between processes, by sleepers and by those who take memory
//!   back. A process therefore tells its peers what its [`register`] returned, and a sleeper relies
//!   on the barrier only if *the peer* has `global_expedited` and its own kernel calls work.
//!
//! Where it is refused (kernels before 4.16, seccomp filters, other emulations of Linux),
//! [`Support`] says so and both sides use full fences.

use crate::atomic::{Ordering, compiler_fence, fence};
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;

/// What this process may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    /// [`private_expedited`] works, and reaches the threads of this process.
    pub private_expedited: bool,
    /// [`global_expedited`] works, and those of others reach this process.
    pub global_expedited: bool,
}

static SUPPORT: OnceLock<Support> = OnceLock::new();

/// Registers this process with the kernel, once, and says what works. Later calls cost one load.
///
/// The answer holds for the life of the process, and for a child made by `fork` (the kernel copies
/// the registration); `exec` starts anew.
pub fn register() -> Support {
    *SUPPORT.get_or_init(|| Support {
        private_expedited: register_for(MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited),
        global_expedited: register_for(MembarrierCommand::RegisterGlobalExpedited, MembarrierCommand::GlobalExpedited),
    })
}

/// Registers and tries the command once, since a filter may allow the one and refuse the other.
fn register_for(registration: MembarrierCommand, command: MembarrierCommand) -> bool {
    let query = membarrier_query();
    query.contains_command(registration) && query.contains_command(command) && membarrier(registration).is_ok() && membarrier(command).is_ok()
}

/// Runs a full fence on every processor that runs a thread of this process, and here.
///
/// Call only if [`register`] said `private_expedited`.
///
/// # Panics
/// If the kernel refuses what it had granted (a seccomp filter installed later): going on would
/// mean two owners of one token.
#[cold]
pub fn private_expedited() {
    let answer = membarrier(MembarrierCommand::PrivateExpedited);
    assert!(answer.is_ok(), "membarrier was allowed and is now refused ({answer:?}): install seccomp filters before opening a NIC");
}

/// Runs a full fence on every processor that runs a thread of any process registered by
/// [`register`], and here.
///
/// Call only if [`register`] said `global_expedited`, in this process and in the peer whose
/// accesses are meant.
///
/// # Panics
/// If the kernel refuses what it had granted (a seccomp filter installed later): going on would
/// mean lost wake-ups.
#[cold]
pub fn global_expedited() {
    let answer = membarrier(MembarrierCommand::GlobalExpedited);
    assert!(answer.is_ok(), "membarrier was allowed and is now refused ({answer:?}): install seccomp filters before opening a NIC");
}

/// The frequent side's half: nothing but an order for the compiler when the other side's
/// `membarrier` reaches us, else a full fence.
#[inline]
pub fn light(reached: bool) {
    if reached && cfg!(not(loom)) {
        // SeqCst, for the compiler only: store before load; the processor's half is the other
        // side's membarrier.
        compiler_fence(Ordering::SeqCst);
    } else if !crate::weakened::is("barrier_light") {
        // SeqCst: a store-load order, on both sides, is what Dekker needs; pairs with heavy().
        // Models always take this branch.
        fence(Ordering::SeqCst);
    }
}

/// How the rare side makes its barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The frequent side is in this process and calls `light(true)`.
    Process,
    /// The frequent side is in a registered process and calls `light(true)`.
    Registered,
    /// The frequent side calls `light(false)`: a fence here is enough.
    Fenced,
}

/// The rare side's half; pairs with [`light`].
#[inline]
pub fn heavy(reach: Reach) {
    match reach {
        Reach::Process if cfg!(not(loom)) => private_expedited(),
        Reach::Registered if cfg!(not(loom)) => global_expedited(),
        _ if crate::weakened::is("barrier_heavy") => {}
        // SeqCst: a store-load order, on both sides; pairs with light(). Models always take this
        // branch.
        _ => fence(Ordering::SeqCst),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn registration_is_stable_and_works() {
        let support = register();
        assert_eq!(register(), support);
        if support.private_expedited {
            heavy(Reach::Process);
        }
        if support.global_expedited {
            heavy(Reach::Registered);
        }
        heavy(Reach::Fenced);
        light(support.private_expedited);
        light(false);
    }

    /// Dekker with the asymmetric barrier: never do both sides miss the other.
    #[test]
    fn never_do_both_miss() {
        if !register().private_expedited {
            return;
        }
        use crate::atomic::AtomicU32;
        let rounds: u32 = if cfg!(miri) { 10 } else { 5_000 };
        let (a, b, saw_b) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let (start, done) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=rounds {
                    // Acquire: pairs with the release of `start`.
                    while start.load(Ordering::Acquire) != round {
                        std::thread::yield_now();
                    }
                    // Relaxed: the frequent side of the protocol under test.
                    a.store(round, Ordering::Relaxed);
                    light(true);
                    saw_b.store(b.load(Ordering::Relaxed), Ordering::Relaxed);
                    // Release: publishes `saw_b`.
                    done.store(round, Ordering::Release);
                }
            });
            for round in 1..=rounds {
                // Release: starts the round.
                start.store(round, Ordering::Release);
                for _ in 0..round % 64 {
                    core::hint::spin_loop();
                }
                // Relaxed: the rare side of the protocol under test.
                b.store(round, Ordering::Relaxed);
                heavy(Reach::Process);
                let saw_a = a.load(Ordering::Relaxed);
                // Acquire: pairs with the release of `done`.
                while done.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
                assert!(saw_a == round || saw_b.load(Ordering::Relaxed) == round, "both missed in round {round}");
            }
        });
    }
}
