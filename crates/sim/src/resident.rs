// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated NIC with more endpoints than frames: the transport under it is `proto`'s, who is
//! resident is `residency`'s, and here is what joins the two. Stepped by [`EndpointWorld`], for
//! tests and scenarios.
//!
//! ```text
//!   post --> outbox --> [resident?] --> Transport --> fabric --> Transport --> [resident?] --> inbox --> take
//!                                          ^                        | no: refused, not resident
//!                                          +------------------------+
//! ```
//!
//! Messages of an endpoint have no order among each other: each has a stream of its own, so that
//! the refusal of one says nothing of another. An endpoint that is to be unloaded takes back, by
//! the transport's `recall`, what is known not to have been delivered; while the fate of one
//! message is open it stays.
//!
//! Invariants
//! - N1: a message is in one place: an outbox, the transport, an inbox, or among those that came
//!   back.
//! - N2: only a resident endpoint sends or receives. Its outbox moves with it.

mod world;

pub use world::EndpointWorld;

use crate::{FabricBuffer, FabricPort};
use bellwire_proto::{Config, Delivery, Event, Head, Refusal, ReturnReason, Returned, Sent, SessionId, Statistics, Transport};
use bellwire_residency::{Action, EndpointId, Residency};
use bellwire_time::{Duration, Instant};
use bellwire_via::wire::packet::PacketPort;
use core::cmp::Reverse;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Words of a message's head: what it is and for whom, from whom, which NIC it is for, its number.
const HEAD_WORDS: usize = 4;
/// No head begins with a zero word.
const MARK: u64 = 1 << 32;

/// What a message can carry: it fits into the smallest datagram that a path may fall back to.
pub const PAYLOAD_BYTES_MAX: usize = 1024;

/// A message of one endpoint to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's number for it.
    pub id: u64,
    /// Sending endpoint, at NIC and place.
    pub from: (u32, EndpointId),
    /// Receiving endpoint, at NIC and place.
    pub to: (u32, EndpointId),
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Message {
    fn head(&self) -> [u64; HEAD_WORDS] {
        [MARK | u64::from(self.to.1.0), u64::from(self.from.0) << 32 | u64::from(self.from.1.0), u64::from(self.to.0), self.id]
    }

    fn read(head: &Head, payload: &[u8]) -> Option<Self> {
        let &[what, from, nic, id] = &**head else { return None };
        if what >> 32 != 1 {
            return None;
        }
        let from = ((from >> 32) as u32, EndpointId(from as u32));
        Some(Self { id, from, to: (nic as u32, EndpointId(what as u32)), payload: payload.to_vec() })
    }

    /// One for each message under way, nearly.
    fn stream(&self) -> u32 {
        (self.from.1.0 << 8 | (self.id & 0xff) as u32).wrapping_add(1)
    }
}

/// How long it takes to move the image of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveTimes {
    /// From host memory into a frame.
    pub load: Duration,
    /// Back.
    pub unload: Duration,
}

/// Settings of a NIC.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Its number: the place of its address in `peers`.
    pub nic: u32,
    /// Addresses of all NICs; [`EndpointWorld`] fills them in.
    pub peers: Vec<SocketAddr>,
    /// Endpoints that it serves.
    pub endpoints: u32,
    /// Messages in an inbox at most; further ones are refused.
    pub inbox_max: usize,
    /// Of the transport. Refused packets wait for half of
    /// [`stay`](bellwire_residency::Config::stay) at most.
    pub transport: Config,
    /// Of the frames.
    pub residency: bellwire_residency::Config,
    /// Of moving images.
    pub times: MoveTimes,
}

/// What a program that sleeps should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A message has come into an empty inbox.
    Arrived(EndpointId),
    /// An endpoint is resident.
    Resident(EndpointId),
}

#[derive(Debug, Default)]
struct Endpoint {
    outbox: VecDeque<Message>,
    inbox: VecDeque<Message>,
}

#[derive(Debug)]
enum Link {
    Opening,
    Up(SessionId),
}

/// A NIC. Call [`turn`](Self::turn) after each call of another method, when packets have come, and
/// at [`next_timeout`](Self::next_timeout).
#[derive(Debug)]
pub struct EndpointNic {
    config: NicConfig,
    port: FabricPort,
    transport: Transport<FabricBuffer>,
    residency: Residency,
    endpoints: Vec<Endpoint>,
    links: BTreeMap<u32, Link>,
    moves: BinaryHeap<Reverse<(Instant, bool, EndpointId)>>,
    failed: VecDeque<(Message, ReturnReason)>,
    notices: VecDeque<Notice>,
}

