// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages arrive: a completed receive is looked at, checked, and given to the caller, who
//! runs its handler. Requests are queued, so that a poll that may not run their handlers takes
//! answers from behind them.

use crate::carrying::{NO_DATA, Taken, Write, words};
use crate::core::Core;
use crate::delivery::Delivery;
use crate::head::{Head, Kind};
use crate::map::{Bulk, PeerSegment, State};
use crate::probe::{Off, Probe, Stage};
use crate::record::{Cut, Departed, Record, Returned, status_from};
use crate::vipl::Handle;
use bellwire_am::tables::lies_within;
use bellwire_am::{BULK_BYTES_MAX, Error, MEDIUM_BYTES_MAX, Operation, Status};
use bellwire_memory::bytes;

/// What a look found.
pub(crate) enum Step<H> {
    Nothing,
    /// Something that no handler hears of.
    Moved,
    Run(Delivery, H),
    /// A message came back; the error handler, if there is one.
    Return(u32, Option<H>, Box<Returned>),
    /// A connection has ended, and somebody hears of it.
    Departure(u32, H, Departed),
}

/// What a completed receive was.
enum Arrival<H> {
    Nothing,
    Moved,
    Request(Delivery),
    Reply(Delivery, H),
}

impl<H> Core<H> {
    /// One look: retires a send, takes the next thing that has come. Handlers of requests run only
    /// if `may_serve`.
    #[inline]
    pub(crate) fn step<P: Probe<Stage>>(&mut self, may_serve: bool) -> Result<Step<H>, Error> {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        if !self.pumping.is_empty() {
            self.pump_all();
        }
        self.retire::<P>(1);
        if let Some((endpoint, returned)) = self.returns.pop_front() {
            let handler = self.endpoints.get_mut(&endpoint).and_then(|endpoint| {
                endpoint.counters.returned += 1;
                endpoint.handlers.take_for_return()
            });
            return Ok(Step::Return(endpoint, handler, Box::new(returned)));
        }
        if let Some((endpoint, departed)) = self.departures.pop_front() {
            let handler = self.endpoints.get_mut(&endpoint).and_then(|e| e.on_departure.take());
            return Ok(handler.map_or(Step::Moved, |handler| Step::Departure(endpoint, handler, departed)));
        }
        let arrival = match self.ready.pop_front() {
            Some(delivery) => Some(self.sort::<P>(delivery)),
            None => self.next_receive::<P>()?.map(|found| self.arrive::<P>(found)),
        };
        if let Some(arrival) = arrival {
            match arrival {
                Arrival::Nothing if self.requests.is_empty() => return Ok(Step::Nothing),
                Arrival::Nothing => {}
                Arrival::Moved => return Ok(Step::Moved),
                Arrival::Reply(delivery, handler) => return Ok(Step::Run(delivery, handler)),
                Arrival::Request(delivery) => {
                    self.requests.push_back(delivery);
                    if !may_serve {
                        return Ok(Step::Moved);
                    }
                }
            }
        }
        if !may_serve {
            return Ok(Step::Nothing);
        }
        Ok(self.requests.pop_front().map_or(Step::Nothing, |delivery| self.serve::<P>(delivery)))
    }

    /// The VI of the next completed receive, and which of the queues it came by.
    #[inline]
    fn next_receive<P: Probe<Stage>>(&mut self) -> Result<Option<(Handle, usize)>, Error> {
        if let Some(found) = self.noticed.pop_front() {
            return Ok(Some(found));
        }
        for (at, queues) in self.queues.iter().enumerate() {
            let stray = if self.shares { queues.fetch(true, |vi| self.vis.contains_key(&vi)) } else { None };
            P::mark(Stage::Turned);
            let found = match stray {
                Some(vi) => Some(vi),
                None => self.shared.nic.cq_done(queues.receive).map_err(|_| Error::InUse)?,
            };
            P::mark(Stage::ReceivesLooked);
            if let Some(vi) = found {
                return Ok(Some((vi, at)));
            }
        }
        Ok(None)
    }

