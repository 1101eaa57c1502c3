// SPDX-License-Identifier: MIT OR Apache-2.0
//! When to acknowledge, and what: at once on a gap, a duplicate, or a request; otherwise after some
//! packets or some time, or along with data.

use crate::config::Config;
use crate::packet::Ack;
use crate::packet::ack::BITMAP_WORDS_MAX;
use crate::packet::header::{ACK_VALID, ECHO_VALID};
use crate::rx_window::Rx;
use crate::sequence::timestamp;
use crate::tx_window::leave::Stamp;
use crate::{Buffer, Instant};

/// The acknowledgements that we owe the peer.
#[derive(Clone, Debug)]
pub(crate) struct AckState {
    /// Packets since the last acknowledgement.
    owed: u32,
    now: bool,
    deadline: Instant,
    /// The latest timestamp received, and when; none before the first data packet.
    echo: Option<(u32, Instant)>,
    /// When the last acknowledgement left that was a packet of its own.
    left: Instant,
}

impl AckState {
    pub(crate) const fn new() -> Self {
        Self { owed: 0, now: false, deadline: Instant::NEVER, echo: None, left: Instant(0) }
    }

    /// A data packet came; `at_once`: with something special about it.
    //= P-ACK-4
    #[inline]
    pub(crate) fn owe(&mut self, config: &Config, now: Instant, packet_time: u32, at_once: bool) {
        self.echo = Some((packet_time, now));
        self.owed += 1;
        self.now |= at_once || self.owed >= config.ack_packets;
        if self.deadline == Instant::NEVER {
            self.deadline = now + config.ack_delay;
        }
    }

    /// When the last data packet came.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.echo.map(|(_, at)| at)
    }

    /// A packet is being accepted whose arrival may have been acknowledged already.
    #[inline]
    pub(crate) fn delivered(&mut self, config: &Config, now: Instant) {
        if self.owed == 0 {
            self.owed = 1;
            self.deadline = now + config.ack_delay;
        }
    }

    /// Has what is owed leave now, if it would within the delay, and the last one is as far back:
    /// so there are no more acknowledgements than by time alone. Whether it does.
    pub(crate) fn hasten(&mut self, config: &Config, now: Instant) -> bool {
        let is_soon = self.owed > 0 && self.deadline <= now + config.ack_delay && self.left + config.ack_delay <= now;
        self.now |= is_soon;
        is_soon
    }

    #[inline]
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.now || self.deadline <= now
    }

    /// The acknowledgement that a data packet leaving now carries. When it tells everything,
    /// nothing is owed any more.
    //= P-ACK-1
    #[inline]
    pub(crate) fn stamp<B: Buffer>(&self, now: Instant, rx: &Rx<B>) -> Stamp {
        let (echo, echo_delay) = self.echo(now).unwrap_or_default();
        let flags = ACK_VALID | if self.echo.is_some() { ECHO_VALID } else { 0 };
        Stamp { flags, ack: rx.accepted(), timestamp: timestamp(now), echo, echo_delay }
    }

    /// Data packets left.
    #[inline]
    pub(crate) fn piggybacked<B: Buffer>(&mut self, rx: &Rx<B>) {
        if !rx.is_partial() {
            self.settled();
        }
    }

    /// The whole of it.
    pub(crate) fn packet<B: Buffer>(&mut self, now: Instant, session: u64, rx: &Rx<B>) -> Ack {
        let mut ack = Ack { session, ack: rx.accepted(), echo: self.echo(now), bitmap: [0; BITMAP_WORDS_MAX], words: 0 };
        if rx.is_partial() {
            for (w, word) in ack.bitmap.iter_mut().enumerate() {
                *word = rx.arrived(w as u32 * 64);
                if *word != 0 {
                    ack.words = w + 1;
                }
            }
        }
        self.left = now;
        self.settled();
        ack
    }

    #[inline]
    fn settled(&mut self) {
        (self.owed, self.now, self.deadline) = (0, false, Instant::NEVER);
    }

    /// The latest timestamp and how long it has waited, in units of 1.024 us.
    //= P-ACK-6
    #[inline]
    fn echo(&self, now: Instant) -> Option<(u32, u16)> {
        self.echo.map(|(time, at)| (time, u16::try_from(now.since(at).0 >> 10).unwrap_or(u16::MAX)))
    }
}
