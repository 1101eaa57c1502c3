// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of peers. A peer may send any: one that does not fit an identifier's state is answered
//! as InfiniBand does, or dropped.

use crate::cm::{Cm, IDS_MAX};
use crate::host::{Host, Link};
use crate::id::{Id, State};
use crate::message::{Kind, Message};
use crate::types::{Event, EventBody, EventKind, Parameters, QpKind, REJECTED_BY_CONSUMER, REJECTED_NO_SERVICE, REJECTED_STALE, Service};
use std::net::SocketAddr;

impl Cm {
    /// A message came by a link.
    pub fn message<H: Host>(&mut self, host: &mut H, link: Link, bytes: &[u8], now: u64) {
        self.now = now;
        let Some(message) = Message::parse(bytes) else { return };
        if !self.links.contains_key(&link) {
            return;
        }
        match message.kind {
            Kind::Request | Kind::Resolve => self.asked(host, link, message),
            Kind::Wait => {
                if let Some(number) = self.meant(link, &message)
                    && self.ids.get(&number).is_some_and(|id| id.state == State::Requested)
                {
                    self.wait(number);
                }
            }
            Kind::Reply => self.answered(host, link, message),
            Kind::Ready => {
                if let Some(number) = self.meant(link, &message)
                    && self.ids.get(&number).is_some_and(|id| id.state == State::Replied)
                {
                    self.established(host, number);
                }
            }
            Kind::Reject => self.refused(host, link, message),
            Kind::Leave => self.leaves(host, link, &message),
            Kind::Left => {
                if let Some(number) = self.meant(link, &message)
                    && self.ids.get(&number).is_some_and(|id| id.state == State::Leaving)
                {
                    self.left(host, number, 0);
                }
            }
            Kind::Resolved => self.resolved(host, link, message),
        }
    }

    /// The identifier that a message is for (I2).
    fn meant(&self, link: Link, message: &Message) -> Option<u32> {
        let id = self.ids.get(&message.to).filter(|id| id.link == Some(link))?;
        // The active side does not know the peer's identifier before the first answer.
        (id.remote == message.from || (id.remote == 0 && id.state == State::Requested)).then_some(message.to)
    }

    /// Answers a message that is for no identifier.
    fn answer<H: Host>(host: &mut H, link: Link, to: &Message, kind: Kind, reason: u32) {
        let answer = Message { kind, from: to.to, to: to.from, reason, parameters: Parameters::default(), ..to.clone() };
        host.send(link, &answer.store());
    }

    /// The listener that a request is for.
    fn listener(&self, service: Service, to: SocketAddr, kind: QpKind) -> Option<u32> {
        let ids = self.ports.get(&service)?.iter().filter_map(|n| self.ids.get(n).map(|id| (*n, id)));
        let fits = ids.filter(|(_, id)| id.state == State::Listening && (id.kind == QpKind::Datagram) == (kind == QpKind::Datagram));
        fits.map(|(n, id)| (id.fits(to.ip()), n)).filter(|(fit, _)| *fit != 0).max().map(|(_, n)| n)
    }

    /// A request for a connection, or for a service's queue pair.
    fn asked<H: Host>(&mut self, host: &mut H, link: Link, message: Message) {
        if message.from == 0 {
            return;
        }
        if let Some(number) = self.by_remote.get(&(link, message.from)).copied() {
            return self.asked_again(host, number);
        }
        let (refusal, reason) = if message.kind == Kind::Resolve { (Kind::Resolved, 1) } else { (Kind::Reject, REJECTED_NO_SERVICE) };
        let is_datagram = message.qp_kind == QpKind::Datagram;
        let listener = self.listener(message.service, message.destination, message.qp_kind).filter(|_| is_datagram == (message.kind == Kind::Resolve));
        let Some(listener) = listener else { return Self::answer(host, link, &message, refusal, reason) };
        let is_full = self.ids.len() >= IDS_MAX;
        let Some(listening) = self.ids.get_mut(&listener) else { return };
        if listening.backlog == 0 || is_full {
            let reason = if is_datagram { 2 } else { REJECTED_BY_CONSUMER };
            return Self::answer(host, link, &message, refusal, reason);
        }
        listening.backlog -= 1;
        let (channel, uid, space) = (listening.channel, listening.uid, listening.space);
        let (number, first) = (self.number(), (self.draw() & 0xff_ffff) as u32);
        let mut id = Id::new(channel, 0, space, message.qp_kind.of_peer());
        (id.state, id.unclaimed, id.has_device, id.is_passive) = (State::Asked, true, true, true);
        (id.source, id.destination) = (Some(message.destination), Some(message.source));
        (id.remote, id.numbers) = (message.from, (message.number, first));
        id.peer_gid = self.links.get(&link).map(|l| l.gid);
        id.theirs = message.parameters.clone();
        self.ids.insert(number, id);
        self.put_on(number, link);
        self.by_remote.insert((link, message.from), number);
        let body = self.body(number, message.parameters, message.kind.data_bytes());
        let event = Event { kind: EventKind::ConnectRequest, id: number, uid, status: 0, body, owner: listener };
        // A peer that waits for long asks again, and then hears that its request is here: to say it
        // at once would wake a thread of the peer for each connection.
        if !self.push(host, event) {
            self.end(host, number);
        }
    }

