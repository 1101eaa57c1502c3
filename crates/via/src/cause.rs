// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a connection broke, as far as this NIC knows. The cause goes into the VI's asynchronous
//! error, the notice of its inbox, and the live view.

use crate::frame::DisconnectReason;
use crate::wire::LinkFailure;
use core::fmt;

/// Why a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The link to the peer failed, and with it every connection over it.
    Link(LinkFailure),
    /// The peer ended the connection and told this reason.
    Peer(DisconnectReason),
    /// This NIC ended the connection, and told the peer this reason.
    Here(DisconnectReason),
}

impl Cause {
    /// For people: a clause without a full stop.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Link(failure) => failure.text(),
            Self::Peer(reason) => match reason {
                DisconnectReason::Requested => "the peer disconnected",
                DisconnectReason::ReceiveQueueEmpty => "the peer had no receive posted for a message",
                DisconnectReason::TooLong => "a message was longer than the peer's receive",
                DisconnectReason::WriteProtection => "the peer refused an RDMA write",
                DisconnectReason::ReadProtection => "the peer refused an RDMA read",
                DisconnectReason::PeerError => "a request of the peer failed",
                DisconnectReason::Protocol => "the peer says that this NIC broke the protocol",
                DisconnectReason::ReceiveFault => "the memory of the peer's receive is not mapped",
            },
            Self::Here(reason) => match reason {
                DisconnectReason::Requested => "disconnected",
                DisconnectReason::ReceiveQueueEmpty => "a message found no receive posted",
                DisconnectReason::TooLong => "a message was longer than the receive posted for it",
                DisconnectReason::WriteProtection => "the peer wrote where it may not",
                DisconnectReason::ReadProtection => "the peer read where it may not",
                DisconnectReason::PeerError => "a request of this VI failed",
                DisconnectReason::Protocol => "the peer broke the protocol",
                DisconnectReason::ReceiveFault => "the memory of a receive is not mapped",
            },
        }
    }

    /// What the peer is told, if this NIC ended the connection.
    pub(crate) const fn farewell(self) -> Option<DisconnectReason> {
        match self {
            Self::Here(reason) => Some(reason),
            Self::Link(_) | Self::Peer(_) => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
