// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a look at the free memory counts: a tenth of a second, and for a small part of what it
//! saw, so that hundreds of processes that rely on theirs at once take a fraction together. Where
//! little is free, that part is less than any region, and every one is preceded by a look. Called
//! by `reserve.rs`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a look counts.
const AGE_MAX: Duration = Duration::from_millis(100);
/// The part of the seen memory that may be taken on the strength of one look.
const PART: u64 = 1024;

/// The bytes that may still be taken without another look, and since when.
#[derive(Debug)]
struct Look {
    at: Instant,
    left: u64,
}

impl Look {
    fn allows(&mut self, len: u64, now: Instant) -> bool {
        if now.duration_since(self.at) > AGE_MAX || len > self.left {
            return false;
        }
        self.left -= len;
        true
    }
}

static LAST: Mutex<Option<Look>> = Mutex::new(None);

/// Whether the last look allows taking `len` bytes; they are counted.
pub(super) fn is_seen(len: u64) -> bool {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.as_mut().is_some_and(|look| look.allows(len, Instant::now()))
}

/// So much was free just now.
pub(super) fn saw(available: u64) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Look { at: Instant::now(), left: available / PART });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_for_a_moment_and_for_little() {
        let start = Instant::now();
        let mut look = Look { at: start, left: 1000 };
        assert!(look.allows(600, start) && !look.allows(600, start) && look.allows(400, start + AGE_MAX));
        let mut look = Look { at: start, left: 1000 };
        assert!(!look.allows(1, start + AGE_MAX + Duration::from_millis(1)));
    }
}
