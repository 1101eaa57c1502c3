// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding each other: abstract UNIX sockets named by address and discriminator, the handshake that makes a link, and the link's socket afterwards.
//!
//! Names: `bellwire` + user id + a hash of the addresses. A waiter listens under (host, discriminator); a client connects there. Of two peers that name each
//! other the first to come listens under the hash of both addresses in order, the second finds the name taken and connects. Abstract names vanish with
//! their process, so nothing is left behind. Anybody in the network namespace can take such a name: who is at the other end is checked by its
//! credentials, and only the same user is dealt with. A NIC's id is told to whoever asks, so it proves nothing either: links are known by it *and* by
//! the process at their other end.
//!
//! Everything is non-blocking: sockets, pidfds and listeners stand in one epoll set whose descriptor the NIC's helper thread sleeps on.

use super::half::{OwnHalf, PeerHalf};
use super::link::{Foreign, Link, NicId, Parts};
use super::message::{self, Message};
use super::proof;
use super::{LINKS_MAX, LINKS_PER_PROCESS_MAX, ProtectionMode, ShmWire, failure_of};
use crate::attributes::NetAddress;
use crate::handle::Handle;
use crate::wire::{Attach, LinkFailure, LinkId, Rendezvous, Wire, WireEvent, names};
use bellwire_memory::event::{self, PeerBell};
use bellwire_memory::fd_passing::{self, Received};
use bellwire_memory::region::{Access, RemoteRegion};
use bellwire_memory::{MemoryError, membarrier, pidfd};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;

/// Handshakes under way at a time; beyond, the oldest of the process that has most of them is dropped.
const HANDSHAKES_MAX: usize = 128;
/// Most that is mapped of one peer: address space is not without end, and a peer can offer memory that it does not have.
const SEGMENTS_BYTES_MAX: usize = 1 << 40;

/// What an epoll entry is about; the upper byte of its data.
const KIND_LISTENER: u64 = 1 << 56;
const KIND_HANDSHAKE: u64 = 2 << 56;
const KIND_LINK: u64 = 3 << 56;
const KIND_PIDFD: u64 = 4 << 56;
const KIND_MASK: u64 = 0xff << 56;

#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    /// The address, if it serves waiters.
    address: Option<NetAddress>,
    /// The request, if it is the first of two peers.
    request: Option<u64>,
    /// That request's own address and the peer's.
    pair: Option<(NetAddress, NetAddress)>,
}

#[derive(Debug)]
enum Stage {
    /// Connector, after Knock.
    Knocked,
    /// Connector, after Offer.
    Offered { out: OwnHalf, bell: OwnedFd },
    /// Acceptor, before Knock.
    Accepted,
    /// Acceptor, after Here.
    Greeted { peer: NicId },
}

#[derive(Debug)]
struct Handshake {
    socket: OwnedFd,
    stage: Stage,
    request: Option<u64>,
    /// The listener it came from.
    listener: Option<u64>,
    /// The process at the other end; 0 if it is in no pid namespace that we see.
    peer_pid: u32,
}

/// Sockets and what they are for.
#[derive(Debug)]
pub(super) struct Control {
    pub epoll: OwnedFd,
    pub id: NicId,
    user: u32,
    listeners: BTreeMap<u64, Listener>,
    handshakes: BTreeMap<u64, Handshake>,
    next: u64,
    /// Given up for a moment when there are no descriptors left, so that a connection can be refused instead of waiting in the backlog and waking us again and again.
    reserve: Option<OwnedFd>,
}

