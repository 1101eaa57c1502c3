// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a bundle as a machine: told the engine, it says which handler is to run. No lock,
//! no clock, no thread inside.
//!
//! Invariants
//! - C1: at most one handler of a bundle runs at a time; its place is `Slot::Out` meanwhile. So the
//!   requests of a connection are handled in order, and one count tells the client which.
//! - C2: a connection's `out` holds at most [`LIMIT`] messages: a client that has more credits than
//!   it was given is cut off.
//! - C3: a request that was accepted is handled, or comes back once: its record lives from `note`
//!   until a count from the server covers it, or the connection dies.

use crate::connection::{Connection, ConnectionId, End, Record, Role, State};
use crate::delivery::Delivery;
use crate::endpoint::{Endpoint, Translation};
use crate::header::{ARGS_MAX, HeadBytes, Kind, MEDIUM_BYTES_MAX, word0};
use crate::name::{EndpointId, Name};
use crate::observed::Observed;
use crate::payload::{Data, NO_DATA};
use crate::probe::{Probe, Stage, mark};
use crate::region::Region;
use crate::status::{Departed, Error, Operation, Returned, Status};
use crate::tables::Slot;
use bellwire_peer::{Put, Unsent};
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, InboxHandle, PtagHandle};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Connections and endpoints of a bundle.
const OBJECTS_MAX: usize = 1 << 20;

/// Where a request of this bundle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It has left, or came back already: the error handler will hear of it.
    Yes,
    /// Nothing done: no connection yet, no credit or no room.
    Wait,
    /// Nothing done: [`Core::connect`] is to be called, with the engine told the time.
    Connect(ConnectionId),
    /// Bulk: a piece of the data is written; the rest is to be asked for at once.
    More,
    /// Bulk: it is on its way, and its memory is read until that write of the connection is done
    /// ([`Core::is_written`]).
    Posted(ConnectionId, u32),
}

/// A request as its caller gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub endpoint: EndpointId,
    pub index: u32,
    pub handler: u8,
    pub args: &'a [i32],
    /// The payload of a medium.
    pub medium: Option<Data>,
}

/// A bundle.
#[derive(Debug)]
pub(crate) struct Core<H> {
    pub(crate) inbox: InboxHandle,
    pub(crate) endpoints: Slab<Endpoint<H>>,
    pub(crate) connections: Slab<Connection>,
    /// Endpoints by the number in their name.
    pub(crate) numbers: BTreeMap<u64, EndpointId>,
    /// Messages that come back, for the error handlers.
    pub(crate) returns: VecDeque<(EndpointId, Returned)>,
    /// Connections that have ended, for endpoints that hear of it.
    pub(crate) departures: VecDeque<(EndpointId, Departed)>,
    /// Connections with something that waits to leave, and servers that have handled more than they
    /// told.
    pub(crate) unsent: Unsent<ConnectionId>,
    pub(crate) untold: Vec<ConnectionId>,
    /// Connection requests of the engine that this bundle has had seen to.
    pub(crate) accepted: u64,
    /// Connections with writes that the engine has.
    pub(crate) writing: Vec<ConnectionId>,
    /// Regions that are to be dropped when the NIC's token is let go.
    pub(crate) garbage: Vec<Arc<Region>>,
    /// Regions that were segments when the handler that runs began.
    pub(crate) held: Vec<Arc<Region>>,
    /// The thread that runs a handler, or 0.
    pub(crate) running: usize,
    /// A place for the message that is handled.
    pub(crate) spare: Option<Box<Delivery>>,
    /// Whether a program that waits for events is to hear of messages.
    pub(crate) wants_events: bool,
    /// How long a request may wait for its receiver.
    pub(crate) patience: Option<std::time::Duration>,
    /// What a trace has seen, if this is traced.
    pub(crate) observed: Option<Box<Observed>>,
}

/// The endpoint's place in its table.
pub(crate) fn place<H>(id: EndpointId) -> Handle<Endpoint<H>> {
    Handle::from_raw(id.raw())
}

