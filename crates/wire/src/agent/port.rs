// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port of a packet wire whose network is the host's agent.
//!
//! Sending writes a record into the tx ring, and rings only an agent that sleeps or has not loaded
//! the endpoint. A full ring stalls the port: the transport keeps what it has, and a thread that
//! waits for room sleeps until the agent has taken something. While there is no agent, packets are
//! lost, as on a network that is down, and the port asks again every so often; the address stays
//! the same, by the old segment's name (`link.rs`).
//!
//! A packet that was refused because its receiver was not resident comes back as a notice. The port
//! turns it into the NACK that the receiver would have sent (P-NACK-4): the transport knows when to
//! try again. A forged or lost notice can do no more than a forged or lost NACK.

use super::SHOWN_BYTES;
use super::config::{AgentConfig, AgentError};
use super::link::{AgentFailure, Link, Said, Told};
use super::messages::ToAgent;
use super::search::Search;
use super::segment::{ADDRESS_BYTES, Kind, PACKET_BYTES_MAX, load_address, store_address};
use super::waiting::{Meanwhile, STALL, Stalled, Turn};
use crate::address::NetAddress;
use crate::clock::clock;
use crate::names;
use crate::packet::PacketPort;
use crate::time::{Duration, Instant};
use crate::udp::buffers::{Buffers, UdpBuffer};
use crate::udp::guard::Guard;
use crate::udp::packet::{FIND_BYTES, is_ours};
use crate::{LinkFailure, Rendezvous};
use bellwire_memory::event::pipe_of_bell;
use bellwire_memory::{MemoryError, fd_table};
use bellwire_proto::packet::{self, DataHeader, Nack, Packet};
use bellwire_proto::{Refusal, Transmit};
use core::net::{IpAddr, SocketAddr};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};

/// How long an agent may take to answer when a NIC is opened, and when a name is taken.
const OPEN_TIME: Duration = Duration::from_millis(5_000);
const LISTEN_TIME: Duration = Duration::from_millis(200);
/// Without an agent, the next one is looked for after this, doubled up to that.
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(500);
const LOOKS_AGAIN: u32 = 3;
/// A sleeping program gives memory of its ring back so long after it has done so before: a burst
/// may follow.
const RELEASE_GAP: Duration = Duration::from_millis(100);
/// A datagram up to this length is a message or an answer, not a part of a stream.
const SHORT: usize = 1024;

#[derive(Debug)]
struct Peer {
    sessions: u32,
    /// Our id of the session with it, as its packets name it.
    id: u64,
}

/// A NIC's endpoint at the host's agent.
#[derive(Debug)]
pub struct AgentPort {
    config: AgentConfig,
    link: Option<Link>,
    /// The endpoint that the next agent is asked for.
    ticket: Option<(u16, OwnedFd)>,
    own: SocketAddr,
    agent: SocketAddr,
    retry_at: Instant,
    retry: Duration,
    /// Readable when the connection is.
    control: OwnedFd,
    /// The bell: what the agent rings, and what we sleep on.
    bell: OwnedFd,
    ringer: OwnedFd,
    armed: bool,
    search: Search,
    listened: VecDeque<(u128, bool)>,
    /// Names that the agent is still to be told of, and whether they are waited under.
    unsaid: VecDeque<ToAgent>,
    retry_unsaid_at: Instant,
    buffers: Buffers,
    injected: VecDeque<(SocketAddr, UdpBuffer)>,
    came_last: usize,
    peers: BTreeMap<SocketAddr, Peer>,
    /// The peer whose packet came last, and its id: the usual one is not searched for.
    last: Option<(SocketAddr, u64)>,
    refused: VecDeque<SocketAddr>,
    stalled: Stalled,
    turn: Turn,
    /// Memory of the ring was given back then; and is to be given back then.
    released: Instant,
    release_at: Instant,
    guard: Guard,
    /// Bytes that a peer may have in flight towards this endpoint.
    receive_bytes: usize,
    meanwhile: Meanwhile,
}

impl AgentPort {
    /// Attaches to the agent; waits for its answer.
    ///
    /// # Errors
    /// There is no agent that answers, or it refuses.
    pub fn open(config: AgentConfig) -> Result<Self, AgentError> {
        let address = config.address;
        Self::try_open(config, Meanwhile(None)).map_err(|failure| AgentError { address, failure })
    }

    /// As [`open`](Self::open), for an agent in the same thread: it has its turns by `meanwhile`
    /// when it is waited for.
    ///
    /// # Errors
    /// As there.
    pub fn open_beside(config: AgentConfig, meanwhile: Box<dyn FnMut() + Send>) -> Result<Self, AgentError> {
        let address = config.address;
        Self::try_open(config, Meanwhile(Some(meanwhile))).map_err(|failure| AgentError { address, failure })
    }

