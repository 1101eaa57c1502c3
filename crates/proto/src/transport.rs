// SPDX-License-Identifier: MIT OR Apache-2.0
//! All sessions of one NIC: dispatch only. What a rule says stands in the file that it is named
//! after.

mod alone;
mod input;
mod output;
mod sealed;

use crate::config::Config;
use crate::cookie::Baker;
use crate::delivery::{Buffer, Delivery, Head, Returned};
use crate::error::Error;
use crate::event::{DownReason, Event, FailReason, Refusal, Sent};
use crate::ids::{PeerKey, SessionId};
use crate::packet::{Nack, Packet};
use crate::places::{Place, Places};
use crate::recall::Recalled;
use crate::seed::{Purpose, Seed, Stream};
use crate::session::{Context, Stage};
use crate::statistics::{SessionInfo, Statistics};
use crate::timers::Timers;
use crate::tokens::AddressLimit;
use bellwire_time::Instant;
use core::net::{SocketAddr, SocketAddrV6};
use output::Answers;
pub use output::Transmit;
use rand_core::Rng;
use std::collections::{BTreeMap, VecDeque};

/// All sessions of one NIC. Every method that takes `now` must be given times that do not go
/// backward.
///
/// A turn of the caller: `handle_packet` for what came; `next_delivery`/`poll_deliver` until
/// `None`; `poll_event` until `None`; `send`; `handle_timeout` when `next_timeout` has passed;
/// `poll_transmit` until `None`.
#[derive(Debug)]
pub struct Transport<B: Buffer> {
    pub(crate) config: Config,
    pub(crate) statistics: Statistics,
    /// All that it gives travels, and nothing of it is used again.
    pub(crate) rng: Stream,
    /// The secret halves of ephemeral keys: never shown.
    pub(crate) key_rng: Stream,
    pub(crate) baker: Baker,
    pub(crate) places: Places<B>,
    /// One alarm for each place.
    pub(crate) timers: Timers,
    /// Sessions up or closing, by peer; and by where their packets go and the peer's id, which is
    /// what a RESET tells.
    pub(crate) by_peer: BTreeMap<PeerKey, SessionId>,
    pub(crate) by_path: BTreeMap<(SocketAddr, u64), SessionId>,
    pub(crate) openings: Vec<SessionId>,
    pub(crate) halves: Vec<SessionId>,
    /// Handshakes begun.
    pub(crate) attempt: u64,
    /// Places that may have packets to be sent, and those that have deliveries.
    transmit: VecDeque<u16>,
    deliver: VecDeque<u16>,
    /// Places in which frames wait to share a packet, and when the first of them have waited long
    /// enough.
    joining: VecDeque<u16>,
    joining_until: Instant,
    answers: Answers,
    /// Handshakes that may be looked at, if there are keys.
    pub(crate) key_handshakes: Option<AddressLimit>,
    /// Data packets of it came, and what follows from them waits for the last of those that came
    /// together.
    unsettled: Option<SessionId>,
    /// Where packets are written that are not in a ring.
    scratch: Box<[u8]>,
    pub(crate) events: VecDeque<Event>,
    /// Bytes of packets kept by all sessions.
    kept_bytes: usize,
    now: Instant,
}

impl<B: Buffer> Transport<B> {
    /// A transport without sessions. All its randomness (session ids, cookies' key, first packet
    /// numbers) comes from `seed`, which strangers must not guess. Settings out of bounds are moved
    /// to the bound.
    pub fn new(config: Config, seed: impl Into<Seed>) -> Self {
        let config = config.bounded();
        let seed = seed.into();
        //= P-HAND-12
        let mut keys = seed.stream(Purpose::CookieKey);
        let key = [keys.next_u64(), keys.next_u64()];
        Self {
            statistics: Statistics::default(),
            baker: Baker::new(key, config.cookie_time),
            places: Places::new(config.sessions_max),
            timers: Timers::new(),
            by_peer: BTreeMap::new(),
            by_path: BTreeMap::new(),
            openings: Vec::new(),
            halves: Vec::new(),
            attempt: 0,
            transmit: VecDeque::new(),
            deliver: VecDeque::new(),
            joining: VecDeque::new(),
            joining_until: Instant::NEVER,
            answers: Answers::new(config.answers_per_second),
            key_handshakes: config.keys.as_ref().map(|_| AddressLimit::new(&seed, config.handshakes_per_address(), config.handshakes_of_all())),
            key_rng: seed.stream(Purpose::Ephemeral),
            unsettled: None,
            scratch: vec![0; config.datagram_max].into_boxed_slice(),
            events: VecDeque::new(),
            kept_bytes: 0,
            now: Instant(0),
            rng: seed.stream(Purpose::Handshakes),
            config,
        }
    }

