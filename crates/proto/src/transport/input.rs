// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input: a packet is read and checked, its session is found, and the session takes it.

use super::{Transport, plain};
use crate::delivery::Buffer;
use crate::event::{DownReason, Event};
use crate::ids::SessionId;
use crate::packet::data::{Answer, Data};
use crate::packet::header::{self, Kind};
use crate::packet::{Close, CloseAck, Packet, Ping, Pong, Reset};
use crate::places::Place;
use crate::rx_window::Arrival;
use crate::session::{Arrived, Context, Session};
use bellwire_time::Instant;
use core::net::SocketAddr;

/// A packet's place in the sender's numbering, for a RESET.
pub(super) struct Trace {
    pub(super) kind: Kind,
    pub(super) word: u32,
    pub(super) length: usize,
}

impl<B: Buffer> Transport<B> {
    /// Takes one datagram. It is hostile until shown otherwise; its errors are counted.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, from: SocketAddr, buffer: B) {
        self.handle_joined(now, from, buffer);
        self.settle_data(now, None);
    }

    /// As [`handle_packet`](Self::handle_packet), for one of several that came together, but not
    /// the last of them: the consequences are handled once, after the last.
    #[inline]
    pub fn handle_joined(&mut self, now: Instant, from: SocketAddr, buffer: B) {
        let now = self.advance(now);
        let from = plain(from);
        let bytes = buffer.as_ref();
        let length = bytes.len();
        self.statistics.packets_in += 1;
        self.statistics.bytes_in += length as u64;
        //= P-HEAD-5
        if header::kind_of(bytes) == Ok(Kind::Data) {
            match Data::parse(bytes) {
                Ok(data) => {
                    let arrival =
                        Arrival { psn: data.psn, stream_back: data.stream_back, ordered: data.ordered, timestamp: data.timestamp, is_empty: data.count == 0 };
                    let arrived = Arrived { arrival, ack_now: data.ack_now, answer: data.answer };
                    let session = SessionId(data.session);
                    self.handle_data(now, from, session, arrived, buffer, length);
                }
                Err(e) => self.handle_sealed(now, from, buffer, e),
            }
            return;
        }
        match Packet::parse(bytes) {
            Ok(packet) => self.handle_other(now, from, &packet, length),
            Err(e) => self.handle_sealed(now, from, buffer, e),
        }
    }

    #[inline]
    pub(super) fn handle_data(&mut self, now: Instant, from: SocketAddr, id: SessionId, arrived: Arrived, buffer: B, length: usize) {
        let trace = Trace { kind: Kind::Data, word: arrived.arrival.psn, length };
        if !self.is_current(now, from, id, &trace) {
            return;
        }
        let memory = self.config.kept_bytes_total_max.saturating_sub(self.kept_bytes);
        let Some(session) = self.places.live(id) else { return };
        let before = session.rx.bytes();
        let mut context = Context { config: &self.config, statistics: &mut self.statistics, now };
        session.data(&mut context, arrived, buffer, memory);
        self.kept_bytes = self.kept_bytes + session.rx.bytes() - before;
        let ready = session.rx.has_ready();
        self.settle_data(now, Some(id));
        let queued = &mut self.places.queued[id.slot()].deliver;
        if ready && !*queued {
            *queued = true;
            self.deliver.push_back(id.slot() as u16);
        }
    }

    /// Data packets of `next` came and will be settled; those of another session before them are
    /// now.
    #[inline]
    fn settle_data(&mut self, now: Instant, next: Option<SessionId>) {
        if self.unsettled != next
            && let Some(id) = core::mem::replace(&mut self.unsettled, next)
        {
            self.settle(now, id);
        }
    }

    /// After a packet: output is queued, alarms are set, and events are told.
    #[inline]
    fn settle(&mut self, now: Instant, id: SessionId) {
        let Some(session) = self.places.live(id) else { return };
        let context = Context { config: &self.config, statistics: &mut self.statistics, now };
        let output = session.has_output(&context);
        self.timers.set_earlier(id.slot(), session.ack.deadline().min(session.tx.early_deadline()).max(Instant(now.0 + 1)));
        if session.wants_room && session.tx.has_room(&self.config, session.mtu.current()) {
            session.wants_room = false;
            self.events.push_back(Event::Room { session: id });
        }
        if output {
            self.queue_transmit(id.slot());
        }
    }

    /// Whether the packet belongs to a session that is up, and came from where its packets come
    /// from. The first packet of one that is half made makes it whole.
    //= P-HEAD-3
    #[inline]
    fn is_current(&mut self, now: Instant, from: SocketAddr, id: SessionId, trace: &Trace) -> bool {
        match self.places.get(id.slot()) {
            Some(Place::Live(s)) if s.plain_id == id && !s.is_down() => {
                if s.address == from {
                    return true;
                }
                self.statistics.implausible += 1;
                false
            }
            Some(Place::Half(h)) if h.id == id && h.address == from && h.auth.is_none() => {
                self.confirm(now, id);
                true
            }
            //= P-AUTH-6
            Some(Place::Live(s)) if s.id == id && !s.is_down() => {
                self.statistics.forged += 1;
                false
            }
            Some(Place::Half(h)) if h.id == id && h.address == from => {
                self.statistics.forged += 1;
                false
            }
            _ => {
                self.answer_reset(now, from, Reset { kind: trace.kind, word: trace.word, unknown: id.raw() }, trace.length);
                false
            }
        }
    }

    pub(super) fn handle_other(&mut self, now: Instant, from: SocketAddr, packet: &Packet<'_>, length: usize) {
        match packet {
            Packet::Data(_) => unreachable!("taken before"),
            Packet::Hello(p) => self.handle_hello(now, from, p),
            Packet::Cookie(p) => self.handle_cookie(now, from, p),
            Packet::Welcome(p) => self.handle_welcome(now, from, p),
            Packet::Reject(p) => self.handle_reject(now, from, p),
            Packet::Reset(p) => self.handle_reset(now, from, p),
            Packet::Ack(p) => {
                let trace = Trace { kind: Kind::Ack, word: p.ack, length };
                self.statistics.acks_in += 1;
                let answer = Answer { ack: Some(p.ack), echo: p.echo };
                self.on_session(now, from, p.session, &trace, |s, context| s.answered(context, &answer, Some(p)));
            }
            Packet::Nack(p) => {
                let trace = Trace { kind: Kind::Nack, word: p.psn, length };
                let (mut came_back, mut told) = (false, None);
                self.on_session(now, from, p.session, &trace, |s, context| {
                    let before = s.refusal;
                    came_back = s.returned.is_empty() & s.nack(context, p);
                    told = s.refusal.filter(|_| before.is_none());
                });
                let session = SessionId(p.session);
                self.events.extend(told.map(|reason| Event::Refused { session, reason }));
                self.events.extend(came_back.then_some(Event::Returned { session }));
                self.touch(now, session.slot());
            }
            Packet::Ping(p) => self.handle_ping(now, from, p),
            Packet::Pong(p) => self.handle_pong(now, from, p, length),
            Packet::Close(p) => self.handle_close(now, from, p, length),
            Packet::CloseAck(p) => self.handle_close_ack(from, p),
        }
    }

    fn on_session(&mut self, now: Instant, from: SocketAddr, id: u64, trace: &Trace, act: impl FnOnce(&mut Session<B>, &mut Context<'_>)) {
        let id = SessionId(id);
        if !self.is_current(now, from, id, trace) {
            return;
        }
        if let Some(session) = self.places.live(id) {
            session.life.heard(now);
            act(session, &mut Context { config: &self.config, statistics: &mut self.statistics, now });
            if session.is_done() {
                self.touch(now, id.slot());
            }
            self.settle(now, id);
        }
    }

    fn handle_ping(&mut self, now: Instant, from: SocketAddr, ping: &Ping) {
        let trace = Trace { kind: Kind::Ping, word: ping.token, length: ping.length };
        let id = SessionId(ping.session);
        if !self.is_current(now, from, id, &trace) {
            return;
        }
        let Some(session) = self.places.live(id) else { return };
        session.life.heard(now);
        //= P-LIFE-4
        let pong = Pong { session: session.peer_id, token: ping.token, echo: ping.timestamp, length: ping.length as u32 };
        self.answer_on(id, from, &Packet::Pong(pong));
        self.touch(now, id.slot());
    }

    fn handle_pong(&mut self, now: Instant, from: SocketAddr, pong: &Pong, length: usize) {
        let trace = Trace { kind: Kind::Pong, word: pong.token, length };
        self.on_session(now, from, pong.session, &trace, |s, context| s.pong(context, pong));
        self.touch(now, SessionId(pong.session).slot());
    }

    /// The peer's end. It had everything acknowledged that it sent.
    fn handle_close(&mut self, now: Instant, from: SocketAddr, close: &Close, length: usize) {
        let id = SessionId(close.session);
        let trace = Trace { kind: Kind::Close, word: close.psn, length };
        if !self.is_current(now, from, id, &trace) {
            return;
        }
        let Some(session) = self.places.live(id) else { return };
        //= P-CLOSE-2
        session.rx.decide();
        if close.own != session.peer_id || close.psn != session.rx.accepted() {
            self.statistics.implausible += 1;
            return;
        }
        let ack = CloseAck { session: session.peer_id, psn: close.psn };
        let reason = if session.is_done() { DownReason::Closed } else { DownReason::PeerClosed };
        self.answer_on(id, from, &Packet::CloseAck(ack));
        self.end(id, reason);
    }

    fn handle_close_ack(&mut self, from: SocketAddr, ack: &CloseAck) {
        let id = SessionId(ack.session);
        //= P-CLOSE-3
        let is_answer = self.places.live(id).is_some_and(|s| s.plain_id == id && s.is_done() && s.address == from && s.tx.end == ack.psn);
        if is_answer {
            self.end(id, DownReason::Closed);
        } else {
            self.statistics.unknown_session += 1;
        }
    }

    /// The peer knows nothing of the session.
    fn handle_reset(&mut self, now: Instant, from: SocketAddr, reset: &Reset) {
        let known = self.by_path.get(&(from, reset.unknown)).copied();
        let Some((id, session)) = known.and_then(|id| Some((id, self.places.live(id)?))) else {
            self.statistics.unknown_session += 1;
            return;
        };
        //= P-RESET-3
        if !session.believes_reset(reset.kind == Kind::Data, reset.word) {
            self.statistics.implausible += 1;
            return;
        }
        let reason = if session.is_done() { DownReason::Closed } else { DownReason::PeerForgot };
        //= P-AUTH-10
        if session.seal.is_some() {
            session.life.refused(now);
            if !session.life.is_gone(&self.config) {
                return self.touch(now, id.slot());
            }
        }
        self.statistics.resets_in += 1;
        self.end(id, reason);
    }
}
