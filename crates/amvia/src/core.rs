// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a bundle, and how messages leave it. Its holder has the bundle's token.
//!
//! Invariants
//! - C1: at most one handler of a bundle runs at a time; its place is `Slot::Out` meanwhile.
//! - C2: a request that has left is answered, or comes back once: its record is in its slot until
//!   the answer comes or the MAP object dies.
//! - P1: a payload (`Data`) is readable throughout the call that gives it, as the program has
//!   promised.
//! - C3: no call waits for a peer while it holds the core, but the end of an endpoint, for a time.

use crate::carrying::{Data, NO_DATA, Slot, Target, Write};
use crate::delivery::Delivery;
use crate::endpoint::Endpoint;
use crate::head::{Head, Kind};
use crate::map::{Bulk, FETCHES_MAX, Map, State, Waiting, segment_head};
use crate::probe::{Off, Probe, Stage};
use crate::queues::Queues;
use crate::record::{Departed, Record, Returned};
use crate::shared::Shared;
use crate::vipl::{Handle, code};
use bellwire_am::tables::lies_within;
use bellwire_am::{ARGS_MAX, BULK_BYTES_MAX, Error, MEDIUM_BYTES_MAX, Operation, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Where a request of this bundle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It has left, or came back already: the error handler will hear of it.
    Yes,
    /// Nothing done: no connection yet, no credit, or the peer has not told of its segment.
    Wait,
    /// Nothing done: this MAP object is to be connected.
    Connect(u32),
    /// Bulk: its memory is read until so many sends of the lane are done.
    Posted { map: u32, lane: usize, number: u64 },
}

/// A request as its caller gives it.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub endpoint: u32,
    pub index: u32,
    pub handler: u8,
    pub args: &'a [i32],
    pub what: What,
}

/// What a request carries.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Short,
    Medium(Data),
    /// To an offset in the receiver's segment.
    Xfer(Data, u64),
    /// From an offset in the receiver's segment to one in this side's, so many bytes.
    Get(u64, u64, usize),
}

impl What {
    fn kind(&self) -> (Kind, Operation, usize) {
        match self {
            Self::Short => (Kind::Short, Operation::Request, 0),
            Self::Medium(_) => (Kind::Medium, Operation::RequestMedium, 1),
            Self::Xfer(..) => (Kind::Xfer, Operation::RequestXfer, 2),
            Self::Get(..) => (Kind::Get, Operation::Get, 3),
        }
    }

    /// Address of the payload, its bytes, and the offset in the receiver's segment.
    fn extent(&self) -> (usize, usize, u64) {
        match *self {
            Self::Short => (0, 0, 0),
            Self::Medium(data) => (data.0.addr(), data.1, 0),
            Self::Xfer(data, offset) => (data.0.addr(), data.1, offset),
            Self::Get(offset, _, length) => (0, length, offset),
        }
    }
}

impl Request<'_> {
    /// The record that is kept of the request while it is out.
    pub(crate) fn record(&self, destination: crate::name::Name) -> Result<Record, Error> {
        let mut record = Record::new(self.index, destination, self.what.kind().1, self.handler, self.args)?;
        (record.source, record.length, record.offset) = self.what.extent();
        Ok(record)
    }
}

/// A bundle.
pub(crate) struct Core<H> {
    pub shared: Arc<Shared>,
    /// Its own, and those of bundles from which endpoints with VIs have come.
    pub queues: Vec<Arc<Queues>>,
    /// Others look at some of the queues, too.
    pub shares: bool,
    pub endpoints: BTreeMap<u32, Endpoint<H>>,
    pub maps: BTreeMap<u32, Map>,
    /// MAP object and lane of each VI.
    pub vis: BTreeMap<Handle, (u32, usize)>,
    /// Requests that have come and wait for their handlers.
    pub requests: VecDeque<Delivery>,
    /// Messages that were late and are not any more.
    pub ready: VecDeque<Delivery>,
    /// VIs with a completed receive, taken off a completion queue by a thread that slept, and by
    /// which of the queues.
    pub noticed: VecDeque<(Handle, usize)>,
    /// VIs with a completed receive whose connection this side does not know to be made yet.
    pub early: Vec<Handle>,
    /// Messages that come back, for the error handlers.
    pub returns: VecDeque<(u32, Returned)>,
    /// Connections that have ended, for endpoints that hear of it.
    pub departures: VecDeque<(u32, Departed)>,
    /// v1: MAP objects with pieces that wait for a slot.
    pub pumping: Vec<u32>,
    /// MAP objects with answers that wait for a buffer.
    pub waiting: Vec<u32>,
    /// The thread that runs a handler, or 0.
    pub running: usize,
    pub wants_events: bool,
    pub patience: Option<Duration>,
}