    /// Whether there is something that a step would do. It takes one entry off a completion queue
    /// and notes it.
    pub(crate) fn has_something(&mut self) -> Result<bool, Error> {
        if self.noticed.is_empty()
            && let Some(found) = self.next_receive::<Off>()?
        {
            self.noticed.push_back(found);
        }
        Ok(!(self.noticed.is_empty() && self.ready.is_empty() && self.requests.is_empty() && self.returns.is_empty() && self.departures.is_empty()))
    }

    fn arrive<P: Probe<Stage>>(&mut self, (vi, queue): (Handle, usize)) -> Arrival<H> {
        let Some((id, at)) = self.vis.get(&vi).copied() else {
            if self.shares
                && let Some(queues) = self.queues.get(queue)
            {
                queues.leave(vi, true);
            } else if self.maps.values().any(|map| map.state == State::Asking) {
                self.early.push(vi);
            }
            return Arrival::Nothing;
        };
        let Some(map) = self.maps.get_mut(&id) else { return Arrival::Nothing };
        let Some(lane) = map.lanes.get_mut(at) else { return Arrival::Nothing };
        let (receive, front, length) = match lane.take::<P>() {
            Taken::Nothing => return Arrival::Nothing,
            Taken::Moved => return Arrival::Moved,
            Taken::Ended => {
                self.broken(id);
                return Arrival::Moved;
            }
            Taken::Wrong => return self.malformed(id),
            Taken::Message { receive, at, length } => (receive, at, length),
        };
        // SAFETY: so many bytes are readable, as `Taken::Message` says.
        let words = unsafe { words(front) };
        let Some(head) = Head::parse(&words, length) else { return self.malformed(id) };
        P::mark(Stage::Read);
        let start = head.start();
        let delivery = Delivery {
            map: id,
            lane: at,
            receive: Some(receive),
            _memory: lane.keeper(),
            fetched: Vec::new(),
            endpoint: map.endpoint,
            source: map.peer,
            tag: head.tag,
            head,
            payload: front.wrapping_add(start),
            length: length - start,
            has_replied: false,
        };
        match head.kind {
            Kind::Segment => self.segment(&delivery),
            Kind::Heard => {
                lane.recycle::<Off>(receive);
                map.is_segment_out = false;
                if core::mem::take(&mut map.is_segment_new) {
                    self.tell_segment(id);
                }
                Arrival::Moved
            }
            // It waits for what its sender has told before.
            _ if (head.told.wrapping_sub(map.heard) as i16) > 0 => {
                map.late.push_back(delivery);
                Arrival::Moved
            }
            _ => self.sort::<P>(delivery),
        }
    }

    /// The peer has told of its segment.
    fn segment(&mut self, delivery: &Delivery) -> Arrival<H> {
        let id = delivery.map;
        let [address, length, handle] = delivery.head.words;
        if address.checked_add(length).is_none() || handle > u64::from(u32::MAX) {
            return self.malformed(id);
        }
        if let Some(map) = self.maps.get_mut(&id) {
            map.peer_segment = Some(PeerSegment { address, length, handle: handle as u32 });
            map.heard = map.heard.wrapping_add(1);
            let heard = map.heard;
            while map.late.front().is_some_and(|late| (late.head.told.wrapping_sub(heard) as i16) <= 0) {
                self.ready.extend(map.late.pop_front());
            }
        }
        self.done_with(delivery);
        self.answer((id, delivery.lane), Head::new(Kind::Heard, 0, 0, &[]), NO_DATA, None);
        Arrival::Moved
    }

    /// A request, or the answer to one of this side.
    fn sort<P: Probe<Stage>>(&mut self, mut delivery: Delivery) -> Arrival<H> {
        let (id, slot) = (delivery.map, delivery.head.slot);
        if delivery.head.kind.is_request() {
            return Arrival::Request(delivery);
        }
        let Some(lane) = self.maps.get_mut(&id).and_then(|m| m.lanes.get_mut(delivery.lane)) else { return Arrival::Moved };
        let Some(record) = lane.records.get_mut(usize::from(slot)).and_then(Option::take) else { return self.malformed(id) };
        lane.give_slot(slot);
        delivery.tag = record.tag;
        self.answered::<P>(delivery, record)
    }

