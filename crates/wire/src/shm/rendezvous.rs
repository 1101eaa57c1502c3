// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding each other: abstract UNIX sockets named by address and discriminator, the handshake that
//! makes a link, and the link's socket afterwards.
//!
//! Names: `bellwire` + user id + a hash of the addresses. A waiter listens under (host,
//! discriminator); a client connects there. Of two peers that name each other the first to come
//! listens under the hash of both addresses in order, the second finds the name taken and connects.
//! Abstract names vanish with their process, so nothing is left behind. Anybody in the network
//! namespace can take such a name: the process at the other end is checked by its credentials
//! (`users.rs`). A NIC's id is told to any asker, so it proves nothing either: links are known by
//! it *and* by the process at their other end.
//!
//! Other users: both sides must allow the other one's user. A client looks under its own user's
//! name first, then under those of the users that it allows; the waiter answers a user that it does
//! not allow with `Barred`. Their links are guarded, and tell nothing of registered memory. Two
//! peers of different users each listen under their own user's name and look under the other's; if
//! both find the other, the attempt of the larger user id counts.
//!
//! Everything is non-blocking: sockets, pidfds and listeners stand in one epoll set whose
//! descriptor the NIC's helper thread sleeps on. The handshake is in `rendezvous/handshake.rs`,
//! what a link's socket brings afterwards in `rendezvous/life.rs`.

mod handshake;
pub(super) mod life;

use super::ShmWire;
use super::half::OwnHalf;
use super::link::{Link, NicId};
use super::message::Message;
use crate::address::NetAddress;
use crate::shm::rendezvous::handshake::{Standing, accept, handshake_ready, standing_of};
use crate::shm::rendezvous::life::{link_down, link_ready};
use crate::users::{Allow, OwnedName};
use crate::{LinkFailure, LinkId, Rendezvous, WireEvent, names};
use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing::{self, Credentials, Socket};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;

/// Handshakes under way at a time; beyond, the oldest of the process that has most of them is
/// dropped.
const HANDSHAKES_MAX: usize = 128;
/// How seldom it is looked for other users' processes that wait: after this time, and after so many
/// times as long as the last look took.
const LOOK_PERIOD: std::time::Duration = std::time::Duration::from_millis(100);
const LOOK_SHARE: u32 = 50;
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
    socket: Socket,
    stage: Stage,
    request: Option<u64>,
    /// The listener it came from.
    listener: Option<u64>,
    /// The process at the other end.
    peer: Standing,
}

/// Sockets and what they are for.
#[derive(Debug)]
pub(super) struct Control {
    pub epoll: OwnedFd,
    pub id: NicId,
    user: u32,
    allow: Allow,
    /// The tag of the virtual network.
    network: u64,
    /// Not before this time is looked for other users' processes that wait, to say so.
    next_look: std::time::Instant,
    listeners: BTreeMap<u64, Listener>,
    handshakes: BTreeMap<u64, Handshake>,
    next: u64,
    /// Given up for a moment when there are no descriptors left, so that a connection can be
    /// refused instead of waiting in the backlog and waking us again and again.
    reserve: Option<OwnedFd>,
}