impl Control {
    pub(super) fn new() -> Result<Self, MemoryError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| MemoryError::os("epoll_create1", e))?;
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
        let user = rustix::process::geteuid().as_raw();
        let mut control = Self { epoll, id, user, listeners: BTreeMap::new(), handshakes: BTreeMap::new(), next: 1, reserve: None };
        control.restock();
        Ok(control)
    }

    fn restock(&mut self) {
        self.reserve = rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0).ok();
    }

    fn watch(&self, fd: BorrowedFd<'_>, data: u64) -> Result<(), MemoryError> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN).map_err(|e| MemoryError::os("epoll_ctl", e))
    }

    fn unwatch(&self, fd: BorrowedFd<'_>) {
        // Also needed before closing: a forked child may keep the description open.
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open_listener(
        &mut self,
        name: &[u8],
        address: Option<NetAddress>,
        request: Option<u64>,
        pair: Option<(NetAddress, NetAddress)>,
    ) -> Result<(), MemoryError> {
        let socket = fd_passing::listen_abstract(name)?;
        let number = self.take_number();
        self.watch(socket.as_fd(), KIND_LISTENER | number)?;
        self.listeners.insert(number, Listener { socket, address, request, pair });
        Ok(())
    }

    fn close_listener(&mut self, number: u64) {
        if let Some(l) = self.listeners.remove(&number) {
            self.unwatch(l.socket.as_fd());
        }
    }

    pub(super) fn listen(&mut self, local: &NetAddress) -> bool {
        self.open_listener(&name_of_waiter(self.user, local), Some(*local), None, None).is_ok()
    }

    pub(super) fn unlisten(&mut self, local: &NetAddress) {
        let found = self.listeners.iter().find(|(_, l)| l.address == Some(*local)).map(|(n, _)| *n);
        if let Some(n) = found {
            self.close_listener(n);
        }
    }

    pub(super) fn cancel(&mut self, request: u64) {
        let listeners: Vec<u64> = self.listeners.iter().filter(|(_, l)| l.request == Some(request)).map(|(n, _)| *n).collect();
        listeners.into_iter().for_each(|n| self.close_listener(n));
        let handshakes: Vec<u64> = self.handshakes.iter().filter(|(_, h)| h.request == Some(request)).map(|(n, _)| *n).collect();
        for n in handshakes {
            self.drop_handshake(n);
        }
    }

    /// Whether a process waits under the name that was asked for: it listens, or the socket would be closed.
    pub(super) fn has_knocked(&self, request: u64) -> bool {
        self.handshakes.values().any(|h| h.request == Some(request) && h.listener.is_none())
    }

    fn drop_handshake(&mut self, number: u64) -> Option<Handshake> {
        let h = self.handshakes.remove(&number)?;
        self.unwatch(h.socket.as_fd());
        Some(h)
    }

    fn begin(&mut self, socket: OwnedFd, stage: Stage, request: Option<u64>, listener: Option<u64>, peer_pid: u32) -> Result<(), MemoryError> {
        if self.handshakes.len() >= HANDSHAKES_MAX
            && let Some(victim) = self.most_dispensable()
        {
            self.drop_handshake(victim);
        }
        let number = self.take_number();
        self.watch(socket.as_fd(), KIND_HANDSHAKE | number)?;
        self.handshakes.insert(number, Handshake { socket, stage, request, listener, peer_pid });
        Ok(())
    }

    /// The oldest handshake of the process that has most of them, leaving our own requests alone: who floods us drops its own.
    fn most_dispensable(&self) -> Option<u64> {
        let theirs = || self.handshakes.iter().filter(|(_, h)| h.listener.is_some());
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        theirs().for_each(|(_, h)| *counts.entry(h.peer_pid).or_default() += 1);
        let (pid, _) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        theirs().find(|(_, h)| h.peer_pid == pid).map(|(n, _)| *n)
    }

    pub(super) fn forget_link(&self, link: &Link) {
        self.unwatch(link.parts.socket.as_fd());
        if let Some(p) = &link.parts.pidfd {
            self.unwatch(p.as_fd());
        }
    }
}

/// Looks for the NIC at `remote`.
pub(super) fn resolve(wire: &mut ShmWire, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
    let user = wire.control.user;
    let begun = match how {
        Rendezvous::Client => knock(wire, &name_of_waiter(user, remote), request),
        Rendezvous::Peer => {
            let name = name_of_pair(user, local, remote);
            let pair = (*local, *remote);
            match wire.control.open_listener(&name, None, Some(request), Some(pair)) {
                // Another request of ours waits there for the same peer; it would only meet ourselves. Tried again when that one is served.
                Err(MemoryError::AddressInUse) if local != remote && wire.control.listeners.values().any(|l| l.pair == Some(pair)) => {
                    Err(MemoryError::ConnectionRefused)
                }
                Err(MemoryError::AddressInUse) => knock(wire, &name, request),
                other => other,
            }
        }
    };
    if let Err(e) = begun {
        wire.events.push_back(WireEvent::Unresolved { request, reason: failure_of(&e) });
    }
}

