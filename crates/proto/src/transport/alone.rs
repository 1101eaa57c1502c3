// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path of its own for a short frame that has the way for itself: written, stamped and handed
//! over in one go, without the queues and questions that stand between writing and leaving when
//! there is more than one thing to do (`transport.rs`, `output.rs`, `session/output.rs`). Every
//! rule of a packet's life is where it is for all packets: `Tx::begin` and `Tx::depart`.

use super::{Transmit, Transport};
use crate::config::{DATA_HEADER, FRAME_HEADER};
use crate::delivery::Buffer;
use crate::ids::SessionId;
use crate::session::{Session, Stage};
use bellwire_time::Instant;

impl<B: Buffer> Transport<B> {
    /// Whether a frame may leave by [`send_alone`](Self::send_alone): the session is up, nothing of
    /// it waits or may be lost, and hardly anything is in flight. The time is not needed for that.
    #[inline]
    pub fn is_idle(&self, session: SessionId) -> bool {
        self.answers.is_empty() && self.places.live_ref(session).is_some_and(|s| s.stage == Stage::Up && s.tx.is_idle())
    }

    /// Sends a frame without payload, as [`send`](Self::send), and gives the packet with it, which
    /// is to be handed to the network at once. Worth a try after [`is_idle`](Self::is_idle).
    /// `None`: nothing was done; `send` does it, or says why not.
    #[inline]
    pub fn send_alone(&mut self, now: Instant, session: SessionId, stream: u32, head: &[u64]) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        let live = self.places.live(session).filter(|s| s.stage == Stage::Up)?;
        live.rx.decide();
        let (start, length) = live.leave_alone(&self.config, now, stream, head)?;
        self.statistics.frames_out += 1;
        self.statistics.data_out += 1;
        self.statistics.packets_out += 1;
        self.statistics.bytes_out += length as u64;
        let slot = session.slot();
        // Nothing that leaves now is asked after sooner.
        if !self.timers.rings_by(slot, now + self.config.patience_least()) {
            self.timers.set_earlier(slot, live.tx.deadline(&self.config, &live.rtt));
        }
        if let Some(seal) = &mut live.seal {
            live.tx.seal(seal, now, start, length, length);
            if live.ends_spent(now) {
                self.timers.set_earlier(slot, now);
            }
        }
        Some(Transmit { to: live.address, bytes: live.tx.ring.get(start, length), segment: None, fragment: false, session: Some(session) })
    }
}

impl<B: Buffer> Session<B> {
    /// Where the packet lies.
    #[inline]
    fn leave_alone(&mut self, config: &crate::Config, now: Instant, stream: u32, head: &[u64]) -> Option<(usize, usize)> {
        let need = FRAME_HEADER + head.len() * 8;
        let allowance = self.allowance(config, now);
        let at = self.tx.write_alone(config, &allowance, need, stream)?;
        let (front, words) = self.tx.ring.get_mut(at, need).split_at_mut(FRAME_HEADER);
        //= P-FRAME-1
        front.copy_from_slice(&[head.len() as u8, 0, 0, 0]);
        for (place, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(head) {
            *place = word.to_le_bytes();
        }
        let stamp = self.ack.stamp(now, &self.rx);
        self.tx.depart_alone(config, now, &allowance, &stamp);
        self.ack.piggybacked(&self.rx);
        self.life.asked(now);
        Some((at - DATA_HEADER, self.tx.overhead + need))
    }
}
