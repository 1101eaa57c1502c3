// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of handlers: the number due next, and numbers that were not due.

use crate::Error;
use bellwire_memory::atomic::{AtomicU64, Ordering};

/// Messages that have come to an endpoint, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    next: AtomicU64,
    wrong: AtomicU64,
}

impl Seen {
    /// A message with this number has come.
    pub(crate) fn take(&self, number: i32) {
        // Relaxed, all of them: handlers run on the thread that looks.
        let due = self.next.load(Ordering::Relaxed);
        if number != due as i32 {
            self.spoil();
        }
        // Relaxed: as above.
        self.next.store(due + 1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        // Relaxed: as in take().
        self.next.load(Ordering::Relaxed)
    }

    /// Something is wrong.
    pub(crate) fn spoil(&self) {
        // Relaxed: as in take().
        self.wrong.store(1, Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        // Relaxed: as in take().
        if self.wrong.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::failed("simulated messages came out of order, or twice")) }
    }
}