    /// Begins a session with the NIC at `to`, or takes the one that there is. Answered by
    /// [`Event::Up`] or [`Event::Failed`] with `context`; the session in `Up` is the one to use (it
    /// is another one than the id returned here when the NIC at `to` was already known under
    /// another address or began at the same time).
    ///
    /// # Errors
    /// [`Error::SessionsMax`].
    pub fn connect(&mut self, now: Instant, to: SocketAddr, context: u64) -> Result<SessionId, Error> {
        let now = self.advance(now);
        let to = plain(to);
        let known = self.by_path.range((to, 0)..=(to, u64::MAX)).map(|(_, id)| *id);
        let places = &self.places;
        // Of the two ends of a session with oneself, the one that began.
        let is_usable = |id: &SessionId| places.live_ref(*id).is_some_and(|s| s.stage == Stage::Up && (s.peer != self.config.nic || !s.incoming));
        if let Some(id) = known.into_iter().find(is_usable) {
            self.tell_up(id, Some(context));
            return Ok(id);
        }
        let same = self.openings.iter().copied().find(|id| places.opening_ref(*id).is_some_and(|o| o.to == to));
        if let Some(opening) = same.and_then(|id| self.places.opening(id)) {
            opening.contexts.push(context);
            return Ok(opening.id);
        }
        let id = self.begin(now, to, context).ok_or(Error::SessionsMax)?;
        if self.config.keys.is_some() {
            self.begin_auth(id);
        }
        Ok(id)
    }

    /// Ends a session politely: sent frames are delivered first, and nothing more can be sent.
    /// [`Event::Down`] follows (or [`Event::Failed`] while it is being made).
    ///
    /// # Errors
    /// [`Error::NoSession`].
    pub fn close(&mut self, now: Instant, session: SessionId) -> Result<(), Error> {
        let now = self.advance(now);
        if self.places.opening_ref(session).is_some() {
            self.fail(session, FailReason::Closed);
            return Ok(());
        }
        let config = &self.config;
        let live = self.places.live(session).filter(|s| !s.is_down()).ok_or(Error::NoSession)?;
        live.close(config, now);
        self.touch(now, session.slot());
        Ok(())
    }

