// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a bundle as a machine: told the engine, it says which handler is to run. No lock, no clock, no thread inside.
//!
//! Invariants
//! - C1: at most one handler of a bundle runs at a time; its place is `Slot::Out` meanwhile. So the requests of a connection are handled in order, and one count tells the client which.
//! - C2: a connection's `out` holds at most [`LIMIT`] messages: a client that has more credits than it was given is cut off.
//! - C3: a request that was accepted is handled, or comes back once: its record lives from `note` until a count from the server covers it, or the connection dies.

use crate::acceptor::{LIMIT, create_vi, end_vi};
use crate::connection::{CREDITS_DEFAULT, Connection, ConnectionId, Record, Role, State};
use crate::endpoint::{Endpoint, Slot, Translation};
use crate::header::{ARGS_MAX, HEAD_BYTES_MAX, Head, Kind, MEDIUM_BYTES_MAX};
use crate::name::{Ask, Name};
use crate::status::{Error, Operation, Returned, Status};
use bellwire_via::handle::{Handle, Slab};
use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine, InboxHandle, PtagHandle, Taken, ViHandle};
use std::collections::{BTreeMap, VecDeque};
use std::thread::ThreadId;

/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration(5_000_000_000);
/// Connections and endpoints of a bundle.
const OBJECTS_MAX: usize = 1 << 20;

/// What an [`EndpointId`] names.
#[derive(Debug)]
pub enum EndpointMark {}

/// Names an endpoint in its bundle.
pub type EndpointId = Handle<EndpointMark>;

/// Where a request of this bundle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It has left, or came back already: the error handler will hear of it.
    Yes,
    /// Nothing done: no connection yet, no credit or no room.
    Wait,
}

/// A request as its caller gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub endpoint: EndpointId,
    pub index: u32,
    pub handler: u8,
    pub args: &'a [i32],
    /// The payload of a medium.
    pub medium: Option<&'a [u8]>,
}

/// A bundle.
#[derive(Debug)]
pub(crate) struct Core<H> {
    pub(crate) inbox: InboxHandle,
    pub(crate) endpoints: Slab<Endpoint<H>>,
    pub(crate) connections: Slab<Connection>,
    /// Endpoints by the number in their name.
    pub(crate) numbers: BTreeMap<u64, EndpointId>,
    /// What comes back, for the error handlers.
    pub(crate) returns: VecDeque<(EndpointId, Returned)>,
    /// Connections whose `out` is not empty, and servers that have handled more than they told.
    pub(crate) unsent: Vec<ConnectionId>,
    pub(crate) untold: Vec<ConnectionId>,
    /// Connection requests of the engine that this bundle has had seen to.
    pub(crate) accepted: u64,
    /// Who runs handlers.
    pub(crate) running: Option<ThreadId>,
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
            unsent: Vec::new(),
            untold: Vec::new(),
            accepted: 0,
            running: None,
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