impl<H> Core<H> {
    pub(crate) fn new(inbox: InboxHandle) -> Self {
        Self {
            inbox,
            endpoints: Slab::new(OBJECTS_MAX),
            connections: Slab::new(OBJECTS_MAX),
            numbers: BTreeMap::new(),
            returns: VecDeque::new(),
            departures: VecDeque::new(),
            unsent: Unsent::default(),
            untold: Vec::new(),
            accepted: 0,
            writing: Vec::new(),
            garbage: Vec::new(),
            held: Vec::new(),
            running: 0,
            spare: None,
            wants_events: false,
            patience: None,
            observed: None,
        }
    }

    pub(crate) fn endpoint(&self, id: EndpointId) -> Result<&Endpoint<H>, Error> {
        self.endpoints.get(place(id)).ok_or(Error::BadArgument)
    }

    pub(crate) fn endpoint_mut(&mut self, id: EndpointId) -> Result<&mut Endpoint<H>, Error> {
        self.endpoints.get_mut(place(id)).ok_or(Error::BadArgument)
    }

    pub(crate) fn add_endpoint(&mut self, name: Name, ptag: PtagHandle) -> Result<EndpointId, Error> {
        let id = EndpointId::from_raw(self.endpoints.insert(Endpoint::new(name, ptag)).ok_or(Error::Resource)?.raw());
        self.numbers.insert(name.endpoint, id);
        Ok(id)
    }

    /// Maps entry `index` to `name`.
    pub(crate) fn map(&mut self, id: EndpointId, index: u32, name: Name, tag: u64) -> Result<(), Error> {
        if self.endpoint_mut(id)?.translations.get_mut(index).ok_or(Error::BadArgument)?.is_some() {
            return Err(Error::InUse);
        }
        let connection = self.connections.insert(Connection::new(id, Role::Client { index }, name, tag)).ok_or(Error::Resource)?;
        if let Some(entry) = self.endpoint_mut(id)?.translations.get_mut(index) {
            *entry = Some(Translation { connection });
        }
        Ok(())
    }

    /// Frees entry `index`; requests sent there that are not handled come back.
    pub(crate) fn unmap<W: Wire>(&mut self, engine: &mut Engine<W>, id: EndpointId, index: u32) -> Result<(), Error> {
        let entry = self.endpoint_mut(id)?.translations.get_mut(index).ok_or(Error::BadArgument)?;
        let translation = entry.take().ok_or(Error::BadArgument)?;
        self.remove_connection(engine, translation.connection, Status::BadEntry);
        Ok(())
    }

    /// Sends a short or medium request, or says that it has to wait.
    #[inline]
    pub(crate) fn request<W: Wire, P: Probe<Stage>>(&mut self, engine: &mut Engine<W>, request: &Request<'_>) -> Result<Sent, Error> {
        mark!(P, Entered);
        let payload = request.medium.unwrap_or(NO_DATA);
        if request.args.len() > ARGS_MAX || request.handler == 0 || payload.1 > MEDIUM_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let endpoint = self.endpoints.get_mut(place(request.endpoint)).ok_or(Error::BadArgument)?;
        let Some(id) = endpoint.translations.get(request.index).map(|t| t.connection) else {
            return Ok(self.return_unmapped(request.endpoint, request.index, &request.record()));
        };
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        if !connection.channel.is_ready() {
            return self.request_unconnected(id, &request.record());
        }
        mark!(P, LookedUp);
        if !connection.credits.has_credit() || !connection.out.is_empty() {
            return Ok(Sent::Wait);
        }
        mark!(P, Allowed);
        let (kind, size) = if request.medium.is_some() { (Kind::Medium, 1) } else { (Kind::Short, 0) };
        let mut bytes = HeadBytes::new();
        let head = bytes.store(word0(kind, request.handler, request.args.len(), 0), &[], request.args, request.medium.is_some());
        mark!(P, Built);
        match connection.send(engine, head, payload) {
            Put::Left => {}
            Put::Kept => {
                self.unsent.mark(&mut connection.channel, id);
                endpoint.counters.copied += 1;
            }
            // Broken: the notice of it is on its way.
            Put::Stuck | Put::Broken => return Ok(Sent::Wait),
        }
        mark!(P, Sent);
        request.fill(connection.note());
        endpoint.counters.requests_sent[size] += 1;
        endpoint.counters.bytes_sent += payload.1 as u64;
        mark!(P, Noted);
        Ok(Sent::Yes)
    }

