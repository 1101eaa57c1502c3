// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first 16 bytes of every packet.

use crate::error::PacketError;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The form of packets, in the high four bits of the first byte. All versions of the protocol have
/// this one, so that any two of them can agree.
pub const FORM: u8 = 1;
/// Versions are 1 to this.
pub(crate) const VERSION_MAX: u8 = 15;

/// The version that a WELCOME names.
pub(crate) fn chosen_version(short: u16) -> Result<u8, PacketError> {
    u8::try_from(short).ok().filter(|v| (1..=VERSION_MAX).contains(v)).ok_or(PacketError::Value)
}

/// Bytes of the common header.
pub const HEADER: usize = 16;

/// `flags`: the acknowledgement fields are valid.
pub const ACK_VALID: u8 = 1 << 0;
/// `flags`: the echo fields are valid.
pub const ECHO_VALID: u8 = 1 << 1;
/// `flags`: please acknowledge at once.
pub const ACK_NOW: u8 = 1 << 2;
/// `flags`: not the first transmission.
pub const RETRANSMITTED: u8 = 1 << 3;
/// `flags`: deliver after all earlier packets.
pub const ORDERED: u8 = 1 << 4;
/// `flags`: a checksum follows the packet. Only between ports that want it: see
/// [`super::checksum`].
pub const CHECKSUM: u8 = 1 << 5;
/// `flags`: the packet is authenticated: see P-AUTH-1 and following in docs/PROTOCOL.md.
pub const AUTH: u8 = 1 << 7;

/// Kinds of packets: the low four bits of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// See [`super::Packet`] for this and the others.
    Data = 1,
    /// Acknowledgement.
    Ack = 2,
    /// Refusal.
    Nack = 3,
    /// First packet of a handshake.
    Hello = 4,
    /// Its answer.
    Cookie = 5,
    /// The session's other end.
    Welcome = 6,
    /// No session.
    Reject = 7,
    /// Unknown session.
    Reset = 8,
    /// End.
    Close = 9,
    /// Answer to it.
    CloseAck = 10,
    /// Question.
    Ping = 11,
    /// Answer to it.
    Pong = 12,
}

impl Kind {
    pub(crate) const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Nack,
            4 => Self::Hello,
            5 => Self::Cookie,
            6 => Self::Welcome,
            7 => Self::Reject,
            8 => Self::Reset,
            9 => Self::Close,
            10 => Self::CloseAck,
            11 => Self::Ping,
            12 => Self::Pong,
            _ => return None,
        })
    }

    /// The first byte of a packet of this kind.
    pub(crate) const fn first_byte(self) -> u8 {
        FORM << 4 | self as u8
    }
}

/// The common header as it travels.
//= P-HEAD-1
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Version (high four bits) and kind.
    pub first: u8,
    /// Flags.
    pub flags: u8,
    /// By kind.
    pub short: U16,
    /// By kind.
    pub word: U32,
    /// The receiver's id for the session; zero in a HELLO and a RESET.
    pub session: U64,
}

impl Header {
    pub(crate) fn new(kind: Kind, flags: u8, short: u16, word: u32, session: u64) -> Self {
        Self { first: kind.first_byte(), flags, short: short.into(), word: word.into(), session: session.into() }
    }
}

/// The kind, when the packet is of our version and long enough for a header.
#[inline]
pub(crate) fn kind_of(bytes: &[u8]) -> Result<Kind, PacketError> {
    if bytes.len() < HEADER {
        return Err(PacketError::Short);
    }
    //= P-HEAD-2
    if bytes[0] >> 4 != FORM {
        return Err(PacketError::Version);
    }
    Kind::from_raw(bytes[0] & 15).ok_or(PacketError::Kind)
}

/// The kind of a packet that is not authenticated, and its receiver's id for the session. Nothing
/// else of it has been checked.
///
/// # Errors
/// It is shorter than a header, or of another version, or of no kind that there is.
#[inline]
pub fn addressee(bytes: &[u8]) -> Result<(Kind, u64), PacketError> {
    let kind = kind_of(bytes)?;
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| PacketError::Short)?;
    Ok((kind, header.session.get()))
}

/// A layout at the beginning of `bytes`; only zero bytes may follow it.
pub(crate) fn padded<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> Result<&T, PacketError> {
    let (layout, rest) = T::ref_from_prefix(bytes).map_err(|_| PacketError::Short)?;
    if rest.iter().any(|b| *b != 0) {
        return Err(PacketError::Reserved);
    }
    Ok(layout)
}

/// A layout that is all of `bytes`.
pub(crate) fn exact<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> Result<&T, PacketError> {
    if bytes.len() > size_of::<T>() {
        return Err(PacketError::Long);
    }
    T::ref_from_bytes(bytes).map_err(|_| PacketError::Short)
}

/// Complains when something that is reserved is not zero.
pub(crate) fn reserved(is_zero: bool) -> Result<(), PacketError> {
    if is_zero { Ok(()) } else { Err(PacketError::Reserved) }
}

/// Writes a layout at the beginning of `out`; its length.
pub(crate) fn put<T: IntoBytes + Immutable>(layout: &T, out: &mut [u8]) -> usize {
    let bytes = layout.as_bytes();
    out[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}
