// SPDX-License-Identifier: MIT OR Apache-2.0
//! All sessions of one NIC: dispatch only. What a rule says stands in the file that it is named after.

use crate::config::Config;
use crate::delivery::{Buffer, Delivery, Returned};
use crate::error::Error;
use crate::event::{Event, Refusal, Sent};
use crate::ids::SessionId;
use crate::statistics::{SessionInfo, Statistics};
use bellwire_time::Instant;
use core::marker::PhantomData;
use core::net::SocketAddr;

/// Packets to be sent, in one contiguous piece.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The packets' bytes.
    pub bytes: &'a [u8],
    /// When there are several packets: the size of each but the last, which may be shorter. What generic segmentation offload wants.
    pub segment: Option<usize>,
    /// The packet is larger than what the path was found to carry: let the network layer fragment it. Only ever single packets, sent again after the path changed.
    pub fragment: bool,
    /// The session, if it belongs to one.
    pub session: Option<SessionId>,
}

impl Transmit<'_> {
    /// How many packets there are.
    pub fn packets(&self) -> usize {
        self.segment.map_or(1, |s| self.bytes.len().div_ceil(s))
    }
}

/// All sessions of one NIC. Every method that takes `now` must be given times that do not go backward.
///
/// A turn of the caller: `handle_packet` for what came; `next_delivery`/`poll_deliver` until `None`; `poll_event` until `None`; `send`; `handle_timeout` when
/// `next_timeout` has passed; `poll_transmit` until `None`.
#[derive(Debug)]
pub struct Transport<B: Buffer> {
    config: Config,
    statistics: Statistics,
    buffers: PhantomData<B>,
}

impl<B: Buffer> Transport<B> {
    /// A transport without sessions. All its randomness (session ids, cookies' key, first packet numbers) comes from `seed`, which strangers must not guess.
    /// Settings out of bounds are moved to the bound.
    pub fn new(config: Config, seed: u64) -> Self {
        let _ = seed;
        Self { config: config.bounded(), statistics: Statistics::default(), buffers: PhantomData }
    }

    /// Begins a session with the NIC at `to`, or takes the one that there is. Answered by [`Event::Up`] or [`Event::Failed`] with `context`; the session in
    /// `Up` is the one to use (it is another one than the id returned here when the NIC at `to` was already known under another address or began at the same time).
    ///
    /// # Errors
    /// [`Error::SessionsMax`].
    pub fn connect(&mut self, now: Instant, to: SocketAddr, context: u64) -> Result<SessionId, Error> {
        let _ = (now, to, context);
        Err(Error::SessionsMax)
    }

    /// Ends a session politely: what was sent is delivered first, nothing more can be sent. [`Event::Down`] follows (or [`Event::Failed`] while it is being made).
    ///
    /// # Errors
    /// [`Error::NoSession`].
    pub fn close(&mut self, now: Instant, session: SessionId) -> Result<(), Error> {
        let _ = (now, session);
        Err(Error::NoSession)
    }

    /// Takes one datagram. It is hostile until shown otherwise; what is wrong with it is counted.
    pub fn handle_packet(&mut self, now: Instant, from: SocketAddr, buffer: B) {
        let _ = (now, from, buffer);
    }

    /// Does what is due. Calling it early or late is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When [`Transport::handle_timeout`] is to be called at the latest; may be early by a turn of the timing wheel, never late. [`Instant::NEVER`] when nothing waits.
    pub fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Sends a frame: 1 to 8 words of head and `payload_len` bytes that `fill` writes straight into the transmit ring (it must write all of them; they hold old
    /// bytes). Frames of one `stream` arrive in order. `fill` is called only when the answer is [`Sent::Yes`]. The packet leaves by [`Transport::poll_transmit`]; until then, later
    /// small frames join it.
    ///
    /// # Panics
    /// If `head` has no word or more than eight.
    pub fn send(&mut self, now: Instant, session: SessionId, stream: u32, head: &[u64], payload_len: usize, fill: impl FnOnce(&mut [u8])) -> Sent {
        let _ = (now, session, stream, head, payload_len, fill);
        Sent::Broken
    }

    /// The largest payload that a frame with so many head words can have at present; zero when the session is not up. A stream of such frames travels as
    /// packets of equal size, which is what segmentation offload wants.
    pub fn payload_max(&self, session: SessionId, head_words: usize) -> usize {
        let _ = (session, head_words);
        0
    }

    /// The next packets to be sent. The caller hands them to the network at once; what it cannot hand over counts as lost.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let _ = now;
        None
    }

    /// Whether [`Transport::poll_transmit`] may have something (it may still find that nothing is due).
    pub fn has_transmit(&self) -> bool {
        false
    }

    /// A session that has something to deliver, if any. The same one until it has nothing more.
    pub fn next_delivery(&self) -> Option<SessionId> {
        None
    }

    /// The next packet of a session whose predecessors have been delivered. Taking it accepts it: it will be acknowledged, unless [`Transport::refuse`] comes before the next
    /// `poll_deliver` of that session and before the next [`Transport::poll_transmit`].
    pub fn poll_deliver(&mut self, session: SessionId) -> Option<Delivery<B>> {
        let _ = session;
        None
    }

    /// Takes back the acceptance of the delivery fetched last: the sender is told `reason`, and sends the packet again later if that may pass; otherwise its frames return to
    /// it. `consumed` frames at its beginning (of those that [`Delivery::frames`] showed) were accepted all the same, and will not be shown again.
    ///
    /// # Errors
    /// [`Error::TooLate`] when the packet may have been acknowledged already; [`Error::NoSession`].
    pub fn refuse(&mut self, now: Instant, delivery: Delivery<B>, consumed: usize, reason: Refusal) -> Result<(), Error> {
        let _ = (now, delivery, consumed, reason);
        Err(Error::NoSession)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// The next frame that came back: after [`Event::Down`] each frame that is not known to be delivered, after [`Event::Returned`] those that were refused for good.
    /// In the order of sending. After `Down`, the session's place is free when this gives `None`.
    pub fn poll_returned(&mut self, session: SessionId) -> Option<Returned> {
        let _ = session;
        None
    }

    /// Says whether something depends on the session (a connected VI): then silence is tried with PINGs, and an unreachable peer is found out although nothing is being sent.
    pub fn set_depended(&mut self, now: Instant, session: SessionId, depended: bool) {
        let _ = (now, session, depended);
    }

    /// The network said that a datagram of `bytes` to `to` is too large for the path.
    pub fn handle_too_big(&mut self, now: Instant, to: SocketAddr, bytes: usize) {
        let _ = (now, to, bytes);
    }

    /// What was counted.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The state of a session that is up or closing.
    pub fn session_info(&self, session: SessionId) -> Option<SessionInfo> {
        let _ = session;
        None
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
