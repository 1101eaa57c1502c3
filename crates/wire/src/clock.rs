// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of real processes.

use crate::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock, as engines, transports and agents in real processes are told it.
#[inline]
pub fn clock() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant((t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}
