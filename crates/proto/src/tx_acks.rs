// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of acknowledgements and refusals on packets in flight.

use crate::config::Config;
use crate::packet::{Ack, Nack};
use crate::sequence::{before, timestamp};
use crate::tx_window::{Slot, State, Tx, is_final};
use bellwire_time::Instant;

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Packets newly known to have arrived.
    pub(crate) acked: u32,
    /// Retransmissions that were needless.
    pub(crate) spurious: u32,
    /// Whether packets were released.
    pub(crate) released: bool,
}

/// What a refusal brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It answers an earlier transmission, or nothing.
    Stale,
    /// The packet leaves again later.
    Later,
    /// Its frames are to be returned.
    Final,
}

impl Tx {
    /// The peer has accepted everything before `ack`. `None`: that cannot be.
    #[inline]
    pub(crate) fn accepted_up_to(&mut self, ack: u32, echo: Option<u32>) -> Option<Progress> {
        let count = ack.wrapping_sub(self.una);
        if count == 0 {
            return Some(Progress::default());
        }
        //= P-ACK-5
        if count > self.next.wrapping_sub(self.una) {
            // An old one, or a lie.
            return before(ack, self.una).then(Progress::default);
        }
        let mut progress = Progress { released: true, ..Progress::default() };
        for i in 0..count {
            let psn = self.una.wrapping_add(i);
            let slot = *self.slot(psn);
            match slot.state {
                State::Flying => self.land(slot.length),
                State::Arrived => {
                    self.arrived.remove(psn);
                    continue;
                }
                State::Lost => {
                    self.lost.remove(psn);
                }
                State::Refused => {
                    self.refused.remove(psn);
                }
                State::Written => unreachable!("not sent and acknowledged"),
            }
            self.arrival(psn, &slot, echo, &mut progress);
        }
        self.una = ack;
        let oldest = (self.una != self.end).then(|| self.slot(ack).start as usize);
        self.ring.release(oldest);
        Some(progress)
    }

    /// The peer has the packets of the bitmap (and has accepted everything before `ack.ack`, which
    /// is done already).
    pub(crate) fn arrived_beyond(&mut self, now: Instant, ack: &Ack, progress: &mut Progress) {
        if ack.ack != self.una {
            return;
        }
        for (w, word) in ack.bitmap[..ack.words].iter().enumerate() {
            let base = self.una.wrapping_add(w as u32 * 64);
            let mut new = word & !self.arrived.word_at(base);
            while new != 0 {
                let psn = base.wrapping_add(new.trailing_zeros());
                new &= new - 1;
                //= P-ACK-5
                if !before(psn, self.next) {
                    return;
                }
                let slot = *self.slot(psn);
                match slot.state {
                    State::Flying => self.land(slot.length),
                    State::Lost => {
                        self.lost.remove(psn);
                    }
                    // The bitmap is older than the refusal.
                    //= P-NACK-2
                    State::Refused | State::Arrived | State::Written => continue,
                }
                let mine = self.slot(psn);
                (mine.state, mine.due) = (State::Arrived, now.0);
                self.arrived.insert(psn);
                if self.arrived.count() == 1 || before(self.losses.highest, psn) {
                    self.losses.highest = psn;
                }
                self.arrival(psn, &slot, ack.echo.map(|e| e.0), progress);
            }
        }
    }

    /// Packets that had arrived, and that a bitmap does not show which answers something that left
    /// after that was known: the peer has refused them, and it was not heard.
    //= P-NACK-5
    pub(crate) fn forgotten(&mut self, ack: &Ack) {
        let Some((echo, _)) = ack.echo.filter(|_| ack.ack == self.una && !self.arrived.is_empty()) else { return };
        for (w, word) in ack.bitmap.iter().enumerate() {
            let base = self.una.wrapping_add(w as u32 * 64);
            let mut missing = self.arrived.word_at(base) & !word;
            while missing != 0 {
                let psn = base.wrapping_add(missing.trailing_zeros());
                missing &= missing - 1;
                if before(timestamp(Instant(self.slot(psn).due)), echo) {
                    self.lose(psn, false);
                }
            }
        }
    }

    /// A packet is known to have arrived.
    #[inline]
    fn arrival(&mut self, psn: u32, slot: &Slot, echo: Option<u32>, progress: &mut Progress) {
        progress.acked += 1;
        if slot.tries == 0 {
            self.losses.arrived(slot.sent, psn);
            return;
        }
        // The latest that the peer had seen is older than our last transmission: an earlier one
        // arrived.
        //= P-TIME-5
        if echo.is_some_and(|e| before(e, timestamp(Instant(slot.sent)))) {
            progress.spurious += 1;
            if slot.fast {
                self.losses.more_tolerant();
            }
        } else {
            self.losses.arrived(slot.sent, psn);
        }
    }

    /// The peer refused a packet.
    pub(crate) fn refuse(&mut self, config: &Config, now: Instant, nack: &Nack) -> Refused {
        if nack.psn.wrapping_sub(self.una) >= self.next.wrapping_sub(self.una) {
            return Refused::Stale;
        }
        let slot = *self.slot(nack.psn);
        //= P-NACK-1
        if slot.state == State::Refused || timestamp(Instant(slot.sent)) != nack.echo {
            return Refused::Stale;
        }
        match slot.state {
            State::Flying => self.land(slot.length),
            State::Arrived => {
                self.arrived.remove(nack.psn);
            }
            State::Lost => {
                self.lost.remove(nack.psn);
            }
            State::Written | State::Refused => return Refused::Stale,
        }
        self.losses.refused(slot.sent, nack.psn);
        let refusals = slot.refusals.saturating_add(1);
        let is_empty = self.is_empty(&slot);
        let is_final = is_final(config, nack.reason, refusals) && !is_empty;
        let wait = if is_final { 0 } else { Self::refusal_wait(config, refusals) };
        let mine = self.slot(nack.psn);
        mine.state = State::Refused;
        mine.refusals = refusals;
        mine.consumed = mine.consumed.max(nack.consumed);
        mine.due = now.0.saturating_add(wait);
        let due = Instant(mine.due);
        self.refused.insert(nack.psn);
        self.refused_due = self.refused_due.min(due);
        if is_final { Refused::Final } else { Refused::Later }
    }
}
