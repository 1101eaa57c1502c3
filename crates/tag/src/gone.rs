// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a peer is gone.

use bellwire_peer::Death;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::{Cause, Error};
use core::fmt;

/// Why there is no connection to a peer any more, or none could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gone {
    /// The peer was not found, did not answer, or refused.
    Unreachable(Error),
    /// The peer's messages have another version.
    OtherVersion,
    /// The connection broke.
    Broken(Cause),
    /// The peer sent a message that no peer sends.
    Misbehaved,
}

impl Gone {
    /// The user of this endpoint has ended it.
    pub const ENDED_HERE: Self = Self::Broken(Cause::Here(DisconnectReason::Requested));
    /// The user of the peer has ended it.
    pub const ENDED_THERE: Self = Self::Broken(Cause::Peer(DisconnectReason::Requested));
}

impl From<Death> for Gone {
    fn from(death: Death) -> Self {
        match death {
            Death::Unreachable(error) => Self::Unreachable(error),
            Death::OtherVersion(_) => Self::OtherVersion,
            Death::Broken(cause) => Self::Broken(cause),
            Death::Misbehaved => Self::Misbehaved,
        }
    }
}

impl fmt::Display for Gone {
    /// A clause without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unreachable(error) => Death::Unreachable(error).fmt(f),
            Self::OtherVersion => f.write_str("the peer's messages have another version"),
            Self::Broken(cause) => cause.fmt(f),
            Self::Misbehaved => Death::Misbehaved.fmt(f),
        }
    }
}
