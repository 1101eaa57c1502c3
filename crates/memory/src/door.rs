// SPDX-License-Identifier: MIT OR Apache-2.0
//! A door that many threads pass all the time and one shuts once: the data behind it may be dropped
//! when all that entered have left.
//!
//! A thread that enters says so before it checks whether the door is open; the thread that shuts it
//! does the reverse, with `membarrier` between (Dekker's protocol; entering executes no locked
//! instruction):
//!
//! ```text
//!  caller                              closer
//!  mark = this door     (H1)           key = none                    (H2)
//!  compiler fence                      membarrier; a full fence
//!  key == mine?         (H3)           wait until no mark is of this door   (H4)
//!  ... uses what is behind ...         drop what is behind
//!  mark = none          (H5)
//! ```
//!
//! Invariants
//! - A mark belongs to one thread for ever (a new thread with the same id inherits it, after its
//!   thread library has synchronised with the dead one's); only that thread writes `inside`.
//! - A thread without a mark of its own, or inside already (a signal handler), counts itself at the
//!   door instead, with locked instructions.
//! - Where `membarrier` is missing nobody may use marks: see [`marks_work`].
//!
//! Used by the C libraries for their handles.

use crate::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::weakened;

#[inline(always)]
fn leave_order() -> Ordering {
    weakened::ordering("door_leave", Ordering::Release)
}
#[inline(always)]
fn see_left_order() -> Ordering {
    weakened::ordering("door_see_left", Ordering::Acquire)
}

/// A thread's own word, on a line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub struct Mark {
    thread: AtomicUsize,
    /// The name of the door that the thread is behind, 0 for none.
    inside: AtomicU32,
}

/// A door.
#[derive(Debug)]
pub struct Door {
    key: AtomicU32,
    /// Those inside that have no mark.
    counted: AtomicU32,
}

macro_rules! constructor {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> Self $body:block) => {
        $(#[$doc])*
        #[cfg(not(loom))]
        pub const fn $name($($arg: $type),*) -> Self $body
        $(#[$doc])*
        #[cfg(loom)]
        pub fn $name($($arg: $type),*) -> Self $body
    };
}

/// Whether marks may be used in this process; if not, everybody counts.
pub fn marks_work() -> bool {
    cfg!(loom) || crate::membarrier::register().private_expedited
}

impl Mark {
    constructor! {
        /// Nobody's.
        fn new() -> Self { Self { thread: AtomicUsize::new(0), inside: AtomicU32::new(0) } }
    }

    /// Whether it is the mark of thread `me`, who is behind no door.
    #[inline(always)]
    pub fn is_free_for(&self, me: usize) -> bool {
        // Relaxed, both: if it is ours, we wrote it ourselves.
        self.thread.load(Ordering::Relaxed) == me && self.inside.load(Ordering::Relaxed) == 0
    }

    /// Makes it the mark of thread `me`, if it is nobody's; whether it is free for `me` now. Only
    /// where [`marks_work`].
    pub fn claim(&self, me: usize) -> bool {
        // Relaxed: an owner is only compared with itself and never changes again; nothing is
        // published by it.
        if self.thread.load(Ordering::Relaxed) == 0 {
            let _ = self.thread.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.is_free_for(me)
    }

    /// H1: its thread is about to look at the door called `name` (not 0).
    #[inline(always)]
    pub fn enter(&self, name: u32) {
        // Relaxed: ordered before H3, for the closer, by its membarrier.
        self.inside.store(name, Ordering::Relaxed);
        #[cfg(not(loom))]
        crate::atomic::compiler_fence(Ordering::SeqCst);
        // The model has no membarrier: both halves are full fences there. SeqCst: a store-load
        // order on both sides is what Dekker needs.
        #[cfg(loom)]
        if !weakened::is("door_barrier") {
            fence(Ordering::SeqCst);
        }
    }

    /// H5: its thread is out again.
    #[inline(always)]
    pub fn leave(&self) {
        // Release: the work inside comes before; pairs with H4.
        self.inside.store(0, leave_order());
    }

    /// In the child of a `fork`, which has one thread: nobody is behind any door. A store only, as
    /// a child may do.
    pub fn forget(&self) {
        // Relaxed: there is no other thread.
        self.inside.store(0, Ordering::Relaxed);
    }

    /// H4: whether its thread is behind the door called `name`.
    pub fn is_behind(&self, name: u32) -> bool {
        // Acquire: the work inside comes before; pairs with H5.
        self.inside.load(see_left_order()) == name
    }
}

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl Door {
    constructor! {
        /// A shut door; `none` is a key that nobody has.
        fn new(none: u32) -> Self { Self { key: AtomicU32::new(none), counted: AtomicU32::new(0) } }
    }

    /// H3: the key that fits, after [`Mark::enter`] or [`count_in`](Self::count_in). Its holder may
    /// use the data behind the door until it leaves.
    #[inline(always)]
    pub fn key(&self) -> u32 {
        // Acquire: pairs with the release in open(); makes visible what is behind.
        self.key.load(Ordering::Acquire)
    }

    /// Opens for holders of `key`. The data behind were put there before.
    pub fn open(&self, key: u32) {
        // Release: pairs with H3.
        self.key.store(key, Ordering::Release);
    }

    /// H2: shuts it, if `key` fits; `none` is a key that nobody has. Of several closers one is told
    /// `true`; it waits for those inside.
    pub fn shut(&self, key: u32, none: u32) -> bool {
        // SeqCst: before the fence and H4.
        if self.key.compare_exchange(key, none, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        // SeqCst: a store-load order; pairs with the callers' half in Mark::enter() and count_in().
        fence(Ordering::SeqCst);
        #[cfg(not(loom))]
        if crate::membarrier::register().private_expedited {
            crate::membarrier::private_expedited();
        }
        true
    }

    /// In the child of a `fork`, which has one thread: shuts it, whatever the key, and nobody is
    /// inside. Stores only, as a child may do.
    pub fn forget(&self, none: u32) {
        // Relaxed, both: there is no other thread.
        self.key.store(none, Ordering::Relaxed);
        self.counted.store(0, Ordering::Relaxed);
    }

    /// H1 for those without a mark.
    pub fn count_in(&self) {
        // SeqCst, with the fence: before the load of the key (H3); pairs with H2 and the fence in
        // shut().
        self.counted.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// H5 for those without a mark.
    pub fn count_out(&self) {
        // Release: the work inside comes before; pairs with is_counted().
        self.counted.fetch_sub(1, leave_order());
    }

    /// H4 for those without a mark: whether one is inside.
    pub fn is_counted(&self) -> bool {
        // Acquire: pairs with count_out().
        self.counted.load(see_left_order()) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_are_for_one_thread_and_one_door() {
        let (mark, door) = (Mark::new(), Door::new(9));
        assert!(mark.claim(64) && mark.is_free_for(64) && !mark.claim(65));
        mark.enter(3);
        assert!(mark.is_behind(3) && !mark.is_behind(4) && !mark.claim(64), "not free: inside already");
        mark.leave();
        assert!(mark.is_free_for(64));
        door.open(5);
        assert_eq!(door.key(), 5);
        assert!(!door.shut(6, 9) && door.shut(5, 9) && !door.shut(5, 9));
        door.count_in();
        assert!(door.is_counted());
        door.count_out();
        assert!(!door.is_counted());
    }
}
