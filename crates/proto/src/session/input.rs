// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that arrive on a session.

use super::{Context, Session, Stage};
use crate::config::Config;
use crate::delivery::Buffer;
use crate::event::Refusal;
use crate::packet::data::Answer;
use crate::packet::{Ack, Nack, Pong};
use crate::rtt::Rtt;
use crate::rx_window::{Arrival, Received};
use crate::sequence::timestamp;
use crate::tx_acks::{Progress, Refused};
use bellwire_time::Instant;

/// What a data packet's header says, without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) arrival: Arrival,
    pub(crate) ack_now: bool,
    pub(crate) answer: Answer,
}

impl<B: Buffer> Session<B> {
    /// A data packet.
    #[inline]
    pub(crate) fn data(&mut self, context: &mut Context<'_>, arrived: Arrived, buffer: B, memory: usize) {
        // All packets of a run say the same.
        if arrived.answer != self.heard {
            self.heard = arrived.answer;
            self.answered(context, &arrived.answer, None);
        }
        let time = arrived.arrival.timestamp;
        let received = self.rx.receive(context.config, arrived.arrival, buffer, memory);
        let statistics = &mut *context.statistics;
        let at_once = match received {
            Received::InOrder => arrived.ack_now,
            Received::Gap => true,
            Received::Duplicate => {
                statistics.duplicates += 1;
                true
            }
            //= P-LIMIT-1
            Received::NoMemory => return statistics.no_memory += 1,
            Received::OutOfWindow => return statistics.out_of_window += 1,
            Received::Stale => return statistics.duplicates += 1,
            Received::Nonsense => return statistics.implausible += 1,
        };
        self.ack.owe(context.config, context.now, time, at_once);
    }

    /// An acknowledgement, alone or with data; `bitmap` is the whole packet when there is one.
    #[inline]
    pub(crate) fn answered(&mut self, context: &mut Context<'_>, answer: &Answer, bitmap: Option<&Ack>) {
        let now = context.now;
        let in_flight = self.tx.flying;
        let mut progress = Progress::default();
        if let Some(ack) = answer.ack {
            let Some(p) = self.tx.accepted_up_to(ack, answer.echo.map(|e| e.0)) else {
                context.statistics.implausible += 1;
                return;
            };
            progress = p;
        }
        if let Some(ack) = bitmap {
            self.tx.forgotten(ack);
            self.tx.arrived_beyond(now, ack, &mut progress);
        }
        let rtt = answer.echo.map_or(0, |(echo, delay)| self.echo(now, echo, delay));
        if progress.acked > 0 || progress.released {
            self.tx.losses.progress(now);
            self.tx.forced = 0;
            context.statistics.spurious += u64::from(progress.spurious);
        }
        self.steer(context, in_flight, progress.acked, rtt);
    }

    /// Of what was in flight, so much has arrived: what that says of the window, and of other
    /// packets.
    #[inline]
    fn steer(&mut self, context: &mut Context<'_>, in_flight: u32, arrived: u32, rtt: u64) {
        if arrived > 0 || rtt > 0 {
            let was_limit = in_flight * 2 >= self.congestion.window();
            self.congestion.acked(context.config, context.now, arrived, rtt, self.rtt.smallest(), was_limit, self.tx.una, self.tx.next);
        }
        if self.tx.flying > 0 {
            let lost = self.tx.find_losses(context.now, &self.rtt);
            if lost > 0 {
                self.congestion.lost(lost, in_flight);
                context.statistics.fast_retransmits += u64::from(lost);
            }
        }
    }

    /// One of our timestamps came back: the round-trip time it shows, if it is newer than what came
    /// back before; 0 otherwise.
    #[inline]
    fn echo(&mut self, now: Instant, echo: u32, delay: u16) -> u64 {
        let age = u64::from(timestamp(now).wrapping_sub(echo)) << 6;
        let sent = now.0.saturating_sub(age);
        // A whole batch leaves with one timestamp, which shows the time once.
        //= P-LIFE-3
        if age > now.0 || sent <= self.echoed {
            return 0;
        }
        self.echoed = sent;
        self.life.proof(now);
        let Some(rtt) = Rtt::sample(now, echo, delay) else { return 0 };
        self.rtt.measured(now, rtt);
        rtt
    }

    /// The first round trip, measured by the handshake.
    pub(crate) fn handshake_took(&mut self, now: Instant, echo: u32) {
        if let Some(rtt) = Rtt::sample(now, echo, 0) {
            self.rtt.measured(now, rtt);
        }
    }

    /// A refusal. `true`: frames came back.
    pub(crate) fn nack(&mut self, context: &mut Context<'_>, nack: &Nack) -> bool {
        let in_flight = self.tx.flying;
        self.echo(context.now, nack.echo, 0);
        let refused = self.tx.refuse(context.config, context.now, nack);
        if refused == Refused::Stale {
            context.statistics.nacks_stale += 1;
            return false;
        }
        context.statistics.nacks_in += 1;
        self.tx.losses.progress(context.now);
        // It has arrived, for the network. Its time is that of the receiver, too.
        self.steer(context, in_flight, 1, 0);
        if refused == Refused::Final {
            return self.give_up(context.config, nack.psn, nack.reason);
        }
        self.refusal = Some(nack.reason);
        false
    }

    fn give_up(&mut self, config: &Config, psn: u32, reason: Refusal) -> bool {
        // A program that does not fetch returned frames must not make us keep more and more of
        // them.
        if self.returned_bytes > config.ring_bytes {
            return false;
        }
        self.take_back(psn, reason);
        self.tx.empty(psn);
        true
    }

    /// The answer to a PING.
    pub(crate) fn pong(&mut self, context: &mut Context<'_>, pong: &Pong) {
        let is_sign = self.life.is_answer(pong.token);
        self.echo(context.now, pong.echo, 0);
        if is_sign {
            self.life.proof(context.now);
        }
        let before = self.mtu.current();
        self.mtu.answered(context.config, context.now, pong.token, pong.length as usize);
        // A larger datagram arrived: that path is there.
        if self.mtu.current() > before {
            self.life.proof(context.now);
        }
    }

    /// The peer knows nothing of a packet that it says we sent: whether that can be.
    //= P-RESET-3
    pub(crate) fn believes_reset(&self, is_data: bool, word: u32) -> bool {
        let from = self.tx.next.wrapping_sub(2 * crate::config::WINDOW_PACKETS_MAX as u32);
        !self.is_down() && (!is_data || word.wrapping_sub(from) < 2 * crate::config::WINDOW_PACKETS_MAX as u32)
    }

    /// Whether it was closed here and everything was delivered.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Closing { .. }) && self.tx.outstanding() == 0
    }
}