    /// Whether a quarter of an entry's credits are there, or there is nothing to wait for.
    pub(crate) fn may_stream(&self, endpoint: EndpointId, index: u32) -> bool {
        let entry = self.endpoint(endpoint).ok().and_then(|e| e.translations.get(index)).and_then(|t| self.connections.get(t.connection));
        entry.is_none_or(|c| c.state != State::Open || c.credits.window() - c.credits.outstanding() >= c.credits.window().div_ceil(4))
    }

    /// A request that has not left comes back.
    pub(crate) fn return_at_once(&mut self, endpoint: EndpointId, index: u32, record: &Record, status: Status) {
        let entry = self.endpoint(endpoint).ok().and_then(|e| e.translations.get(index)).and_then(|t| self.connections.get(t.connection));
        if let Some(connection) = entry {
            let returned = connection.returned_record(record, status);
            self.returns.push_back((endpoint, returned));
        }
    }

    #[cold]
    pub(crate) fn return_unmapped(&mut self, endpoint: EndpointId, index: u32, record: &Record) -> Sent {
        let Ok(from) = self.endpoint(endpoint) else { return Sent::Yes };
        let nowhere = Connection::new(endpoint, Role::Client { index }, from.name, 0);
        self.returns.push_back((endpoint, nowhere.returned_record(record, Status::BadEntry)));
        Sent::Yes
    }

    #[cold]
    pub(crate) fn request_unconnected(&mut self, id: ConnectionId, record: &Record) -> Result<Sent, Error> {
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        match connection.state {
            State::Dead(status) => {
                let returned = connection.returned_record(record, End { status, death: connection.death });
                self.returns.push_back((connection.endpoint, returned));
                Ok(Sent::Yes)
            }
            State::Unconnected => Ok(Sent::Connect(id)),
            State::Connecting | State::Open => Ok(Sent::Wait),
        }
    }

    /// Puts a handler back that has run, unless another one is there by now: then it is the
    /// caller's, to be dropped with no lock held.
    pub(crate) fn put_back(&mut self, id: EndpointId, index: u8, handler: H) -> Option<H> {
        Slot::put_back(self.endpoints.get_mut(place(id)).and_then(|e| e.handlers.slot(index)), handler)
    }

    /// As [`put_back`](Self::put_back), of the handler of departures.
    pub(crate) fn put_back_departure(&mut self, id: EndpointId, handler: H) -> Option<H> {
        Slot::put_back(self.endpoints.get_mut(place(id)).map(|e| &mut e.on_departure), handler)
    }

    /// Ends what was accepted for this bundle and has not been looked at.
    pub(crate) fn drain<W: Wire>(&mut self, engine: &mut Engine<W>) {
        engine.end_unseen(self.inbox);
    }
}

impl Request<'_> {
    #[inline]
    fn fill(&self, record: &mut Record) {
        let operation = if self.medium.is_some() { Operation::RequestMedium } else { Operation::Request };
        let (source, length) = self.medium.map_or((0, 0), |m| (m.0.addr(), m.1 as u32));
        (record.operation, record.handler, record.arg_count) = (operation, self.handler, self.args.len() as u8);
        (record.length, record.source, record.offset) = (length, source, 0);
        record.args[..self.args.len()].copy_from_slice(self.args);
    }

    #[cold]
    pub(crate) fn record(&self) -> Record {
        let mut record = Record::default();
        self.fill(&mut record);
        record
    }
}