    fn try_open(config: AgentConfig, meanwhile: Meanwhile) -> Result<Self, AgentFailure> {
        let control = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| MemoryError::os("epoll_create1", e))?;
        fd_table::reserve(control.as_fd(), 64);
        let (bell, ringer) = pipe_of_bell()?;
        let none = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
        let mut port = Self {
            search: Search::new(config.seed, config.allow.clone()),
            config,
            link: None,
            ticket: None,
            own: none,
            agent: none,
            retry_at: Instant::NEVER,
            retry: RETRY_MIN,
            control,
            bell,
            ringer,
            armed: false,
            listened: VecDeque::new(),
            unsaid: VecDeque::new(),
            retry_unsaid_at: Instant::NEVER,
            buffers: Buffers::new(),
            injected: VecDeque::new(),
            came_last: 0,
            peers: BTreeMap::new(),
            last: None,
            refused: VecDeque::new(),
            stalled: Stalled::default(),
            turn: Turn::default(),
            released: Instant(0),
            release_at: Instant::NEVER,
            guard: Guard::new()?,
            receive_bytes: 0,
            meanwhile,
        };
        let until = clock() + OPEN_TIME;
        // Another user's flood of connections is no reason to give up at once.
        while let Err(failure) = port.ask() {
            if failure != AgentFailure::Crowded || clock() >= until {
                return Err(failure);
            }
            port.wait_for_control(until.min(clock() + RETRY_MIN));
        }
        let mut failure = None;
        while !port.is_attached() {
            port.wait_for_control(until);
            port.take_control(&mut failure);
            if let Some(failure) = failure {
                return Err(failure);
            }
            if clock() >= until {
                return Err(AgentFailure::Silent);
            }
        }
        Ok(port)
    }

    /// Where peers send to: the agent's IP address, and the endpoint's number.
    pub fn address(&self) -> SocketAddr {
        self.own
    }

    /// The tag of the virtual network, 0 for the default one: the same for all who are in it.
    pub fn network(&self) -> u64 {
        self.link.as_ref().and_then(|l| l.attached.as_ref()).map_or(0, |a| a.network)
    }

    /// Whether there is an agent now.
    pub fn is_attached(&self) -> bool {
        self.link.as_ref().is_some_and(|l| l.attached.is_some())
    }

    /// Readable when [`handle_control`](PacketPort::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Readable, edge-triggered and while armed, when packets have arrived or left.
    pub fn bell_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Readable, edge-triggered, when somebody must look every so often.
    pub fn guard_fd(&self) -> BorrowedFd<'_> {
        self.guard.fd()
    }

    /// Whether that is over.
    pub fn guard_may_go(&mut self) -> bool {
        self.guard.may_go()
    }

    /// A setting of the transport that fits this port.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no randomness.
    pub fn transport_config(&self) -> Result<bellwire_proto::Config, MemoryError> {
        super::transport::settings_by_agent(self.receive_bytes)
    }

    // ---- the connection

    /// Asks for an endpoint.
    fn ask(&mut self) -> Result<(), AgentFailure> {
        let ticket = self.ticket.as_ref().map(|(number, segment)| (*number, segment.as_fd()));
        let link = Link::ask(self.config.address, self.config.network, self.config.key, self.ringer.as_fd(), ticket)?;
        epoll::add(&self.control, link.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))?;
        self.link = Some(link);
        self.retry_at = Instant::NEVER;
        Ok(())
    }

    fn wait_for_control(&mut self, until: Instant) {
        if let Some(meanwhile) = &mut self.meanwhile.0 {
            return meanwhile();
        }
        let time = std::time::Duration::from_nanos(until.since(clock()).0).try_into().ok();
        // Interrupted: the caller looks again.
        let _ = poll(&mut [PollFd::new(&self.control, PollFlags::IN)], time.as_ref());
    }

    /// Takes what the agent has said.
    fn take_control(&mut self, failure: &mut Option<AgentFailure>) {
        let Some(link) = &mut self.link else { return };
        let (mut is_attached, mut over) = (false, None);
        let listened = &mut self.listened;
        link.take(|told| match told {
            Told::Attached => is_attached = true,
            Told::Listening(name, ready) => listened.push_back((name, ready)),
            Told::Over(failure) => over = Some(failure),
        });
        if let Some(over) = over {
            *failure = Some(over);
            return self.detach();
        }
        if is_attached {
            self.attached();
        }
    }

    fn attached(&mut self) {
        let Some(link) = &self.link else { return };
        let Some(attached) = &link.attached else { return };
        self.agent = attached.agent;
        self.own = SocketAddr::new(attached.agent.ip(), attached.number);
        if let (SocketAddr::V6(own), SocketAddr::V6(agent)) = (&mut self.own, attached.agent) {
            own.set_scope_id(agent.scope_id());
        }
        // Half of the ring: records have heads, and the end of the ring may be left empty.
        self.receive_bytes = attached.end.receive_bytes();
        self.ticket = None;
        self.retry = RETRY_MIN;
        self.unsaid = self.search.names().map(ToAgent::Listen).collect();
        self.listened.clear();
        self.tell_armed();
        self.say_unsaid();
    }

    /// The agent is gone, and packets in its rings are lost.
    fn detach(&mut self) {
        if let Some(link) = self.link.take() {
            // Also needed before closing: a forked child may keep the description open.
            let _ = epoll::delete(&self.control, link.fd());
            if let Some(attached) = link.attached {
                self.ticket = Some(attached.into_ticket());
            }
        }
        self.stalled.to = None;
        self.turn = Turn::default();
        self.unsaid.clear();
        self.retry_unsaid_at = Instant::NEVER;
        self.retry_at = clock() + self.retry;
        self.retry = Duration((2 * self.retry.0).min(RETRY_MAX.0));
    }

    #[cold]
    fn attach_again(&mut self, now: Instant) {
        if self.retry_at <= now && self.link.is_none() && self.ask().is_err() {
            self.detach();
        }
    }

    /// Says something about a name, after what was not heard before.
    fn say(&mut self, message: ToAgent) {
        // Without an agent: the next one is told all names.
        if self.is_attached() {
            self.unsaid.push_back(message);
            self.say_unsaid();
        }
    }

    fn say_unsaid(&mut self) {
        while let (Some(message), Some(link)) = (self.unsaid.front(), &self.link) {
            match link.say(message) {
                Said::Yes => _ = self.unsaid.pop_front(),
                Said::NotYet => return self.retry_unsaid_at = clock() + RETRY_MIN,
                Said::Never => return self.detach(),
            }
        }
        self.retry_unsaid_at = Instant::NEVER;
    }

    /// Tells the agent when to ring.
    fn tell_armed(&self) {
        if let Some(a) = self.link.as_ref().and_then(|l| l.attached.as_ref()) {
            a.end.set_armed(self.armed, self.wants_room());
        }
    }

    /// Whether the agent is to ring when it has taken packets.
    fn wants_room(&self) -> bool {
        self.stalled.to.is_some() || (self.turn.is_held() && self.armed)
    }

    // ---- packets

    /// Somebody is about to sleep: memory that only a burst needed is given back, if it is time.
    fn release(&mut self) {
        self.release_at = Instant::NEVER;
        let Some(attached) = self.link.as_mut().and_then(|l| l.attached.as_mut()) else { return };
        let tx = &mut attached.end.tx;
        if !self.armed || !tx.has_spare() {
            return;
        }
        let now = clock();
        let due = self.released + RELEASE_GAP;
        if now < due {
            self.release_at = due;
            return;
        }
        self.released = now;
        match tx.release() {
            Ok(true) => {}
            Ok(false) => self.release_at = now + RELEASE_GAP,
            Err(_) => self.detach(),
        }
    }

    /// Writes one packet. `false`: the ring is full. Without an agent it is lost.
    fn put(&mut self, to: SocketAddr, packet: &[u8]) -> bool {
        let Some(attached) = self.link.as_mut().and_then(|l| l.attached.as_mut()) else { return true };
        match attached.end.tx.push(Kind::Packet as u32, &store_address(&to), packet) {
            Ok(pushed) => pushed,
            Err(_) => {
                self.detach();
                true
            }
        }
    }

    /// Lets the agent know of what was written.
    fn ring(&mut self) {
        let Some(link) = &mut self.link else { return };
        if !link.attached.as_mut().is_some_and(|a| a.end.must_ring()) {
            return;
        }
        match (link.say(&ToAgent::Ring), &mut link.attached) {
            (Said::Never, _) => self.detach(),
            // A queue full of messages wakes it, too; the next packet rings again.
            (Said::NotYet, Some(attached)) => attached.end.not_rung(),
            _ => {}
        }
    }

    /// Looks whether enough packets wait for the endpoint's turn.
    #[cold]
    fn look_for_turn(&mut self) {
        let end = self.link.as_mut().and_then(|l| l.attached.as_mut()).map(|a| &mut a.end);
        if self.turn.look(end) && self.armed {
            self.tell_armed();
        }
    }

    /// Writes packets of a size, as many as there is room for; the rest waits.
    fn put_run(&mut self, to: SocketAddr, bytes: &[u8], segment: usize) {
        let mut at = 0;
        while at < bytes.len() {
            let end = bytes.len().min(at + segment.max(1));
            if !self.put(to, &bytes[at..end]) {
                self.stalled.bytes.clear();
                self.stalled.bytes.extend_from_slice(&bytes[at..]);
                (self.stalled.to, self.stalled.segment) = (Some(to), segment);
                self.stalled.retry_at = clock() + STALL;
                // Rung when something has left.
                self.tell_armed();
                break;
            }
            at = end;
        }
        if self.turn.has_written(bytes.len().div_ceil(segment.max(1))) {
            self.look_for_turn();
        }
        self.ring();
    }

    fn unstall(&mut self) {
        if let Some(to) = self.stalled.to.take() {
            let (bytes, segment) = (core::mem::take(&mut self.stalled.bytes), self.stalled.segment);
            self.put_run(to, &bytes, segment);
            if self.stalled.to.is_none() {
                self.stalled.bytes = bytes;
                self.tell_armed();
            }
        }
    }

    /// Notes under which id a peer's packets name our session.
    #[inline]
    fn note_id(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Ok((packet::Kind::Data | packet::Kind::Ack | packet::Kind::Nack, id)) = packet::header::addressee(bytes) else { return };
        if self.last != Some((from, id)) {
            self.last = Some((from, id));
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.id = id;
            }
        }
    }

    /// A packet to `from` was refused: the NACK that says so.
    fn refuse(&mut self, from: SocketAddr, header: [u8; SHOWN_BYTES]) {
        let Some(peer) = self.peers.get(&from).filter(|p| p.id != 0) else { return };
        let header = DataHeader::of(header);
        let nack = Nack { session: peer.id, psn: header.header.word.get(), reason: Refusal::NotResident, echo: header.timestamp.get(), consumed: 0 };
        let Some(slot) = self.buffers.writable() else { return };
        let length = Packet::Nack(nack).emit(slot);
        let injected = &mut self.injected;
        self.buffers.lend(length, <[u8]>::len, |part| injected.push_back((from, part)));
    }

    /// The next packet of the ring, or what it says otherwise.
    fn take_record(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        loop {
            if let Some(injected) = self.injected.pop_front() {
                return Some(injected);
            }
            let attached = self.link.as_mut()?.attached.as_mut()?;
            let rx = &mut attached.end.rx;
            let record = match rx.peek() {
                Ok(record) => record?,
                Err(_) => {
                    self.detach();
                    return None;
                }
            };
            let body = (record.length as usize).checked_sub(ADDRESS_BYTES).filter(|n| *n <= PACKET_BYTES_MAX);
            let mut address = [0; ADDRESS_BYTES];
            let from = body.and_then(|_| {
                rx.copy_out(&record, 0, &mut address);
                load_address(&address)
            });
            let (Some(kind), Some(body), Some(from)) = (Kind::of(record.tag), body, from) else {
                // No agent writes that.
                self.detach();
                return None;
            };
            match kind {
                Kind::Packet => {
                    let slot = self.buffers.writable()?;
                    rx.copy_out(&record, ADDRESS_BYTES as u32, &mut slot[..body]);
                    rx.consume(&record);
                    rx.publish();
                    if from.port() == 0 && is_ours(&slot[..body]) {
                        let own = self.own;
                        self.search.handle_packet(clock(), own, from, &slot[..body]);
                        continue;
                    }
                    self.came_last = body;
                    let mut lent = None;
                    self.buffers.lend(body, <[u8]>::len, |part| lent = Some(part));
                    let lent = lent?;
                    self.note_id(from, lent.as_ref());
                    return Some((from, lent));
                }
                Kind::Gone => {
                    rx.consume(&record);
                    rx.publish();
                    self.refused.push_back(from);
                    return None;
                }
                Kind::NotResident => {
                    let mut header = [0; SHOWN_BYTES];
                    let whole = body >= SHOWN_BYTES;
                    if whole {
                        rx.copy_out(&record, ADDRESS_BYTES as u32, &mut header);
                    }
                    rx.consume(&record);
                    rx.publish();
                    if whole {
                        self.refuse(from, header);
                    }
                }
            }
        }
    }
}

