// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a wire tells the engine when it comes to it: peers found, links lost, and what a link is.

use crate::LinkId;
use bellwire_proto::SessionInfo;

/// How two NICs find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// `remote` is being listened at.
    Client,
    /// Both sides call with each other's addresses.
    Peer,
}

/// Why a link ended or did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkFailure {
    /// Nobody is at that address (now).
    NobodyThere,
    /// Somebody is, and had no room for us, or hung up before we were linked.
    Busy,
    /// The host cannot be reached by this wire.
    NotReachable,
    /// The peer's process ended.
    PeerDied,
    /// The peer closed its NIC.
    PeerClosed,
    /// The peer restarted: it has begun a new session at the same address.
    PeerRestarted,
    /// The peer no longer knows the session.
    PeerForgot,
    /// The peer gave no sign of life for too long.
    PeerSilent,
    /// The peer broke the rules of the wire: an impossible index, message or packet.
    PeerMisbehaved,
    /// The peer sent a frame that no engine sends.
    BadFrame,
    /// The peer made this NIC owe it thousands of answers and does not read them.
    PeerStalled,
    /// This side is out of memory or descriptors.
    LocalLimit,
    /// A process of another user is there, which this NIC does not allow.
    NotAllowedHere,
    /// The process there is another user's, and does not allow this one.
    NotAllowedThere,
    /// The peer takes authenticated packets only, and this side has no key.
    KeyWanted,
    /// This side takes authenticated packets only, and the peer has no key.
    KeyMissing,
    /// The two sides have different keys, or one does not believe the other's.
    KeyOther,
    /// This side has no public key of that host.
    KeyUnknown,
    /// The two sides speak no common version of the protocol.
    OtherVersion,
}

impl LinkFailure {
    /// Whether a process of another user is there, and a grant is missing.
    pub const fn is_of_another_user(self) -> bool {
        matches!(self, Self::NotAllowedHere | Self::NotAllowedThere)
    }

    /// The failure that waiting events tell of a link; without one the peer broke the rules.
    pub(crate) fn told<'a>(events: impl IntoIterator<Item = &'a WireEvent>, link: LinkId) -> Self {
        let told = |event: &WireEvent| match event {
            WireEvent::LinkDown { link: of, reason } if *of == link => Some(*reason),
            _ => None,
        };
        events.into_iter().find_map(told).unwrap_or(Self::PeerMisbehaved)
    }

    /// Whether keys are the reason: no later try will find anything else.
    pub const fn is_of_keys(self) -> bool {
        matches!(self, Self::KeyWanted | Self::KeyMissing | Self::KeyOther | Self::KeyUnknown)
    }

    /// For people: a clause without a full stop.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NobodyThere => "nobody is at that address",
            Self::Busy => "the peer has no room for another link",
            Self::NotReachable => "no wire reaches that host",
            Self::PeerDied => "the peer process exited",
            Self::PeerClosed => "the peer closed its NIC",
            Self::PeerRestarted => "the peer restarted",
            Self::PeerForgot => "the peer no longer knows the session",
            Self::PeerSilent => "the peer gave no sign of life for too long",
            Self::PeerMisbehaved => "the peer broke the rules of the link",
            Self::BadFrame => "the peer sent an invalid frame",
            Self::PeerStalled => "the peer does not read the answers it asked for",
            Self::LocalLimit => "this side is out of memory or descriptors",
            Self::NotAllowedHere => "another user's process waits there, and BELLWIRE_ALLOW of this process does not name that user",
            Self::NotAllowedThere => "the process there is another user's, and its BELLWIRE_ALLOW does not name this user",
            Self::KeyWanted => "the peer wants authenticated packets: this side needs its key (BELLWIRE_KEY_FILE)",
            Self::KeyMissing => "the peer has no key, and this side wants authenticated packets",
            Self::KeyOther => "the peer's key is another one, or one side does not believe the other's",
            Self::KeyUnknown => "no public key of that host is known (BELLWIRE_KEY_HOSTS)",
            Self::OtherVersion => "the peer speaks other versions of the protocol: install the same release on both sides",
        }
    }
}

/// What happened on the control half.
#[derive(Clone, Copy, Debug)]
pub enum WireEvent {
    /// A link is up; `request` is ours if we asked.
    LinkUp {
        /// The link.
        link: LinkId,
        /// The number given to [`Wire::resolve`](super::Wire::resolve).
        request: Option<u64>,
    },
    /// A request to resolve failed.
    Unresolved {
        /// The number given to [`Wire::resolve`](super::Wire::resolve).
        request: u64,
        /// Why.
        reason: LinkFailure,
    },
    /// A link is gone; the engine answers with [`Wire::close`](super::Wire::close).
    LinkDown {
        /// The link.
        link: LinkId,
        /// Why.
        reason: LinkFailure,
    },
    /// A peer asks to map an allocation; answer with [`DirectMemory::grant`](crate::DirectMemory::grant).
    MapRequest {
        /// The peer.
        link: LinkId,
        /// Our allocation.
        segment: u32,
        /// It would write there.
        write: bool,
    },
}

impl WireEvent {
    /// The same of a link that has another name.
    pub(crate) fn about(self, name: impl FnOnce(LinkId) -> LinkId) -> Self {
        match self {
            Self::LinkUp { link, request } => Self::LinkUp { link: name(link), request },
            Self::LinkDown { link, reason } => Self::LinkDown { link: name(link), reason },
            Self::MapRequest { link, segment, write } => Self::MapRequest { link: name(link), segment, write },
            Self::Unresolved { .. } => self,
        }
    }
}

/// Why a link goes by its wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireReason {
    /// The NIC has no other.
    #[default]
    OnlyWire,
    /// The peer is on this host.
    SameHost,
    /// Nobody of this host answered by shared memory.
    NotOnThisHost,
    /// Shared memory is switched off.
    SharedMemoryOff,
}

impl WireReason {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OnlyWire => "the only wire of this NIC",
            Self::SameHost => "the peer is on this host",
            Self::NotOnThisHost => "nobody of this host answered by shared memory",
            Self::SharedMemoryOff => "shared memory is switched off",
        }
    }
}

/// Facts about a link for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Name of its wire: "shm", "udp", ...
    pub wire: &'static str,
    /// Why this one.
    pub reason: WireReason,
    /// Of a link of packets: where they go, and how that goes.
    pub path: Option<SessionInfo>,
    /// The peer's process id as this process sees it, 0 if unknown.
    pub peer_pid: u32,
    /// The peer's user id, as this process sees it, if the wire knows it.
    pub peer_uid: Option<u32>,
    /// Whether memory is mapped between the two (mapped mode).
    pub mapped: bool,
    /// The peer is this very NIC.
    pub loopback: bool,
    /// Allocations of the peer mapped here.
    pub segments_mapped: u32,
    /// Whether each side can read the other by cross-memory attach.
    pub attaches: bool,
}
