// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the program on places of other processes, one at a time in each process: `atomic`
//! of Split-C.
//!
//! A process that shares memory with the owner of the place runs the function itself, on the
//! mapping; others ask the owner. Both hold a lock that every process has in the control area. Only
//! functions in the program's table can be asked for, by their number.

use std::sync::OnceLock;

use bellwire_memory::atomic::{AtomicU32, Ordering};

use crate::error::Error;

/// A function that gets a place and an argument, under a lock that no other such function on a
/// place of this process runs with.
pub type Function = unsafe extern "C" fn(place: *mut u8, argument: i64) -> i64;

/// The program's functions that may be called.
static FUNCTIONS: OnceLock<&'static [Function]> = OnceLock::new();

/// Says once which functions there are. The same in all processes of a job, in the same order.
///
/// # Safety
/// Each of them may be called, by any thread, with any place that is mapped (G1) and that peers may
/// name (G3), and with any argument.
pub unsafe fn set_functions(functions: &'static [Function]) {
    let _ = FUNCTIONS.set(functions);
}

/// Finds one of them.
pub(crate) fn function(number: u64) -> Option<Function> {
    FUNCTIONS.get()?.get(usize::try_from(number).ok()?).copied()
}

/// A lock in shared memory: 1 while it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock(*const AtomicU32);

// SAFETY: a word of the control area, which stays mapped (G1), used as an atomic.
unsafe impl Send for Lock {}

impl Lock {
    /// # Safety
    /// `word` is mapped until the end of the process (G1).
    pub(crate) const unsafe fn new(word: *const AtomicU32) -> Self {
        Self(word)
    }

    /// Runs a function on a place, alone.
    ///
    /// # Errors
    /// [`Error::NoSuchFunction`].
    ///
    /// # Safety
    /// The place is mapped (G1), and may be named (G3).
    pub(crate) unsafe fn call(self, number: u64, place: *mut u8, argument: i64) -> Result<i64, Error> {
        let function = function(number).ok_or(Error::NoSuchFunction(number))?;
        // SAFETY: G1.
        let word = unsafe { &*self.0 };
        // Acquire: sees what the last call did; pairs with the release below.
        while word.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
        // SAFETY: the promise to `set_functions`.
        let result = unsafe { function(place, argument) };
        // Release: what this call did; pairs with the acquire above.
        word.store(0, Ordering::Release);
        Ok(result)
    }
}
