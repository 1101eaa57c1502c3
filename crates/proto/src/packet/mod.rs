// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets, byte for byte as docs/PROTOCOL.md has them. Two levels: a raw layout (zerocopy,
//! little-endian, no alignment) and a checked form that cannot hold nonsense. `parse` looks at
//! bytes from strangers: it checks everything that can be checked without knowing the session.

pub mod ack;
pub(crate) mod auth;
pub mod checksum;
pub mod control;
pub mod data;
pub mod handshake;
pub mod header;
mod length;

use crate::error::PacketError;
pub use ack::{Ack, Nack};
pub use control::{Close, CloseAck, Ping, Pong, Reset};
pub use data::DataHeader;
pub use handshake::{Cookie, Hello, Reject, Welcome};
pub use header::{Header, Kind};
pub use length::length;

/// A packet, checked. Borrowed parts lie in the datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Packet<'a> {
    /// Frames.
    Data(data::Data<'a>),
    /// The packets that have arrived.
    Ack(Ack),
    /// A refusal.
    Nack(Nack),
    /// Begins a session.
    Hello(Hello),
    /// The answer to a HELLO without a good cookie.
    Cookie(Cookie),
    /// The answer to a HELLO with one.
    Welcome(Welcome),
    /// .. or this, when there is no session to be had.
    Reject(Reject),
    /// The answer to a packet for a session that is not.
    Reset(Reset),
    /// Ends a session.
    Close(Close),
    /// The answer to it.
    CloseAck(CloseAck),
    /// Asks for a PONG.
    Ping(Ping),
    /// The answer to a PING.
    Pong(Pong),
}

impl<'a> Packet<'a> {
    /// Reads and checks one datagram.
    ///
    /// # Errors
    /// A [`PacketError`] says why it is no packet of ours.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        //= P-HEAD-5
        Ok(match header::kind_of(bytes)? {
            Kind::Data => Self::Data(data::Data::parse(bytes)?),
            Kind::Ack => Self::Ack(Ack::parse(bytes)?),
            Kind::Nack => Self::Nack(Nack::parse(bytes)?),
            Kind::Hello => Self::Hello(Hello::parse(bytes)?),
            Kind::Cookie => Self::Cookie(Cookie::parse(bytes)?),
            Kind::Welcome => Self::Welcome(Welcome::parse(bytes)?),
            Kind::Reject => Self::Reject(Reject::parse(bytes)?),
            Kind::Reset => Self::Reset(Reset::parse(bytes)?),
            Kind::Close => Self::Close(Close::parse(bytes)?),
            Kind::CloseAck => Self::CloseAck(CloseAck::parse(bytes)?),
            Kind::Ping => Self::Ping(Ping::parse(bytes)?),
            Kind::Pong => Self::Pong(Pong::parse(bytes)?),
        })
    }

    /// Writes the packet as it travels; the length in bytes. `out` must hold it (a datagram's
    /// largest size does).
    pub fn emit(&self, out: &mut [u8]) -> usize {
        match self {
            Self::Data(p) => p.emit(out),
            Self::Ack(p) => p.emit(out),
            Self::Nack(p) => p.emit(out),
            Self::Hello(p) => p.emit(out),
            Self::Cookie(p) => p.emit(out),
            Self::Welcome(p) => p.emit(out),
            Self::Reject(p) => p.emit(out),
            Self::Reset(p) => p.emit(out),
            Self::Close(p) => p.emit(out),
            Self::CloseAck(p) => p.emit(out),
            Self::Ping(p) => p.emit(out),
            Self::Pong(p) => p.emit(out),
        }
    }
}
