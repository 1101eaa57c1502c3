// SPDX-License-Identifier: MIT OR Apache-2.0
//! An identifier: its state and what it knows.

use crate::host::Link;
use crate::message::{Kind, Message, NOWHERE};
use crate::types::{Channel, Gid, Parameters, QpKind, Service, Space};
use std::net::{IpAddr, SocketAddr};

/// Where an identifier is on its way. Datagrams use `Requested`, `Asked` and `Established` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// New.
    Idle,
    /// It has an address of its own.
    Bound,
    /// It has a peer's address.
    Resolved,
    /// It has a route.
    Routed,
    /// It takes requests.
    Listening,
    /// Active: a request was sent, or waits for its link.
    Requested,
    /// Passive: a request came.
    Asked,
    /// Passive: accepted, not confirmed yet.
    Replied,
    /// Active: the peer accepted; the program has not confirmed yet.
    Answered,
    /// Connected.
    Established,
    /// We ended the connection; the peer has not confirmed yet.
    Leaving,
    /// The peer ended the connection; the program has not confirmed yet.
    Left,
    /// Over; the queue pair is not to be used again yet.
    TimeWait,
    /// Over.
    Over,
    /// Its device was removed.
    Removed,
}

/// An identifier.
#[derive(Clone, Debug)]
pub(crate) struct Id {
    pub channel: Channel,
    pub uid: u64,
    pub space: Space,
    pub kind: QpKind,
    pub state: State,
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    /// It has a port in the table.
    pub service: Option<Service>,
    /// It is bound to the device.
    pub has_device: bool,
    pub peer_gid: Option<Gid>,
    pub link: Option<Link>,
    /// The peer's identifier; 0: not known.
    pub remote: u32,
    /// What the peer said.
    pub theirs: Parameters,
    /// What the program said.
    pub ours: Parameters,
    /// The first packet of the peer's queue pair, and of ours.
    pub numbers: (u32, u32),
    /// Requests that may wait for the program.
    pub backlog: u32,
    /// Events that the program was given.
    pub reported: u32,
    pub reuse: bool,
    pub family_only: bool,
    pub ack_timeout: Option<u8>,
    /// The message that is repeated until the peer answers, and how often it was sent.
    pub pending: Option<Message>,
    pub tries: u32,
    /// When something is to be done; 0: never.
    pub due: u64,
    /// The peer ended the connection, of which the program is told at this time at the latest; 0:
    /// it did not.
    pub parting: u64,
    /// The peer has the request and takes its time.
    pub waits: bool,
    /// When it first asked for the connection.
    pub asked_at: u64,
    /// The peer asked.
    pub is_passive: bool,
    /// The program does not know of it yet: it has no name for events.
    pub unclaimed: bool,
}

impl Id {
    pub(crate) fn new(channel: Channel, uid: u64, space: Space, kind: QpKind) -> Self {
        Self {
            channel,
            uid,
            space,
            kind,
            state: State::Idle,
            source: None,
            destination: None,
            service: None,
            has_device: false,
            peer_gid: None,
            link: None,
            remote: 0,
            theirs: Parameters::default(),
            ours: Parameters::default(),
            numbers: (0, 0),
            backlog: 0,
            reported: 0,
            reuse: false,
            family_only: false,
            ack_timeout: None,
            pending: None,
            tries: 0,
            due: 0,
            parting: 0,
            waits: false,
            asked_at: 0,
            is_passive: false,
            unclaimed: false,
        }
    }

    /// A message to the peer.
    pub(crate) fn message(&self, number: u32, kind: Kind) -> Message {
        Message {
            kind,
            qp_kind: self.kind,
            from: number,
            to: self.remote,
            service: Service { space: self.space, port: self.destination.map_or(0, |d| d.port()) },
            reason: 0,
            number: self.numbers.1,
            source: self.source.unwrap_or(NOWHERE),
            destination: self.destination.unwrap_or(NOWHERE),
            parameters: Parameters::default(),
        }
    }

    /// Whether a listener takes what is meant for an address: 0, no; more, the closer it fits.
    pub(crate) fn fits(&self, to: IpAddr) -> u32 {
        let Some(own) = self.source.map(|s| s.ip()) else { return 0 };
        match (own.is_unspecified(), own.is_ipv4() == to.is_ipv4()) {
            (false, _) => u32::from(own.to_canonical() == to.to_canonical()) * 3,
            (true, true) => 2,
            (true, false) => u32::from(own.is_ipv6() && !self.family_only),
        }
    }

    /// Whether two identifiers cannot both have a port.
    pub(crate) fn conflicts(&self, other: &Self, listens: bool) -> bool {
        let (Some(a), Some(b)) = (self.source.map(|s| s.ip()), other.source.map(|s| s.ip())) else { return false };
        if self.reuse && other.reuse && !listens && other.state != State::Listening {
            return false;
        }
        if listens && other.state != State::Listening && (self.reuse || other.reuse) {
            return false;
        }
        if a.is_ipv4() != b.is_ipv4() && (self.family_only || other.family_only) {
            return false;
        }
        a.is_unspecified() || b.is_unspecified() || a.to_canonical() == b.to_canonical()
    }
}
