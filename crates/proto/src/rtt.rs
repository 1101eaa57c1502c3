// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round-trip time from echoed timestamps: smoothed, its deviation, its smallest of late, and the
//! retransmission time (RFC 6298's arithmetic).

use crate::config::Config;
use bellwire_time::{Duration, Instant};

/// How long a smallest round trip is believed: half of this to all of it.
const MEMORY: u64 = 10_000_000_000;
/// Before any measurement.
const RTO_INITIAL: u64 = 20_000_000;

/// Estimates of the path's round-trip time. All in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: u64,
    deviation: u64,
    latest: u64,
    /// Smallest of the present half of `MEMORY` and of the one before; 0: none.
    smallest: [u64; 2],
    turn_at: u64,
}

impl Rtt {
    /// The time between `echo` (our timestamp, come back) and now, without the time that it waited
    /// at the peer. `None` when that makes no sense.
    //= P-TIME-2
    pub(crate) fn sample(now: Instant, echo: u32, delay: u16) -> Option<u64> {
        if delay == u16::MAX {
            return None;
        }
        let passed = u64::from(crate::sequence::timestamp(now).wrapping_sub(echo));
        if passed > 1 << 30 {
            return None;
        }
        Some((passed << 6).saturating_sub(u64::from(delay) << 10).max(1))
    }

    pub(crate) fn measured(&mut self, now: Instant, rtt: u64) {
        self.latest = rtt;
        if self.smoothed == 0 {
            self.smoothed = rtt;
            self.deviation = rtt / 2;
        } else {
            let error = self.smoothed.abs_diff(rtt);
            self.deviation = self.deviation - self.deviation / 4 + error / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
        if now.0 >= self.turn_at {
            self.smallest = [rtt, self.smallest[0]];
            self.turn_at = now.0.saturating_add(MEMORY / 2);
        } else {
            self.smallest[0] = self.smallest[0].min(rtt);
        }
    }

    /// Smoothed; 0 when unknown.
    pub(crate) const fn smoothed(&self) -> u64 {
        self.smoothed
    }

    pub(crate) const fn latest(&self) -> u64 {
        self.latest
    }

    pub(crate) const fn deviation(&self) -> u64 {
        self.deviation
    }

    /// The smallest of late; 0 when unknown.
    pub(crate) fn smallest(&self) -> u64 {
        match self.smallest {
            [a, 0] => a,
            [a, b] => a.min(b),
        }
    }

    /// The retransmission time without backing off; the peer may delay an acknowledgement by
    /// `ack_delay` of it.
    //= P-TIME-3
    pub(crate) fn rto(&self, config: &Config) -> Duration {
        if self.smoothed == 0 {
            return Duration(RTO_INITIAL.clamp(config.rto_min.0, config.rto_max.0));
        }
        Duration((self.smoothed + 4 * self.deviation + config.ack_delay.0).clamp(config.rto_min.0, config.rto_max.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::timestamp;

    #[test]
    fn samples_survive_wraps_and_refuse_nonsense() {
        //= P-TIME-2
        let sent = Instant((64 << 32) - 640);
        let now = Instant(sent.0 + 64_000);
        assert_eq!(Rtt::sample(now, timestamp(sent), 0), Some(64_000));
        assert_eq!(Rtt::sample(now, timestamp(sent), 10), Some(64_000 - 10_240));
        assert_eq!(Rtt::sample(now, timestamp(sent), 60_000), Some(1));
        assert_eq!(Rtt::sample(now, timestamp(sent), u16::MAX), None);
        assert_eq!(Rtt::sample(sent, timestamp(now), 0), None, "an echo from the future");
    }

    #[test]
    fn rto_follows_and_keeps_its_bounds() {
        //= P-TIME-3
        let config = Config::default();
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(&config).0, RTO_INITIAL);
        for i in 0..100 {
            rtt.measured(Instant(i), 10_000_000);
        }
        assert_eq!(rtt.smoothed(), 10_000_000);
        assert!(rtt.rto(&config).0 >= 10_000_000 && rtt.rto(&config).0 < 11_000_000);
        (0..200).for_each(|i| rtt.measured(Instant(i), 1000));
        assert_eq!(rtt.rto(&config), config.rto_min);
        (0..50).for_each(|i| rtt.measured(Instant(i), 1 << 35));
        assert_eq!(rtt.rto(&config), config.rto_max);
    }

    #[test]
    fn the_smallest_is_forgotten_in_time() {
        let mut rtt = Rtt::default();
        rtt.measured(Instant(0), 5);
        rtt.measured(Instant(1), 50);
        assert_eq!(rtt.smallest(), 5);
        rtt.measured(Instant(MEMORY / 2), 50);
        assert_eq!(rtt.smallest(), 5);
        rtt.measured(Instant(MEMORY), 50);
        assert_eq!(rtt.smallest(), 50);
    }
}