impl<H> Core<H> {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self, Error> {
        Ok(Self {
            shared: Arc::clone(shared),
            queues: vec![Queues::new(shared)?],
            shares: false,
            endpoints: BTreeMap::new(),
            maps: BTreeMap::new(),
            vis: BTreeMap::new(),
            requests: VecDeque::new(),
            ready: VecDeque::new(),
            noticed: VecDeque::new(),
            early: Vec::new(),
            returns: VecDeque::new(),
            departures: VecDeque::new(),
            pumping: Vec::new(),
            waiting: Vec::new(),
            running: 0,
            wants_events: false,
            patience: None,
        })
    }

    pub(crate) fn endpoint(&self, id: u32) -> Result<&Endpoint<H>, Error> {
        self.endpoints.get(&id).ok_or(Error::BadArgument)
    }

    pub(crate) fn endpoint_mut(&mut self, id: u32) -> Result<&mut Endpoint<H>, Error> {
        self.endpoints.get_mut(&id).ok_or(Error::BadArgument)
    }

    /// Sends a request, or says that it has to wait.
    pub(crate) fn request<P: Probe<Stage>>(&mut self, request: &Request<'_>) -> Result<Sent, Error> {
        let (kind, _, size) = request.what.kind();
        let (_, length, offset) = request.what.extent();
        let most = if kind == Kind::Medium { MEDIUM_BYTES_MAX } else { BULK_BYTES_MAX };
        if request.args.len() > ARGS_MAX || request.handler == 0 || length > most {
            return Err(Error::BadArgument);
        }
        let endpoint = self.endpoints.get(&request.endpoint).ok_or(Error::BadArgument)?;
        if let What::Get(_, to, length) = request.what
            && !lies_within(to, length as u64, endpoint.segment.map_or(0, |s| s.length))
        {
            return Err(Error::BadArgument);
        }
        let Some(translation) = endpoint.translations.get(request.index).copied() else {
            let returned = request.record(endpoint.name)?.returned(&Status::BadEntry.into());
            self.returns.push_back((request.endpoint, returned));
            return Ok(Sent::Yes);
        };
        let Some(id) = translation.map else { return self.find_map::<P>(request) };
        let Some(map) = self.maps.get(&id) else { return Err(Error::BadArgument) };
        match &map.state {
            State::Open if map.fetches.len() >= FETCHES_MAX => return Ok(Sent::Wait),
            State::Open => {}
            State::Asking | State::Joining => return Ok(Sent::Wait),
            State::Dead(end) => {
                let returned = request.record(translation.name)?.returned(end);
                self.returns.push_back((request.endpoint, returned));
                return Ok(Sent::Yes);
            }
        }
        if let What::Xfer(..) | What::Get(..) = request.what {
            let Some(segment) = map.peer_segment else { return Ok(Sent::Wait) };
            if !lies_within(offset, length as u64, segment.length) {
                let returned = request.record(translation.name)?.returned(&Status::BadSegmentOffset.into());
                self.returns.push_back((request.endpoint, returned));
                return Ok(Sent::Yes);
            }
        }
        let heard = map.heard;
        let record = Record { tag: translation.tag, ..request.record(translation.name)? };
        let mapping = self.shared.mapping;
        if let (false, What::Xfer(..) | What::Get(..)) = (mapping.writes(), request.what) {
            let mut head = Head { tag: translation.tag, ..Head::new(kind, request.handler, 0, request.args) };
            if let What::Get(_, to, _) = request.what {
                head.words[2] = to;
            }
            let sent = self.begin_stream(id, request, record, head);
            if sent != Sent::Wait {
                self.count_sent(request, size, if kind == Kind::Get { 0 } else { length });
            }
            return Ok(sent);
        }
        let lane = mapping.lane(kind);
        let bytes = Head::start_of(request.args.len()) + if kind == Kind::Medium { length } else { 0 };
        let Some(slot) = self.take_slot(id, lane, bytes) else { return Ok(Sent::Wait) };
        P::mark(Stage::Allowed);
        let mut head = Head { tag: translation.tag, ..Head::new(kind, request.handler, slot, request.args) };
        let sent = match request.what {
            What::Short => self.post::<P>(id, lane, slot, &head, NO_DATA),
            What::Medium(data) => self.post::<P>(id, lane, slot, &head, data),
            What::Get(offset, to, length) => {
                head.words = [offset, length as u64, to];
                self.post::<P>(id, lane, slot, &head, NO_DATA)
            }
            What::Xfer(data, offset) => {
                head.words = [offset, length as u64, u64::from(heard)];
                match self.post_bulk(id, slot, &head, data, offset) {
                    Ok(sent) => sent,
                    Err(e) => {
                        self.give_slot(id, lane, slot);
                        return Err(e);
                    }
                }
            }
        };
        if let Some(place) = self.maps.get_mut(&id).and_then(|m| m.lanes.get_mut(lane)?.records.get_mut(usize::from(slot))) {
            *place = Some(record);
        }
        self.count_sent(request, size, if kind == Kind::Get { 0 } else { length });
        Ok(sent)
    }

