// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshake that makes a link: the process that came or was called, the offer of each side,
//! and the link from both halves. Every step is a message with descriptors on a socket that does
//! not block; a peer that lies, is slow or has no room ends it, and nothing stays behind.

use crate::handle::Handle;
use crate::shm::half::{OwnHalf, PeerHalf};
use crate::shm::link::{Link, NicId, Parts};
use crate::shm::message::{self, Message};
use crate::shm::rendezvous::{Handshake, KIND_HANDSHAKE, KIND_LINK, KIND_PIDFD, Stage};
use crate::shm::segments::Segments;
use crate::shm::{LINKS_MAX, LINKS_PER_PROCESS_MAX, ProtectionMode, ShmWire, proof};
use crate::{Attach, LinkFailure, LinkId, Wire, WireEvent};
use bellwire_memory::event::{self, PeerBell};
use bellwire_memory::fd_passing::{self, Credentials, Received, Socket};
use bellwire_memory::{MemoryError, membarrier, pidfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Our half of a link to be.
pub(super) struct Ours {
    out: OwnHalf,
    bell: OwnedFd,
}

pub(super) struct Peer {
    id: NicId,
    mapped: bool,
    barriers: bool,
    probe: u64,
    connector: bool,
}

/// Who the process at the other end of a socket is, to this NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its id; 0 if it is in no pid namespace that we see.
    pub(super) pid: u32,
    /// Its user, and whether that is another one than ours.
    pub(super) uid: u32,
    pub(super) foreign: bool,
    /// It is one of our user, or of one that we allow.
    pub(super) allowed: bool,
}

pub(super) fn standing_of(wire: &ShmWire, socket: BorrowedFd<'_>, peer: &Credentials) -> Standing {
    let c = &wire.control;
    // In a user namespace that does not map this process's own user, that user and all strangers
    // have one id (65534): they count as one user there, as for the kernel's own checks of that
    // namespace.
    let foreign = peer.uid != c.user;
    let allowed = !foreign || c.allow.covers(socket, peer);
    Standing { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid, foreign, allowed }
}

pub(super) fn accept(wire: &mut ShmWire, number: u64) {
    let Some(l) = wire.control.listeners.get(&number) else { return };
    let request = l.request;
    match fd_passing::accept(l.socket.as_fd()) {
        Ok(Some(socket)) => {
            if let Ok(credentials) = fd_passing::peer_credentials(socket.as_fd()) {
                let peer = standing_of(wire, socket.as_fd(), &credentials);
                let _ = wire.control.begin(socket, Stage::Accepted, request, Some(number), peer);
            }
        }
        Ok(None) => {}
        // No descriptors left. Refused, it tries again later; left in the backlog, it would keep us
        // awake.
        Err(_) => {
            wire.control.reserve = None;
            drop(fd_passing::accept(l.socket.as_fd()));
            wire.control.restock();
        }
    }
}

pub(super) fn handshake_ready(wire: &mut ShmWire, number: u64) {
    let Some(h) = wire.control.handshakes.get(&number) else { return };
    let mut buffer = [0; message::BYTES];
    let received = match fd_passing::receive(h.socket.as_fd(), &mut buffer) {
        Err(MemoryError::WouldBlock) => return,
        Ok(r) => r,
        Err(e) => return handshake_failed(wire, number, e.into()),
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
    // The acceptor's own request stays: its listener is open for another try. So it is when one of
    // two peers has looked for the other among other users.
    let listens = |request| wire.control.listeners.values().any(|l| l.request == Some(request));
    if let (Some(request), None) = (request, listener)
        && !listens(request)
    {
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
            if let Some(request) = request {
                // The first of two peers has been found: its name is free again.
                wire.control.is_found(request);
            }
            wire.events.push_back(WireEvent::LinkUp { link, request });
        }
        Err(reason) => handshake_came_to_nothing(wire, request, listener, reason),
    }
}

