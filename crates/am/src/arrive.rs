// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages arrive: a message in the inbox is parsed, checked, and given to the caller, who
//! runs its handler.

use crate::bulk::{BULK, GET};
use crate::connection::{ConnectionId, Role};
use crate::core::{Core, place};
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::header::{HEAD_WORDS_MAX, Head, Kind, SEGMENTS_AHEAD, of_bulk_word, parse, parse_short_line};
use crate::name::{Ask, EndpointId, Name};
use crate::payload::Place;
use crate::probe::{Probe, Stage, mark};
use crate::status::{Departed, Operation, Returned, Status};
use crate::tables::lies_within;
use bellwire_peer::Event;
use bellwire_via::inbox::LineWords;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, NetAddress, Notice, Taken, ViHandle};

impl Delivery {
    fn empty() -> Self {
        let (connection, endpoint) = (ConnectionId::from_raw(0), EndpointId::from_raw(0));
        Self { connection, endpoint, source: Name::NOBODY, tag: 0, head: Head::new(Kind::Ack, 0, &[]), place: None, start: 0, has_replied: false }
    }

    /// Notes where the message lies, if it has a payload or is to be given back.
    #[inline]
    fn lies(&mut self, place: Arriving<'_>, start: usize) {
        debug_assert!(self.place.is_none(), "the message before has been given back");
        match place {
            Arriving::Line(_, length) if length == start => {}
            place => self.place = Some(place.stay()),
        }
        self.start = start;
    }
}

/// Where a message lies that is looked at: in a line that the caller has, or where it will stay.
enum Arriving<'a> {
    Line(&'a LineWords, usize),
    There(Place),
}

impl Arriving<'_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Line(_, length) => *length,
            Self::There(place) => place.len(),
        }
    }

    #[inline]
    fn stay(self) -> Place {
        match self {
            Self::Line(line, length) => Place::Line(*line, length),
            Self::There(place) => place,
        }
    }
}

/// What a look at the inbox found.
#[derive(Debug)]
pub(crate) enum Step<H> {
    Nothing,
    /// Something that no handler hears of.
    Moved,
    Run(Box<Delivery>, H),
    /// A message came back; the error handler, if there is one.
    Return(EndpointId, Option<H>, Box<Returned>),
    /// A connection has ended, and somebody hears of it.
    Departure(EndpointId, H, Box<Departed>),
    /// Somebody has connected to an endpoint that is in another bundle by now, if anywhere.
    Elsewhere(ViHandle, u64, Box<NetAddress>),
}

