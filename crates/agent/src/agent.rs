// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent: rounds over the resident endpoints, loading and unloading, and sleep.
//!
//! A round gives each resident endpoint a turn (`serve.rs`), takes packets of other agents, does
//! what the residency machine asks for, and rings the programs that sleep. An agent that has found
//! nothing for a while says so in its page, looks once more, and blocks in `epoll` until a program
//! rings, a datagram comes, or a time has come. It has no tick.

use crate::config::{AgentConfig, OpenError};
use crate::endpoints::{Connection, Endpoints};
use crate::network::Network;
use crate::networks::Networks;
use bellwire_memory::{MemoryError, fd_passing};
use bellwire_residency::{Action, Config, EndpointId, Residency, Statistics};
use bellwire_time::{Duration, Instant};
use bellwire_wire::agent::messages::Label;
use bellwire_wire::agent::segment::{AgentEnd, AgentPage, State, fence_before_look};
use bellwire_wire::agent::{REFUSAL_WAIT_MAX, name_of_agent};
use bellwire_wire::clock::clock;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// In the epoll set, beside the connections' places.
const LISTENER: u64 = 1 << 40;
const NETWORK: u64 = 1 << 41;
const STOP: u64 = 1 << 42;
/// While there is traffic, rounds between two looks at connections, and the time, if that is over
/// sooner: a round of many endpoints takes long.
const ROUNDS_PER_LOOK: u32 = 16;
const LOOK_TIME: Duration = Duration::from_micros(500);
/// Of what is ready, taken at a time; and times, before the endpoints have another round.
const EVENTS: usize = 128;
const TIMES_PER_LOOK: usize = 8;
/// While there is none, rounds between two looks at connections.
const IDLE_ROUNDS_PER_LOOK: u32 = 2;
/// While there is traffic, rounds between two looks at a socket that had nothing the last time.
const ROUNDS_PER_DATAGRAM: u32 = 8;
/// An endpoint of which a packet was refused keeps its frame for as long, however short the stay
/// is: the packet comes again within half of it, if its sender is not late.
const EXPECTING_TIME: Duration = Duration(2 * REFUSAL_WAIT_MAX.0);
/// After so many packets within a round the socket has a look: a round of a thousand endpoints
/// takes milliseconds, and its buffer may hold a few hundred datagrams.
const PACKETS_PER_DATAGRAM_LOOK: u32 = 128;
/// Descriptors of an endpoint: connection, memory, bell; and those of the agent itself.
const DESCRIPTORS_EACH: u64 = 3;
const DESCRIPTORS_OWN: u64 = 64;
/// The longest message of a connection: a command.
pub(crate) const COMMAND_BYTES_MAX: usize = 4096;
/// Memory that only a burst needed is given back so long after the first packet.
const RELEASE_TIME: Duration = Duration::from_millis(500);

/// What an agent has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Endpoints attached.
    pub attached: u64,
    /// Programs refused.
    pub refused: u64,
    /// Endpoints ended because their program broke the rules.
    pub broken: u64,
    /// Packets to an endpoint of another network.
    pub foreign: u64,
    /// Packets refused because their receiver was not resident.
    pub not_resident: u64,
    /// Packets lost because their receiver's ring was full.
    pub dropped: u64,
    /// Packets taken out of rings.
    pub packets: u64,
    /// Datagrams taken.
    pub datagrams: u64,
    /// Times that the agent has slept.
    pub sleeps: u64,
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    pub(crate) config: AgentConfig,
    pub(crate) uid: u32,
    pub(crate) page: AgentPage,
    pub(crate) epoll: OwnedFd,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) connections: Vec<Option<Connection>>,
    pub(crate) connections_open: usize,
    pub(crate) connections_max: usize,
    pub(crate) connections_of: BTreeMap<u32, usize>,
    pub(crate) endpoints: Endpoints,
    pub(crate) residency: Residency,
    /// Those served, in the order of their turns.
    pub(crate) resident: Vec<u32>,
    /// Programs that may have to be rung.
    dirty: Vec<u32>,
    /// Of the resident ones, those that had nothing to send in this round.
    idle: Vec<u32>,
    /// Those that have left their frames and are mapped, by the number of the unload.
    pub(crate) parted: BTreeMap<u64, u32>,
    unloads: u64,
    /// After packets, when memory is given back.
    release_at: Instant,
    pub(crate) network: Network,
    pub(crate) networks: Networks,
    /// The status that was told last, and until when it is told again.
    pub(crate) status: (Instant, String),
    /// Where messages of connections are read.
    pub(crate) heard: Vec<u8>,
    pub(crate) datagram: Vec<u8>,
    pub(crate) counters: Counters,
    pub(crate) began: Instant,
    pub(crate) now: Instant,
    looked_at: Instant,
    rounds: u32,
    /// The last look at the socket found something.
    network_is_busy: bool,
    /// The descriptor given to [`run`](Self::run) is readable.
    must_stop: bool,
}

