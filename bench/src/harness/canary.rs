// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is the machine fast right now? A virtual machine may be *near* (both virtual processors share a
//! cache) or *far* (the host has moved one away), for seconds at a time. A short two-line exchange
//! before and after each measurement tells which.
//!
//! "Near" is relative to the best exchange seen in the whole run, so samples are classified when
//! the run is over; during the run the best so far decides whether a measurement is worth
//! repeating.

use serde::Serialize;

pub use bellwire_inspect::exchange::FAR_FACTOR;

/// The speed of the machine while a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Both canaries were close to the run's best.
    Near,
    /// At least one canary was slow.
    Far,
}

/// The canaries of one measurement, half round trips in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Canary {
    /// Just before the measurement.
    pub before_ns: f64,
    /// Just after it.
    pub after_ns: f64,
}

impl Canary {
    /// The mode of the machine around this measurement, given the run's best exchange.
    pub fn mode(&self, best_ns: f64) -> Mode {
        let limit = best_ns * FAR_FACTOR;
        if self.before_ns <= limit && self.after_ns <= limit { Mode::Near } else { Mode::Far }
    }
}

/// The best exchange of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Best {
    best_ns: Option<f64>,
}

impl Best {
    /// Takes note of one canary.
    pub fn note(&mut self, half_rtt_ns: f64) {
        if half_rtt_ns.is_finite() && half_rtt_ns > 0.0 {
            self.best_ns = Some(self.best_ns.map_or(half_rtt_ns, |best| best.min(half_rtt_ns)));
        }
    }

    /// The best so far in nanoseconds; infinite before the first canary, so that everything counts
    /// as near.
    pub fn ns(&self) -> f64 {
        self.best_ns.unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_side_is_far() {
        let near = Canary { before_ns: 50.0, after_ns: 70.0 };
        let far = Canary { before_ns: 50.0, after_ns: 165.0 };
        assert_eq!(near.mode(50.0), Mode::Near);
        assert_eq!(far.mode(50.0), Mode::Far);
        assert_eq!(Canary { before_ns: 165.0, after_ns: 50.0 }.mode(50.0), Mode::Far);
    }

    #[test]
    fn limit_is_inclusive_and_follows_the_best() {
        let canary = Canary { before_ns: 125.0, after_ns: 125.0 };
        assert_eq!(canary.mode(50.0), Mode::Near);
        assert_eq!(canary.mode(49.0), Mode::Far);
        let mut best = Best::default();
        assert_eq!(canary.mode(best.ns()), Mode::Near);
        for ns in [60.0, f64::NAN, 0.0, 45.0, 80.0] {
            best.note(ns);
        }
        assert_eq!(best.ns(), 45.0);
    }
}
