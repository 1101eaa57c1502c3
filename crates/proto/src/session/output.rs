// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that leave a session: data first, which carry acknowledgements along; then
//! acknowledgements alone.

use super::{Context, Session, Stage};
use crate::delivery::Buffer;
use crate::packet::auth;
use crate::packet::control::PING_BYTES;
use crate::packet::{Close, Ping};
use crate::sequence::timestamp;
use crate::tx_window::leave::Run;
use bellwire_time::Instant;

/// Packets to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Out {
    /// In the ring.
    Run(Run),
    /// So many bytes of the scratch buffer.
    Scratch(usize),
}

impl<B: Buffer> Session<B> {
    /// Whether [`Session::poll`] would give something.
    #[inline]
    pub(crate) fn has_output(&self, context: &Context<'_>) -> bool {
        if self.is_down() {
            return false;
        }
        self.tx.can_leave(self.allowance(context.config, context.now))
            || self.ack.is_due(context.now)
            || self.life.deadline(context.config) <= context.now
            || self.mtu.deadline() <= context.now
            || self.close_is_due(context)
    }

    /// When what waits to share a packet leaves at the latest; `None`: nothing does.
    #[inline]
    pub(crate) fn joining_until(&self, context: &Context<'_>) -> Option<Instant> {
        self.tx.joining_until(&self.allowance(context.config, context.now))
    }

    fn close_is_due(&self, context: &Context<'_>) -> bool {
        matches!(self.stage, Stage::Closing { next, .. } if next <= context.now && self.tx.outstanding() == 0)
    }

    /// The next packets.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, scratch: &mut [u8]) -> Option<Out> {
        if self.is_down() {
            return None;
        }
        // Stop-and-wait channels acknowledge each packet by one of its own; nothing goes along with
        // data.
        if self.tx.losses.by_channels
            && let Some(length) = self.poll_ack(context, scratch)
        {
            return Some(Out::Scratch(length));
        }
        let allowance = self.allowance(context.config, context.now);
        if self.tx.can_leave(allowance) {
            self.rx.decide();
            let stamp = self.ack.stamp(context.now, &self.rx);
            if let Some(run) = self.tx.leave(context.config, context.now, allowance, &stamp, self.seal.as_deref()) {
                self.ack.piggybacked(&self.rx);
                self.life.asked(context.now);
                if run.again {
                    context.statistics.retransmitted += 1;
                } else {
                    context.statistics.data_out += u64::from(run.packets);
                }
                return Some(Out::Run(run));
            }
        }
        if let Some(length) = self.poll_ack(context, scratch) {
            return Some(Out::Scratch(length));
        }
        self.poll_rare(context, scratch)
    }

    #[inline]
    fn poll_ack(&mut self, context: &mut Context<'_>, scratch: &mut [u8]) -> Option<usize> {
        if !self.ack.is_due(context.now) {
            return None;
        }
        self.rx.decide();
        context.statistics.acks_out += 1;
        Some(self.ack.packet(context.now, self.peer_id, &self.rx).emit(scratch))
    }

    fn poll_rare(&mut self, context: &mut Context<'_>, scratch: &mut [u8]) -> Option<Out> {
        let now = context.now;
        let length = if self.life.deadline(context.config) <= now {
            let token = self.next_token();
            self.life.ping(context.config, now, self.rtt.rto(context.config), token);
            self.ping(context, token, PING_BYTES, scratch)
        } else if self.mtu.deadline() <= now {
            let token = self.next_token();
            let size = self.mtu.probe(context.config, now, self.rtt.rto(context.config), token)?;
            self.ping(context, token, size, scratch)
        } else if self.close_is_due(context) {
            let next = now + self.patience(context.config);
            if let Stage::Closing { next: at, .. } = &mut self.stage {
                *at = next;
            }
            //= P-CLOSE-1
            Close { session: self.peer_id, psn: self.tx.end, own: self.id.raw() }.emit(scratch)
        } else {
            return None;
        };
        Some(Out::Scratch(length))
    }

    /// Seals a packet of `length` bytes in a buffer of its own; the bytes that come behind it.
    pub(crate) fn seal_scratch(&mut self, now: Instant, scratch: &mut [u8], length: usize) -> usize {
        let Some(seal) = &mut self.seal else { return 0 };
        self.tx.renew(seal, now);
        auth::seal(seal, &mut scratch[..length + auth::TRAILER]);
        auth::TRAILER
    }

    fn ping(&mut self, context: &mut Context<'_>, token: u32, length: usize, scratch: &mut [u8]) -> usize {
        context.statistics.pings_out += 1;
        Ping { session: self.peer_id, token, timestamp: timestamp(context.now), length }.emit(scratch)
    }
}
