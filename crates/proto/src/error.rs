// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: of calls, and of packets.

use core::fmt;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Every place for a session is taken.
    SessionsMax,
    /// No such session: it is over, or never was.
    NoSession,
    /// The delivery cannot be refused any more: its packet may have been acknowledged.
    TooLate,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionsMax => "every place for a session is taken",
            Self::NoSession => "no such session",
            Self::TooLate => "the packet may have been acknowledged already",
        })
    }
}

impl core::error::Error for Error {}

/// Why a packet was dropped unread. Each is counted in
/// [`Statistics::malformed`](crate::Statistics::malformed), and nothing else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketError {
    /// Shorter than its header.
    Short = 0,
    /// Longer than its content.
    Long = 1,
    /// Another version of the protocol.
    Version = 2,
    /// No such kind.
    Kind = 3,
    /// A reserved bit is set.
    Reserved = 4,
    /// A field has a value that has no meaning, or a frame does not fit into its packet.
    Value = 5,
}

impl PacketError {
    /// How many there are.
    pub const COUNT: usize = 6;
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "shorter than its header",
            Self::Long => "longer than its content",
            Self::Version => "another version of the protocol",
            Self::Kind => "no such kind of packet",
            Self::Reserved => "a reserved bit is set",
            Self::Value => "a field has a value without meaning",
        })
    }
}

impl core::error::Error for PacketError {}
