// SPDX-License-Identifier: MIT OR Apache-2.0
//! RESET, CLOSE, CLOSE_ACK, PING, PONG.

use super::header::{self, Header, Kind};
use crate::config::DATAGRAM_MAX;
use crate::error::PacketError;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a RESET: less than the shortest packet that it may answer.
pub const RESET_BYTES: usize = 24;

/// `short`: the kind of the packet that is answered; `word`: its `word`; `session`: zero.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ResetRaw {
    header: Header,
    unknown: U64,
}

/// The answer to a packet for a session that is not. Only who saw that packet can make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The kind of the packet that is answered.
    pub kind: Kind,
    /// That packet's number (`word`).
    pub word: u32,
    /// The session in it: the id that the RESET's sender does not know.
    pub unknown: u64,
}

impl Reset {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &ResetRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.session.get() == 0)?;
        let kind = u8::try_from(raw.header.short.get()).ok().and_then(Kind::from_raw).ok_or(PacketError::Value)?;
        Ok(Self { kind, word: raw.header.word.get(), unknown: raw.unknown.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        header::put(&ResetRaw { header: Header::new(Kind::Reset, 0, self.kind as u16, self.word, 0), unknown: self.unknown.into() }, out)
    }
}

/// `word`: the number that the next data packet would have had.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CloseRaw {
    header: Header,
    own: U64,
    zero: U64,
}

/// Ends a session: everything that its sender sent has been accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The receiver's id for the session.
    pub session: u64,
    /// The number that the sender's next data packet would have had.
    pub psn: u32,
    /// The sender's id for the session.
    pub own: u64,
}

impl Close {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &CloseRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.short.get() == 0 && raw.zero.get() == 0)?;
        Ok(Self { session: raw.header.session.get(), psn: raw.header.word.get(), own: raw.own.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        header::put(&CloseRaw { header: Header::new(Kind::Close, 0, 0, self.psn, self.session), own: self.own.into(), zero: 0.into() }, out)
    }
}

/// The answer to a CLOSE: the session is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseAck {
    /// The receiver's id for the session.
    pub session: u64,
    /// The CLOSE's number.
    pub psn: u32,
}

impl CloseAck {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &Header = header::exact(bytes)?;
        header::reserved(raw.flags == 0 && raw.short.get() == 0)?;
        Ok(Self { session: raw.session.get(), psn: raw.word.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        header::put(&Header::new(Kind::CloseAck, 0, 0, self.psn, self.session), out)
    }
}

/// `word`: a number chosen by the sender; padded with zeros.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PingRaw {
    header: Header,
    timestamp: U32,
    zero: [u8; 12],
}

/// Bytes of a PING that tries no size.
pub const PING_BYTES: usize = size_of::<PingRaw>();

/// Asks for a PONG: a sign of life, or the proof that a datagram of this size arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The receiver's id for the session.
    pub session: u64,
    /// Chosen by the sender.
    pub token: u32,
    /// The sender's clock.
    pub timestamp: u32,
    /// Bytes of the whole packet.
    pub length: usize,
}

impl Ping {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &PingRaw = header::padded(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.short.get() == 0 && raw.zero == [0; 12])?;
        if bytes.len() > DATAGRAM_MAX {
            return Err(PacketError::Long);
        }
        Ok(Self { session: raw.header.session.get(), token: raw.header.word.get(), timestamp: raw.timestamp.get(), length: bytes.len() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = PingRaw { header: Header::new(Kind::Ping, 0, 0, self.token, self.session), timestamp: self.timestamp.into(), zero: [0; 12] };
        let n = header::put(&raw, out);
        let length = self.length.max(n);
        out[n..length].fill(0);
        length
    }
}

/// `word`: the PING's number.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PongRaw {
    header: Header,
    echo: U32,
    length: U32,
}

/// The answer to a PING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The receiver's id for the session.
    pub session: u64,
    /// The PING's token.
    pub token: u32,
    /// The PING's timestamp.
    pub echo: u32,
    /// The PING's length in bytes.
    pub length: u32,
}

impl Pong {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &PongRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.header.short.get() == 0)?;
        Ok(Self { session: raw.header.session.get(), token: raw.header.word.get(), echo: raw.echo.get(), length: raw.length.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = PongRaw { header: Header::new(Kind::Pong, 0, 0, self.token, self.session), echo: self.echo.into(), length: self.length.into() };
        header::put(&raw, out)
    }
}
