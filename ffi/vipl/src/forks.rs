// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a `fork` does to handles: in the child the parent's handles are stale, so each call with
//! one gives `VIP_INVALID_PARAMETER`. Without this a call would go to queues that the child does
//! not have (they are not inherited) and end in SIGSEGV. It costs the data path nothing. The child
//! may open NICs of its own.
//!
//! Invariant F1: `HELD` is touched by the forking thread alone, between `before` and `after`: it
//! holds the lock of the handles meanwhile, so that the child does not inherit that lock from a
//! thread that it has not got.

use crate::handles::{self, Allocation};
use core::cell::UnsafeCell;
use std::sync::{MutexGuard, Once};

struct Held(UnsafeCell<Option<MutexGuard<'static, Allocation>>>);

// SAFETY: F1.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Takes care of forks from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: three functions of this library, which the C library drops when it is unloaded.
        // Without memory for them a child's calls are what they were.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    });
}

extern "C" fn before() {
    let guard = handles::lock();
    // SAFETY: F1: we hold the lock.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after() {
    // SAFETY: F1: the lock is held since `before`.
    let guard = unsafe { (*HELD.0.get()).take() };
    drop(guard);
}

extern "C" fn in_child() {
    handles::forget_all();
    after();
}