    fn count_sent(&mut self, request: &Request<'_>, size: usize, bytes: usize) {
        if let Some(endpoint) = self.endpoints.get_mut(&request.endpoint) {
            endpoint.counters.requests_sent[size] += 1;
            endpoint.counters.bytes_sent += bytes as u64;
        }
    }

    /// The first use of an entry: there is a MAP object with that peer, or one is to be connected.
    #[cold]
    fn find_map<P: Probe<Stage>>(&mut self, request: &Request<'_>) -> Result<Sent, Error> {
        let shared = Arc::clone(&self.shared);
        let endpoint = self.endpoints.get_mut(&request.endpoint).ok_or(Error::BadArgument)?;
        let Some(Some(translation)) = endpoint.translations.get_mut(request.index) else { return Err(Error::BadArgument) };
        let peer = translation.name;
        let known = endpoint.peers.get(&peer).copied();
        let id = match known {
            Some(id) => id,
            None => shared.number()?,
        };
        if let Some(Some(translation)) = endpoint.translations.get_mut(request.index) {
            translation.map = Some(id);
        }
        if known.is_none() {
            endpoint.peers.insert(peer, id);
            self.maps.insert(id, Map::new(request.endpoint, peer, State::Asking));
        }
        if let Some(map) = self.maps.get_mut(&id) {
            map.entries += 1;
        }
        if known.is_some() { self.request::<P>(request) } else { Ok(Sent::Connect(id)) }
    }

    /// A slot for a request of so many bytes, if there is one now.
    #[inline]
    pub(crate) fn take_slot(&mut self, id: u32, lane: usize, bytes: usize) -> Option<u16> {
        for _ in 0..2 {
            let map = self.maps.get_mut(&id)?;
            if self.shared.mapping.shares_room() && !map.waiting.is_empty() {
                return None;
            }
            match map.lanes.get_mut(lane)?.take_slot(bytes) {
                Slot::None => return None,
                Slot::Free(slot) => return Some(slot),
                // Another message may have left: its completion is in the queue, or will be.
                Slot::Posted => self.retire::<Off>(usize::MAX),
            }
        }
        None
    }

    pub(crate) fn give_slot(&mut self, id: u32, lane: usize, slot: u16) {
        if let Some(lane) = self.maps.get_mut(&id).and_then(|m| m.lanes.get_mut(lane)) {
            lane.give_slot(slot);
        }
    }

    /// Posts a message in a send buffer of the caller's. The payload is readable throughout the
    /// call that gave it (`Data`), and no longer than a buffer has room, which callers have
    /// checked.
    #[inline]
    pub(crate) fn post<P: Probe<Stage>>(&mut self, id: u32, lane: usize, buffer: u16, head: &Head, payload: Data) -> Sent {
        if let Some(map) = self.maps.get_mut(&id)
            && let Some(lane) = map.lanes.get_mut(lane)
        {
            let head = &Head { told: map.told, ..*head };
            // SAFETY: P1: the payload is readable throughout the call; it fits, as said above.
            unsafe { lane.post::<P>(buffer, head, payload) };
        }
        Sent::Yes
    }

