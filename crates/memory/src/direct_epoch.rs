// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking memory back from a peer that may be writing it.
//!
//! A process that reads or writes a peer's memory directly keeps a word odd while it does. The
//! memory's owner, before it gives that memory another use, withdraws the permission, issues a
//! barrier that reaches the peer, and waits until the word is even or has changed:
//!
//! ```text
//!  worker (the peer)                    owner
//!  word = odd                           permission withdrawn (tag cleared)
//!  (light barrier)                      heavy barrier (membarrier, global expedited)
//!  permission still there? copy         word odd ? wait until it changes
//!  word = even (release)                (acquire) the memory is ours alone
//! ```
//!
//! Invariant E1: a worker touches the memory only between making its word odd and even, and only if
//! it saw the permission after making it odd. A worker that lies or is stopped can only spoil
//! memory it had been given; the owner's wait is bounded by its caller.

use crate::atomic::{AtomicU32, Ordering};
use crate::weakened;

#[inline(always)]
fn enter_order() -> Ordering {
    weakened::ordering("epoch_enter", Ordering::Release)
}
#[inline(always)]
fn leave_order() -> Ordering {
    weakened::ordering("epoch_leave", Ordering::Release)
}
#[inline(always)]
fn see_left_order() -> Ordering {
    weakened::ordering("epoch_see_left", Ordering::Acquire)
}

/// Which barrier the worker needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerBarrier {
    /// The owner's `membarrier` reaches us: the compiler's order is enough.
    Light,
    /// It does not (no kernel support on one side): a full fence for each access.
    Full,
}

/// Marks entry into direct access; then the permission must be looked at again.
#[inline]
pub fn enter(word: &AtomicU32, barrier: WorkerBarrier) {
    // Relaxed: only this side writes the word.
    let now = word.load(Ordering::Relaxed);
    debug_assert!(now & 1 == 0, "direct access is not nested");
    // Release: the owner may wait for an earlier access and see this odd value instead of the even
    // one between; then it must still see that access as done (pairs with has_left()). The order
    // before the look at the permission comes from the barrier below (E1).
    word.store(now.wrapping_add(1), enter_order());
    match barrier {
        #[cfg(not(loom))]
        WorkerBarrier::Light => crate::atomic::compiler_fence(Ordering::SeqCst),
        // SeqCst: store of the word before load of the permission; pairs with the owner's barrier
        // (Dekker). The model has no membarrier.
        _ => {
            if !weakened::is("epoch_barrier") {
                crate::atomic::fence(Ordering::SeqCst);
            }
        }
    }
}

/// Marks the end of direct access.
#[inline]
pub fn leave(word: &AtomicU32) {
    // Relaxed: only this side writes the word.
    let now = word.load(Ordering::Relaxed);
    debug_assert!(now & 1 == 1, "leave without enter");
    // Release: our accesses are done; pairs with quiet().
    word.store(now.wrapping_add(1), leave_order());
}

/// The owner's look, after its barrier: `None` if the worker is not inside, else the value to wait
/// away from.
#[inline]
pub fn inside(word: &AtomicU32) -> Option<u32> {
    // Acquire: pairs with leave().
    let now = word.load(see_left_order());
    (now & 1 == 1).then_some(now)
}

/// Whether the worker has left the access seen by [`inside`].
#[inline]
pub fn has_left(word: &AtomicU32, seen: u32) -> bool {
    // Acquire: pairs with leave().
    word.load(see_left_order()) != seen
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn odd_while_inside() {
        let w = AtomicU32::new(0);
        assert_eq!(inside(&w), None);
        enter(&w, WorkerBarrier::Light);
        let seen = inside(&w).unwrap();
        assert!(!has_left(&w, seen));
        leave(&w);
        assert!(has_left(&w, seen));
        enter(&w, WorkerBarrier::Full);
        assert!(has_left(&w, seen), "another access is not the one waited for");
        leave(&w);
        assert_eq!(inside(&w), None);
    }
}