impl<H> Core<H> {
    /// One look: sends what waits, takes the next thing.
    #[inline]
    pub(crate) fn step<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>) -> Step<H> {
        if !self.unsent.is_empty() {
            self.send_waiting(engine);
        }
        if !self.writing.is_empty() {
            self.finish_writes(engine);
        }
        if let Some((endpoint, returned)) = self.returns.pop_front() {
            return self.give_back(endpoint, returned);
        }
        if !self.departures.is_empty() {
            return self.tell_departure();
        }
        let mut line: LineWords = [0; 7];
        let taken = engine.take_noting(self.inbox, &mut line, || mark!(P, Found));
        match taken {
            None => {
                if !self.untold.is_empty() {
                    self.tell(engine);
                }
                Step::Nothing
            }
            Some(Taken::Line(context, length)) => self.message::<W, P>(engine, context, &line, Arriving::Line(&line, length as usize)),
            Some(Taken::Kept(context, kept)) => self.long_message::<W, P>(engine, context, Place::Kept(kept)),
            Some(Taken::Waited(context, data)) => {
                mark!(P, Found);
                self.count_copied(ConnectionId::from_raw(context as u32));
                self.long_message::<W, P>(engine, context, Place::Owned(data))
            }
            Some(Taken::Notice(context, vi, notice)) => self.notice(engine, context, vi, notice),
        }
    }

    #[cold]
    fn notice<W: Wire>(&mut self, engine: &mut Engine<W>, context: u64, vi: ViHandle, notice: Notice) -> Step<H> {
        let id_of = |context: u64| ConnectionId::from_raw(context as u32);
        // Both ends know the version by the kind of the address.
        match Event::of(None, engine, context, vi, notice) {
            Some(Event::Opened(context, offered)) => self.opened(engine, id_of(context), offered),
            Some(Event::Accepted(vi, remote)) => match Ask::parse(&remote) {
                Some(ask) if self.accepted(engine, vi, &ask) => {}
                Some(ask) => return Step::Elsewhere(vi, ask.wanted, remote),
                None => engine.end_vi(vi),
            },
            Some(Event::Over(context, death)) => self.broken(engine, id_of(context), death),
            None => {}
        }
        Step::Moved
    }

    fn long_message<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, context: u64, place: Place) -> Step<H> {
        let mut words = [0; HEAD_WORDS_MAX];
        place.words(&mut words);
        self.message::<W, P>(engine, context, &words, Arriving::There(place))
    }

    #[cold]
    fn give_back(&mut self, id: EndpointId, returned: Returned) -> Step<H> {
        let handler = self.endpoints.get_mut(place(id)).and_then(|endpoint| {
            endpoint.counters.returned += 1;
            endpoint.handlers.take_for_return()
        });
        Step::Return(id, handler, Box::new(returned))
    }

    #[cold]
    fn tell_departure(&mut self) -> Step<H> {
        let Some((endpoint, departed)) = self.departures.pop_front() else { return Step::Moved };
        let handler = self.endpoints.get_mut(place(endpoint)).and_then(|e| e.on_departure.take());
        handler.map_or(Step::Moved, |handler| Step::Departure(endpoint, handler, Box::new(departed)))
    }

    #[inline(always)]
    fn message<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, context: u64, words: &[u64], place: Arriving<'_>) -> Step<H> {
        mark!(P, Taken);
        let id = ConnectionId::from_raw(context as u32);
        let mut delivery = self.spare.take().unwrap_or_else(|| Box::new(Delivery::empty()));
        let start = match place {
            Arriving::Line(line, length) if parse_short_line(line, length, &mut delivery.head) => Some(length),
            _ => parse(words, place.len(), &mut delivery.head),
        };
        mark!(P, Parsed);
        let head = &delivery.head;
        let role = self.connections.get(id).map(|c| c.role);
        let Some(start) = start else { return self.control(engine, id, false, place.stay(), delivery) };
        let fine = match (role, head.kind) {
            (Some(Role::Server), Kind::Short | Kind::Medium | Kind::Xfer) => {
                delivery.lies(place, start);
                return self.request_arrived::<W, P>(engine, id, delivery);
            }
            (Some(Role::Client { .. }), Kind::ReplyShort | Kind::ReplyMedium | Kind::ReplyXfer) => {
                delivery.lies(place, start);
                return self.reply_arrived::<W, P>(engine, id, delivery);
            }
            (Some(Role::Client { .. }), Kind::Ack | Kind::Returned) => self.told(id, head),
            (Some(Role::Client { .. }), Kind::Closing) => self.closing(engine, id, head.handled),
            (Some(Role::Server), Kind::Get) => {
                self.get_arrived(engine, id, head);
                true
            }
            (Some(_), Kind::Segment) => self.heard_segment(id, head),
            _ => false,
        };
        self.control(engine, id, fine, place.stay(), delivery)
    }

    /// A message that no handler gets is done with.
    #[cold]
    fn control<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, fine: bool, place: Place, delivery: Box<Delivery>) -> Step<H> {
        self.spare = Some(delivery);
        self.give_up(engine, place);
        if !fine {
            self.malformed(engine, id);
        }
        Step::Moved
    }

    /// A message is no longer read.
    fn give_up<W: Wire>(&mut self, engine: &mut Engine<W>, place: Place) {
        place.give_back(engine, self.inbox);
    }

    /// The server's endpoint ends, having handled so many.
    fn closing<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, handled: u32) -> bool {
        let fine = self.connections.get_mut(id).is_none_or(|c| c.credits.acknowledge(handled).is_some());
        if fine {
            self.broken(engine, id, Status::BadEndpoint);
        }
        fine
    }

    /// A count from the server, and perhaps a request that it sent back. `false`: it cannot be.
    fn told(&mut self, id: ConnectionId, head: &Head) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return true };
        let Some(more) = connection.credits.acknowledge(head.handled) else { return false };
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
    fn request_arrived<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, id: ConnectionId, mut delivery: Box<Delivery>) -> Step<H> {
        let Some(connection) = self.connections.get_mut(id) else { return Step::Moved };
        connection.segments_left = SEGMENTS_AHEAD;
        (delivery.connection, delivery.endpoint, delivery.tag, delivery.source) = (id, connection.endpoint, connection.tag, connection.peer);
        delivery.has_replied = false;
        let wrong = match self.endpoints.get_mut(place(delivery.endpoint)) {
            None => Status::BadEndpoint,
            Some(endpoint) if !endpoint.accepts(delivery.tag) => Status::BadTag,
            Some(endpoint) => {
                if delivery.head.kind == Kind::Xfer && find_data(endpoint, connection.segments_told, &mut delivery) != Found::Whole {
                    Status::BadSegmentOffset
                } else if let Some(handler) = endpoint.handlers.take_for_message(delivery.head.handler) {
                    endpoint.counters.requests_received[size(delivery.head.kind)] += 1;
                    endpoint.counters.bytes_received += delivery.payload_len() as u64;
                    mark!(P, Chosen);
                    return Step::Run(delivery, handler);
                } else {
                    Status::BadHandler
                }
            }
        };
        connection.credits.has_handled();
        self.drop_delivery(engine, delivery);
        self.refuse(engine, id, wrong);
        Step::Moved
    }

    #[cold]
    fn drop_delivery<W: Wire>(&mut self, engine: &mut Engine<W>, mut delivery: Box<Delivery>) {
        if let Some(place) = delivery.place.take() {
            self.give_up(engine, place);
        }
        self.spare = Some(delivery);
    }

    #[inline]
    fn reply_arrived<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, id: ConnectionId, mut delivery: Box<Delivery>) -> Step<H> {
        let Some(connection) = self.connections.get_mut(id) else { return Step::Moved };
        connection.segments_left = SEGMENTS_AHEAD;
        (delivery.connection, delivery.endpoint, delivery.tag, delivery.source) = (id, connection.endpoint, connection.tag, connection.peer);
        let counts = connection.credits.acknowledge(delivery.head.handled).is_some_and(|more| more > 0);
        mark!(P, Credited);
        let Some(endpoint) = self.endpoints.get_mut(place(delivery.endpoint)) else { return Step::Moved };
        let is_bulk = delivery.head.kind == Kind::ReplyXfer;
        let found = if is_bulk { find_data(endpoint, connection.segments_told, &mut delivery) } else { Found::Whole };
        if !counts || found != Found::Whole {
            return self.reply_unfit(engine, id, delivery, counts && found == Found::Elsewhere);
        }
        let Some(handler) = endpoint.handlers.take_for_message(delivery.head.handler) else {
            return self.reply_rejected(engine, id, delivery, false);
        };
        let is_get = is_bulk && connection.returned(delivery.head.handled.wrapping_sub(1), Status::Unreachable).operation == Operation::Get;
        endpoint.counters.replies_received[if is_get { GET } else { size(delivery.head.kind) }] += 1;
        endpoint.counters.bytes_received += delivery.payload_len() as u64;
        mark!(P, Chosen);
        Step::Run(delivery, handler)
    }

    /// A reply whose data is not in the endpoint's segment, since that was replaced meanwhile
    /// (`is_late`); or one that cannot be.
    #[cold]
    fn reply_unfit<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, delivery: Box<Delivery>, is_late: bool) -> Step<H> {
        if is_late {
            return self.reply_rejected(engine, id, delivery, true);
        }
        self.drop_delivery(engine, delivery);
        self.malformed(engine, id);
        Step::Moved
    }

    /// The server cannot be told any more; the requester is. A get whose data came too late comes
    /// back itself.
    #[cold]
    fn reply_rejected<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, delivery: Box<Delivery>, is_late: bool) -> Step<H> {
        if let Some(connection) = self.connections.get(id) {
            let head = &delivery.head;
            let mut returned = connection.returned(head.handled.wrapping_sub(1), Status::ReplyRejected);
            if is_late && returned.operation == Operation::Get {
                returned.status = Status::BadSegmentOffset;
            } else {
                returned.operation = match head.kind {
                    Kind::ReplyXfer => Operation::ReplyXfer,
                    Kind::ReplyMedium => Operation::ReplyMedium,
                    _ => Operation::Reply,
                };
                (returned.handler, returned.arg_count, returned.args) = (head.handler, head.arg_count, head.args);
                returned.source = 0;
                returned.length = if head.kind == Kind::ReplyXfer { of_bulk_word(head.words[1]).0 as usize } else { delivery.payload_len() };
            }
            self.returns.push_back((delivery.endpoint, returned));
        }
        self.drop_delivery(engine, delivery);
        Step::Moved
    }
}

/// Index in the counters.
#[inline]
fn size(kind: Kind) -> usize {
    match kind {
        Kind::Medium | Kind::ReplyMedium => 1,
        Kind::Xfer | Kind::ReplyXfer => BULK,
        _ => 0,
    }
}

/// Where bulk data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Whole,
    /// In a segment that the endpoint has no more, or in part there.
    Elsewhere,
    Outside,
}

/// The message's place becomes its data in the endpoint's segment, as it is now. The peer was told
/// of so many segments.
fn find_data<H>(endpoint: &Endpoint<H>, told: u32, delivery: &mut Delivery) -> Found {
    let (offset, (length, heard)) = (delivery.head.words[0], of_bulk_word(delivery.head.words[1]));
    if heard != told && length > 0 {
        return Found::Elsewhere;
    }
    let Some(segment) = endpoint.segment.as_ref().filter(|s| lies_within(offset, length, s.length)) else { return Found::Outside };
    let at = core::ptr::with_exposed_provenance((segment.address + offset) as usize);
    let message = delivery.place.take().map(Box::new);
    delivery.place = Some(Place::Segment { at, length: length as usize, message });
    delivery.start = 0;
    Found::Whole
}
