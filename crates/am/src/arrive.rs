// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages arrive: what lies in the inbox is parsed, checked, and given to whoever runs handlers.

use crate::connection::{ConnectionId, Role};
use crate::core::{Core, EndpointId, place};
use crate::endpoint::Slot;
use crate::header::{HEAD_WORDS_MAX, Head, Kind, parse};
use crate::name::{Ask, Name};
use crate::payload::Place;
use crate::status::{Operation, Returned, Status};
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Notice, Taken};

/// A message for a handler, which has been taken out of its slot.
#[derive(Debug)]
pub(crate) struct Delivery<H> {
    pub handler: H,
    pub connection: ConnectionId,
    pub endpoint: EndpointId,
    pub source: Name,
    pub tag: u64,
    pub head: Head,
    pub place: Place,
    /// Where in `place` the payload begins.
    pub start: usize,
}

impl<H> Delivery<H> {
    /// The handler, and the rest.
    #[inline]
    pub(crate) fn split(self) -> (H, Delivery<()>) {
        let Self { handler, connection, endpoint, source, tag, head, place, start } = self;
        (handler, Delivery { handler: (), connection, endpoint, source, tag, head, place, start })
    }

    pub(crate) fn is_request(&self) -> bool {
        matches!(self.head.kind, Kind::Short | Kind::Medium)
    }
}

/// What a look at the inbox found.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(crate) enum Step<H> {
    Nothing,
    /// Something that no handler hears of.
    Moved,
    Run(Delivery<H>),
    /// A message came back; the error handler, if there is one.
    Return(EndpointId, Option<H>, Returned),
}

impl<H> Core<H> {
    /// One look: sends what waits, takes the next thing.
    #[inline]
    pub(crate) fn step<W: Wire>(&mut self, engine: &mut Engine<W>) -> Step<H> {
        if !self.unsent.is_empty() {
            self.send_waiting(engine);
        }
        if let Some((endpoint, returned)) = self.returns.pop_front() {
            return self.give_back(endpoint, returned);
        }
        let mut line: LineWords = [0; 7];
        match engine.take(self.inbox, &mut line) {
            None => {
                if !self.untold.is_empty() {
                    self.tell(engine);
                }
                Step::Nothing
            }
            Some(Taken::Line(context, length)) => self.message(engine, context, &line, Place::Line(line, length as usize)),
            Some(Taken::Kept(context, kept)) => {
                let mut words = [0; HEAD_WORDS_MAX];
                let place = Place::Kept(kept);
                place.words(&mut words);
                self.message(engine, context, &words, place)
            }
            Some(Taken::Waited(context, data)) => {
                let mut words = [0; HEAD_WORDS_MAX];
                let place = Place::Owned(data);
                place.words(&mut words);
                self.message(engine, context, &words, place)
            }
            Some(Taken::Notice(context, vi, notice)) => {
                let id = ConnectionId::from_raw(context as u32);
                match notice {
                    Notice::Connected(outcome) => self.connected(engine, id, outcome),
                    Notice::Accepted(_, remote) => self.accepted(engine, vi, Ask::parse(&remote)),
                    Notice::Broken => self.broken(engine, id, Status::Unreachable),
                }
                Step::Moved
            }
        }
    }

    #[cold]
    fn give_back(&mut self, id: EndpointId, returned: Returned) -> Step<H> {
        let handler = self.endpoints.get_mut(place(id)).and_then(|endpoint| {
            endpoint.counters.returned += 1;
            take_out(&mut endpoint.handlers[0])
        });
        Step::Return(id, handler, returned)
    }