fn knock(wire: &mut ShmWire, name: &[u8], request: u64) -> Result<(), MemoryError> {
    let socket = fd_passing::connect_abstract(name)?;
    let peer_pid = check_same_user(wire, socket.as_fd())?;
    fd_passing::send(socket.as_fd(), &Message::Knock { id: wire.control.id }.store(), &[])?;
    wire.control.begin(socket, Stage::Knocked, Some(request), None, peer_pid)
}

fn check_same_user(wire: &ShmWire, socket: BorrowedFd<'_>) -> Result<u32, MemoryError> {
    let peer = fd_passing::peer_credentials(socket)?;
    if peer.uid == wire.control.user { Ok(u32::try_from(peer.pid).unwrap_or(0)) } else { Err(MemoryError::ConnectionRefused) }
}

/// Handles all descriptors that are ready.
pub(super) fn handle_ready(wire: &mut ShmWire) {
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
    // Bounded: a peer that talks without end does not keep us here.
    for _ in 0..16 {
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = match epoll::wait(&wire.control.epoll, &mut events[..], Some(&now)) {
            Ok(n) => n,
            Err(_) => return,
        };
        for e in &events[..n] {
            let data = e.data.u64();
            let number = data & !KIND_MASK;
            match data & KIND_MASK {
                KIND_LISTENER => accept(wire, number),
                KIND_HANDSHAKE => handshake_ready(wire, number),
                KIND_LINK => link_ready(wire, LinkId::from_raw(number as u32)),
                KIND_PIDFD => link_down(wire, LinkId::from_raw(number as u32), LinkFailure::PeerDied),
                _ => {}
            }
        }
        if n < events.len() {
            return;
        }
    }
}

fn accept(wire: &mut ShmWire, number: u64) {
    let Some(l) = wire.control.listeners.get(&number) else { return };
    let request = l.request;
    match fd_passing::accept(l.socket.as_fd()) {
        Ok(Some(socket)) => {
            if let Ok(peer_pid) = check_same_user(wire, socket.as_fd()) {
                let _ = wire.control.begin(socket, Stage::Accepted, request, Some(number), peer_pid);
            }
        }
        Ok(None) => {}
        // No descriptors left. Refused, it tries again later; left in the backlog, it would keep us awake.
        Err(_) => {
            wire.control.reserve = None;
            drop(fd_passing::accept(l.socket.as_fd()));
            wire.control.restock();
        }
    }
}

fn handshake_ready(wire: &mut ShmWire, number: u64) {
    let Some(h) = wire.control.handshakes.get(&number) else { return };
    let mut buffer = [0; message::BYTES];
    let received = match fd_passing::receive(h.socket.as_fd(), &mut buffer) {
        Err(MemoryError::WouldBlock) => return,
        Ok(r) => r,
        Err(e) => return handshake_failed(wire, number, failure_of(&e)),
    };
    let Some(m) = Message::load(&buffer[..received.len]) else { return handshake_failed(wire, number, LinkFailure::PeerMisbehaved) };
    handshake_step(wire, number, m, received);
}

fn handshake_failed(wire: &mut ShmWire, number: u64, reason: LinkFailure) {
    if let Some(h) = wire.control.drop_handshake(number) {
        handshake_came_to_nothing(wire, h.request, h.listener, reason);
    }
}

fn handshake_came_to_nothing(wire: &mut ShmWire, request: Option<u64>, listener: Option<u64>, reason: LinkFailure) {
    // The acceptor's own request stays: its listener is open for another try.
    if let (Some(request), None) = (request, listener) {
        wire.events.push_back(WireEvent::Unresolved { request, reason });
    }
}

