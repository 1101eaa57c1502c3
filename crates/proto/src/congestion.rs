// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many packets may be in flight: a window steered by delay, in the manner of Swift.
//!
//! While the round trip stays under a target (generous: a busy processor looks like a long queue)
//! the window grows, first by each packet acknowledged, later by one packet per round trip. Above
//! the target it shrinks in proportion, once per round trip. Losses shrink it when a noticeable
//! part of a round's packets is lost: a link that loses two in a hundred by itself is not a full
//! one. They do so as soon as they are known, so that what is sent again does not meet the queue
//! that was too full for it. Arithmetic is in 1/256 of a packet.

use crate::config::Config;
use bellwire_time::Instant;

const ONE: u32 = 256;
/// A round's losses count from this many packets, and this part of them (1/16), on.
const LOST_MIN: u32 = 3;
const LOST_PART: u32 = 16;

/// The window.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    window: u32,
    window_max: u32,
    /// Stop-and-wait channels: nothing is steered.
    fixed: bool,
    starting: bool,
    cut_at: u64,
    round_end: u32,
    /// What the window was when the round began, or before what was lost in it.
    round_window: u32,
    acked: u32,
    lost: u32,
}

impl Congestion {
    pub(crate) fn new(config: &Config, first_psn: u32) -> Self {
        let (initial, max) = if config.channels > 0 { (config.channels, config.channels) } else { (config.window_packets_initial, config.window_packets) };
        Self {
            window: initial as u32 * ONE,
            window_max: max as u32 * ONE,
            fixed: config.channels > 0,
            starting: true,
            cut_at: 0,
            round_end: first_psn,
            round_window: initial as u32 * ONE,
            acked: 0,
            lost: 0,
        }
    }

    /// Packets that may be in flight; at least one.
    #[inline]
    pub(crate) const fn window(&self) -> u32 {
        self.window / ONE
    }

    /// `acked` packets have newly arrived; `rtt` is what the acknowledgement measured (0: nothing);
    /// `was_limit`: whether the window had been what stopped the sender. `una` and `next` are the
    /// first packet not acknowledged and the first not sent.
    #[allow(clippy::too_many_arguments, reason = "one call, by name")]
    pub(crate) fn acked(&mut self, config: &Config, now: Instant, acked: u32, rtt: u64, base: u64, was_limit: bool, una: u32, next: u32) {
        self.acked = self.acked.saturating_add(acked);
        let target = base.saturating_mul(config.target_factor_eighths.into()) / 8 + config.target_extra.0;
        //= P-CONG-2
        if rtt > target {
            self.starting = false;
            let excess = u32::try_from((rtt - target).saturating_mul(256) / rtt).unwrap_or(256).min(256);
            // At most half.
            self.cut(now, rtt, (excess * 4 / 5).min(128));
        } else if was_limit && acked > 0 {
            //= P-CONG-1
            let growth = if self.starting { acked * ONE } else { acked * (ONE * ONE) / self.window };
            self.window = (self.window + growth).min(self.window_max);
        }
        if !crate::sequence::before(una, self.round_end) {
            (self.acked, self.lost, self.round_window) = (0, 0, self.window);
            self.round_end = next;
        }
    }

    /// `count` packets are held to be lost, of `in_flight`.
    pub(crate) fn lost(&mut self, count: u32, in_flight: u32) {
        if self.fixed {
            return;
        }
        if self.lost == 0 {
            self.round_window = self.window;
        }
        self.lost = self.lost.saturating_add(count);
        let sent = self.acked.saturating_add(self.lost).max(in_flight);
        //= P-CONG-3
        if self.lost >= LOST_MIN && self.lost > sent / LOST_PART {
            self.starting = false;
            let part = ((u64::from(self.lost) * 256 / u64::from(sent)) as u32).min(128);
            self.window = self.window.min(self.round_window - self.round_window / 256 * part).max(ONE);
        }
    }

    /// A second timeout in a row: nothing is known any more.
    pub(crate) fn collapse(&mut self) {
        if self.fixed {
            return;
        }
        self.starting = self.window > 2 * ONE;
        self.window = ONE;
    }

    /// Takes away `part` of 256, once per round trip.
    fn cut(&mut self, now: Instant, rtt: u64, part: u32) {
        if now.0 >= self.cut_at && !self.fixed {
            self.cut_at = now.0.saturating_add(rtt);
            self.window = (self.window - self.window / 256 * part).max(ONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(c: &mut Congestion, now: u64, acked: u32, rtt: u64, una: u32) {
        c.acked(&Config::default(), Instant(now), acked, rtt, 10_000, true, una, una + 64);
    }

    #[test]
    fn grows_fast_then_slowly() {
        //= P-CONG-1
        let mut c = Congestion::new(&Config::default(), 0);
        let start = c.window();
        ack(&mut c, 0, start, 20_000, 0);
        assert_eq!(c.window(), 2 * start);
        c.starting = false;
        let before = c.window();
        for i in 0..4 {
            ack(&mut c, i, before / 4, 20_000, 0);
        }
        assert!(c.window() == before || c.window() == before + 1, "{} {}", before, c.window());
        (0..100_000).for_each(|i| ack(&mut c, i, 64, 20_000, 0));
        assert_eq!(c.window(), 1024);
    }

    #[test]
    fn shrinks_by_delay_once_per_round_trip() {
        //= P-CONG-2
        let mut c = Congestion::new(&Config::default(), 0);
        ack(&mut c, 0, 1, 1_000_000_000, 0);
        let after = c.window();
        assert_eq!(after, Config::default().window_packets_initial as u32 / 2);
        ack(&mut c, 1, 1, 1_000_000_000, 0);
        assert_eq!(c.window(), after);
        for i in 1..100 {
            ack(&mut c, i * 2_000_000_000, 1, 1_000_000_000, 0);
        }
        assert_eq!(c.window(), 1);
    }

    #[test]
    fn few_losses_are_endured_and_many_not() {
        //= P-CONG-3
        let mut c = Congestion::new(&Config::default(), 0);
        for round in 0..50u32 {
            c.lost(2, 98);
            ack(&mut c, u64::from(round) * 1_000_000, 98, 20_000, round * 64);
        }
        assert_eq!(c.window(), 1024);
        c.lost(50, 100);
        assert!(c.window() <= 520 && c.window() > 500, "{}", c.window());
    }

    #[test]
    fn many_losses_count_at_once_and_once_per_round() {
        //= P-CONG-3
        let mut c = Congestion::new(&Config { window_packets_initial: 128, ..Config::default() }, 0);
        c.lost(16, 128);
        assert_eq!(c.window(), 112, "before anything is acknowledged");
        c.lost(16, 112);
        assert_eq!(c.window(), 91, "32 of 112, of what the window was before both");
        c.lost(90, 91);
        assert_eq!(c.window(), 64, "half at most");
        ack(&mut c, 0, 1, 20_000, 64);
        c.lost(8, 64);
        assert_eq!(c.window(), 56, "a new round");
    }
}
