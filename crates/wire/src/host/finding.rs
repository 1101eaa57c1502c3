// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC at an address, asked of both wires (by the rule of `host.rs`), and the answers of both.

use crate::address::{NetAddress, without_port};
use crate::host::{HostWire, host_link};
use crate::packet::PacketPort;
use crate::time::Duration;
use crate::{LinkFailure, LinkId, Rendezvous, Wire, WireEvent};
use std::net::{SocketAddr, UdpSocket};

/// How long one of two peers that UDP found on this host is waited for by shared memory: their
/// handshake is under way, or the peer is another user's.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);

/// A request that both wires may answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) how: Rendezvous,
    pub(super) local: NetAddress,
    pub(super) remote: NetAddress,
    /// Still asked: shared memory, UDP.
    pub(super) shm: bool,
    pub(super) udp: bool,
    /// UDP found the peer, and shared memory has been asked again.
    pub(super) found: bool,
    /// The agent is asked for whom shared memory does not reach: somebody elsewhere, or another
    /// user of this host.
    pub(super) by_agent: bool,
    /// It has been.
    pub(super) was_found: bool,
}

impl HostWire {
    /// What one of the two says about a request that may be both's. `None`: not the last word.
    pub(super) fn settle(&mut self, request: u64, from_shm: bool, answer: Result<LinkId, LinkFailure>) -> Option<WireEvent> {
        let Some(r) = self.requests.get_mut(&request) else {
            // Asked of one only.
            return Some(match answer {
                Ok(link) => WireEvent::LinkUp { link, request: Some(request) },
                Err(reason) => WireEvent::Unresolved { request, reason },
            });
        };
        let other = if from_shm {
            r.shm = false;
            r.udp
        } else {
            r.udp = false;
            r.shm
        };
        match answer {
            Ok(link) => {
                self.requests.remove(&request);
                self.expected.retain(|(_, r)| *r != request);
                if other && let Some(p) = self.packet.as_mut().filter(|_| from_shm) {
                    p.cancel(request);
                } else if other {
                    self.shm.cancel(request);
                }
                Some(WireEvent::LinkUp { link, request: Some(request) })
            }
            Err(_) if r.found && from_shm => {
                r.found = false;
                if let Some(p) = &mut self.packet {
                    p.proceed(request);
                }
                None
            }
            Err(_) if other => None,
            Err(_) if from_shm && r.how == Rendezvous::Client && r.by_agent && !r.was_found => {
                (r.udp, r.was_found) = (true, true);
                let (local, remote) = (r.local, r.remote);
                if let Some(p) = &mut self.packet {
                    p.resolve(request, Rendezvous::Client, &local, &remote);
                }
                None
            }
            Err(LinkFailure::NobodyThere) if from_shm && r.how == Rendezvous::Client && is_elsewhere(&r.local, &r.remote) => {
                r.udp = true;
                let (local, remote) = (r.local, r.remote);
                if let Some(p) = &mut self.packet {
                    p.locate(request, Rendezvous::Client, &local, &remote);
                }
                None
            }
            Err(reason) => {
                self.requests.remove(&request);
                Some(WireEvent::Unresolved { request, reason })
            }
        }
    }

    /// UDP has found whom a request is for, at an address: shared memory first, if it may be on
    /// this host.
    #[cold]
    pub(super) fn found(&mut self, request: u64, at: SocketAddr) {
        let (Some(p), Some(r)) = (&mut self.packet, self.requests.get_mut(&request)) else { return };
        match r.how {
            Rendezvous::Client => {
                (r.shm, r.found) = (true, true);
                let (local, remote) = (r.local, r.remote);
                self.shm.resolve(request, Rendezvous::Client, &local, &remote);
            }
            Rendezvous::Peer if is_of_this_host(at) => self.expected.push_back((p.port().now() + HANDSHAKE_TIME, request)),
            Rendezvous::Peer => p.proceed(request),
        }
    }

    /// Those who did not come by shared memory in time are talked to by UDP.
    #[cold]
    pub(super) fn expect_no_longer(&mut self) {
        let Some(p) = &mut self.packet else { return };
        let now = p.port().now();
        while self.expected.front().is_some_and(|(until, _)| *until <= now)
            && let Some((_, request)) = self.expected.pop_front()
        {
            p.proceed(request);
        }
    }

    pub(super) fn translate(&mut self, event: WireEvent, from_shm: bool) -> Option<WireEvent> {
        let name = |link| if from_shm { link } else { host_link(link) };
        match event {
            WireEvent::LinkUp { link, request: Some(request) } => self.settle(request, from_shm, Ok(name(link))),
            WireEvent::Unresolved { request, reason } => self.settle(request, from_shm, Err(reason)),
            WireEvent::LinkUp { link, request: None } => Some(WireEvent::LinkUp { link: name(link), request: None }),
            WireEvent::LinkDown { link, reason } => Some(WireEvent::LinkDown { link: name(link), reason }),
            WireEvent::MapRequest { .. } => Some(event),
        }
    }
}

/// Whether the two may be on different hosts. Those at one IP address are not, whatever their
/// ports.
pub(super) fn is_elsewhere(local: &NetAddress, remote: &NetAddress) -> bool {
    without_port(local.host()) != without_port(remote.host())
}

/// Whether an address is one of this host's, or of this network namespace's: abstract sockets, by
/// which shared memory is found, end there, too.
fn is_of_this_host(mut at: SocketAddr) -> bool {
    at.set_port(0);
    UdpSocket::bind(at).is_ok()
}