/// One message of a handshake. Whatever fails on the way, the request is answered.
fn handshake_step(wire: &mut ShmWire, number: u64, m: Message, received: Received) {
    let Some(h) = wire.control.drop_handshake(number) else { return };
    let (request, listener) = (h.request, h.listener);
    match handshake_answer(wire, number, h, m, received) {
        Ok(None) => {}
        Ok(Some(link)) => {
            if let (Some(l), Some(_)) = (listener, request) {
                // The first of two peers has been found: its name is free again.
                wire.control.close_listener(l);
            }
            wire.events.push_back(WireEvent::LinkUp { link, request });
        }
        Err(e) => handshake_came_to_nothing(wire, request, listener, failure_of(&e)),
    }
}

/// The next step of a handshake, or the link it leads to.
fn handshake_answer(wire: &mut ShmWire, number: u64, mut h: Handshake, m: Message, received: Received) -> Result<Option<LinkId>, MemoryError> {
    let own = wire.control.id;
    let pid = h.peer_pid;
    match (h.stage, m) {
        (Stage::Accepted, Message::Knock { id }) => {
            let linked = find_link(wire, &id, pid, false).is_some();
            fd_passing::send(h.socket.as_fd(), &Message::Here { id: own, linked }.store(), &[])?;
            h.stage = Stage::Greeted { peer: id };
        }
        (Stage::Knocked, Message::Here { id, linked }) => {
            if let Some(link) = find_link(wire, &id, pid, true).filter(|_| linked) {
                fd_passing::send(h.socket.as_fd(), &Message::Existing.store(), &[])?;
                return Ok(Some(link));
            }
            let out = OwnHalf::create(wire.config.mode)?;
            let bell = send_offer(wire, h.socket.as_fd(), &out)?;
            h.stage = Stage::Offered { out, bell };
        }
        (Stage::Greeted { peer }, Message::Existing) => return find_link(wire, &peer, pid, false).ok_or(MemoryError::PeerClosed).map(Some),
        (Stage::Greeted { peer }, Message::Offer { id, mapped, barriers, probe }) if id == peer => {
            let out = OwnHalf::create(wire.config.mode)?;
            let bell = send_offer(wire, h.socket.as_fd(), &out)?;
            return make_link(wire, h.socket, Ours { out, bell }, received.fds, Peer { id, mapped, barriers, probe, connector: false }).map(Some);
        }
        (Stage::Offered { out, bell }, Message::Offer { id, mapped, barriers, probe }) => {
            return make_link(wire, h.socket, Ours { out, bell }, received.fds, Peer { id, mapped, barriers, probe, connector: true }).map(Some);
        }
        _ => return Err(MemoryError::Truncated),
    }
    wire.control.watch(h.socket.as_fd(), KIND_HANDSHAKE | number)?;
    wire.control.handshakes.insert(number, h);
    Ok(None)
}

/// The link to a NIC of a process; of a loopback the end of the side asked for.
fn find_link(wire: &ShmWire, peer: &NicId, peer_pid: u32, connector: bool) -> Option<LinkId> {
    let same = |l: &Link| l.parts.peer == *peer && l.parts.peer_pid == peer_pid && (!l.parts.loopback || l.parts.connector == connector);
    wire.links.iter().find(|(_, l)| same(l)).map(|(h, _)| LinkId::from_raw(h.raw()))
}

/// Offers our half of a link; gives the end of its bell to listen to.
fn send_offer(wire: &ShmWire, socket: BorrowedFd<'_>, out: &OwnHalf) -> Result<OwnedFd, MemoryError> {
    let offer = Message::Offer {
        id: wire.control.id,
        mapped: wire.config.mode == ProtectionMode::Mapped,
        barriers: membarrier::register().global_expedited,
        probe: wire.proof.address(),
    };
    let own = pidfd::own().ok();
    let (listening, ringing) = event::pipe_of_bell()?;
    let mut fds = vec![out.lines.fd(), out.payload.fd(), wire.segments.catalogue().fd(), ringing.as_fd()];
    if let Some(p) = &own {
        fds.push(p.as_fd());
    }
    fd_passing::send(socket, &offer.store(), &fds)?;
    Ok(listening)
}