    /// Ends an endpoint and its connections; its requests that are not handled are dropped with their error handler.
    pub(crate) fn remove_endpoint<W: Wire>(&mut self, engine: &mut Engine<W>, id: EndpointId) -> Result<Name, Error> {
        let endpoint = self.endpoints.remove(place(id)).ok_or(Error::BadArgument)?;
        self.numbers.remove(&endpoint.name.endpoint);
        self.returns.retain(|(of, _)| *of != id);
        let of: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| c.endpoint == id).map(|(h, _)| h).collect();
        for connection in of {
            self.remove_connection(engine, connection);
        }
        let _ = engine.destroy_ptag(endpoint.ptag);
        Ok(endpoint.name)
    }

    pub(crate) fn remove_connection<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            end_vi(engine, connection.vi);
        }
    }

    /// Maps entry `index` to `name`.
    pub(crate) fn map(&mut self, id: EndpointId, index: u32, name: Name, tag: u64) -> Result<(), Error> {
        let entry = self.endpoint(id)?.translations.get(index as usize).ok_or(Error::BadArgument)?;
        if entry.is_some() {
            return Err(Error::InUse);
        }
        let connection = self.connections.insert(Connection::new(id, Role::Client { index }, name, tag)).ok_or(Error::Resource)?;
        self.endpoint_mut(id)?.translations[index as usize] = Some(Translation { connection });
        Ok(())
    }

    /// Frees entry `index`; what was sent there and is not handled comes back.
    pub(crate) fn unmap<W: Wire>(&mut self, engine: &mut Engine<W>, id: EndpointId, index: u32) -> Result<(), Error> {
        let entry = self.endpoint_mut(id)?.translations.get_mut(index as usize).ok_or(Error::BadArgument)?;
        let translation = entry.take().ok_or(Error::BadArgument)?;
        self.die(translation.connection, Status::BadEntry);
        self.remove_connection(engine, translation.connection);
        Ok(())
    }

    /// Sends a request, or says that it has to wait.
    #[inline]
    pub(crate) fn request<W: Wire>(&mut self, engine: &mut Engine<W>, request: &Request<'_>) -> Result<Sent, Error> {
        let payload = request.medium.unwrap_or_default();
        if request.args.len() > ARGS_MAX || request.handler == 0 || payload.len() > MEDIUM_BYTES_MAX {
            return Err(Error::BadArgument);
        }
        let endpoint = self.endpoints.get_mut(place(request.endpoint)).ok_or(Error::BadArgument)?;
        let Some(id) = endpoint.translation(request.index).map(|t| t.connection) else {
            return Ok(self.return_unmapped(request));
        };
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        if connection.state != State::Open {
            return self.request_unconnected(engine, id, request);
        }
        if connection.outstanding() >= connection.credits || !connection.out.is_empty() {
            return Ok(Sent::Wait);
        }
        let (kind, size) = if request.medium.is_some() { (Kind::Medium, 1) } else { (Kind::Short, 0) };
        let mut bytes = [0; HEAD_BYTES_MAX];
        let head_bytes = Head::new(kind, request.handler, request.args).store(&mut bytes);
        match connection.send(engine, &bytes[..head_bytes], payload) {
            Some(0) => return Ok(Sent::Wait),
            Some(sent) if sent < head_bytes + payload.len() => {
                connection.keep_rest(&bytes[..head_bytes], payload, sent);
                connection.is_unsent = true;
                self.unsent.push(id);
            }
            Some(_) => {}
            None => return Ok(Sent::Wait), // Broken: the notice of it is on its way.
        }
        fill(connection.note(), request);
        endpoint.counters.requests_sent[size] += 1;
        endpoint.counters.bytes_sent += payload.len() as u64;
        Ok(Sent::Yes)
    }

    #[cold]
    fn return_unmapped(&mut self, request: &Request<'_>) -> Sent {
        let Ok(endpoint) = self.endpoint(request.endpoint) else { return Sent::Yes };
        let nowhere = Connection::new(request.endpoint, Role::Client { index: request.index }, endpoint.name, 0);
        let mut record = Record::default();
        fill(&mut record, request);
        self.returns.push_back((request.endpoint, nowhere.returned_record(&record, Status::BadEntry)));
        Sent::Yes
    }

    #[cold]
    fn request_unconnected<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, request: &Request<'_>) -> Result<Sent, Error> {
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        match connection.state {
            State::Dead(status) => {
                let mut record = Record::default();
                fill(&mut record, request);
                let returned = connection.returned_record(&record, status);
                self.returns.push_back((request.endpoint, returned));
                Ok(Sent::Yes)
            }
            State::Unconnected => self.connect(engine, id).map(|()| Sent::Wait),
            State::Connecting | State::Open => Ok(Sent::Wait),
        }
    }

    /// Begins to connect; the inbox says how it ends. The engine has been told the time.
    fn connect<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) -> Result<(), Error> {
        let inbox = self.inbox;
        let Some(connection) = self.connections.get_mut(id) else { return Err(Error::BadArgument) };
        let endpoint = self.endpoints.get(place(connection.endpoint)).ok_or(Error::BadArgument)?;
        let ask = Ask { from: endpoint.name, wanted: connection.peer.endpoint, tag: connection.tag };
        // The wanted endpoint and who asks travel in the local address; the remote one is where the device waits.
        let (local, remote) = (ask.address().ok_or(Error::BadArgument)?, connection.peer.device_address().ok_or(Error::BadArgument)?);
        let vi = create_vi(engine, endpoint.ptag, inbox, u64::from(id.raw()))?;
        let deadline = engine.now() + CONNECT_PATIENCE;
        if let Err(e) = engine.connect_request(vi, &local, &remote, deadline) {
            end_vi(engine, vi);
            return Err(e.into());
        }
        (connection.vi, connection.state) = (vi, State::Connecting);
        Ok(())
    }

    /// An attempt to connect has ended.
    pub(crate) fn connected<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, outcome: Result<u64, bellwire_via::Error>) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        match outcome {
            Ok(offered) => {
                connection.credits = u32::try_from(offered).unwrap_or(u32::MAX).clamp(1, CREDITS_DEFAULT);
                connection.state = State::Open;
            }
            Err(e) => {
                let status = if e == bellwire_via::Error::Rejected { Status::BadEndpoint } else { Status::Unreachable };
                end_vi(engine, core::mem::replace(&mut connection.vi, ViHandle::from_raw(0)));
                self.die(id, status);
            }
        }
    }

    /// Somebody has connected to an endpoint of this bundle.
    pub(crate) fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, ask: Option<Ask>) {
        let known = ask.and_then(|a| Some((a, *self.numbers.get(&a.wanted)?)));
        let id = known.and_then(|(ask, endpoint)| {
            let mut connection = Connection::new(endpoint, Role::Server, ask.from, ask.tag);
            (connection.vi, connection.state) = (vi, State::Open);
            self.connections.insert(connection)
        });
        let is_set = id.is_some_and(|id| engine.set_inbox(vi, self.inbox, LIMIT, u64::from(id.raw())).is_ok());
        if !is_set {
            end_vi(engine, vi);
            if let Some(id) = id {
                self.connections.remove(id);
            }
        }
    }

    /// A connection is over: a client's requests that are not handled come back; of a server nothing is left.
    pub(crate) fn broken<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, status: Status) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let is_client = connection.role != Role::Server;
        end_vi(engine, core::mem::replace(&mut connection.vi, ViHandle::from_raw(0)));
        self.die(id, status);
        if !is_client {
            self.connections.remove(id);
        }
    }

    fn die(&mut self, id: ConnectionId, status: Status) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.state = State::Dead(status);
        connection.out.clear();
        while connection.outstanding() != 0 {
            let number = connection.acked;
            connection.acked = number.wrapping_add(1);
            self.returns.push_back((connection.endpoint, connection.returned(number, status)));
        }
    }

    /// Puts a handler back that has run, unless another one is there by now: then it is the caller's, to be dropped with no lock held.
    pub(crate) fn put_back(&mut self, id: EndpointId, index: u8, handler: H) -> Option<H> {
        match self.endpoints.get_mut(place(id)).map(|e| &mut e.handlers[usize::from(index)]) {
            Some(slot @ Slot::Out) => {
                *slot = Slot::Here(handler);
                None
            }
            _ => Some(handler),
        }
    }

    /// Ends what was accepted for this bundle and has not been looked at.
    pub(crate) fn drain<W: Wire>(&mut self, engine: &mut Engine<W>) {
        while engine.inbox_has(self.inbox) {
            if let Some(Taken::Notice(_, vi, _)) = engine.take(self.inbox, &mut [0; 7]) {
                end_vi(engine, vi);
            }
        }
    }
}

#[inline]
fn fill(record: &mut Record, request: &Request<'_>) {
    let operation = if request.medium.is_some() { Operation::RequestMedium } else { Operation::Request };
    let (source, length) = request.medium.map_or((0, 0), |m| (m.as_ptr().addr(), m.len() as u32));
    (record.operation, record.handler, record.arg_count) = (operation, request.handler, request.args.len() as u8);
    (record.length, record.source, record.offset) = (length, source, 0);
    record.args[..request.args.len()].copy_from_slice(request.args);
}