/// The next step of a handshake, or the link it leads to.
fn handshake_answer(wire: &mut ShmWire, number: u64, mut h: Handshake, m: Message, received: Received) -> Result<Option<LinkId>, LinkFailure> {
    let own = wire.control.id;
    let pid = h.peer.pid;
    let mode = mode_with(wire, &h.peer);
    match (h.stage, m) {
        (Stage::Accepted, Message::Knock { .. }) if !h.peer.allowed => {
            let _ = fd_passing::send(h.socket.as_fd(), &Message::Barred.store(), &[]);
            return Err(LinkFailure::NotAllowedHere);
        }
        (Stage::Knocked, Message::Barred) => return Err(LinkFailure::NotAllowedThere),
        (Stage::Accepted, Message::Knock { .. }) if gives_way(wire, h.request, h.peer) => return Err(LinkFailure::Busy),
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
            let out = OwnHalf::create(mode)?;
            let bell = send_offer(wire, h.socket.as_fd(), &out, &h.peer)?;
            h.stage = Stage::Offered { out, bell };
        }
        (Stage::Greeted { peer }, Message::Existing) => return find_link(wire, &peer, pid, false).ok_or(LinkFailure::Busy).map(Some),
        (Stage::Greeted { peer }, Message::Offer { id, mapped, barriers, probe }) if id == peer => {
            let out = OwnHalf::create(mode)?;
            let bell = send_offer(wire, h.socket.as_fd(), &out, &h.peer)?;
            return Ok(Some(make_link(wire, h.socket, Ours { out, bell }, received.fds, Peer { id, mapped, barriers, probe, connector: false })?));
        }
        (Stage::Offered { out, bell }, Message::Offer { id, mapped, barriers, probe }) => {
            return Ok(Some(make_link(wire, h.socket, Ours { out, bell }, received.fds, Peer { id, mapped, barriers, probe, connector: true })?));
        }
        _ => return Err(LinkFailure::PeerMisbehaved),
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

/// How open our side of a link to a process is.
fn mode_with(wire: &ShmWire, peer: &Standing) -> ProtectionMode {
    if peer.foreign { ProtectionMode::Guarded } else { wire.config.mode }
}

/// Of two peers of different users that have found each other, whether the attempt that comes in
/// gives way to our own; else our own does.
fn gives_way(wire: &mut ShmWire, request: Option<u64>, peer: Standing) -> bool {
    let own = wire.control.user;
    let ours = wire.control.handshakes.iter().find(|(_, o)| request.is_some() && o.request == request && o.listener.is_none() && o.peer.uid == peer.uid);
    match ours.map(|(n, _)| *n).filter(|_| peer.foreign) {
        Some(_) if own > peer.uid => true,
        Some(ours) => {
            wire.control.drop_handshake(ours);
            false
        }
        None => false,
    }
}

/// Offers our half of a link; gives the end of its bell to listen to.
fn send_offer(wire: &ShmWire, socket: BorrowedFd<'_>, out: &OwnHalf, peer: &Standing) -> Result<OwnedFd, MemoryError> {
    let offer = Message::Offer {
        id: wire.control.id,
        mapped: mode_with(wire, peer) == ProtectionMode::Mapped,
        barriers: membarrier::register().global_expedited,
        probe: if peer.foreign { 0 } else { wire.proof.address() },
    };
    let own = pidfd::own().ok();
    let (listening, ringing) = event::pipe_of_bell()?;
    if peer.foreign {
        event::open_to_other_users(ringing.as_fd())?;
    }
    // Another user is not told what is registered here.
    let blank = if peer.foreign { Some(Segments::blank_catalogue()?) } else { None };
    let catalogue = blank.as_ref().unwrap_or(wire.segments.catalogue());
    let mut fds = vec![out.lines.fd(), out.payload.fd(), catalogue.fd(), ringing.as_fd()];
    if let Some(p) = &own {
        fds.push(p.as_fd());
    }
    fd_passing::send(socket, &offer.store(), &fds)?;
    Ok(listening)
}

fn make_link(wire: &mut ShmWire, socket: Socket, ours: Ours, fds: Vec<OwnedFd>, peer: Peer) -> Result<LinkId, MemoryError> {
    let standing = standing_of(wire, socket.as_fd(), &fd_passing::peer_credentials(socket.as_fd())?);
    let (peer_pid, foreign) = (standing.pid, standing.foreign);
    if !standing.allowed {
        return Err(MemoryError::ConnectionRefused);
    }
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
    let theirs_mapped = peer.mapped && !foreign;
    let mapped = theirs_mapped && wire.config.mode == ProtectionMode::Mapped;
    let proof = if mapped { proof::of_peer(peer_pid, peer.probe, &peer.id) } else { 0 };
    let parts = Parts {
        proof,
        nonce: if wire.config.attach == Attach::Never || foreign { 0 } else { wire.proof.nonce() },
        out: ours.out,
        inward: PeerHalf::map(lines, payload, catalogue, theirs_mapped)?,
        bell: PeerBell::from_fd(bell)?,
        pidfd,
        socket,
        peer: peer.id,
        peer_pid,
        peer_uid: standing.uid,
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

/// Whether a pidfd is that of the process at the other end of the socket: else its death would be
/// another's.
fn check_is_peer(pidfd: BorrowedFd<'_>, peer_pid: u32) -> Result<(), MemoryError> {
    match pidfd::process_id(pidfd) {
        Ok(Some(pid)) if u32::try_from(pid) == Ok(peer_pid) => Ok(()),
        // Of a pid namespace that we do not see, as the socket says too. (/proc may be that of yet
        // another one, and give a number.)
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
