// SPDX-License-Identifier: MIT OR Apache-2.0
//! ACK and NACK.

use super::data::{Answer, answer};
use super::header::{self, ACK_VALID, ECHO_VALID, Header, Kind};
use crate::config::WINDOW_PACKETS_MAX;
use crate::error::PacketError;
use crate::event::Refusal;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Words of the bitmap at most.
pub const BITMAP_WORDS_MAX: usize = WINDOW_PACKETS_MAX / 64;

/// `short`: the words of the bitmap; `word`: the cumulative acknowledgement. The bitmap follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AckRaw {
    header: Header,
    echo: U32,
    echo_delay: U16,
    zero: U16,
}

/// The packets that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The receiver's id for the session.
    pub session: u64,
    /// The number of the first packet that is not yet accepted.
    pub ack: u32,
    /// The latest timestamp received and how long it waited (units of 1.024 us), if any.
    pub echo: Option<(u32, u16)>,
    /// Bit `i` of word `w`: packet `ack + 64 w + i` has arrived.
    pub bitmap: [u64; BITMAP_WORDS_MAX],
    /// How many words of it travel; those past it are zero, and the last one is not.
    pub words: usize,
}

impl Ack {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let (raw, rest) = AckRaw::ref_from_prefix(bytes).map_err(|_| PacketError::Short)?;
        let flags = raw.header.flags;
        header::reserved(flags & !(ACK_VALID | ECHO_VALID) == 0 && raw.zero.get() == 0)?;
        let words = usize::from(raw.header.short.get());
        let Answer { ack: Some(ack), echo } = answer(flags, raw.header.word.get(), raw.echo.get(), raw.echo_delay.get())? else {
            return Err(PacketError::Value);
        };
        //= P-ACK-3
        if words > BITMAP_WORDS_MAX {
            return Err(PacketError::Value);
        }
        if rest.len() != words * 8 {
            return Err(if rest.len() < words * 8 { PacketError::Short } else { PacketError::Long });
        }
        let mut bitmap = [0; BITMAP_WORDS_MAX];
        for (word, chunk) in bitmap.iter_mut().zip(rest.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        if words > 0 && bitmap[words - 1] == 0 {
            return Err(PacketError::Value);
        }
        Ok(Self { session: raw.header.session.get(), ack, echo, bitmap, words })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let flags = Answer { ack: Some(self.ack), echo: self.echo }.flags();
        let (echo, echo_delay) = self.echo.unwrap_or_default();
        let raw = AckRaw {
            header: Header::new(Kind::Ack, flags, self.words as u16, self.ack, self.session),
            echo: echo.into(),
            echo_delay: echo_delay.into(),
            zero: 0.into(),
        };
        let mut n = header::put(&raw, out);
        for word in &self.bitmap[..self.words] {
            n += header::put(&U64::new(*word), &mut out[n..]);
        }
        n
    }
}

/// `short`: the reason; `word`: the packet's number.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NackRaw {
    header: Header,
    echo: U32,
    consumed: U16,
    zero: U16,
}

/// A refusal: the packet arrived, and was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The receiver's id for the session.
    pub session: u64,
    /// The packet.
    pub psn: u32,
    /// Why.
    pub reason: Refusal,
    /// The timestamp of the transmission that was refused.
    pub echo: u32,
    /// Frames at the packet's beginning that were accepted, now or earlier.
    pub consumed: u16,
}

impl Nack {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PacketError> {
        let raw: &NackRaw = header::exact(bytes)?;
        header::reserved(raw.header.flags == 0 && raw.zero.get() == 0)?;
        let reason = u8::try_from(raw.header.short.get()).ok().and_then(Refusal::from_raw).ok_or(PacketError::Value)?;
        Ok(Self { session: raw.header.session.get(), psn: raw.header.word.get(), reason, echo: raw.echo.get(), consumed: raw.consumed.get() })
    }

    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let raw = NackRaw {
            header: Header::new(Kind::Nack, 0, self.reason as u16, self.psn, self.session),
            echo: self.echo.into(),
            consumed: self.consumed.into(),
            zero: 0.into(),
        };
        header::put(&raw, out)
    }
}