    /// Writes into the peer's segment, then sends the message.
    fn post_bulk(&mut self, id: u32, slot: u16, head: &Head, data: Data, offset: u64) -> Result<Sent, Error> {
        let Some(map) = self.maps.get_mut(&id) else { return Err(Error::BadArgument) };
        let ptag = self.endpoints.get(&map.endpoint).map(|e| e.ptag).ok_or(Error::BadArgument)?;
        let (Some(segment), Some(lane)) = (map.peer_segment, map.lanes.first_mut()) else { return Err(Error::BadArgument) };
        let mut number = None;
        if data.1 > 0 {
            let from = data.0.expose_provenance() as u64;
            // SAFETY: P1: the memory stays until the write is over, as the caller has promised.
            let handle = unsafe { self.shared.nic.register_cached(from, data.1, ptag) }.map_err(error_of)?;
            let target = Target { address: segment.address + offset, handle: segment.handle, length: data.1 as u32 };
            // SAFETY: L3, P1: the memory stays until the write is over.
            unsafe { lane.post_write(slot, (from, handle), target, Write { cached: Some((from, handle)), _copy: None }) };
            number = Some(lane.vi.posted);
        }
        // SAFETY: there is no payload.
        unsafe { lane.post::<Off>(slot, &Head { told: map.told, ..*head }, NO_DATA) };
        Ok(number.map_or(Sent::Yes, |number| Sent::Posted { map: id, lane: 0, number }))
    }

    /// Whether a posted write is over.
    pub(crate) fn is_written(&self, id: u32, lane: usize, number: u64) -> bool {
        if !self.shared.mapping.writes() {
            return self.maps.get(&id).is_none_or(|m| m.streams_done >= number);
        }
        self.maps.get(&id).and_then(|m| m.lanes.get(lane)).is_none_or(|lane| lane.vi.done >= number)
    }

    /// Takes completed sends off the completion queues, at most so many of each.
    #[inline]
    pub(crate) fn retire<P: Probe<Stage>>(&mut self, most: usize) {
        for at in 0..self.queues.len() {
            for _ in 0..most {
                let queues = &self.queues[at];
                let stray = if self.shares { queues.fetch(false, |vi| self.vis.contains_key(&vi)) } else { None };
                P::mark(Stage::Entered);
                let found = stray.or_else(|| self.shared.nic.cq_done(queues.send).ok().flatten());
                P::mark(Stage::SendsLooked);
                let Some(vi) = found else { break };
                match self.vis.get(&vi) {
                    Some((map, lane)) => {
                        if let Some(lane) = self.maps.get_mut(map).and_then(|m| m.lanes.get_mut(*lane)) {
                            lane.retire_one::<P>();
                        }
                    }
                    None if self.shares => queues.leave(vi, false),
                    None => {}
                }
            }
        }
    }

    /// Sends an answer, or keeps a copy until a buffer is free. `false`: there is no connection.
    pub(crate) fn answer(&mut self, to: (u32, usize), head: Head, payload: Data, bulk: Option<(Bulk, u32)>) -> bool {
        self.answer_probed::<Off>(to, head, payload, bulk)
    }

    /// As [`answer`](Self::answer).
    pub(crate) fn answer_probed<P: Probe<Stage>>(&mut self, (id, at): (u32, usize), head: Head, payload: Data, bulk: Option<(Bulk, u32)>) -> bool {
        let is_open = |core: &Self| core.maps.get(&id).is_some_and(|m| m.state == State::Open && at < m.lanes.len());
        if !is_open(self) {
            return false;
        }
        let mut buffer = None;
        for try_ in 0..2 {
            let Some(map) = self.maps.get_mut(&id) else { return false };
            buffer = if map.waiting.is_empty() { map.lanes[at].take_answer(head.start() + payload.1) } else { None };
            if buffer.is_some() || try_ == 1 {
                break;
            }
            self.retire::<Off>(usize::MAX);
        }
        P::mark(Stage::Allowed);
        let Some(map) = self.maps.get_mut(&id) else { return false };
        match buffer {
            Some(buffer) => leave::<P>(map, at, buffer, &head, payload, bulk),
            None if map.waiting.len() > map.waiting_max() => {
                self.broke_rules(id);
                return false;
            }
            None => {
                let mut copy = vec![0; payload.1];
                if payload.1 > 0 {
                    // SAFETY: P1.
                    unsafe { bellwire_memory::bytes::copy(copy.as_mut_ptr(), payload.0, payload.1) };
                }
                map.waiting.push_back(Waiting { lane: at, head, payload: copy, bulk });
                if !map.is_noted {
                    map.is_noted = true;
                    self.waiting.push(id);
                }
                if let Some(endpoint) = self.endpoints.get_mut(&map.endpoint) {
                    endpoint.counters.copied += 1;
                }
            }
        }
        true
    }

