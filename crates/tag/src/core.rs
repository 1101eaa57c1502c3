// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of an endpoint as a machine: told the engine, it keeps what has ended for the program.
//! No lock, clock or thread.
//!
//! Invariants
//! - C1: an operation is in `operations` from its call until its completion is given, once; its
//!   connection is open or being made.
//! - C2: an operation's number that a peer names is looked up, and is of that peer's connection, or
//!   nothing is done.

use crate::completion::{Completion, Error, Failure, NOBODY, Notes};
use crate::connection::{Body, Connection, ConnectionId, Doing, Multi, Operation, OperationId, Order, Out, Then};
use crate::ends::Ends;
use crate::gone::Gone;
use crate::header::{Head, Kind};
use crate::listener::Listener;
use crate::matching::Matcher;
use crate::name::Name;
use crate::posted::{Message, Receive};
use crate::regions::SharedRegions;
use crate::shared::Sharing;
use bellwire_peer::{Mailbox, Unsent};
use bellwire_via::handle::Slab;
use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Engine};
use std::collections::{BTreeMap, VecDeque};

/// Unexpected payloads that an endpoint holds before it asks peers to keep them, bytes.
pub const UNEXPECTED_BYTES_MAX: usize = 64 << 20;
/// Operations under way.
const OPERATIONS_MAX: usize = 1 << 17;
/// Connections of an endpoint.
const CONNECTIONS_MAX: usize = 1 << 16;
/// A multi-receive buffer with less room than this is given back, unless the program says
/// otherwise.
const MULTI_LEFT_MIN: usize = 64;

/// Numbers that a program may call peers.
const ADDRESSES_MAX: usize = 1 << 24;

/// Names a peer of an endpoint.
pub(crate) type PeerIndex = u32;
const NO_PEER: PeerIndex = PeerIndex::MAX;

/// Another endpoint.
#[derive(Debug)]
pub(crate) struct Peer {
    pub name: Name,
    /// Who it is as a source: the first of the endpoints that have its name together.
    pub source: PeerIndex,
    /// What the program calls it, last of all.
    pub address: u64,
    /// And what else: the program may give a peer several numbers.
    others: Vec<u64>,
    /// The connection that we send on.
    pub out: Option<ConnectionId>,
    /// It cannot be reached.
    pub gone: Option<Gone>,
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Core {
    pub mailbox: Mailbox,
    pub name: Name,
    pub connections: Slab<Connection>,
    pub peers: Vec<Peer>,
    pub by_name: BTreeMap<Name, PeerIndex>,
    /// Peers by what the program calls them.
    pub addresses: Vec<PeerIndex>,
    pub operations: Slab<Operation>,
    pub multis: Slab<Multi>,
    /// Messages without a tag, and tagged ones.
    pub queues: [Matcher<Receive, Message>; 2],
    pub unexpected_bytes: usize,
    pub is_full: bool,
    /// Connections with something that waits to leave.
    pub unsent: Unsent<ConnectionId>,
    /// Receives that pull their messages, by turns.
    pub pulls: VecDeque<OperationId>,
    /// Where others ask for connections; requests seen to.
    pub acceptor: Acceptor,
    pub regions: SharedRegions,
    /// Messages of peers that the program has no number for are not taken.
    pub known_only: bool,
    /// Room below which a multi-receive buffer is given back.
    pub multi_left_min: usize,
    /// Receives that it has in common with others, in place of its own.
    pub sharing: Option<Sharing>,
    /// Completions that wait.
    pub ends: Ends,
    /// Hears the users of other endpoints.
    pub listener: Option<Hears>,
    /// The NIC's helper steps it when the program does not look.
    pub stands_in: bool,
    /// Something else than a queue rings for the program: traffic is seen to at once.
    pub is_watched: bool,
}

/// A listener.
pub(crate) struct Hears(pub Box<dyn Listener>);

impl core::fmt::Debug for Hears {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hears")
    }
}

impl Core {
    pub(crate) fn new(mailbox: Mailbox, name: Name, regions: SharedRegions) -> Self {
        Self {
            mailbox,
            name,
            connections: Slab::new(CONNECTIONS_MAX),
            peers: Vec::new(),
            by_name: BTreeMap::new(),
            addresses: Vec::new(),
            operations: Slab::new(OPERATIONS_MAX),
            multis: Slab::new(OPERATIONS_MAX),
            queues: [Matcher::default(), Matcher::default()],
            unexpected_bytes: 0,
            is_full: false,
            unsent: Unsent::default(),
            pulls: VecDeque::new(),
            acceptor: Acceptor::default(),
            regions,
            known_only: false,
            multi_left_min: MULTI_LEFT_MIN,
            sharing: None,
            ends: Ends::default(),
            listener: None,
            stands_in: false,
            is_watched: false,
        }
    }

    /// The index of a peer, made if need be.
    pub(crate) fn peer(&mut self, name: Name) -> PeerIndex {
        if let Some(peer) = self.by_name.get(&name) {
            return *peer;
        }
        let first = if name.context() == 0 { None } else { Some(self.peer(name.with_context(0))) };
        let peer = self.peers.len() as PeerIndex;
        self.peers.push(Peer { name, source: first.unwrap_or(peer), address: NOBODY, others: Vec::new(), out: None, gone: None });
        self.by_name.insert(name, peer);
        peer
    }

    /// Who is a source by what the program calls it.
    pub(crate) fn resolve_source(&self, address: u64) -> Option<PeerIndex> {
        self.resolve(address).map(|peer| self.peers[peer as usize].source)
    }

