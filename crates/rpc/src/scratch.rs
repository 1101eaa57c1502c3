// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room for values as bytes.

use std::cell::Cell;

thread_local! {
    /// A place for values as bytes, so that none has to be made for each call.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest scratch that is kept, bytes.
const SCRATCH_MAX: usize = 1 << 20;

/// Gives `f` an empty vector that has room, as a rule.
#[inline]
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let result = f(&mut scratch);
    if scratch.capacity() <= SCRATCH_MAX {
        SCRATCH.set(scratch);
    }
    result
}
