// SPDX-License-Identifier: MIT OR Apache-2.0
//! DATA: frames. The hot path uses [`DataHeader`] in place; [`Data`] is the checked form.

use super::header::{self, ACK_NOW, ACK_VALID, ECHO_VALID, Header, Kind, ORDERED, RETRANSMITTED};
use crate::config::{DATA_HEADER, FRAME_HEADER, HEAD_WORDS_MAX};
use crate::error::PacketError;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const FLAGS: u8 = ACK_VALID | ECHO_VALID | ACK_NOW | RETRANSMITTED | ORDERED;

/// The header of a data packet as it travels. In [`Header`]: `short` is `stream_back`, `word` the
/// packet's number.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataHeader {
    /// The common part.
    pub header: Header,
    /// The number of the first packet that is not yet accepted.
    pub ack: U32,
    /// The sender's clock in units of 64 ns.
    pub timestamp: U32,
    /// The latest timestamp received from the peer.
    pub echo: U32,
    /// How long that waited here, in units of 1.024 us, saturating.
    pub echo_delay: U16,
    /// Zero.
    pub zero: U16,
}

const _: () = assert!(size_of::<DataHeader>() == DATA_HEADER);

impl DataHeader {
    /// A header as it travels; its values are not checked.
    pub fn of(bytes: [u8; DATA_HEADER]) -> Self {
        zerocopy::transmute!(bytes)
    }
}

/// The acknowledging part of DATA and ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The number of the first packet that is not yet accepted, if valid.
    pub ack: Option<u32>,
    /// The latest timestamp received and how long it waited (units of 1.024 us), if valid.
    pub echo: Option<(u32, u16)>,
}

/// A checked data packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Data<'a> {
    /// The receiver's id for the session.
    pub session: u64,
    /// Its number.
    pub psn: u32,
    /// How many packets back the previous one of its stream is; zero: nothing to wait for.
    pub stream_back: u16,
    /// Deliver after all earlier packets.
    pub ordered: bool,
    /// Please acknowledge at once.
    pub ack_now: bool,
    /// Not the first transmission.
    pub retransmitted: bool,
    /// The sender's clock in units of 64 ns.
    pub timestamp: u32,
    /// Piggybacked acknowledgement.
    pub answer: Answer,
    /// The frames' bytes.
    pub frames: &'a [u8],
    /// How many frames they are.
    pub count: usize,
}

impl<'a> Data<'a> {
    /// Reads and checks a packet of kind DATA.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (raw, frames) = DataHeader::ref_from_prefix(bytes).map_err(|_| PacketError::Short)?;
        let flags = raw.header.flags;
        //= P-HEAD-4
        header::reserved(flags & !FLAGS == 0 && raw.zero.get() == 0)?;
        let answer = answer(flags, raw.ack.get(), raw.echo.get(), raw.echo_delay.get())?;
        let ordered = flags & ORDERED != 0;
        let stream_back = raw.header.short.get();
        //= P-DATA-3
        if ordered && stream_back != 0 {
            return Err(PacketError::Value);
        }
        Ok(Self {
            session: raw.header.session.get(),
            psn: raw.header.word.get(),
            stream_back,
            ordered,
            ack_now: flags & ACK_NOW != 0,
            retransmitted: flags & RETRANSMITTED != 0,
            timestamp: raw.timestamp.get(),
            answer,
            count: count_frames(frames)?,
            frames,
        })
    }

    /// Writes it.
    pub(crate) fn emit(&self, out: &mut [u8]) -> usize {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = flag(self.ordered, ORDERED) | flag(self.ack_now, ACK_NOW) | flag(self.retransmitted, RETRANSMITTED) | self.answer.flags();
        let (echo, echo_delay) = self.answer.echo.unwrap_or_default();
        let raw = DataHeader {
            header: Header::new(Kind::Data, flags, self.stream_back, self.psn, self.session),
            ack: self.answer.ack.unwrap_or(0).into(),
            timestamp: self.timestamp.into(),
            echo: echo.into(),
            echo_delay: echo_delay.into(),
            zero: 0.into(),
        };
        let n = header::put(&raw, out);
        out[n..n + self.frames.len()].copy_from_slice(self.frames);
        n + self.frames.len()
    }
}

impl Answer {
    /// The flags that say what is valid.
    pub(crate) fn flags(&self) -> u8 {
        (if self.ack.is_some() { ACK_VALID } else { 0 }) | (if self.echo.is_some() { ECHO_VALID } else { 0 })
    }
}

/// The acknowledgement fields of DATA and ACK; a field that is not valid must be zero.
#[inline]
pub(crate) fn answer(flags: u8, ack: u32, echo: u32, delay: u16) -> Result<Answer, PacketError> {
    let acked = flags & ACK_VALID != 0;
    let echoed = flags & ECHO_VALID != 0;
    //= P-ACK-2
    header::reserved((acked || ack == 0) && (echoed || (echo == 0 && delay == 0)))?;
    Ok(Answer { ack: acked.then_some(ack), echo: echoed.then_some((echo, delay)) })
}

/// How many frames `bytes` is; each must be whole, and nothing may be left over.
#[inline]
fn count_frames(bytes: &[u8]) -> Result<usize, PacketError> {
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        let Some(&[words, zero, low, high]) = rest.first_chunk::<FRAME_HEADER>() else { return Err(PacketError::Value) };
        //= P-FRAME-2
        header::reserved(zero == 0)?;
        let length = FRAME_HEADER + usize::from(words) * 8 + usize::from(u16::from_le_bytes([low, high]));
        //= P-FRAME-1
        if words == 0 || usize::from(words) > HEAD_WORDS_MAX || length > rest.len() {
            return Err(PacketError::Value);
        }
        rest = &rest[length..];
        count += 1;
    }
    Ok(count)
}