    /// From now on the program calls `name` so. `false`: the number is too large.
    pub(crate) fn learn(&mut self, address: u64, name: Name) -> bool {
        let Some(at) = usize::try_from(address).ok().filter(|at| *at < ADDRESSES_MAX) else { return false };
        let peer = self.peer(name);
        let before = self.resolve(address);
        if before.is_some_and(|before| before != peer) {
            self.forget(address);
        }
        let p = &mut self.peers[peer as usize];
        // A name that the program gives anew may be somebody's again: that of a service.
        p.gone = None;
        if before == Some(peer) {
            return true;
        }
        let last = core::mem::replace(&mut p.address, address);
        if last != NOBODY {
            p.others.push(last);
        }
        if self.addresses.len() <= at {
            self.addresses.resize(at + 1, NO_PEER);
        }
        self.addresses[at] = peer;
        true
    }

    /// The program calls nobody so any more.
    pub(crate) fn forget(&mut self, address: u64) {
        let Some(peer) = self.resolve(address) else { return };
        self.addresses[address as usize] = NO_PEER;
        let p = &mut self.peers[peer as usize];
        if p.address == address {
            p.address = p.others.pop().unwrap_or(NOBODY);
        } else if let Some(at) = p.others.iter().position(|other| *other == address) {
            p.others.remove(at);
        }
    }

    /// Whom the program calls so.
    #[inline]
    pub(crate) fn resolve(&self, address: u64) -> Option<PeerIndex> {
        self.addresses.get(usize::try_from(address).ok()?).copied().filter(|p| *p != NO_PEER)
    }

    #[inline]
    pub(crate) fn address_of(&self, peer: PeerIndex) -> u64 {
        self.peers.get(peer as usize).map_or(NOBODY, |p| p.address)
    }

    /// The connection to whom the program calls so, begun if there is none. The engine has been
    /// told the time if it was (see [`Core::is_connected`]).
    #[inline]
    pub(crate) fn connection_to<W: Wire>(&mut self, engine: &mut Engine<W>, address: u64) -> Result<ConnectionId, Error> {
        let peer = self.resolve(address).ok_or(Error::BadArgument)?;
        let p = &self.peers[peer as usize];
        match p.out {
            Some(id) => Ok(id),
            None if p.gone.is_some() => Err(Error::Unreachable),
            None => self.connect(engine, peer),
        }
    }

    /// Whether there is a connection, or none is needed: else the engine must know the time before
    /// anything is sent there.
    #[inline]
    pub(crate) fn is_connected(&self, address: u64) -> bool {
        self.resolve(address).is_none_or(|peer| self.peers[peer as usize].out.is_some())
    }

    /// Begins an operation of the program, on a connection with room for it.
    pub(crate) fn begin(&mut self, operation: Operation) -> Result<OperationId, Error> {
        self.operations.insert(operation).ok_or(Error::Again)
    }

    /// Ends an operation.
    pub(crate) fn finish(&mut self, id: OperationId, failure: Option<Failure>) {
        let Some(mut operation) = self.operations.remove(id) else { return };
        if let Some(connection) = self.connections.get_mut(operation.connection) {
            if matches!(operation.doing, Doing::Announced | Doing::Lent | Doing::Streaming | Doing::Awaiting | Doing::Fetching) {
                connection.awaited = connection.awaited.saturating_sub(1);
            }
            if failure.is_some() {
                connection.streams.retain(|s| s.own != Some(id));
            }
            if connection.awaited == 0 && !connection.out.is_empty() {
                self.mark_unsent(operation.connection);
            }
        }
        if failure.is_some() {
            operation.completion.failure = failure;
        }
        if let Some(multi) = operation.multi {
            self.came(multi, &mut operation.completion);
        }
        self.ends.end(&operation.completion);
    }

    /// A message has come into a multi-receive buffer: the last one, when it is spent, gives it
    /// back.
    pub(crate) fn came(&mut self, id: crate::connection::MultiId, completion: &mut Completion) {
        let Some(multi) = self.multis.get_mut(id) else { return };
        multi.coming -= 1;
        if multi.coming == 0 && multi.is_spent {
            completion.notes |= Notes::RELEASED;
            self.multis.remove(id);
        }
    }

    pub(crate) fn mark_unsent(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.unsent.mark(&mut connection.channel, id);
        }
    }

    /// Sends the outcome of a peer's request.
    pub(crate) fn answer<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId, operation: u32, failure: Option<Failure>) {
        let outcome = failure.map_or(0, Failure::to_bits);
        let head = Head::new(Kind::Done, 0, [u64::from(operation) | u64::from(outcome) << 32, 0, 0, 0]);
        self.queue(engine, id, Out { head: head.store(0), body: Body::Nothing, then: Then::Nothing, order: Order::Answer });
    }

    /// An unexpected message is no longer held.
    pub(crate) fn forget_bytes(&mut self, message: &Message) {
        self.unexpected_bytes = self.unexpected_bytes.saturating_sub(message.bytes_held());
        if self.is_full && self.unexpected_bytes <= UNEXPECTED_BYTES_MAX / 2 {
            self.is_full = false;
            // Those who were told that there is no room hear that there is.
            let told: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| c.told_full).map(|(id, _)| id).collect();
            for id in told {
                if let Some(connection) = self.connections.get_mut(id) {
                    let head = Head::new(Kind::Credit, 0, [0; 4]).store(0);
                    connection.out.push_back(Out { head, body: Body::Nothing, then: Then::Nothing, order: Order::Answer });
                }
                self.mark_unsent(id);
            }
        }
    }
}