impl Control {
    pub(super) fn new(allow: Allow, network: u64) -> Result<Self, MemoryError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| MemoryError::os("epoll_create1", e))?;
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
        let user = rustix::process::geteuid().as_raw();
        let next_look = std::time::Instant::now();
        let mut control = Self { epoll, id, user, allow, network, next_look, listeners: BTreeMap::new(), handshakes: BTreeMap::new(), next: 1, reserve: None };
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
        name: &OwnedName,
        address: Option<NetAddress>,
        request: Option<u64>,
        pair: Option<(NetAddress, NetAddress)>,
    ) -> Result<(), MemoryError> {
        let socket = name.claim(self.user)?;
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
        self.open_listener(&name_of_waiter(self.network, local), Some(*local), None, None).is_ok()
    }

    pub(super) fn unlisten(&mut self, local: &NetAddress) {
        let found = self.listeners.iter().find(|(_, l)| l.address == Some(*local)).map(|(n, _)| *n);
        if let Some(n) = found {
            self.close_listener(n);
        }
    }

    pub(super) fn cancel(&mut self, request: u64) {
        self.end(request, |_| true);
    }

    /// The request has its link: it listens and asks no longer.
    fn is_found(&mut self, request: u64) {
        self.end(request, |h| h.listener.is_none());
    }

    fn end(&mut self, request: u64, also: impl Fn(&Handshake) -> bool) {
        let listeners: Vec<u64> = self.listeners.iter().filter(|(_, l)| l.request == Some(request)).map(|(n, _)| *n).collect();
        listeners.into_iter().for_each(|n| self.close_listener(n));
        let handshakes: Vec<u64> = self.handshakes.iter().filter(|(_, h)| h.request == Some(request) && also(h)).map(|(n, _)| *n).collect();
        for n in handshakes {
            self.drop_handshake(n);
        }
    }

    /// Whether a process waits under the name that was asked for: it listens, or the socket would
    /// be closed.
    pub(super) fn has_knocked(&self, request: u64) -> bool {
        self.handshakes.values().any(|h| h.request == Some(request) && h.listener.is_none())
    }

    fn drop_handshake(&mut self, number: u64) -> Option<Handshake> {
        let h = self.handshakes.remove(&number)?;
        self.unwatch(h.socket.as_fd());
        Some(h)
    }

    fn begin(&mut self, socket: Socket, stage: Stage, request: Option<u64>, listener: Option<u64>, peer: Standing) -> Result<(), MemoryError> {
        if self.handshakes.len() >= HANDSHAKES_MAX
            && let Some(victim) = self.most_dispensable()
        {
            self.drop_handshake(victim);
        }
        let number = self.take_number();
        self.watch(socket.as_fd(), KIND_HANDSHAKE | number)?;
        self.handshakes.insert(number, Handshake { socket, stage, request, listener, peer });
        Ok(())
    }

    /// The oldest handshake of a user that is not allowed; else of the process that has most of
    /// them, leaving our own requests alone: a process that floods us drops its own.
    fn most_dispensable(&self) -> Option<u64> {
        let theirs = || self.handshakes.iter().filter(|(_, h)| h.listener.is_some());
        if let Some((n, _)) = theirs().find(|(_, h)| !h.peer.allowed) {
            return Some(*n);
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        theirs().for_each(|(_, h)| *counts.entry(h.peer.pid).or_default() += 1);
        let (pid, _) = counts.into_iter().max_by_key(|(_, n)| *n)?;
        theirs().find(|(_, h)| h.peer.pid == pid).map(|(n, _)| *n)
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
    let begun = match how {
        Rendezvous::Client => look_up(wire, &name_of_waiter(wire.control.network, remote)).and_then(|found| knock(wire, found, request)),
        Rendezvous::Peer => {
            let name = name_of_pair(wire.control.network, local, remote);
            let pair = (*local, *remote);
            match wire.control.open_listener(&name, None, Some(request), Some(pair)) {
                // Another request of ours waits there for the same peer; it would only meet
                // ourselves. Tried again when that one is served.
                Err(MemoryError::AddressInUse) if local != remote && wire.control.listeners.values().any(|l| l.pair == Some(pair)) => {
                    Err(LinkFailure::NobodyThere)
                }
                Err(MemoryError::AddressInUse) => name.reach(wire.control.user).map_err(LinkFailure::from).and_then(|found| knock(wire, found, request)),
                Ok(()) => {
                    look_for_allowed_peer(wire, &name, request);
                    Ok(())
                }
                Err(e) => Err(e.into()),
            }
        }
    };
    if let Err(reason) = begun {
        wire.events.push_back(WireEvent::Unresolved { request, reason });
    }
}

type Found = (Socket, Credentials);

/// The process that waits under a name: one of this user, else one of a user that is allowed.
fn look_up(wire: &mut ShmWire, name: &OwnedName) -> Result<Found, LinkFailure> {
    let c = &mut wire.control;
    match name.reach(c.user) {
        Err(MemoryError::ConnectionRefused) => {}
        other => return Ok(other?),
    }
    match name.reach_allowed(c.user, &c.allow) {
        Err(MemoryError::ConnectionRefused) => {}
        other => return Ok(other?),
    }
    // Nobody. To say why, if another user's process waits there; that is no cheap question.
    let began = std::time::Instant::now();
    if began < c.next_look {
        return Err(LinkFailure::NobodyThere);
    }
    let others = name.others(c.user);
    c.next_look = began + LOOK_PERIOD.max(LOOK_SHARE * began.elapsed());
    Err(if others.is_empty() { LinkFailure::NobodyThere } else { LinkFailure::NotAllowedHere })
}

/// The first of two peers listens; one of another user listens under another name.
fn look_for_allowed_peer(wire: &mut ShmWire, name: &OwnedName, request: u64) {
    let c = &wire.control;
    // If not, that one looks when it comes.
    if let Ok(found) = name.reach_allowed(c.user, &c.allow) {
        let _ = knock(wire, found, request);
    }
}

fn knock(wire: &mut ShmWire, (socket, credentials): Found, request: u64) -> Result<(), LinkFailure> {
    let peer = standing_of(wire, socket.as_fd(), &credentials);
    if !peer.allowed {
        return Err(LinkFailure::NotAllowedHere);
    }
    fd_passing::send(socket.as_fd(), &Message::Knock { id: wire.control.id }.store(), &[])?;
    Ok(wire.control.begin(socket, Stage::Knocked, Some(request), None, peer)?)
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

/// The abstract name under which a waiter listens.
impl ShmWire {
    /// Whether other users may have links with this NIC.
    pub(crate) fn allows_others(&self) -> bool {
        !self.control.allow.is_empty()
    }

    /// Whether a process of another user waits for an address.
    pub(crate) fn others_listen(&self, address: &NetAddress) -> bool {
        !name_of_waiter(self.control.network, address).others(self.control.user).is_empty()
    }
}

fn name_of_waiter(network: u64, address: &NetAddress) -> OwnedName {
    name(network, 'w', &[address])
}

/// The name of two peers, the same from both sides.
fn name_of_pair(network: u64, a: &NetAddress, b: &NetAddress) -> OwnedName {
    name(network, 'p', if a <= b { [a, b] } else { [b, a] }.as_slice())
}

/// Programs of different virtual networks do not find each other.
fn name(network: u64, kind: char, addresses: &[&NetAddress]) -> OwnedName {
    let hash = names::hash_of(addresses) ^ u128::from(network);
    OwnedName { before: format!("bellwire/{}/", super::layout::VERSION), after: format!("/{kind}/{hash:032x}") }
}

#[cfg(test)]
mod tests;
