// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hint of a spinning reader.
//!
//! Called between two looks at a line that somebody else will write. It frees the core's other
//! thread, and it keeps the processor from issuing many speculative loads of the line, which would
//! take it away from its writer in the middle of a write.

/// Tells the processor that this is a spin loop. A few to a few dozen nanoseconds (x86-64 `pause`:
/// 10 to 140 cycles by generation).
#[inline]
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    // In a model nobody else runs until this thread yields.
    #[cfg(loom)]
    loom::thread::yield_now();
}