    /// A request that has an identifier already.
    fn asked_again<H: Host>(&mut self, host: &mut H, number: u32) {
        match self.ids.get(&number).map(|id| (id.state, id.kind)) {
            Some((State::Asked, kind)) if kind != QpKind::Datagram => self.say(host, number, Kind::Wait, 0, &[]),
            Some((State::Replied, _) | (State::Established, QpKind::Datagram)) => self.send_pending(host, number),
            _ => {}
        }
    }

    /// An event's body: what the peer said, as the program sees it. Resources are exchanged: what
    /// the peer serves at a time is what this side may issue.
    fn body(&self, number: u32, parameters: Parameters, bytes: usize) -> EventBody {
        let Some(id) = self.ids.get(&number) else { return EventBody::Nothing };
        let (responder_resources, initiator_depth) = (parameters.initiator_depth, parameters.responder_resources);
        let mut seen = Parameters { responder_resources, initiator_depth, ..parameters };
        // As devices have it: the room of the message, whatever of it was used.
        seen.data.resize(bytes, 0);
        match (id.kind, id.peer_gid) {
            (QpKind::Datagram, Some(gid)) => EventBody::Datagram(gid, Box::new(seen)),
            _ => EventBody::Connection(Box::new(seen)),
        }
    }

    /// The peer accepts.
    fn answered<H: Host>(&mut self, host: &mut H, link: Link, message: Message) {
        let Some(number) = self.meant(link, &message) else { return Self::answer(host, link, &message, Kind::Reject, REJECTED_STALE) };
        let Some(id) = self.ids.get_mut(&number) else { return };
        match id.state {
            State::Requested if id.kind != QpKind::Datagram => {
                (id.state, id.remote, id.numbers.0, id.pending) = (State::Answered, message.from, message.number, None);
                id.theirs = message.parameters.clone();
                self.settle(number);
                self.by_remote.insert((link, message.from), number);
                let body = self.body(number, message.parameters, Kind::Reply.data_bytes());
                self.tell(host, number, EventKind::ConnectResponse, 0, body);
            }
            // The confirmation was lost.
            State::Established => self.say(host, number, Kind::Ready, 0, &[]),
            _ => {}
        }
    }

    /// The peer refuses.
    fn refused<H: Host>(&mut self, host: &mut H, link: Link, message: Message) {
        // A peer that gives up before it was answered does not know our identifier.
        let number = self.meant(link, &message).or_else(|| self.by_remote.get(&(link, message.from)).copied().filter(|_| message.to == 0));
        let Some(number) = number else { return };
        let Some(id) = self.ids.get(&number) else { return };
        if id.kind == QpKind::Datagram && id.state != State::Asked {
            return;
        }
        let state = id.state;
        match state {
            State::Requested if message.reason == REJECTED_NO_SERVICE && self.looks_again(number) => {}
            State::Requested | State::Replied | State::Answered => {
                let body = self.body(number, message.parameters, Kind::Reject.data_bytes());
                self.finish(number, State::Over);
                self.tell(host, number, EventKind::Rejected, message.reason.min(i32::MAX as u32) as i32, body);
            }
            State::Asked => self.finish(number, State::Over),
            _ => {}
        }
    }

    /// The peer ends the connection.
    fn leaves<H: Host>(&mut self, host: &mut H, link: Link, message: &Message) {
        let Some(number) = self.meant(link, message) else { return Self::answer(host, link, message, Kind::Left, 0) };
        let Some(id) = self.ids.get_mut(&number) else { return };
        match id.state {
            State::Established if id.kind != QpKind::Datagram => self.part(host, number),
            State::Replied | State::Answered if id.kind != QpKind::Datagram => {
                (id.state, id.pending) = (State::Left, None);
                self.settle(number);
                self.tell(host, number, EventKind::Disconnected, 0, EventBody::Nothing);
            }
            State::Leaving => {
                self.say(host, number, Kind::Left, 0, &[]);
                self.left(host, number, 0);
            }
            _ => {}
        }
    }

    /// A service's queue pair, or why there is none.
    fn resolved<H: Host>(&mut self, host: &mut H, link: Link, message: Message) {
        let Some(number) = self.meant(link, &message) else { return };
        if !self.ids.get(&number).is_some_and(|id| id.state == State::Requested && id.kind == QpKind::Datagram) {
            return;
        }
        if message.reason == 1 && self.looks_again(number) {
            return;
        }
        let body = self.body(number, message.parameters, Kind::Resolved.data_bytes());
        if message.reason == 0 {
            self.finish(number, State::Established);
            self.tell(host, number, EventKind::Established, 0, body);
        } else {
            self.finish(number, State::Over);
            self.tell(host, number, EventKind::Unreachable, message.reason.min(i32::MAX as u32) as i32, body);
        }
    }
}
