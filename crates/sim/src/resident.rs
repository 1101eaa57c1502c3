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
//! An endpoint has four queues: requests and replies, to be sent and received. The NIC has a
//! processor, which does one thing at a time: it takes a packet in, or it sends a message of the
//! endpoint whose turn it is, by turns. A message longer than a short one crosses the host's bus
//! meanwhile, as the images of endpoints do that are moved. `turns.rs`: whose turn it is;
//! `places.rs`: the free places of a receive queue.
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
//! - N3: the processor begins nothing before `busy_until`, and the bus moves one thing at a time.

mod places;
mod turns;
mod world;

pub use turns::LOITER_DEFAULT;
pub use world::EndpointWorld;

use places::Places;
use turns::Turns;

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
/// Of a reply, also this.
const REPLY: u64 = 1 << 33;

/// What a message can carry: a medium message of the paper.
pub const PAYLOAD_BYTES_MAX: usize = 8192;
/// A datagram that holds it.
const DATAGRAM_BYTES: usize = PAYLOAD_BYTES_MAX + 128;
/// A short message, which the program writes into the NIC itself.
pub const SHORT_BYTES_MAX: usize = 64;

/// A message of one endpoint to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's number for it.
    pub id: u64,
    /// Sending endpoint, at NIC and place.
    pub from: (u32, EndpointId),
    /// Receiving endpoint, at NIC and place.
    pub to: (u32, EndpointId),
    /// Whether it is a reply: it has queues of its own.
    pub reply: bool,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Message {
    fn head(&self) -> [u64; HEAD_WORDS] {
        [
            MARK | if self.reply { REPLY } else { 0 } | u64::from(self.to.1.0),
            u64::from(self.from.0) << 32 | u64::from(self.from.1.0),
            u64::from(self.to.0),
            self.id,
        ]
    }

    fn read(head: &Head, payload: &[u8]) -> Option<Self> {
        let &[what, from, nic, id] = &**head else { return None };
        if !matches!(what >> 32, 1 | 3) {
            return None;
        }
        let from = ((from >> 32) as u32, EndpointId(from as u32));
        Some(Self { id, from, to: (nic as u32, EndpointId(what as u32)), reply: what & REPLY != 0, payload: payload.to_vec() })
    }

    /// One for each message under way, nearly.
    fn stream(&self) -> u32 {
        (self.from.1.0 << 8 | (self.id & 0xff) as u32).wrapping_add(1)
    }
}

/// How long it takes to move the image of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveTimes {
    /// Of the driver, before an image goes from host memory into a frame.
    pub load: Duration,
    /// Before it goes back.
    pub unload: Duration,
    /// The image, which crosses the bus.
    pub image_bytes: u64,
}

/// How long a NIC takes for what it does. The default is no time at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicTimes {
    /// Of the processor, for each packet in or out.
    pub packet: Duration,
    /// Of the processor, to go to another endpoint.
    pub switch: Duration,
    /// Of the processor, to look at a queue that is empty.
    pub look: Duration,
    /// To begin a transfer over the bus.
    pub dma: Duration,
    /// Bytes that cross the bus in a second; 0: any number at once.
    pub bus_bytes_per_second: u64,
}

/// An image of an endpoint that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Move {
    endpoint: EndpointId,
    is_load: bool,
    /// The driver has done its part, and the image crosses the bus.
    on_bus: bool,
}

/// The host's bus, and a processor that waits for it.
#[derive(Debug, Default)]
struct Bus {
    free_at: Instant,
}

impl Bus {
    /// A transfer that may begin at `from`: when it is over.
    fn transfer(&mut self, times: &NicTimes, from: Instant, bytes: u64) -> Instant {
        if times.bus_bytes_per_second == 0 || bytes == 0 {
            return from;
        }
        let time = Duration((u128::from(bytes) * 1_000_000_000 / u128::from(times.bus_bytes_per_second)) as u64);
        self.free_at = self.free_at.max(from) + times.dma + time;
        self.free_at
    }
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
    /// Messages in a receive queue at most; further ones are refused.
    pub inbox_max: usize,
    /// Attempts to send that an endpoint has in a turn, whether it has something to send or not:
    /// the paper's K. At least 1.
    pub loiter: u32,
    /// Of what the NIC does.
    pub nic_times: NicTimes,
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

/// The four queues; those of requests first.
#[derive(Debug, Default)]
struct Endpoint {
    outbox: [VecDeque<Message>; 2],
    inbox: [VecDeque<Message>; 2],
    places: [Places; 2],
}

impl Endpoint {
    /// The next message to send: replies first, so that requests cannot keep them back.
    fn next(&self) -> Option<&Message> {
        self.outbox[1].front().or(self.outbox[0].front())
    }

