// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of the interface, with its numbers.

use core::fmt;
use std::net::SocketAddr;

/// An address of a device.
pub type Gid = [u8; 16];

/// Key of datagrams of the UDP port space.
pub const UDP_QKEY: u32 = 0x0123_4567;
/// The queue pair that stands for a multicast group.
pub const MULTICAST_QP: u32 = 0xff_ffff;
/// The reason of a rejection that the program gave.
pub const REJECTED_BY_CONSUMER: u32 = 28;
/// No identifier listens there.
pub(crate) const REJECTED_NO_SERVICE: u32 = 8;
/// The peer's identifier is not what the message takes it for.
pub(crate) const REJECTED_STALE: u32 = 10;
/// The peer waited too long for an answer.
pub(crate) const REJECTED_TIMEOUT: u32 = 4;

/// Why a command failed; `ffi/verbs` makes errors of the system of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument or the state does not allow it (EINVAL).
    Invalid,
    /// There is no such identifier or channel (ENOENT).
    Missing,
    /// Somebody else has the port (EADDRINUSE).
    InUse,
    /// No identifier or port is left (ENOMEM).
    Full,
    /// Not offered (EOPNOTSUPP).
    Unsupported,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "an argument or the state does not allow it",
            Self::Missing => "no such identifier",
            Self::InUse => "the port is in use",
            Self::Full => "no identifier or port is left",
            Self::Unsupported => "not supported",
        })
    }
}

impl std::error::Error for Error {}

/// A port space. The numbers are the interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Space {
    /// Datagrams over IP over InfiniBand.
    IpoIb = 0x0002,
    /// Reliable connections.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// Any service.
    Ib = 0x013f,
}

impl Space {
    /// By its number.
    pub fn from_number(number: u16) -> Option<Self> {
        [Self::IpoIb, Self::Tcp, Self::Udp, Self::Ib].into_iter().find(|s| *s as u16 == number)
    }
}

/// The service of an identifier's queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpKind {
    /// Connected, reliable.
    Reliable,
    /// Connected, unreliable.
    Unreliable,
    /// Datagrams.
    Datagram,
    /// The sending side of an extended reliable connection (XRC).
    XrcSend,
    /// The receiving side of one.
    XrcReceive,
}

impl QpKind {
    /// By the number of a queue pair's type.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            2 => Some(Self::Reliable),
            3 => Some(Self::Unreliable),
            4 => Some(Self::Datagram),
            9 => Some(Self::XrcSend),
            10 => Some(Self::XrcReceive),
            _ => None,
        }
    }

    /// The number of its type.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Reliable => 2,
            Self::Unreliable => 3,
            Self::Datagram => 4,
            Self::XrcSend => 9,
            Self::XrcReceive => 10,
        }
    }

    /// The kind at the other end of a connection.
    pub(crate) fn of_peer(self) -> Self {
        match self {
            Self::XrcSend => Self::XrcReceive,
            Self::XrcReceive => Self::XrcSend,
            same => same,
        }
    }

    /// Whether requests are answered.
    pub(crate) fn is_reliable(self) -> bool {
        !matches!(self, Self::Unreliable | Self::Datagram)
    }
}

/// Where an identifier listens, and what a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// Port space.
    pub space: Space,
    /// Port.
    pub port: u16,
}

/// Number of an event channel.
pub type Channel = u32;

/// What happened. The numbers are the interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// The address is resolved.
    AddressResolved = 0,
    /// It could not be.
    AddressError = 1,
    /// The route is resolved.
    RouteResolved = 2,
    /// It could not be.
    RouteError = 3,
    /// A peer asks for a connection.
    ConnectRequest = 4,
    /// The peer accepted.
    ConnectResponse = 5,
    /// The connection could not be set up.
    ConnectError = 6,
    /// The peer did not answer.
    Unreachable = 7,
    /// The peer refused.
    Rejected = 8,
    /// The connection is set up.
    Established = 9,
    /// The connection is over.
    Disconnected = 10,
    /// The device is no longer there.
    DeviceRemoval = 11,
    /// The identifier joined a group.
    MulticastJoin = 12,
    /// It could not.
    MulticastError = 13,
    /// The device's address changed.
    AddressChange = 14,
    /// The queue pair may be used again.
    TimewaitExit = 15,
}

/// What both sides of a connection tell each other, besides private data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Queue pair.
    pub qp: u32,
    /// Key of datagrams.
    pub qkey: u32,
    /// Reads and atomics that this side serves at a time.
    pub responder_resources: u8,
    /// Reads and atomics that this side issues at a time.
    pub initiator_depth: u8,
    /// The sender is told of receives.
    pub flow_control: u8,
    /// Tries of a request.
    pub retry_count: u8,
    /// Tries of a send that finds no receive.
    pub rnr_retry_count: u8,
    /// The queue pair takes receives from a shared queue.
    pub srq: u8,
    /// Enhanced connection establishment: vendor and options.
    pub ece: (u32, u32),
    /// Bytes of the program.
    pub data: Vec<u8>,
}

/// What an event says besides its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EventBody {
    /// Nothing.
    #[default]
    Nothing,
    /// Parameters of a connection.
    Connection(Box<Parameters>),
    /// Where datagrams go: the peer's (or a group's) address, and parameters.
    Datagram(Gid, Box<Parameters>),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The identifier that it is of; the new one, if a peer asks for a connection.
    pub id: u32,
    /// The program's name for what it is of: identifier, listener, or membership.
    pub uid: u64,
    /// 0, an error of the system (negative), or the reason of a rejection.
    pub status: i32,
    /// The rest.
    pub body: EventBody,
    /// The identifier that counts it: the listener's, if a peer asks for a connection.
    pub(crate) owner: u32,
}

/// An option of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOption {
    /// Type of service.
    Tos(u8),
    /// The port may be bound more than once.
    ReuseAddress(bool),
    /// Only addresses of its own family.
    FamilyOnly(bool),
    /// How long a queue pair waits for an answer, as the interface encodes it.
    AckTimeout(u8),
}

/// An identifier's way to its peer, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Its own address.
    pub source: Option<SocketAddr>,
    /// The peer's.
    pub destination: Option<SocketAddr>,
    /// The device's address, if the identifier is bound to the device.
    pub own: Option<Gid>,
    /// The peer's device.
    pub peer: Option<Gid>,
    /// There is a path.
    pub has_path: bool,
}

/// A membership that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its number.
    pub number: u32,
}
