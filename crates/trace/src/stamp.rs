// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time stamps. They are ticks of the processor's counter where the kernel itself keeps time by it
//! (`tsc` on x86-64), else nanoseconds of the monotonic clock. A log says which, and has pairs of
//! stamp and nanoseconds, between which a reader interpolates.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// The unit of stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// Of the processor's counter.
    Processor,
    /// Nanoseconds of the monotonic clock.
    Nanoseconds,
}

/// What they are here.
pub fn ticks() -> Ticks {
    static TICKS: OnceLock<Ticks> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let is_steady = source.is_ok_and(|name| matches!(name.trim(), "tsc" | "kvm-clock")) && has_steady_counter();
        if cfg!(target_arch = "x86_64") && is_steady { Ticks::Processor } else { Ticks::Nanoseconds }
    })
}

/// Whether the counter has one pace on all processors, asleep or not.
fn has_steady_counter() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else { return false };
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|wanted| flags.split_whitespace().any(|flag| flag == *wanted))
}

/// A stamp of now.
#[inline]
pub fn stamp(ticks: Ticks) -> u64 {
    match ticks {
        Ticks::Processor => bellwire_memory::ticks::ticks(),
        Ticks::Nanoseconds => nanoseconds(ClockId::Monotonic),
    }
}

/// Now, nanoseconds: of the monotonic clock, and of the day since 1970.
pub fn clocks() -> (u64, u64) {
    (nanoseconds(ClockId::Monotonic), nanoseconds(ClockId::Realtime))
}

/// Times that the clocks are read.
const READINGS: usize = 8;
/// Nanoseconds by which clocks that [`readings`] has beside each other may differ.
pub const READING_ERROR: u64 = 200;

/// A stamp of now, and what both clocks show at that time: of several readings the one that took
/// the least time, for a thread may be interrupted between two clocks.
pub fn readings(ticks: Ticks) -> (u64, u64, u64) {
    let read = |_| {
        let (before, (monotonic, of_day), after) = (stamp(ticks), clocks(), stamp(ticks));
        (after.wrapping_sub(before), (before.midpoint(after), monotonic, of_day))
    };
    (0..READINGS).map(read).min().map(|(_, readings)| readings).unwrap_or_default()
}

fn nanoseconds(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Turns stamps into nanoseconds of the monotonic clock, by a line through the first and the last
/// pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: (u64, u64),
    ns_per_tick: f64,
}

impl Scale {
    /// Through pairs of stamp and nanoseconds. `None`: less than two that differ, or they go back.
    pub fn of(pairs: &[(u64, u64)]) -> Option<Self> {
        let (from, to) = (*pairs.first()?, *pairs.last()?);
        let (ticks, ns) = (to.0.checked_sub(from.0)?, to.1.checked_sub(from.1)?);
        let ns_per_tick = ns as f64 / ticks as f64;
        (ticks > 0 && ns > 0 && (1e-3..1e3).contains(&ns_per_tick)).then_some(Self { from, ns_per_tick })
    }

    /// Stamps are nanoseconds.
    pub const NANOSECONDS: Self = Self { from: (0, 0), ns_per_tick: 1.0 };

    /// The nanoseconds of so many ticks.
    pub(crate) fn length(&self, ticks: u64) -> u64 {
        if self.ns_per_tick == 1.0 { ticks } else { (ticks as f64 * self.ns_per_tick).round() as u64 }
    }

    /// The nanoseconds of a stamp.
    pub fn nanoseconds(&self, stamp: u64) -> u64 {
        let ticks = stamp.wrapping_sub(self.from.0).cast_signed();
        let ns = if self.ns_per_tick == 1.0 { ticks } else { (ticks as f64 * self.ns_per_tick).round() as i64 };
        self.from.1.saturating_add_signed(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_two_pairs() {
        let scale = Scale::of(&[(1000, 50), (2000, 550), (5000, 2050)]).unwrap();
        assert_eq!([0, 1000, 3000, 6000].map(|s| scale.nanoseconds(s)), [0, 50, 1050, 2550]);
        assert_eq!(Scale::NANOSECONDS.nanoseconds(7_000_000_000_000_000_001), 7_000_000_000_000_000_001);
        for bad in [&[][..], &[(1, 1)], &[(1, 1), (1, 2)], &[(2, 1), (1, 2)], &[(1, 2), (2, 2)], &[(1, 1), (2, 1_000_000)]] {
            assert_eq!(Scale::of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn stamps_go_on() {
        let (first, second) = (stamp(ticks()), stamp(ticks()));
        assert!(second >= first && first > 0);
        assert!(first < 1 << 63, "bit 63 is clear");
    }
}