/// Our half of a link to be.
struct Ours {
    out: OwnHalf,
    bell: OwnedFd,
}

struct Peer {
    id: NicId,
    mapped: bool,
    barriers: bool,
    probe: u64,
    connector: bool,
}

fn make_link(wire: &mut ShmWire, socket: OwnedFd, ours: Ours, fds: Vec<OwnedFd>, peer: Peer) -> Result<LinkId, MemoryError> {
    let peer_pid = check_same_user(wire, socket.as_fd())?;
    let loopback = peer.id == wire.control.id;
    if loopback && peer_pid != std::process::id() {
        // It gives itself out for us.
        return Err(MemoryError::NotPidfd);
    }
    check_room(wire, peer_pid, loopback)?;
    let mut fds = fds.into_iter();
    let (Some(lines), Some(payload), Some(catalogue), Some(bell)) = (fds.next(), fds.next(), fds.next(), fds.next()) else {
        return Err(MemoryError::Truncated);
    };
    // A peer that cannot make one: its socket's hang-up must do.
    let pidfd = fds.next();
    if let Some(fd) = &pidfd {
        check_is_peer(fd.as_fd(), peer_pid)?;
    }
    let mapped = peer.mapped && wire.config.mode == ProtectionMode::Mapped;
    let proof = if mapped { proof::of_peer(peer_pid, peer.probe, &peer.id) } else { 0 };
    let parts = Parts {
        proof,
        nonce: if wire.config.attach == Attach::Never { 0 } else { wire.proof.nonce() },
        out: ours.out,
        inward: PeerHalf::map(lines, payload, catalogue, peer.mapped)?,
        bell: PeerBell::from_fd(bell)?,
        pidfd,
        socket,
        peer: peer.id,
        peer_pid,
        loopback,
        connector: peer.connector,
        mapped,
        barriers: peer.barriers && membarrier::register().global_expedited,
    };
    let link = wire.add_link(Link::new(parts)).ok_or(MemoryError::TooManyDescriptors { given: LINKS_MAX + 1, max: LINKS_MAX })?;
    if let Err(e) = watch_link(wire, link, ours.bell) {
        wire.close(link);
        return Err(e);
    }
    Ok(link)
}

/// A link costs memory and descriptors.
fn check_room(wire: &ShmWire, peer_pid: u32, loopback: bool) -> Result<(), MemoryError> {
    let of_process = wire.links.iter().filter(|(_, l)| l.parts.peer_pid == peer_pid).count();
    // Processes that we cannot tell apart (0) and our own have what all have together.
    if of_process >= LINKS_PER_PROCESS_MAX && peer_pid != 0 && !loopback && peer_pid != std::process::id() {
        return Err(MemoryError::TooManyDescriptors { given: of_process + 1, max: LINKS_PER_PROCESS_MAX });
    }
    Ok(())
}

/// Whether a pidfd is that of the process at the other end of the socket: else its death would be another's.
fn check_is_peer(pidfd: BorrowedFd<'_>, peer_pid: u32) -> Result<(), MemoryError> {
    match pidfd::process_id(pidfd) {
        Ok(Some(pid)) if u32::try_from(pid) == Ok(peer_pid) => Ok(()),
        // Of a pid namespace that we do not see, as the socket says too. (/proc may be that of yet another one, and give a number.)
        Ok(Some(_)) | Err(MemoryError::ForeignPid) if peer_pid == 0 => Ok(()),
        Ok(Some(_)) => Err(MemoryError::NotPidfd),
        Ok(None) => Err(MemoryError::PeerClosed),
        Err(e) => Err(e),
    }
}

/// Listens to a new link's bell, socket and pidfd.
fn watch_link(wire: &mut ShmWire, link: LinkId, bell: OwnedFd) -> Result<(), MemoryError> {
    let number = u64::from(link.raw());
    wire.bells.add(number, bell)?;
    let Some(l) = wire.links.get(Handle::from_raw(link.raw())) else { return Err(MemoryError::PeerClosed) };
    wire.control.watch(l.parts.socket.as_fd(), KIND_LINK | number)?;
    if let (Some(p), false) = (&l.parts.pidfd, l.parts.loopback) {
        wire.control.watch(p.as_fd(), KIND_PIDFD | number)?;
    }
    Ok(())
}

