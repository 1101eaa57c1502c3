// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time as the engine, the transport and the simulators know it: nanoseconds since an origin that
//! their caller chose. No clock in here.

#![forbid(unsafe_code)]

use core::ops::Add;

/// A point in time, in nanoseconds since the caller's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// From seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
}

impl From<core::time::Duration> for Duration {
    /// The longest there is, if it is longer.
    fn from(span: core::time::Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Instant {
    /// The far end of time: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Time from `earlier` to `self`, or zero.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}
