// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packets are lost: overtaken by later ones (by count and by time), or unanswered for too
//! long.

use super::{State, Tx};
use crate::config::Config;
use crate::rtt::Rtt;
use crate::sequence::before;
use bellwire_time::Instant;

/// Later packets that must have arrived before a packet counts as lost; adapts to reordering.
const OVERTAKEN_MIN: u32 = 3;
const OVERTAKEN_MAX: u32 = 96;
/// Tolerance of reordering in time: a quarter of the smallest round trip, at least this; so many
/// times that, as reordering shows.
const TOLERANCE_MIN: u64 = 20_000;
const TOLERANCES_MAX: u64 = 64;
/// Losses in a row, none of them found needlessly, after which less reordering is tolerated again.
const LOSSES_TRUSTED: u32 = 64;
/// What a peer's delayed acknowledgement may be late by: its timer, and waking up.
const PROBE_EXTRA: u64 = 100_000;

/// The state of loss detection.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    /// The packet that left last of those that are known to have arrived: when, and which.
    newest: (u64, u32),
    /// When the newest packet left that was refused, as long as that may tell of others; 0
    /// otherwise.
    refused: u64,
    /// The highest packet that the peer's bitmaps showed; meaningful while some have arrived out of
    /// order.
    pub(crate) highest: u32,
    overtaken: u32,
    /// Tolerance of reordering in time.
    tolerance: u64,
    /// Losses since one was found needlessly, or since less has been tolerated.
    trusted: u32,
    /// When a packet that may only be late will count as lost.
    late_at: Instant,
    /// From when the timeout counts.
    base: Instant,
    /// Timeouts in a row.
    pub(crate) backoff: u32,
    probed: bool,
    /// Stop-and-wait channels, each with its own timer, tell what is lost.
    pub(crate) by_channels: bool,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            newest: (0, 0),
            refused: 0,
            highest: 0,
            overtaken: OVERTAKEN_MIN,
            tolerance: 1,
            trusted: 0,
            late_at: Instant::NEVER,
            base: Instant(0),
            backoff: 0,
            probed: false,
            by_channels: false,
        }
    }
}

/// What a timeout did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// Nothing was due.
    Nothing,
    /// Packets that were late are lost.
    Late(u32),
    /// The last packet leaves again, as a question.
    Probe,
    /// The oldest packet leaves again.
    Retransmit,
    /// So many channels send again.
    Channels(u32),
}

impl Losses {
    /// The first packet leaves after silence.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.base = now;
    }

    /// Acknowledgements make progress.
    pub(crate) fn progress(&mut self, now: Instant) {
        (self.base, self.backoff, self.probed) = (now, 0, false);
    }

    /// A packet is known to have arrived in the transmission of this time.
    #[inline]
    pub(crate) fn arrived(&mut self, sent: u64, psn: u32) {
        if self.left_after_newest(sent, psn) {
            self.newest = (sent, psn);
        }
    }

    /// Whether a packet left after the newest that has arrived. Of those of one instant, the lower
    /// numbers left first.
    #[inline]
    fn left_after_newest(&self, sent: u64, psn: u32) -> bool {
        let (time, newest) = self.newest;
        sent > time || (sent == time && before(newest, psn))
    }

    /// A transmission that left then was refused: so it has arrived.
    pub(crate) fn refused(&mut self, sent: u64, psn: u32) {
        self.arrived(sent, psn);
        self.refused = self.refused.max(sent);
    }

    /// A packet was sent again needlessly, because later ones had arrived before it.
    pub(crate) fn more_tolerant(&mut self) {
        self.overtaken = (self.overtaken * 2).min(OVERTAKEN_MAX);
        self.tolerance = (self.tolerance * 2).min(TOLERANCES_MAX);
        self.trusted = 0;
    }

    /// Whether silence has lasted long enough to ask.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        self.probed || self.backoff > 0
    }

    /// Packets have been found lost.
    fn found(&mut self, count: u32) {
        self.trusted += count;
        if self.trusted >= LOSSES_TRUSTED {
            self.overtaken = (self.overtaken / 2).max(OVERTAKEN_MIN);
            self.tolerance = (self.tolerance / 2).max(1);
            self.trusted = 0;
        }
    }

    /// A queue makes all packets late and changes nothing about their order, so only the path's own
    /// time counts.
    fn tolerance(&self, rtt: &Rtt) -> u64 {
        (rtt.smallest() / 4).max(TOLERANCE_MIN) * self.tolerance
    }

    /// How long silence may last.
    fn patience(&self, config: &Config, rtt: &Rtt) -> u64 {
        let rto = rtt.rto(config).0;
        if self.backoff == 0 && !self.probed && rtt.smoothed() != 0 {
            //= P-TIME-4
            return (2 * rtt.smoothed() + config.ack_delay.0 + PROBE_EXTRA).min(rto);
        }
        //= P-TIME-3
        rto.saturating_mul(1 << self.backoff.min(20)).min(config.rto_max.0)
    }
}

impl Tx {
    /// When [`Tx::timeout`] or [`Tx::wake_refused`] has something to do.
    pub(crate) fn deadline(&self, config: &Config, rtt: &Rtt) -> Instant {
        if self.losses.by_channels {
            return self.refused_due.min(self.channels_deadline(config, rtt));
        }
        let mut at = self.refused_due.min(self.losses.late_at);
        if self.is_unacknowledged() {
            at = at.min(self.losses.base + bellwire_time::Duration(self.losses.patience(config, rtt)));
        }
        at
    }