impl EndpointNic {
    /// A NIC at a port of the fabric. `seed` is that of its transport and of its choice of victims.
    pub fn new(port: FabricPort, config: NicConfig, seed: u64) -> Self {
        let transport = Config {
            // Frames of several endpoints would share a packet, and a refusal.
            coalesce_bytes_max: 0,
            // The fabric takes packets one by one: no run is waited for.
            run_packets_max: 1,
            // The fabric has none.
            checksum: true,
            // The endpoint that a refused message has called into a frame must still be there when
            // the message comes again. All NICs have the same stay.
            refusal_wait_max: config.transport.refusal_wait_max.min(Duration(config.residency.stay.0 / 2)),
            ..config.transport.clone()
        };
        Self {
            transport: Transport::new(transport, seed),
            residency: Residency::new(config.residency.clone(), seed),
            endpoints: (0..config.endpoints).map(|_| Endpoint::default()).collect(),
            links: BTreeMap::new(),
            moves: BinaryHeap::new(),
            failed: VecDeque::new(),
            notices: VecDeque::new(),
            port,
            config,
        }
    }

    /// A program writes a message; it leaves when its endpoint is resident.
    ///
    /// # Panics
    /// If there is no such endpoint here, or the payload is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn post(&mut self, now: Instant, message: Message) {
        assert!(message.payload.len() <= PAYLOAD_BYTES_MAX, "a message fits into the smallest datagram");
        let endpoint = message.from.1;
        self.endpoints[endpoint.0 as usize].outbox.push_back(message);
        self.residency.access(now, endpoint);
    }

    /// A program writes into the endpoint itself: if that is not resident, it is demanded, and the
    /// program has to wait for [`Notice::Resident`].
    ///
    /// # Panics
    /// As [`post`](Self::post).
    pub fn write(&mut self, now: Instant, message: Message) -> Result<(), Message> {
        if self.residency.access(now, message.from.1).is_none() {
            return Err(message);
        }
        self.post(now, message);
        Ok(())
    }

    /// Whether a program can write into an endpoint; if not, it is demanded.
    pub fn is_writable(&mut self, now: Instant, endpoint: EndpointId) -> bool {
        self.residency.access(now, endpoint).is_some()
    }

    /// Messages that have come for an endpoint and have not been taken.
    pub fn inbox(&self, endpoint: EndpointId) -> usize {
        self.endpoints.get(endpoint.0 as usize).map_or(0, |e| e.inbox.len())
    }

    /// Events for programs that sleep. Other programs need not ask.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// A program takes a message that has come. Inboxes are read in host memory too.
    pub fn take(&mut self, endpoint: EndpointId) -> Option<Message> {
        self.endpoints.get_mut(endpoint.0 as usize)?.inbox.pop_front()
    }

    /// A message that came back, and why.
    pub fn poll_failed(&mut self) -> Option<(Message, ReturnReason)> {
        self.failed.pop_front()
    }

    /// The endpoints' frames.
    pub fn residency(&self) -> &Residency {
        &self.residency
    }

    /// What the transport has counted.
    pub fn statistics(&self) -> &Statistics {
        self.transport.statistics()
    }

    /// Messages that wait in outboxes.
    pub fn waiting(&self) -> usize {
        self.endpoints.iter().map(|e| e.outbox.len()).sum()
    }

    /// When the next turn is due.
    pub fn next_timeout(&self) -> Instant {
        let moved = self.moves.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
        self.transport.next_timeout().min(self.residency.next_timeout()).min(moved)
    }

    /// Takes what has come, does what is due, sends what can leave.
    pub fn turn(&mut self, now: Instant) {
        // Notices that nobody fetched are not worth keeping.
        self.notices.clear();
        while let Some((from, buffer)) = self.port.receive() {
            self.transport.handle_packet(now, from, buffer);
        }
        self.transport.handle_timeout(now);
        self.residency.handle_timeout(now);
        self.finish_moves(now);
        self.deliver(now);
        self.events();
        self.settle(now);
        self.act(now);
        self.settle(now);
        self.act(now);
        self.send(now);
        if self.port.is_ready() {
            while let Some(transmit) = self.transport.poll_transmit(now) {
                self.port.send(&transmit);
            }
        }
    }

    fn finish_moves(&mut self, now: Instant) {
        while let Some(Reverse((at, is_load, endpoint))) = self.moves.peek().copied()
            && at <= now
        {
            self.moves.pop();
            if is_load {
                self.residency.loaded(now, endpoint);
                self.notices.push_back(Notice::Resident(endpoint));
            } else {
                let wanted = !self.endpoints[endpoint.0 as usize].outbox.is_empty();
                self.residency.unloaded(now, endpoint, wanted);
            }
        }
    }

    fn deliver(&mut self, now: Instant) {
        while let Some(session) = self.transport.next_delivery() {
            while let Some(delivery) = self.transport.poll_deliver(session) {
                if let Err((consumed, reason)) = self.receive(now, &delivery) {
                    // It was fetched just now, and nothing has left since.
                    let refused = self.transport.refuse(now, delivery, consumed, reason);
                    debug_assert!(refused.is_ok());
                }
            }
        }
    }

    /// Each frame goes to its endpoint; or how many did, and why the next could not.
    fn receive(&mut self, now: Instant, delivery: &Delivery<FabricBuffer>) -> Result<(), (usize, Refusal)> {
        for (index, frame) in delivery.frames().enumerate() {
            let message = Message::read(&frame.head, frame.payload).filter(|m| m.to.0 == self.config.nic && m.to.1.0 < self.config.endpoints);
            let message = message.ok_or((index, Refusal::NoStream))?;
            self.residency.access(now, message.to.1).ok_or((index, Refusal::NotResident))?;
            let inbox = &mut self.endpoints[message.to.1.0 as usize].inbox;
            if inbox.len() >= self.config.inbox_max {
                return Err((index, Refusal::NoReceive));
            }
            if inbox.is_empty() {
                self.notices.push_back(Notice::Arrived(message.to.1));
            }
            inbox.push_back(message);
        }
        Ok(())
    }

    fn events(&mut self) {
        while let Some(event) = self.transport.poll_event() {
            match event {
                Event::Up { session, .. } => {
                    let address = self.transport.session_info(session).map(|info| info.address);
                    if let Some(nic) = self.config.peers.iter().position(|peer| Some(*peer) == address) {
                        self.links.insert(nic as u32, Link::Up(session));
                    }
                }
                Event::Failed { context, .. } => {
                    self.links.remove(&(context as u32));
                }
                Event::Down { session, .. } => {
                    self.links.retain(|_, link| !matches!(link, Link::Up(id) if *id == session));
                    self.fetch_returned(session);
                }
                Event::Returned { session } => self.fetch_returned(session),
                _ => {}
            }
        }
    }

    fn fetch_returned(&mut self, session: SessionId) {
        while let Some(Returned { head, payload, reason, .. }) = self.transport.poll_returned(session) {
            if let Some(message) = Message::read(&head, &payload) {
                self.failed.push_back((message, reason));
            }
        }
    }

    /// Those that quiesce take back what was refused; an endpoint with nothing open may go.
    fn settle(&mut self, now: Instant) {
        let quiescing: Vec<EndpointId> = self.residency.quiescing().collect();
        for endpoint in quiescing {
            let mut open = 0;
            for link in self.links.values() {
                let Link::Up(session) = link else { continue };
                let mine = |head: &Head| head.get(1).is_some_and(|from| *from as u32 == endpoint.0);
                // A session that is down has given back all it had.
                let Ok(recalled) = self.transport.recall(now, *session, mine) else { continue };
                open += recalled.open;
                let back = recalled.frames.iter().filter_map(|f| Message::read(&f.head, &f.payload));
                self.endpoints[endpoint.0 as usize].outbox.extend(back);
            }
            if open == 0 {
                self.residency.settled(now, endpoint);
            }
        }
    }

    fn act(&mut self, now: Instant) {
        while let Some(action) = self.residency.poll_action() {
            match action {
                Action::Quiesce(_) => {}
                Action::Unload(endpoint, _) => self.moves.push(Reverse((now + self.config.times.unload, false, endpoint))),
                Action::Load(endpoint, _) => self.moves.push(Reverse((now + self.config.times.load, true, endpoint))),
            }
        }
    }

    /// Resident endpoints send what they have, as far as there is room.
    fn send(&mut self, now: Instant) {
        for place in 0..self.config.endpoints {
            let endpoint = EndpointId(place);
            while let Some(message) = self.endpoints[place as usize].outbox.front()
                && self.residency.access(now, endpoint).is_some()
            {
                let Some(session) = self.session(now, message.to.0) else { break };
                let message = &self.endpoints[place as usize].outbox[0];
                let (payload, stream) = (&message.payload, message.stream());
                let sent = self.transport.send(now, session, stream, &message.head(), payload.len(), |bytes| {
                    bytes.copy_from_slice(payload);
                    true
                });
                match sent {
                    Sent::Yes => drop(self.endpoints[place as usize].outbox.pop_front()),
                    _ => break,
                }
            }
        }
    }

    /// The session with a NIC; if there is none, it is begun.
    fn session(&mut self, now: Instant, nic: u32) -> Option<SessionId> {
        match self.links.get(&nic) {
            Some(Link::Up(session)) => Some(*session),
            Some(Link::Opening) => None,
            None => {
                let to = *self.config.peers.get(nic as usize)?;
                if self.transport.connect(now, to, nic.into()).is_ok() {
                    self.links.insert(nic, Link::Opening);
                }
                None
            }
        }
    }
}