    /// Does what is due. Calling it early or late is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        self.end_joining(now);
        while let Some(slot) = self.timers.expire(now) {
            self.alarm(now, slot);
        }
    }

    /// Has the acknowledgement that is due next leave now, if it is due within the delay of
    /// acknowledgements. For a caller that is about to sleep, and would wake for it alone. When the
    /// packets have left, it says so by [`has_hastened`](Self::has_hastened).
    pub fn hasten_acknowledgement(&mut self, now: Instant) -> Option<SessionId> {
        let now = self.advance(now);
        let slot = self.timers.soonest()?;
        let live = self.places.live_at(slot).filter(|live| !live.is_down())?;
        if !live.ack.hasten(&self.config, now) {
            return None;
        }
        let id = live.id;
        self.queue_transmit(slot);
        Some(id)
    }

    /// The acknowledgement that was hastened has left, so nobody need wake for it.
    pub fn has_hastened(&mut self, now: Instant, session: SessionId) {
        if self.places.live(session).is_some() {
            self.timers.set(session.slot(), Instant::NEVER);
            self.touch(now, session.slot());
        }
    }

    fn alarm(&mut self, now: Instant, slot: usize) {
        match self.places.at(slot) {
            Place::Free => {}
            Place::Opening(opening) => {
                let id = opening.id;
                if opening.is_over(now, &self.config) {
                    let reason = opening.rejected.unwrap_or(FailReason::NoAnswer);
                    self.fail(id, reason);
                } else {
                    self.arm_opening(now, id);
                }
            }
            Place::Half(half) => {
                let (id, until) = (half.id, half.until);
                if until <= now {
                    self.drop_half(id);
                } else {
                    self.timers.set(slot, until);
                }
            }
            Place::Live(session) => {
                let id = session.id;
                let ended = session.timeout(&mut Context { config: &self.config, statistics: &mut self.statistics, now });
                match ended {
                    Some(reason) => self.end(id, reason),
                    None => self.touch(now, slot),
                }
            }
        }
    }

    /// When [`Transport::handle_timeout`] is to be called at the latest; may be early by a turn of
    /// the timing wheel, never late. [`Instant::NEVER`] when nothing waits.
    pub fn next_timeout(&self) -> Instant {
        self.timers.next().min(self.joining_until)
    }

    /// Sends a frame: 1 to 8 words of head and `payload_len` bytes that `fill` writes straight into
    /// the transmit ring (all of them, they hold old bytes; or it says that it cannot). The first
    /// word of the head is not zero. Frames of one `stream` arrive in order. `fill` is called only
    /// when the answer is [`Sent::Yes`]. The packet leaves by [`Transport::poll_transmit`]; until
    /// then, later small frames join it; while others are under way, it waits a little for such.
    ///
    /// # Panics
    /// If `head` has no word or more than eight.
    #[inline]
    pub fn send(&mut self, now: Instant, session: SessionId, stream: u32, head: &[u64], payload_len: usize, fill: impl FnOnce(&mut [u8]) -> bool) -> Sent {
        self.advance(now);
        let Some(live) = self.places.live(session).filter(|s| s.stage == Stage::Up) else { return Sent::Broken };
        let sent = live.tx.write(&self.config, live.mtu.in_ring(), stream, head, payload_len, fill);
        match sent {
            Sent::Yes | Sent::Unfilled => {
                self.statistics.frames_out += 1;
                // One of many short ones: it leaves with those that wait already.
                if !live.tx.joining.noted || !live.tx.is_joinable(self.config.join_bytes_max) {
                    self.queue_transmit(session.slot());
                }
            }
            Sent::NoRoom => live.wants_room = true,
            Sent::TooLong | Sent::Broken => {}
        }
        sent
    }

    /// Whether more frames follow at once upon the last one sent: then a short run of packets may
    /// wait for them (P-CONG-6).
    pub fn set_more(&mut self, session: SessionId, more: bool) {
        if let Some(live) = self.places.live(session) {
            live.tx.more = more;
            live.tx.joining.lengthen();
        }
    }

    /// The largest payload that a frame with so many head words can have at present; zero when the
    /// session is not up. A stream of such frames travels as packets of equal size, which is what
    /// segmentation offload wants.
    pub fn payload_max(&self, session: SessionId, head_words: usize) -> usize {
        let overhead = crate::config::DATA_HEADER + crate::config::FRAME_HEADER + head_words * 8;
        self.places.live_ref(session).filter(|s| s.stage == Stage::Up).map_or(0, |s| s.mtu.current().saturating_sub(overhead))
    }

    /// The payload that the next frame of `stream` with so many head words should have, if it is
    /// one of many: the rest of a packet that has been begun, if that is at least `least`, else
    /// [`payload_max`](Self::payload_max). So all packets of a stream of messages are of one size,
    /// and leave in whole runs.
    pub fn payload_next(&self, session: SessionId, stream: u32, head_words: usize, least: usize) -> usize {
        let frame = crate::config::FRAME_HEADER + head_words * 8;
        let Some(live) = self.places.live_ref(session).filter(|s| s.stage == Stage::Up) else { return 0 };
        let left = live.tx.begun(live.mtu.in_ring(), stream).map_or(0, |left| left.saturating_sub(frame));
        if left >= least { left } else { live.mtu.current().saturating_sub(crate::config::DATA_HEADER + frame) }
    }

    /// A session that has something to deliver, if any. The same one until it has nothing more.
    #[inline]
    pub fn next_delivery(&self) -> Option<SessionId> {
        let slot = usize::from(*self.deliver.front()?);
        self.places.id_at(slot)
    }

    /// Whether a session may have something to deliver; costs less than to ask for it.
    #[inline]
    pub fn has_delivery(&self, session: SessionId) -> bool {
        self.places.queued.get(session.slot()).is_some_and(|queued| queued.deliver)
    }

    /// The next packet of a session whose predecessors have been delivered. Taking it accepts it:
    /// it will be acknowledged, unless [`Transport::refuse`] comes before the next `poll_deliver`
    /// of that session and before the next [`Transport::poll_transmit`].
    #[inline]
    pub fn poll_deliver(&mut self, session: SessionId) -> Option<Delivery<B>> {
        let live = self.places.live(session)?;
        let before = live.rx.bytes();
        let delivery = live.rx.deliver(session);
        if delivery.is_some() {
            live.ack.delivered(&self.config, self.now);
            self.statistics.data_in += 1;
            self.timers.set_earlier(session.slot(), live.ack.deadline());
        }
        self.kept_bytes -= before - live.rx.bytes();
        if !live.rx.has_ready() {
            self.unqueue_deliver(session.slot());
        }
        delivery
    }

    /// Takes back the acceptance of the delivery fetched last: the sender is told `reason`, and
    /// sends the packet again later if that may pass; otherwise its frames return to it. `consumed`
    /// frames at its beginning (of those that [`Delivery::frames`] showed) were accepted all the
    /// same, and will not be shown again.
    ///
    /// # Errors
    /// [`Error::TooLate`] when the packet may have been acknowledged already; [`Error::NoSession`].
    pub fn refuse(&mut self, now: Instant, delivery: Delivery<B>, consumed: usize, reason: Refusal) -> Result<(), Error> {
        self.advance(now);
        let consumed = delivery.skip.saturating_add(u16::try_from(consumed).unwrap_or(u16::MAX));
        let live = self.places.live(delivery.session).filter(|s| !s.is_down()).ok_or(Error::NoSession)?;
        if !live.rx.refuse(delivery.psn, delivery.timestamp, consumed) {
            return Err(Error::TooLate);
        }
        let (to, ready) = (live.address, live.rx.has_ready());
        let nack = Nack { session: live.peer_id, psn: delivery.psn, reason, echo: delivery.timestamp, consumed };
        self.statistics.data_in -= 1;
        self.statistics.nacks_out += 1;
        self.answer_on(delivery.session, to, &Packet::Nack(nack));
        if !ready {
            self.unqueue_deliver(delivery.session.slot());
        }
        Ok(())
    }

    /// Whether [`Transport::poll_event`] has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        match event {
            Event::Refused { session, reason } => {
                // The latest reason, whatever it was when the event was put here.
                let reason = self.places.live(session).and_then(|s| s.refusal.take()).unwrap_or(reason);
                Some(Event::Refused { session, reason })
            }
            Event::Down { session, .. } => {
                self.release(session);
                Some(event)
            }
            _ => Some(event),
        }
    }

    /// The next frame that came back: after [`Event::Down`] each frame that is not known to be
    /// delivered, after [`Event::Returned`] those that were refused for good. In the order of
    /// sending. After `Down`, the session's place is free when this gives `None`.
    pub fn poll_returned(&mut self, session: SessionId) -> Option<Returned> {
        let live = self.places.live(session)?;
        let returned = live.next_returned();
        self.statistics.frames_returned += u64::from(returned.is_some());
        if returned.is_none() {
            self.release(session);
        }
        returned
    }

    /// Takes back the frames that `wanted` picks by their heads, as far as they are known not to
    /// have been delivered: their packet has not left, or the peer has refused its latest
    /// transmission and it has not left again. Of those that it picks and cannot take back it tells
    /// how many there are; each is answered in time, then this can be tried again. Later frames of
    /// the same stream may be delivered although earlier ones were taken back. Goes through all
    /// packets of the session.
    ///
    /// # Errors
    /// [`Error::NoSession`]; when the session is down, [`Transport::poll_returned`] has all of
    /// them.
    pub fn recall(&mut self, now: Instant, session: SessionId, mut wanted: impl FnMut(&Head) -> bool) -> Result<Recalled, Error> {
        let now = self.advance(now);
        let live = self.places.live(session).filter(|s| !s.is_down()).ok_or(Error::NoSession)?;
        let recalled = live.recall(now, &mut wanted);
        self.statistics.frames_returned += recalled.frames.len() as u64;
        if !recalled.frames.is_empty() {
            self.touch(now, session.slot());
        }
        Ok(recalled)
    }

    /// Frees the place of a session that is down and has given everything back.
    fn release(&mut self, session: SessionId) {
        if self.places.live(session).is_some_and(|s| s.is_down() && !s.has_returned()) {
            self.places.remove(session);
        }
    }

    /// Says whether something depends on the session (a connected VI): then silence is tried with
    /// PINGs, and an unreachable peer is found out although nothing is being sent.
    pub fn set_depended(&mut self, now: Instant, session: SessionId, depended: bool) {
        let now = self.advance(now);
        if let Some(live) = self.places.live(session) {
            live.life.depended = depended;
            self.touch(now, session.slot());
        }
    }

    /// The network said that a datagram of `bytes` to `to` is too large for the path.
    pub fn handle_too_big(&mut self, now: Instant, to: SocketAddr, bytes: usize) {
        let now = self.advance(now);
        let to = plain(to);
        let ids: Vec<SessionId> = self.by_path.range((to, 0)..=(to, u64::MAX)).map(|(_, id)| *id).collect();
        for id in ids {
            if let Some(live) = self.places.live(id) {
                self.statistics.black_holes += u64::from(live.mtu.too_big(now, bytes));
                self.touch(now, id.slot());
            }
        }
    }

    /// The network said that nobody is at `to` (ICMP port unreachable).
    pub fn handle_refused(&mut self, now: Instant, to: SocketAddr) {
        let now = self.advance(now);
        let to = plain(to);
        let ids: Vec<SessionId> = self.by_path.range((to, 0)..=(to, u64::MAX)).map(|(_, id)| *id).collect();
        for id in ids {
            let Some(live) = self.places.live(id) else { continue };
            live.life.refused(now);
            if live.life.is_gone(&self.config) {
                self.end(id, DownReason::PeerGone);
            } else {
                self.touch(now, id.slot());
            }
        }
    }

    /// A session is over: everything of it that others could find is gone, and its frames wait to
    /// be fetched.
    pub(crate) fn end(&mut self, id: SessionId, reason: DownReason) {
        let Some(live) = self.places.live(id).filter(|s| !s.is_down()) else { return };
        self.kept_bytes -= live.rx.bytes();
        live.down(reason);
        let (peer, path) = (live.peer, (live.address, live.peer_id));
        self.statistics.sessions_down += 1;
        self.by_path.remove(&path);
        for key in [(peer, false), (peer, true)] {
            if self.by_peer.get(&key) == Some(&id) {
                self.by_peer.remove(&key);
            }
        }
        self.timers.set(id.slot(), Instant::NEVER);
        self.unqueue_deliver(id.slot());
        self.events.push_back(Event::Down { session: id, reason });
    }

    /// The place may have packets to be sent.
    #[inline]
    pub(crate) fn queue_transmit(&mut self, slot: usize) {
        let queued = &mut self.places.queued[slot].transmit;
        if !*queued {
            *queued = true;
            self.transmit.push_back(slot as u16);
        }
    }

    #[inline]
    fn unqueue_deliver(&mut self, slot: usize) {
        if !core::mem::take(&mut self.places.queued[slot].deliver) {
            return;
        }
        if self.deliver.front() == Some(&(slot as u16)) {
            self.deliver.pop_front();
        } else {
            self.deliver.retain(|s| usize::from(*s) != slot);
        }
    }

    /// Something about a session changed: it is queued if it has output, and its alarm is set.
    pub(crate) fn touch(&mut self, now: Instant, slot: usize) {
        let Some(session) = self.places.live_at(slot) else { return };
        let context = Context { config: &self.config, statistics: &mut self.statistics, now };
        let has_output = session.has_output(&context);
        // An alarm in the past would ring for ever.
        let deadline = session.deadline(&self.config, now);
        let deadline = if deadline <= now { Instant(now.0 + 1) } else { deadline };
        self.timers.set_earlier(slot, deadline);
        if has_output {
            self.queue_transmit(slot);
        }
    }

    /// Time does not go backward.
    #[inline]
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Places that are taken: sessions up, being made, or down with something to be fetched.
    pub fn sessions(&self) -> usize {
        self.places.count()
    }

    /// The counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The state of a session that is up or closing.
    pub fn session_info(&self, session: SessionId) -> Option<SessionInfo> {
        self.places.live_ref(session).filter(|s| !s.is_down()).map(|s| s.info(&self.config))
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// An address without what says nothing about where it is.
#[inline]
fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(a) => SocketAddrV6::new(*a.ip(), a.port(), 0, a.scope_id()).into(),
    }
}