    /// The answer to a request of this side.
    fn answered<P: Probe<Stage>>(&mut self, mut delivery: Delivery, mut record: Record) -> Arrival<H> {
        let (id, head) = (delivery.map, delivery.head);
        match head.kind {
            // It has said that it holds the reply.
            Kind::Refused if record.cut == Cut::Fetch => return self.malformed(id),
            Kind::Refused => {
                let status = status_from(head.status);
                if record.operation == Operation::Get
                    && let Some(map) = self.maps.get_mut(&id)
                {
                    let _ = map.getting.add(record.cut == Cut::First, Err(status), 0);
                }
                self.done_with(&delivery);
                if !record.is_abandoned {
                    self.returns.push_back((delivery.endpoint, record.returned(&status.into())));
                }
                return Arrival::Moved;
            }
            Kind::Held if !record.is_abandoned => {
                self.done_with(&delivery);
                return if self.held(id, &head, record) { Arrival::Moved } else { self.malformed(id) };
            }
            Kind::Part => {
                let whole = self.part(&delivery);
                self.done_with(&delivery);
                match whole {
                    Err(()) => return self.malformed(id),
                    Ok(None) => return Arrival::Moved,
                    Ok(Some((of, reply, data))) => {
                        record = of;
                        (delivery.head, delivery.receive, delivery.length, delivery.payload) = (reply, None, data.len(), data.as_ptr());
                        delivery.fetched = data;
                    }
                }
            }
            // Only the data answers a get.
            Kind::ReplyShort | Kind::ReplyMedium if record.operation == Operation::Get => return self.malformed(id),
            Kind::ReplyShort | Kind::ReplyMedium | Kind::ReplyXfer => {}
            _ => {
                self.done_with(&delivery);
                return Arrival::Moved;
            }
        }
        let head = delivery.head;
        let found = if head.kind == Kind::ReplyXfer { self.find_reply(&mut delivery, &record) } else { Ok(()) };
        if record.is_abandoned {
            self.done_with(&delivery);
            return Arrival::Moved;
        }
        if let (Operation::Get, Err(status)) = (record.operation, found) {
            self.done_with(&delivery);
            self.returns.push_back((delivery.endpoint, record.returned(&status.into())));
            return Arrival::Moved;
        }
        P::mark(Stage::Sorted);
        let Some(endpoint) = self.endpoints.get_mut(&delivery.endpoint) else { return Arrival::Moved };
        if let Some(handler) = if found.is_ok() { endpoint.handlers.take_for_message(head.handler) } else { None } {
            let size = if record.operation == Operation::Get { 3 } else { size(head.kind) };
            endpoint.counters.replies_received[size] += 1;
            endpoint.counters.bytes_received += delivery.length as u64;
            return Arrival::Reply(delivery, handler);
        }
        let mut returned = record.returned(&Status::ReplyRejected.into());
        returned.operation = match head.kind {
            Kind::ReplyXfer => Operation::ReplyXfer,
            Kind::ReplyMedium => Operation::ReplyMedium,
            _ => Operation::Reply,
        };
        (returned.handler, returned.arg_count, returned.args) = (head.handler, head.arg_count, head.args);
        (returned.source, returned.length) = (0, delivery.length);
        self.returns.push_back((delivery.endpoint, returned));
        self.done_with(&delivery);
        Arrival::Moved
    }

