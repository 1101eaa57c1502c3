// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions become links: a located peer is connected to, and the transport's news of sessions is
//! told to the engine.

use crate::address::NetAddress;
use crate::packet::port::PacketPort;
use crate::packet::{Link, PacketWire};
use crate::time::Instant;
use crate::{LinkFailure, LinkId, Rendezvous, Wire, WireEvent};
use bellwire_proto::{DownReason, Event, FailReason, SessionId};
use core::net::SocketAddr;

impl<P: PacketPort> PacketWire<P> {
    pub(super) fn take_located(&mut self, now: Instant) {
        while let Some((request, found)) = self.port.poll_located() {
            self.located(now, request, found);
        }
    }

    /// As [`resolve`](Wire::resolve), but no session is made with the peer that is found:
    /// [`poll_found`](Self::poll_found) tells it, and [`proceed`](Self::proceed) goes on.
    pub fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        self.held.insert(request, None);
        self.resolve(request, how, local, remote);
    }

    /// A request of [`locate`](Self::locate)'s whose peer is found, and where that is.
    pub fn poll_found(&mut self) -> Option<(u64, SocketAddr)> {
        self.found.pop_front()
    }

    /// Makes the session with the peer that was found.
    pub fn proceed(&mut self, request: u64) {
        if let Some(Some(to)) = self.held.remove(&request) {
            let now = self.port.now();
            self.located(now, request, Ok(to));
            self.transmit(now);
        }
    }

    pub(super) fn located(&mut self, now: Instant, request: u64, found: Result<SocketAddr, LinkFailure>) {
        let reason = match found {
            Ok(to) if self.held.contains_key(&request) => {
                self.held.insert(request, Some(to));
                return self.found.push_back((request, to));
            }
            Ok(to) => match self.transport.connect(now, to, request) {
                Ok(_) => {
                    self.connecting.insert(request);
                    return;
                }
                Err(_) => LinkFailure::LocalLimit,
            },
            Err(reason) => reason,
        };
        self.held.remove(&request);
        self.port.forget(request);
        self.events.push_back(WireEvent::Unresolved { request, reason });
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Up { session, context, peer, .. } => {
                let wanted = context.filter(|c| self.connecting.remove(c));
                let loopback = peer == self.transport.config().nic;
                let link = match self.by_session.get(&session) {
                    Some(link) => Some(*link),
                    None => self.add_link(session, loopback),
                };
                match link {
                    Some(link) => {
                        self.by_session.insert(session, link);
                        self.transport.set_depended(now, session, true);
                        self.events.push_back(WireEvent::LinkUp { link, request: wanted });
                    }
                    None => {
                        let _ = self.transport.close(now, session);
                        self.events.extend(wanted.map(|request| WireEvent::Unresolved { request, reason: LinkFailure::LocalLimit }));
                    }
                }
                wanted.inspect(|request| self.port.forget(*request));
            }
            Event::Failed { context, reason } if self.connecting.remove(&context) => {
                self.port.forget(context);
                self.events.push_back(WireEvent::Unresolved { request: context, reason: failure_of(reason) });
            }
            Event::Down { session, reason } => {
                // The engine completes what was posted; frames that came back say nothing new.
                while self.transport.poll_returned(session).is_some() {}
                if let Some(link) = self.by_session.remove(&session)
                    && let Some(l) = self.find_mut(link)
                {
                    l.down = true;
                    let peer = l.peer;
                    self.port.session_down(peer);
                    self.events.push_back(WireEvent::LinkDown { link, reason: down_reason(reason) });
                }
            }
            Event::Returned { session } => while self.transport.poll_returned(session).is_some() {},
            _ => {}
        }
    }

    pub(super) fn add_link(&mut self, session: SessionId, loopback: bool) -> Option<LinkId> {
        let peer = self.transport.session_info(session)?.address;
        let link = self.links.insert(Link { session, peer, loopback, down: false, current: None, after: 0, more: false })?;
        self.port.session_up(peer);
        Some(LinkId::from_raw(link.raw()))
    }
}

pub(super) fn failure_of(reason: FailReason) -> LinkFailure {
    match reason {
        FailReason::PeerFull => LinkFailure::Busy,
        FailReason::PeerWantsKey => LinkFailure::KeyWanted,
        FailReason::PeerHasNoKey => LinkFailure::KeyMissing,
        FailReason::OtherKey => LinkFailure::KeyOther,
        FailReason::HostUnknown => LinkFailure::KeyUnknown,
        FailReason::Version => LinkFailure::OtherVersion,
        FailReason::NoAnswer | FailReason::NotAccepting | FailReason::Closed => LinkFailure::NobodyThere,
        _ => LinkFailure::PeerMisbehaved,
    }
}

fn down_reason(reason: DownReason) -> LinkFailure {
    match reason {
        DownReason::Closed | DownReason::PeerClosed | DownReason::CloseTimeout => LinkFailure::PeerClosed,
        DownReason::PeerGone => LinkFailure::PeerDied,
        DownReason::PeerRestarted => LinkFailure::PeerRestarted,
        DownReason::PeerForgot => LinkFailure::PeerForgot,
        DownReason::Unreachable => LinkFailure::PeerSilent,
        _ => LinkFailure::PeerMisbehaved,
    }
}