    #[inline]
    fn message<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, words: &[u64], place: Place) -> Step<H> {
        let id = ConnectionId::from_raw(context as u32);
        let mut head = Head::new(Kind::Ack, 0, &[]);
        let start = parse(words, place.len(), &mut head);
        let role = self.connections.get(id).map(|c| c.role);
        let step = match (role, start, head.kind) {
            (Some(Role::Server), Some(start), Kind::Short | Kind::Medium) => return self.request_arrived(engine, id, head, place, start),
            (Some(Role::Client { .. }), Some(start), Kind::ReplyShort | Kind::ReplyMedium) => return self.reply_arrived(engine, id, head, place, start),
            (Some(Role::Client { .. }), Some(_), Kind::Ack | Kind::Returned) => self.told(id, &head),
            _ => false,
        };
        place.give_back(engine, self.inbox);
        if !step {
            self.malformed(engine, id);
        }
        Step::Moved
    }

    /// A count from the server, and perhaps a request that it sent back. `false`: it cannot be.
    fn told(&mut self, id: ConnectionId, head: &Head) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return true };
        let Some(more) = connection.acknowledge(head.handled) else { return false };
        if head.kind == Kind::Returned {
            if more == 0 {
                return false;
            }
            let returned = connection.returned(head.handled.wrapping_sub(1), Status::from_bits(head.handler));
            self.returns.push_back((connection.endpoint, returned));
        }
        true
    }

    #[inline]
    fn request_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, head: Head, at: Place, start: usize) -> Step<H> {
        let Some(connection) = self.connections.get_mut(id) else { return Step::Moved };
        let (endpoint_id, tag, source) = (connection.endpoint, connection.tag, connection.peer);
        let wrong = match self.endpoints.get_mut(place(endpoint_id)) {
            None => Status::BadEndpoint,
            Some(endpoint) if !endpoint.accepts(tag) => Status::BadTag,
            Some(endpoint) => match take_handler(endpoint, head.handler) {
                None => Status::BadHandler,
                Some(handler) => {
                    endpoint.counters.requests_received[usize::from(head.kind == Kind::Medium)] += 1;
                    endpoint.counters.bytes_received += (at.len() - start) as u64;
                    return Step::Run(Delivery { handler, connection: id, endpoint: endpoint_id, source, tag, head, place: at, start });
                }
            },
        };
        connection.handled = connection.handled.wrapping_add(1);
        if let Some(endpoint) = self.endpoints.get_mut(place(endpoint_id)) {
            endpoint.counters.refused += 1;
        }
        at.give_back(engine, self.inbox);
        let _ = self.answer(engine, id, &mut Head::new(Kind::Returned, wrong as u8, &[]), &[]);
        Step::Moved
    }

    #[inline]
    fn reply_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, head: Head, at: Place, start: usize) -> Step<H> {
        let Some(connection) = self.connections.get_mut(id) else { return Step::Moved };
        if connection.acknowledge(head.handled).is_none_or(|more| more == 0) {
            at.give_back(engine, self.inbox);
            self.malformed(engine, id);
            return Step::Moved;
        }
        let (endpoint_id, tag, source) = (connection.endpoint, connection.tag, connection.peer);
        let Some(endpoint) = self.endpoints.get_mut(place(endpoint_id)) else { return Step::Moved };
        let is_medium = head.kind == Kind::ReplyMedium;
        let Some(handler) = take_handler(endpoint, head.handler) else {
            // The server cannot be told any more; whoever asked is.
            let mut returned = connection.returned(head.handled.wrapping_sub(1), Status::ReplyRejected);
            returned.operation = if is_medium { Operation::ReplyMedium } else { Operation::Reply };
            (returned.handler, returned.arg_count, returned.args) = (head.handler, head.arg_count, head.args);
            (returned.source, returned.length) = (0, at.len() - start);
            self.returns.push_back((endpoint_id, returned));
            at.give_back(engine, self.inbox);
            return Step::Moved;
        };
        endpoint.counters.replies_received[usize::from(is_medium)] += 1;
        endpoint.counters.bytes_received += (at.len() - start) as u64;
        Step::Run(Delivery { handler, connection: id, endpoint: endpoint_id, source, tag, head, place: at, start })
    }
}

#[inline]
fn take_handler<H>(endpoint: &mut crate::endpoint::Endpoint<H>, index: u8) -> Option<H> {
    if index == 0 { None } else { take_out(&mut endpoint.handlers[usize::from(index)]) }
}

#[inline]
fn take_out<H>(slot: &mut Slot<H>) -> Option<H> {
    match core::mem::replace(slot, Slot::Out) {
        Slot::Here(handler) => Some(handler),
        other => {
            *slot = other;
            None
        }
    }
}