    fn post(&mut self, message: Message) {
        self.outbox[usize::from(message.reply)].push_back(message);
    }

    fn has_to_send(&self) -> bool {
        self.outbox.iter().any(|q| !q.is_empty())
    }
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
    turns: Turns,
    bus: Bus,
    busy_until: Instant,
    /// The last thing that the processor did was to send.
    sent_last: bool,
    /// Longest time that a refused message waits.
    refusal_wait: Duration,
    links: BTreeMap<u32, Link>,
    moves: BinaryHeap<Reverse<(Instant, Move)>>,
    failed: VecDeque<(Message, ReturnReason)>,
    notices: VecDeque<Notice>,
    now: Instant,
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
            // The path is known.
            datagram_max: DATAGRAM_BYTES,
            probe_path: false,
            ..config.transport.clone()
        };
        Self {
            turns: Turns::new(config.loiter),
            bus: Bus::default(),
            busy_until: Instant(0),
            sent_last: false,
            refusal_wait: transport.refusal_wait_max,
            transport: Transport::new(transport, seed),
            residency: Residency::new(config.residency.clone(), seed),
            endpoints: (0..config.endpoints).map(|_| Endpoint::default()).collect(),
            links: BTreeMap::new(),
            moves: BinaryHeap::new(),
            failed: VecDeque::new(),
            notices: VecDeque::new(),
            now: Instant(0),
            port,
            config,
        }
    }

    /// A program writes a message; it leaves when its endpoint is resident.
    ///
    /// # Panics
    /// If there is no such endpoint here, or the payload is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn post(&mut self, now: Instant, message: Message) {
        assert!(message.payload.len() <= PAYLOAD_BYTES_MAX, "a message fits into a datagram");
        let endpoint = message.from.1;
        self.endpoints[endpoint.0 as usize].post(message);
        self.turns.add(endpoint);
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
        self.endpoints.get(endpoint.0 as usize).map_or(0, |e| e.inbox.iter().map(VecDeque::len).sum())
    }

    /// Events for programs that sleep. Other programs need not ask.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// A program takes a message that has come, replies first. Inboxes are read in host memory too.
    pub fn take(&mut self, endpoint: EndpointId) -> Option<Message> {
        let [requests, replies] = &mut self.endpoints.get_mut(endpoint.0 as usize)?.inbox;
        replies.pop_front().or_else(|| requests.pop_front())
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

    /// Messages of an endpoint that the NIC has not taken from its send queues.
    pub fn outbox(&self, endpoint: EndpointId) -> usize {
        self.endpoints.get(endpoint.0 as usize).map_or(0, |e| e.outbox.iter().map(VecDeque::len).sum())
    }

    /// Messages that wait in outboxes.
    pub fn waiting(&self) -> usize {
        self.endpoints.iter().flat_map(|e| &e.outbox).map(VecDeque::len).sum()
    }

    /// When the next turn is due.
    pub fn next_timeout(&self) -> Instant {
        let moved = self.moves.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
        let timers = self.transport.next_timeout().min(self.residency.next_timeout()).min(moved);
        // Nothing is done before the processor is free; then there may be something.
        if self.busy_until > self.now { self.busy_until } else { timers }
    }

    /// Takes what has come, does what is due, sends what can leave: until the processor is busy, or
    /// there is nothing to do.
    pub fn turn(&mut self, now: Instant) {
        // Notices that nobody fetched are not worth keeping.
        self.notices.clear();
        self.now = now;
        if self.busy_until > now {
            return;
        }
        self.transport.handle_timeout(now);
        self.residency.handle_timeout(now);
        self.finish_moves(now);
        self.housekeeping(now);
        self.busy_until = now;
        loop {
            let takes_first = self.sent_last;
            let worked = (takes_first && self.take_in(now)) || self.send_one(now) || (!takes_first && self.take_in(now));
            let transmitted = self.transmit(now);
            if self.busy_until > now || !(worked || transmitted) {
                return;
            }
        }
    }

    /// Work that costs the processor nothing.
    fn housekeeping(&mut self, now: Instant) {
        self.events();
        for _ in 0..2 {
            self.settle(now);
            self.act(now);
        }
    }

    /// The processor is busy for so long, and until the bus has moved these bytes. A short message
    /// is in the NIC, or is read there.
    fn spend(&mut self, time: Duration, payload: usize) {
        self.busy_until = self.busy_until + time;
        if payload > SHORT_BYTES_MAX {
            self.busy_until = self.bus.transfer(&self.config.nic_times, self.busy_until, payload as u64);
        }
    }

    /// A packet that has come.
    fn take_in(&mut self, now: Instant) -> bool {
        let Some((from, buffer)) = self.port.receive() else { return false };
        self.sent_last = false;
        self.transport.handle_packet(now, from, buffer);
        self.spend(self.config.nic_times.packet, 0);
        self.deliver(now);
        self.housekeeping(now);
        true
    }

    /// Packets that the transport has made.
    fn transmit(&mut self, now: Instant) -> bool {
        let mut sent = false;
        if self.port.is_ready() {
            while let Some(transmit) = self.transport.poll_transmit(now) {
                self.port.send(&transmit);
                sent = true;
                self.busy_until = self.busy_until + self.config.nic_times.packet;
            }
        }
        sent
    }

    fn finish_moves(&mut self, now: Instant) {
        while let Some(Reverse((at, Move { endpoint, is_load, on_bus }))) = self.moves.peek().copied()
            && at <= now
        {
            self.moves.pop();
            if !on_bus {
                let at = self.bus.transfer(&self.config.nic_times, at, self.config.times.image_bytes);
                self.moves.push(Reverse((at, Move { endpoint, is_load, on_bus: true })));
            } else if is_load {
                self.residency.loaded(now, endpoint);
                self.notices.push_back(Notice::Resident(endpoint));
            } else {
                let wanted = self.endpoints[endpoint.0 as usize].has_to_send();
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
            let queue = usize::from(message.reply);
            let endpoint = &mut self.endpoints[message.to.1.0 as usize];
            let free = self.config.inbox_max.saturating_sub(endpoint.inbox[queue].len());
            if !endpoint.places[queue].admits(now, (message.from, message.id), free, self.config.inbox_max, self.refusal_wait) {
                return Err((index, Refusal::NoReceive));
            }
            if endpoint.inbox.iter().all(VecDeque::is_empty) {
                self.notices.push_back(Notice::Arrived(message.to.1));
            }
            let bytes = message.payload.len();
            endpoint.inbox[queue].push_back(message);
            self.spend(Duration(0), bytes);
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
                let mine = &mut self.endpoints[endpoint.0 as usize];
                back.for_each(|message| mine.post(message));
                if mine.has_to_send() {
                    self.turns.add(endpoint);
                }
            }
            if open == 0 {
                self.residency.settled(now, endpoint);
            }
        }
    }

    fn act(&mut self, now: Instant) {
        let times = self.config.times;
        while let Some(action) = self.residency.poll_action() {
            let (endpoint, is_load, driver) = match action {
                Action::Quiesce(_) => continue,
                Action::Unload(endpoint, _) => (endpoint, false, times.unload),
                Action::Load(endpoint, _) => (endpoint, true, times.load),
            };
            self.moves.push(Reverse((now + driver, Move { endpoint, is_load, on_bus: false })));
        }
    }

    /// The endpoint whose turn it is makes an attempt to send; if it cannot, the next one does.
    fn send_one(&mut self, now: Instant) -> bool {
        for _ in 0..self.turns.len() {
            let Some(turn) = self.turns.next() else { return false };
            let times = self.config.nic_times;
            let Some(message) = self.endpoints[turn.endpoint.0 as usize].next() else {
                // It loiters: the program may write more.
                if self.turns.loiters() && times.look > Duration(0) {
                    self.spend(times.look, 0);
                    return true;
                }
                self.turns.end(false);
                continue;
            };
            let (to, bytes) = (message.to.0, message.payload.len());
            if self.residency.access(now, turn.endpoint).is_none() {
                self.turns.end(true);
                continue;
            }
            let sent = self.session(now, to).is_some_and(|session| self.hand_over(now, session, turn.endpoint));
            if sent {
                self.sent_last = true;
                self.turns.sent();
                self.spend(if turn.is_another { times.switch } else { Duration(0) }, bytes);
                return true;
            }
            self.turns.end(true);
        }
        false
    }

    /// Gives the next message of an endpoint to the transport.
    fn hand_over(&mut self, now: Instant, session: SessionId, endpoint: EndpointId) -> bool {
        let this = &mut self.endpoints[endpoint.0 as usize];
        let Some(message) = this.next() else { return false };
        let (payload, queue) = (&message.payload, usize::from(message.reply));
        let sent = self.transport.send(now, session, message.stream(), &message.head(), payload.len(), |bytes| {
            bytes.copy_from_slice(payload);
            true
        });
        if sent != Sent::Yes {
            return false;
        }
        this.outbox[queue].pop_front();
        true
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