    /// Bulk: where in the endpoint's segment the data is, or is to go.
    fn place(&self, delivery: &Delivery) -> Result<u64, Status> {
        let [offset, length, heard] = delivery.head.words;
        let segment = self.endpoints.get(&delivery.endpoint).and_then(|e| e.segment);
        let segment = segment.filter(|s| lies_within(offset, length, s.length)).ok_or(Status::BadSegmentOffset)?;
        if !self.shared.mapping.writes() {
            if length != delivery.length as u64 {
                return Err(Status::BadLength);
            }
        } else if length > 0 && !self.maps.get(&delivery.map).is_some_and(|map| map.is_of_segment(heard)) {
            return Err(Status::BadSegmentOffset);
        }
        Ok(segment.address + offset)
    }

    /// Bulk data of a request: where it lies. In v1 it is copied there out of the message, and with
    /// the last piece all of it is meant.
    fn find_data(&mut self, delivery: &mut Delivery, is_accepted: bool) -> Result<(), Status> {
        let [_, length, whole] = delivery.head.words;
        let place = if is_accepted { self.place(delivery) } else { Err(Status::BadTag) };
        if self.shared.mapping.writes() {
            point(delivery, place?, length);
            return Ok(());
        }
        let map = self.maps.get_mut(&delivery.map).ok_or(Status::BadEndpoint)?;
        let added = map.arriving.add(delivery.head.status != 0, place, delivery.length as u64);
        if let (Ok(()), Ok(at)) = (added, place) {
            // SAFETY: D1: the payload is readable; the segment is writable, as `AM_SetSeg` asks.
            unsafe { bytes::copy(core::ptr::with_exposed_provenance_mut(at as usize), delivery.payload, delivery.length) };
        }
        if delivery.head.kind == Kind::Xfer {
            point(delivery, map.arriving.end(whole)?, whole);
        }
        added
    }

    /// Bulk data of an answer: where it lies. In v1 it is copied there out of the message, and with
    /// the last answer to a get all of them are meant.
    fn find_reply(&mut self, delivery: &mut Delivery, record: &Record) -> Result<(), Status> {
        let length = delivery.head.words[1];
        let mut place = self.place(delivery);
        let is_get = record.operation == Operation::Get;
        if !self.shared.mapping.writes() {
            if is_get && let Some(map) = self.maps.get_mut(&delivery.map) {
                place = map.getting.add(record.cut == Cut::First, place, delivery.length as u64).and(place);
            }
            if let Ok(at) = place {
                // SAFETY: D1: the payload is readable; the segment is writable, as `AM_SetSeg`
                // asks.
                unsafe { bytes::copy(core::ptr::with_exposed_provenance_mut(at as usize), delivery.payload, delivery.length) };
            }
            if is_get
                && !record.is_abandoned
                && let Some(map) = self.maps.get_mut(&delivery.map)
            {
                point(delivery, map.getting.end(record.length as u64)?, record.length as u64);
                return Ok(());
            }
        }
        point(delivery, place?, length);
        Ok(())
    }

    /// A request whose turn it is.
    fn serve<P: Probe<Stage>>(&mut self, mut delivery: Delivery) -> Step<H> {
        P::mark(Stage::Sorted);
        let head = delivery.head;
        // A message that is not accepted leaves the segment as it is.
        let is_accepted = self.endpoints.get(&delivery.endpoint).is_some_and(|e| e.accepts(delivery.tag));
        let found = match head.kind {
            Kind::Xfer | Kind::Piece => self.find_data(&mut delivery, is_accepted),
            // What it fetches answers a request that was accepted.
            Kind::Fetch => Ok(()),
            _ if is_accepted => Ok(()),
            _ => Err(Status::BadTag),
        };
        let wrong = match (found, self.endpoints.get_mut(&delivery.endpoint)) {
            (_, None) => Status::BadEndpoint,
            (Err(status), _) => status,
            (Ok(()), Some(_)) if head.kind == Kind::Piece => {
                self.answer((delivery.map, delivery.lane), Head::new(Kind::Handled, 0, head.slot, &[]), NO_DATA, None);
                self.done_with(&delivery);
                return Step::Moved;
            }
            (Ok(()), Some(_)) if matches!(head.kind, Kind::Get | Kind::Fetch) => {
                match if head.kind == Kind::Get { self.serve_get(&delivery) } else { self.serve_fetch(&delivery) } {
                    Ok(()) => {
                        self.done_with(&delivery);
                        return Step::Moved;
                    }
                    Err(status) => status,
                }
            }
            (Ok(()), Some(endpoint)) => match endpoint.handlers.take_for_message(head.handler) {
                Some(handler) => {
                    endpoint.counters.requests_received[size(head.kind)] += 1;
                    endpoint.counters.bytes_received += delivery.length as u64;
                    return Step::Run(delivery, handler);
                }
                None => Status::BadHandler,
            },
        };
        if let Some(endpoint) = self.endpoints.get_mut(&delivery.endpoint) {
            endpoint.counters.refused += 1;
        }
        let refused = Head { status: wrong as u8, ..Head::new(Kind::Refused, 0, head.slot, &[]) };
        self.answer((delivery.map, delivery.lane), refused, NO_DATA, None);
        self.done_with(&delivery);
        Step::Moved
    }