/// Says something on a link's socket. `false`: it could not be said; what depends on it is then done another way.
pub(super) fn tell(link: &Link, m: &Message, fd: Option<BorrowedFd<'_>>) -> bool {
    fd_passing::send(link.parts.socket.as_fd(), &m.store(), fd.as_slice()).is_ok()
}

fn link_ready(wire: &mut ShmWire, id: LinkId) {
    // Bounded per call; epoll is level-triggered.
    for _ in 0..32 {
        let Some(l) = wire.link(id) else { return };
        let mut buffer = [0; message::BYTES];
        let received = match fd_passing::receive(l.parts.socket.as_fd(), &mut buffer) {
            Err(MemoryError::WouldBlock) => return,
            Ok(r) => r,
            Err(MemoryError::PeerClosed) => {
                let died = l.parts.pidfd.as_ref().is_some_and(|p| pidfd::has_exited(p.as_fd()).unwrap_or(false));
                return link_down(wire, id, if died { LinkFailure::PeerDied } else { LinkFailure::PeerClosed });
            }
            Err(_) => return link_down(wire, id, LinkFailure::PeerMisbehaved),
        };
        match (Message::load(&buffer[..received.len]), received.fds.into_iter().next()) {
            (Some(Message::Want { segment, write }), None) => wire.events.push_back(WireEvent::MapRequest { link: id, segment, write }),
            (Some(Message::Give { segment, granted: true, write }), Some(fd)) => map_segment(l, segment, write, fd),
            (Some(Message::Give { segment, granted: false, write }), None) => {
                if matches!(l.foreign.get(&segment), Some(Foreign::Requested { .. })) {
                    l.foreign.insert(segment, Foreign::Refused { write });
                }
            }
            (Some(Message::Gone { segment }), None) => l.forget(segment),
            _ => return link_down(wire, id, LinkFailure::PeerMisbehaved),
        }
    }
}

fn map_segment(l: &mut Link, segment: u32, write: bool, fd: OwnedFd) {
    // Only what was asked for: a peer cannot make us map without end.
    if !l.foreign.contains_key(&segment) {
        return;
    }
    let access = if write { Access::ReadWrite } else { Access::ReadOnly };
    l.forget(segment);
    let in_use: usize = l.foreign.values().map(|f| if let Foreign::Mapped(r) = f { r.len() } else { 0 }).sum();
    let mapped = RemoteRegion::map(fd, 1, SEGMENTS_BYTES_MAX.saturating_sub(in_use), access);
    l.foreign.insert(segment, mapped.map_or(Foreign::Refused { write }, Foreign::Mapped));
}

fn link_down(wire: &mut ShmWire, id: LinkId, reason: LinkFailure) {
    if let Some(l) = wire.link(id) {
        // What the peer said before it went is still heard: the engine's next look must be a true one.
        l.look_truly();
    }
    let Some(l) = wire.links.get(Handle::from_raw(id.raw())) else { return };
    // Once: the descriptors stay ready until the engine closes the link.
    wire.control.forget_link(l);
    wire.events.push_back(WireEvent::LinkDown { link: id, reason });
}

/// The abstract name under which a waiter listens.
fn name_of_waiter(user: u32, address: &NetAddress) -> Vec<u8> {
    name(user, b'w', &[address])
}

/// The name of two peers, the same from both sides.
fn name_of_pair(user: u32, a: &NetAddress, b: &NetAddress) -> Vec<u8> {
    name(user, b'p', if a <= b { [a, b] } else { [b, a] }.as_slice())
}

fn name(user: u32, kind: u8, addresses: &[&NetAddress]) -> Vec<u8> {
    format!("bellwire/{}/{user}/{}/{:032x}", super::layout::VERSION, kind as char, names::hash_of(addresses)).into_bytes()
}

#[cfg(test)]
mod tests;
