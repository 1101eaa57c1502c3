// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node's clock that runs fast or slow and is set wrong. Exact integers: the two directions fit
//! together to the nanosecond.

use bellwire_time::Instant;

const MILLION: i128 = 1_000_000;

/// How a node's clock runs. By default it is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How much it is fast, in millionths; negative for slow. Within [`Clock::DRIFT_MAX_PPM`].
    pub drift_ppm: i64,
    /// What it showed at the origin of time, nanoseconds.
    pub offset_ns: i64,
}

impl Clock {
    /// Limit of the drift in both directions: half, or half as much again.
    pub const DRIFT_MAX_PPM: i64 = 500_000;

    /// What the clock shows at a time. It never goes back; it shows 0 where it would be negative,
    /// and `NEVER` stays `NEVER`.
    pub fn local(self, now: Instant) -> Instant {
        if now == Instant::NEVER || self == Self::default() {
            return now;
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let shown = i128::from(self.offset_ns) + (i128::from(now.0) * rate).div_euclid(MILLION);
        Instant(shown.clamp(0, i128::from(u64::MAX - 1)) as u64)
    }

    /// The first time at which the clock shows `local` or more.
    pub fn global(self, local: Instant) -> Instant {
        if local == Instant::NEVER || self == Self::default() {
            return local;
        }
        if local.0 == 0 {
            return Instant(0);
        }
        // The smallest now with floor(now * rate / million) >= needed, that is now * rate >=
        // needed * million.
        let rate = MILLION + i128::from(self.drift_ppm);
        let needed = (i128::from(local.0) - i128::from(self.offset_ns)) * MILLION;
        let now = needed.div_euclid(rate) + i128::from(needed.rem_euclid(rate) != 0);
        Instant(now.clamp(0, i128::from(u64::MAX - 1)) as u64)
    }
}