    /// Writes what a get asks for into its asker's segment, and says so.
    fn serve_get(&mut self, delivery: &Delivery) -> Result<(), Status> {
        let head = &delivery.head;
        let [offset, length, to] = head.words;
        let Some(map) = self.maps.get(&delivery.map).filter(|m| m.state == State::Open) else { return Ok(()) };
        let endpoint = self.endpoints.get_mut(&delivery.endpoint).ok_or(Status::BadEndpoint)?;
        let segment = endpoint.segment.filter(|s| lies_within(offset, length, s.length)).ok_or(Status::BadSegmentOffset)?;
        let writes = self.shared.mapping.writes();
        let most = if writes { BULK_BYTES_MAX } else { MEDIUM_BYTES_MAX };
        if length > most as u64 || !map.peer_segment.is_some_and(|s| lies_within(to, length, s.length)) {
            return Err(Status::BadLength);
        }
        endpoint.counters.requests_received[3] += 1;
        endpoint.counters.replies_sent[3] += 1;
        endpoint.counters.bytes_sent += length;
        let heard = map.heard;
        let answer = Head { words: [to, length, u64::from(heard)], ..Head::new(Kind::ReplyXfer, head.handler, head.slot, head.args()) };
        if !writes {
            let from = core::ptr::with_exposed_provenance((segment.address + offset) as usize);
            self.answer((delivery.map, delivery.lane), answer, (from, length as usize), None);
            return Ok(());
        }
        let bulk = Bulk { from: (segment.address + offset, segment.handle), write: Write { cached: None, _copy: None }, offset: to, heard };
        self.answer((delivery.map, delivery.lane), answer, NO_DATA, (length > 0).then_some((bulk, length as u32)));
        Ok(())
    }

    /// A message is no longer read: its buffer may receive again.
    pub(crate) fn done_with(&mut self, delivery: &Delivery) {
        self.done_with_probed::<Off>(delivery);
    }

    /// As [`done_with`](Self::done_with).
    #[inline]
    pub(crate) fn done_with_probed<P: Probe<Stage>>(&mut self, delivery: &Delivery) {
        if let Some(receive) = delivery.receive
            && let Some(lane) = self.maps.get_mut(&delivery.map).and_then(|m| m.lanes.get_mut(delivery.lane))
        {
            lane.recycle::<P>(receive);
        }
    }

    /// A peer has sent what cannot be.
    #[cold]
    fn malformed(&mut self, id: u32) -> Arrival<H> {
        self.broke_rules(id);
        Arrival::Moved
    }
}

/// The payload of a message is so many bytes at an address of the endpoint's segment.
fn point(delivery: &mut Delivery, at: u64, length: u64) {
    delivery.payload = core::ptr::with_exposed_provenance(at as usize);
    delivery.length = length as usize;
}

/// The counter of a kind.
fn size(kind: Kind) -> usize {
    match kind {
        Kind::Medium | Kind::ReplyMedium => 1,
        Kind::Xfer | Kind::ReplyXfer => 2,
        Kind::Get => 3,
        _ => 0,
    }
}
