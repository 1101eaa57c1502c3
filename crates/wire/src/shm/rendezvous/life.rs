// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link's control traffic, from its first message to its end: memory that is asked for, given and
//! taken back, and that the peer has died.

use crate::handle::Handle;
use crate::shm::ShmWire;
use crate::shm::link::{Foreign, Link};
use crate::shm::message::{self, Message};
use crate::{LinkFailure, LinkId, WireEvent};
use bellwire_memory::MemoryError;
use bellwire_memory::fd_passing;
use bellwire_memory::region::{Access, RemoteRegion};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most that is mapped of one peer: address space is not without end, and a peer can offer memory
/// that it does not have.
const SEGMENTS_BYTES_MAX: usize = 1 << 40;

/// Says something on a link's socket. `false`: it could not be said; anything that depends on it is
/// then done another way.
pub(in crate::shm) fn tell(link: &Link, m: &Message, fd: Option<BorrowedFd<'_>>) -> bool {
    fd_passing::send(link.parts.socket.as_fd(), &m.store(), fd.as_slice()).is_ok()
}

pub(super) fn link_ready(wire: &mut ShmWire, id: LinkId) {
    // Bounded per call; epoll is level-triggered.
    for _ in 0..32 {
        let Some(l) = wire.link(id) else { return };
        let mut buffer = [0; message::BYTES];
        let received = match fd_passing::receive(l.parts.socket.as_fd(), &mut buffer) {
            Err(MemoryError::WouldBlock) => return,
            Ok(r) => r,
            Err(MemoryError::PeerClosed) => {
                // The kernel closes the sockets of a process before it says that the process has
                // ended: only the peer can say that it closed.
                let closed = l.has_peer_closed();
                return link_down(wire, id, if closed { LinkFailure::PeerClosed } else { LinkFailure::PeerDied });
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

pub(super) fn link_down(wire: &mut ShmWire, id: LinkId, reason: LinkFailure) {
    if let Some(l) = wire.link(id) {
        // What the peer said before it went is still heard: the engine's next look must be a true
        // one.
        l.look_truly();
    }
    let Some(l) = wire.links.get(Handle::from_raw(id.raw())) else { return };
    // Once: the descriptors stay ready until the engine closes the link.
    wire.control.forget_link(l);
    wire.events.push_back(WireEvent::LinkDown { link: id, reason });
}