    /// Sends the answers that wait, as far as there are buffers.
    #[cold]
    pub(crate) fn send_waiting(&mut self) {
        self.retire::<Off>(usize::MAX);
        for id in core::mem::take(&mut self.waiting) {
            let Some(map) = self.maps.get_mut(&id) else { continue };
            map.is_noted = false;
            while let Some(first) = map.waiting.front() {
                let bytes = first.head.start() + first.payload.len();
                let Some(buffer) = map.lanes.get_mut(first.lane).and_then(|lane| lane.take_answer(bytes)) else { break };
                if let Some(Waiting { lane, head, payload, bulk }) = map.waiting.pop_front() {
                    leave::<Off>(map, lane, buffer, &head, (payload.as_ptr(), payload.len()), bulk);
                }
            }
            if !map.waiting.is_empty() {
                map.is_noted = true;
                self.waiting.push(id);
            }
        }
    }

    /// Tells a peer of the endpoint's segment, now or when it has heard of the one before.
    pub(crate) fn tell_segment(&mut self, id: u32) {
        let Some(map) = self.maps.get_mut(&id).filter(|m| m.state == State::Open) else { return };
        if map.is_segment_out {
            map.is_segment_new = true;
            return;
        }
        map.is_segment_out = true;
        map.told = map.told.wrapping_add(1);
        let segment = self.endpoints.get(&map.endpoint).and_then(|e| e.segment).map(|s| (s.address, s.length, s.handle));
        self.answer((id, 0), segment_head(segment), NO_DATA, None);
    }

    /// Replaces an endpoint's segment, and tells its peers.
    pub(crate) fn set_segment(&mut self, id: u32, segment: Option<crate::endpoint::OwnSegment>) -> Result<(), Error> {
        let old = self.endpoint(id)?.segment;
        if let Some(old) = old {
            let is_of = |map: &Map| map.waiting.iter().any(|w| w.bulk.as_ref().is_some_and(|b| b.0.from.1 == old.handle));
            if self.maps.values().any(|map| map.endpoint == id && is_of(map)) {
                return Err(Error::InUse);
            }
            self.shared.nic.deregister(old.address, old.handle).map_err(|_| Error::InUse)?;
        }
        self.endpoint_mut(id)?.segment = segment;
        let of: Vec<u32> = self.maps.iter().filter(|(_, m)| m.endpoint == id).map(|(id, _)| *id).collect();
        for id in of {
            if let Some(map) = self.maps.get_mut(&id) {
                map.segment_since = map.told.wrapping_add(1);
            }
            self.tell_segment(id);
        }
        Ok(())
    }
}

/// An answer leaves in a buffer that is its own.
fn leave<P: Probe<Stage>>(map: &mut Map, lane: usize, buffer: u16, head: &Head, payload: Data, bulk: Option<(Bulk, u32)>) {
    let segment = map.peer_segment;
    let head = &Head { told: map.told, ..*head };
    let Some(lane) = map.lanes.get_mut(lane) else { return };
    // Of another segment the requester hears by `words`, and its handler does not run.
    if let (Some((bulk, length)), Some(segment)) = (bulk.filter(|(bulk, _)| bulk.heard == map.heard), segment) {
        let target = Target { address: segment.address.wrapping_add(bulk.offset), handle: segment.handle, length };
        // SAFETY: L3: a copy, or the endpoint's segment, which is not replaced before.
        unsafe { lane.post_write(buffer, bulk.from, target, bulk.write) };
    }
    // SAFETY: P1; it fits, which callers have checked.
    unsafe { lane.post::<P>(buffer, head, payload) };
}

/// A code of `VIP_RETURN` about memory.
pub(crate) fn error_of(value: i32) -> Error {
    if value == code::ERROR_RESOURCE { Error::Resource } else { Error::BadArgument }
}
