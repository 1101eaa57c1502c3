// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes with which objects are made.

use crate::handle::Handle;
pub use bellwire_wire::address::{DISCRIMINATOR_BYTES_MAX, HOST_ADDRESS_BYTES_MAX, NetAddress, without_port};

/// Service of a VI (VIA 1.0, reliability levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reliability {
    /// Messages may be lost; never duplicated, order kept.
    Unreliable = 1,
    /// Accepted messages arrive, once, in order, or the connection breaks.
    ReliableDelivery = 2,
    /// As before, and a send completes only when it is in the target's memory.
    ReliableReception = 4,
}

impl Reliability {
    /// From VIA's bit value.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        match bits {
            1 => Some(Self::Unreliable),
            2 => Some(Self::ReliableDelivery),
            4 => Some(Self::ReliableReception),
            _ => None,
        }
    }

    /// Whether failures break the connection.
    #[inline]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Unreliable)
    }
}

/// A protection tag object.
#[derive(Debug)]
pub struct Ptag {
    pub(crate) users: u32,
}
/// Names a protection tag.
pub type PtagHandle = Handle<Ptag>;

/// State of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ViState {
    /// Not connected.
    Idle = 0,
    /// Connected.
    Connected = 1,
    /// A connection request is under way.
    ConnectPending = 2,
    /// The connection broke; everything is flushed until `disconnect`.
    Error = 3,
}

/// How a VI is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViAttributes {
    /// Service.
    pub reliability: Reliability,
    /// Longest message in bytes; both ends must agree.
    pub max_transfer_bytes: u64,
    /// Opaque quality of service, carried and compared by nobody.
    pub qos: u64,
    /// Protection tag; `None` is a wildcard for local segments and admits no remote access.
    pub ptag: Option<PtagHandle>,
    /// Whether the peer may write memory of this tag.
    pub rdma_write: bool,
    /// Whether the peer may read memory of this tag.
    pub rdma_read: bool,
    /// Extension: a message that finds no receive descriptor waits, as InfiniBand's RNR, instead of
    /// breaking the connection.
    pub rnr_wait: bool,
}

impl Default for ViAttributes {
    fn default() -> Self {
        Self {
            reliability: Reliability::ReliableDelivery,
            max_transfer_bytes: crate::limits::TRANSFER_BYTES_MAX,
            qos: 0,
            ptag: None,
            rdma_write: false,
            rdma_read: false,
            rnr_wait: false,
        }
    }
}

/// How a region is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAttributes {
    /// Protection tag; `None` fits every VI locally and admits no remote access.
    pub ptag: Option<PtagHandle>,
    /// Whether peers may write it.
    pub rdma_write: bool,
    /// Whether peers may read it.
    pub rdma_read: bool,
}