    /// What an acknowledgement can bring forward; everything else it only puts off.
    #[inline]
    pub(crate) fn early_deadline(&self) -> Instant {
        self.refused_due.min(self.losses.late_at)
    }

    /// Finds packets that later ones have overtaken; how many. To be called after acknowledgements.
    //= P-TIME-4
    pub(crate) fn find_losses(&mut self, now: Instant, rtt: &Rtt) -> u32 {
        self.losses.late_at = Instant::NEVER;
        if self.flying == 0 || self.losses.by_channels {
            return 0;
        }
        let tolerance = self.losses.tolerance(rtt);
        // Without a gap, packets are overtaken only by earlier ones that were sent again later.
        let all = self.next.wrapping_sub(self.una);
        let span = if self.losses.refused > 0 {
            all
        } else if self.arrived.is_empty() {
            let oldest = *self.slot(self.una);
            if oldest.sent.saturating_add(tolerance) >= self.losses.newest.0 {
                return 0;
            }
            all
        } else {
            self.losses.highest.wrapping_sub(self.una)
        };
        debug_assert!(span <= all);
        let patience = rtt.latest().max(rtt.smoothed()) + tolerance;
        let (total, mut below, mut found, mut at) = (self.arrived.count(), 0, 0, 0);
        while at < span {
            let base = self.una.wrapping_add(at);
            let mask = if span - at >= 64 { u64::MAX } else { (1 << (span - at)) - 1 };
            let have = self.arrived.word_at(base);
            let mut holes = !have & mask;
            while holes != 0 {
                let i = holes.trailing_zeros();
                holes &= holes - 1;
                let overtakers = total - below - (have & ((1u64 << i) - 1)).count_ones();
                found += u32::from(self.judge(base.wrapping_add(i), now, overtakers, tolerance, patience));
            }
            below += (have & mask).count_ones();
            at += 64;
        }
        if self.losses.late_at == Instant::NEVER {
            self.losses.refused = 0;
        }
        self.lost_total += u64::from(found);
        self.losses.found(found);
        found
    }

    /// Whether the packet is lost: if so, it will leave again.
    fn judge(&mut self, psn: u32, now: Instant, overtakers: u32, tolerance: u64, patience: u64) -> bool {
        let slot = *self.slot(psn);
        if slot.state != State::Flying {
            return false;
        }
        let overtaken = slot.tries == 0 && overtakers >= self.losses.overtaken;
        let is_old = slot.sent.saturating_add(tolerance) < self.losses.newest.0;
        let has_answer = self.losses.refused >= slot.sent || overtakers > 0 && !self.losses.left_after_newest(slot.sent, psn);
        let is_late = has_answer && slot.sent.saturating_add(patience) <= now.0;
        if overtaken || is_old || is_late {
            self.lose(psn, true);
            return true;
        }
        if has_answer {
            self.losses.late_at = self.losses.late_at.min(Instant(slot.sent.saturating_add(patience)));
        }
        false
    }

    pub(crate) fn lose(&mut self, psn: u32, fast: bool) {
        let slot = *self.slot(psn);
        if slot.state == State::Flying {
            self.land(slot.length);
        } else {
            self.arrived.remove(psn);
        }
        self.slot(psn).state = State::Lost;
        self.slot(psn).fast = fast;
        self.lost.insert(psn);
    }

    /// Does what silence asks for.
    pub(crate) fn timeout(&mut self, config: &Config, now: Instant, rtt: &Rtt) -> Timeout {
        if self.losses.by_channels {
            return self.channels_timeout(config, now, rtt);
        }
        if now >= self.losses.late_at {
            let found = self.find_losses(now, rtt);
            if found > 0 {
                return Timeout::Late(found);
            }
        }
        if !self.is_unacknowledged() || now < self.losses.base + bellwire_time::Duration(self.losses.patience(config, rtt)) {
            return Timeout::Nothing;
        }
        let rto = rtt.rto(config).0;
        let probe = self.losses.backoff == 0 && !self.losses.probed && self.losses.patience(config, rtt) < rto;
        self.losses.base = now;
        let last = self.next.wrapping_sub(1);
        if probe && self.slot(last).state == State::Flying {
            //= P-TIME-4
            self.losses.probed = true;
            self.lose(last, false);
            self.forced = 1;
            return Timeout::Probe;
        }
        self.losses.probed = true;
        let Some(psn) = self.oldest_unanswered() else { return Timeout::Nothing };
        //= P-TIME-3
        self.losses.backoff = self.losses.backoff.saturating_add(1);
        self.lose(psn, false);
        self.forced = 1;
        Timeout::Retransmit
    }

    /// The oldest packet in flight; or the oldest of all, when the peer says that it has it and
    /// does not accept it: it may have forgotten it after a refusal that did not arrive here.
    //= P-NACK-5
    fn oldest_unanswered(&mut self) -> Option<u32> {
        let una = self.una;
        if self.slot(una).state == State::Arrived {
            return Some(una);
        }
        let mut psn = una;
        while self.flying > 0 && before(psn, self.next) {
            if self.slot(psn).state == State::Flying {
                return Some(psn);
            }
            psn = psn.wrapping_add(1);
        }
        None
    }
}