/// As many descriptors as this process may have; how many connections that is.
fn connections_possible() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let current = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    (current.saturating_sub(DESCRIPTORS_OWN) / DESCRIPTORS_EACH).max(1) as usize
}

impl Agent {
    /// Opens the socket, and the names under which programs come.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: AgentConfig) -> Result<Self, OpenError> {
        let now = clock();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| MemoryError::os("epoll_create1", e))?;
        let network = Network::open(&config, now)?;
        let networks = Networks::load(config.networks.clone()).map_err(OpenError::Networks)?;
        let add = |fd: BorrowedFd<'_>, data: u64| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))
        };
        add(network.fd(), NETWORK)?;
        let own = fd_passing::listen_abstract(&name_of_agent(Some(config.address.ip()))).map_err(|e| match e {
            MemoryError::AddressInUse => OpenError::Taken(config.address),
            e => e.into(),
        })?;
        // The host's first agent serves programs that name none.
        let first = fd_passing::listen_abstract(&name_of_agent(None)).ok();
        let listeners: Vec<OwnedFd> = [own].into_iter().chain(first).collect();
        for (number, listener) in (0..).zip(&listeners) {
            add(listener.as_fd(), LISTENER | number)?;
        }
        let residency = Residency::new(Config { frames: config.frames.max(2), stay: config.stay, ..Config::default() }, config.seed);
        Ok(Self {
            uid: rustix::process::geteuid().as_raw(),
            page: AgentPage::create()?,
            epoll,
            listeners,
            connections: Vec::new(),
            connections_open: 0,
            connections_max: connections_possible(),
            connections_of: BTreeMap::new(),
            endpoints: Endpoints::new(config.parked_bytes),
            residency,
            resident: Vec::new(),
            dirty: Vec::new(),
            idle: Vec::new(),
            parted: BTreeMap::new(),
            unloads: 0,
            release_at: Instant::NEVER,
            network,
            networks,
            status: (now, String::new()),
            heard: vec![0; COMMAND_BYTES_MAX],
            datagram: vec![0; 1 << 16],
            counters: Counters::default(),
            began: now,
            now,
            looked_at: now,
            rounds: 0,
            network_is_busy: false,
            must_stop: false,
            config,
        })
    }

    /// The address of its endpoints, with the port of agents.
    pub fn address(&self) -> SocketAddr {
        self.network.own()
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Its loads, unloads and faults.
    pub fn residency(&self) -> &Statistics {
        self.residency.statistics()
    }

    pub(crate) fn address_of(&self, number: u16) -> SocketAddr {
        let mut address = self.network.own();
        address.set_port(number);
        address
    }

    /// The tag of a network that a user may be in.
    pub(crate) fn network_of(&self, uid: u32, network: Label, key: Label) -> Option<u64> {
        self.networks.tag_for(uid, self.is_owner(uid), network, key)
    }

    /// A network is no more: neither are the endpoints in it.
    pub(crate) fn end_network(&mut self, tag: u64) {
        let ended: Vec<usize> = self.endpoints.iter().filter(|e| e.network == tag).map(|e| e.connection).collect();
        ended.into_iter().for_each(|connection| self.hang_up(connection));
    }

    // ---- frames

    /// An endpoint wants to be served. The consequences are dealt with between two turns, when no
    /// endpoint's end is in use.
    pub(crate) fn demand(&mut self, place: u32) {
        self.residency.access(self.now, EndpointId(place));
    }

    /// Does what the residency machine asks for. Loading and unloading are a word each, and
    /// sometimes a mapping; nothing has to be waited for: what an endpoint has sent is its
    /// program's affair. Whether an endpoint was loaded.
    fn act(&mut self) -> bool {
        let mut has_loaded = false;
        while let Some(action) = self.residency.poll_action() {
            match action {
                Action::Load(id, _) => {
                    has_loaded = true;
                    self.load(id);
                }
                Action::Quiesce(id) => self.residency.settled(self.now, id),
                Action::Unload(id, _) => self.unload(id),
            }
        }
        has_loaded
    }

    fn load(&mut self, id: EndpointId) {
        let rings = self.config.rings;
        let Some(endpoint) = self.endpoints.get_mut(id.0) else { return };
        if endpoint.end.is_none() {
            let copy = rustix::io::fcntl_dupfd_cloexec(&endpoint.memfd, 0);
            endpoint.end = copy.ok().and_then(|memfd| AgentEnd::map(memfd, rings, endpoint.at).ok());
        }
        if let Some(unload) = endpoint.unloaded.take() {
            self.parted.remove(&unload);
        }
        let is_mapped = endpoint.end.is_some();
        if let Some(end) = &mut endpoint.end {
            end.set_state(State::Resident);
        }
        let is_expecting = endpoint.is_expecting;
        self.residency.loaded(self.now, id);
        if is_expecting {
            self.residency.keep(id, self.now + EXPECTING_TIME);
        }
        if is_mapped {
            self.resident.push(id.0);
            self.unpark(id.0);
        }
    }

    fn unload(&mut self, id: EndpointId) {
        self.resident.retain(|e| *e != id.0);
        let mut wanted = false;
        if let Some(endpoint) = self.endpoints.get_mut(id.0)
            && let Some(end) = &mut endpoint.end
        {
            end.set_state(State::Host);
            fence_before_look();
            // A program that wrote before it saw the state has not rung.
            wanted = !end.is_quiet();
            self.unloads += 1;
            (endpoint.unloaded, endpoint.is_expecting) = (Some(self.unloads), false);
            self.parted.insert(self.unloads, id.0);
        }
        self.residency.unloaded(self.now, id, wanted);
        while self.parted.len() > self.config.mapped {
            let Some((_, place)) = self.parted.pop_first() else { break };
            if let Some(endpoint) = self.endpoints.get_mut(place) {
                endpoint.unmap();
            }
        }
    }

    // ---- rounds

    /// A program that sleeps is to be rung at the end of the round.
    pub(crate) fn note(&mut self, place: u32) {
        if let Some(endpoint) = self.endpoints.get_mut(place)
            && !endpoint.is_dirty
        {
            endpoint.is_dirty = true;
            self.dirty.push(place);
        }
    }

    fn ring(&mut self) {
        while let Some(place) = self.dirty.pop() {
            let Some(endpoint) = self.endpoints.get_mut(place) else { continue };
            endpoint.is_dirty = false;
            if endpoint.end.as_ref().is_some_and(|end| end.wants_ring().0) {
                let _ = endpoint.bell.ring();
            }
        }
    }

    /// One round. Whether there was anything to do.
    pub fn turn(&mut self) -> bool {
        self.now = clock();
        self.rounds = self.rounds.wrapping_add(1);
        let (mut busy, mut at, mut since_look) = (false, 0, 0);
        while let Some(&place) = self.resident.get(at) {
            let packets = self.serve(place);
            self.counters.packets += u64::from(packets);
            busy |= packets > 0;
            since_look += packets;
            if since_look >= PACKETS_PER_DATAGRAM_LOOK {
                since_look = 0;
                self.look_at_network();
            }
            if packets == 0 {
                self.idle.push(place);
            }
            // The list may have become shorter; an endpoint left out has its turn next round.
            at += 1;
        }
        if !busy || self.network_is_busy || self.rounds.is_multiple_of(ROUNDS_PER_DATAGRAM) {
            busy |= self.look_at_network();
        }
        let rounds_per_look = if busy { ROUNDS_PER_LOOK } else { IDLE_ROUNDS_PER_LOOK };
        if self.rounds.is_multiple_of(rounds_per_look) || self.looked_at + LOOK_TIME <= self.now {
            busy |= self.look(Some(Duration(0)));
        }
        if busy && self.release_at == Instant::NEVER {
            self.release_at = self.now + RELEASE_TIME;
        }
        self.make_room();
        // An endpoint that was loaded has its turn in the next round.
        busy |= self.do_what_is_due();
        self.ring();
        busy
    }

    /// Those that had nothing to do in this round have done what they were loaded for.
    fn make_room(&mut self) {
        while let Some(place) = self.idle.pop() {
            if self.residency.waiting() > 0 && self.endpoints.get(place).is_some_and(|e| !e.is_expecting) {
                self.residency.done(self.now, EndpointId(place));
            }
        }
    }

    /// One round with a look at everything, for a caller that gives it turns itself.
    pub fn step(&mut self) -> bool {
        let busy = self.look(Some(Duration(0)));
        self.turn() || busy
    }

    fn look_at_network(&mut self) -> bool {
        let datagrams = self.serve_network();
        self.counters.datagrams += datagrams as u64;
        self.network_is_busy = datagrams > 0;
        datagrams > 0
    }

    fn do_what_is_due(&mut self) -> bool {
        if self.residency.next_timeout() <= self.now {
            self.residency.handle_timeout(self.now);
        }
        if self.network.next_timeout() <= self.now {
            self.network.release(self.now);
        }
        if self.release_at <= self.now {
            self.release_at = Instant::NEVER;
            for broken in self.endpoints.release() {
                self.end_endpoint(broken);
            }
        }
        self.act()
    }

    /// Waits until something happens, for so long at most, and takes it. Whether something did.
    fn look(&mut self, time: Option<Duration>) -> bool {
        let mut found = self.take_events(time);
        let busy = found > 0;
        for _ in 1..TIMES_PER_LOOK {
            // Endpoints may be many thousands, each of which rings.
            if found < EVENTS {
                break;
            }
            found = self.take_events(Some(Duration(0)));
        }
        self.looked_at = self.now;
        busy
    }

    /// As [`look`](Self::look), some events at most; how many.
    fn take_events(&mut self, time: Option<Duration>) -> usize {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS];
        let time = time.map(|t| rustix::event::Timespec { tv_sec: (t.0 / 1_000_000_000) as i64, tv_nsec: (t.0 % 1_000_000_000) as i64 });
        // A signal is a wake-up without a reason.
        let n = epoll::wait(&self.epoll, &mut events[..], time.as_ref()).unwrap_or(0);
        self.now = clock();
        for e in &events[..n] {
            match e.data.u64() {
                NETWORK => _ = self.look_at_network(),
                STOP => self.must_stop = true,
                listener if listener & LISTENER != 0 => self.accept((listener & !LISTENER) as usize),
                connection => self.hear(connection as usize),
            }
        }
        n
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) {
        self.page.set_asleep(true);
        // Packets written before the page said so have rung nobody.
        let is_quiet = self.resident.iter().all(|place| self.endpoints.get(*place).and_then(|e| e.end.as_ref()).is_none_or(AgentEnd::is_quiet));
        if is_quiet {
            self.counters.sleeps += 1;
            let until = self.residency.next_timeout().min(self.network.next_timeout()).min(self.release_at);
            let time = (until != Instant::NEVER).then(|| until.since(clock()));
            self.look(time);
            self.do_what_is_due();
            self.ring();
        }
        self.page.set_asleep(false);
    }

    /// Serves until `stop` is readable.
    pub fn run(&mut self, stop: BorrowedFd<'_>) {
        let _ = epoll::add(&self.epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN);
        let mut idle_since = None;
        loop {
            let busy = self.turn();
            // The looks at connections find it, under traffic without end, too.
            if self.must_stop {
                return;
            }
            if busy {
                idle_since = None;
                continue;
            }
            let since = *idle_since.get_or_insert(self.now);
            if self.now.since(since) < self.config.spin {
                std::thread::yield_now();
                continue;
            }
            self.sleep();
            idle_since = None;
        }
    }
}