impl PacketPort for AgentPort {
    type Buffer = UdpBuffer;

    fn name(&self) -> &'static str {
        "agent"
    }

    #[inline]
    fn now(&self) -> Instant {
        clock()
    }

    fn is_ready(&mut self) -> bool {
        self.unstall();
        if self.turn.is_held() {
            self.look_for_turn();
        }
        self.is_clear()
    }

    #[inline]
    fn is_clear(&self) -> bool {
        self.stalled.to.is_none() && !self.turn.is_held()
    }

    fn send(&mut self, transmit: &Transmit<'_>) {
        self.put_run(transmit.to, transmit.bytes, transmit.segment.unwrap_or(transmit.bytes.len()));
    }

    fn receive(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        self.take_record()
    }

    #[inline]
    fn expects_more(&self) -> bool {
        self.came_last > SHORT
    }

    #[inline]
    fn has_news(&self) -> bool {
        !self.refused.is_empty()
            || self.stalled.to.is_some()
            || self.turn.is_held()
            || self.link.is_none()
            || !self.unsaid.is_empty()
            || self.search.is_asking()
            || self.release_at != Instant::NEVER
    }

    #[inline]
    fn looks_again(&self) -> u32 {
        LOOKS_AGAIN
    }

    fn handle_control(&mut self) {
        self.take_control(&mut None);
    }

    #[inline]
    fn note_waiting(&mut self) {
        self.guard.call();
    }

    fn set_armed(&mut self, armed: bool) {
        if self.armed != armed {
            self.armed = armed;
            // The look that follows sees the packets that rang before.
            let _ = rustix::io::read(&self.bell, &mut [0; 256]);
            self.tell_armed();
            self.release();
        }
    }

    fn poll_refused(&mut self) -> Option<SocketAddr> {
        self.refused.pop_front()
    }

    fn session_up(&mut self, peer: SocketAddr) {
        // Its packets may have come before.
        let id = self.last.filter(|(from, _)| *from == peer).map_or(0, |(_, id)| id);
        let peer = self.peers.entry(peer).or_insert(Peer { sessions: 0, id });
        peer.sessions += 1;
        self.last = None;
    }

    fn session_down(&mut self, peer: SocketAddr) {
        if let Some(p) = self.peers.get_mut(&peer) {
            p.sessions -= 1;
            if p.sessions == 0 {
                self.peers.remove(&peer);
            }
        }
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        let name = names::hash_of(&[local]);
        if !self.search.wait(name) || !self.is_attached() {
            return true;
        }
        // Answers to what was asked before, and not waited for.
        self.listened.clear();
        self.say(ToAgent::Listen(name));
        let until = clock() + LISTEN_TIME;
        loop {
            self.wait_for_control(until);
            self.handle_control();
            while let Some((told, ready)) = self.listened.pop_front() {
                if told == name {
                    if !ready {
                        self.search.wait_no_more(name);
                    }
                    return ready;
                }
            }
            // An agent that takes its time, or the next one, will have the name.
            if !self.is_attached() || clock() >= until {
                return true;
            }
        }
    }

    fn unlisten(&mut self, local: &NetAddress) {
        let name = names::hash_of(&[local]);
        if self.search.wait_no_more(name) {
            self.say(ToAgent::Unlisten(name));
        }
    }

    fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        if let Some(name) = self.search.locate(clock(), self.own, request, how, local, remote) {
            self.say(ToAgent::Listen(name));
        }
    }

    fn forget(&mut self, request: u64) {
        if let Some(name) = self.search.cancel(request) {
            self.say(ToAgent::Unlisten(name));
        }
    }

    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        if self.link.is_none() {
            self.attach_again(clock());
        }
        if self.retry_unsaid_at <= clock() {
            self.say_unsaid();
        }
        if self.release_at != Instant::NEVER && self.release_at <= clock() {
            self.release();
        }
        if self.search.next_timeout() != Instant::NEVER {
            let mut questions: Vec<(SocketAddr, [u8; FIND_BYTES])> = Vec::new();
            self.search.handle_timeout(clock(), |to, bytes| questions.push((to, *bytes)));
            for (to, bytes) in questions {
                // No room, or enough that waits: it is asked again.
                if self.is_ready() {
                    self.put_run(to, &bytes, bytes.len());
                }
            }
        }
        self.search.poll_found()
    }

    fn next_timeout(&self) -> Instant {
        let stall = if self.stalled.to.is_some() { self.stalled.retry_at } else { Instant::NEVER };
        self.search.next_timeout().min(stall).min(self.turn.look_at()).min(self.retry_at).min(self.retry_unsaid_at).min(self.release_at)
    }

    fn is_busy(&self) -> bool {
        self.search.is_busy()
    }

    fn is_asking(&self) -> bool {
        self.search.is_asking()
    }
}
