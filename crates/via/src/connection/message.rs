// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of connection frames.
//!
//! ```text
//!  0 version | 1 code | 2 reliability | 3 flags | 4 from.host len | 5 from.discriminator len | 6 to.host len | 7 to.discriminator len
//!  8 connection id u32 | 12 tag u32 | 16 max transfer u64 | 24 qos u64 | 32 the four byte strings
//! ```
//! Little-endian. Written by a peer: `load` checks every length, and gives nothing for what it does
//! not know.

use crate::attributes::{DISCRIMINATOR_BYTES_MAX, HOST_ADDRESS_BYTES_MAX, NetAddress, Reliability, ViAttributes};
use crate::error::Error;
use crate::frame::{Bulk, Head};
use crate::limits::TRANSFER_BYTES_MAX;
use crate::user_memory;
use crate::wire::Frame;
use bellwire_memory::line_queue::Line;

const VERSION: u8 = 1;
const FIXED: usize = 32;
/// Longest message.
pub(super) const BYTES_MAX: usize = FIXED + 2 * (HOST_ADDRESS_BYTES_MAX + DISCRIMINATOR_BYTES_MAX);

/// The answer in a reply; `Accepted` in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ReplyCode {
    Accepted = 0,
    Pending = 1,
    NoMatch = 2,
    Rejected = 3,
    BadReliability = 4,
    BadMtu = 5,
    /// Somebody waits there, and has as many requests as he wants by now.
    Busy = 6,
}

impl ReplyCode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Accepted,
            1 => Self::Pending,
            2 => Self::NoMatch,
            3 => Self::Rejected,
            4 => Self::BadReliability,
            5 => Self::BadMtu,
            6 => Self::Busy,
            _ => return None,
        })
    }

    pub(super) fn from_error(e: Error) -> Self {
        match e {
            Error::InvalidReliability => Self::BadReliability,
            Error::InvalidMtu => Self::BadMtu,
            _ => Self::Rejected,
        }
    }
}

/// A connection message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message {
    pub code: ReplyCode,
    /// The sender's connection id.
    pub connection: u32,
    /// The sender's protection tag.
    pub ptag: u32,
    /// The sender's VI; its `ptag` field is not used.
    pub attributes: ViAttributes,
    pub from: NetAddress,
    pub to: NetAddress,
}

impl Message {
    pub(super) fn empty(code: ReplyCode) -> Self {
        let none = NetAddress::new(&[], &[]).unwrap_or_else(|| unreachable!("empty parts fit"));
        Self { code, connection: 0, ptag: 0, attributes: ViAttributes::default(), from: none, to: none }
    }

    /// Into a line and payload bytes.
    pub(super) fn store(&self, head: Head, line: &mut Line) -> ([u8; BYTES_MAX], usize) {
        let mut b = [0; BYTES_MAX];
        let a = &self.attributes;
        let parts = [self.from.host(), self.from.discriminator(), self.to.host(), self.to.discriminator()];
        b[0] = VERSION;
        b[1] = self.code as u8;
        b[2] = a.reliability as u8;
        b[3] = u8::from(a.rdma_write) | u8::from(a.rdma_read) << 1 | u8::from(a.rnr_wait) << 2;
        b[8..12].copy_from_slice(&self.connection.to_le_bytes());
        b[12..16].copy_from_slice(&self.ptag.to_le_bytes());
        b[16..24].copy_from_slice(&a.max_transfer_bytes.to_le_bytes());
        b[24..32].copy_from_slice(&a.qos.to_le_bytes());
        let mut at = FIXED;
        for (i, p) in parts.iter().enumerate() {
            b[4 + i] = p.len() as u8;
            b[at..at + p.len()].copy_from_slice(p);
            at += p.len();
        }
        Bulk { total: at as u32, length: at as u32, ..Bulk::default() }.store(head.bulk(), line);
        (b, at)
    }

    /// Out of a frame.
    pub(super) fn load(frame: &Frame) -> Option<Self> {
        let n = frame.payload_len();
        if !(FIXED..=BYTES_MAX).contains(&n) || !frame.head().is_bulk() {
            return None;
        }
        let mut b = [0; BYTES_MAX];
        // SAFETY: the wire has checked that `payload_len` bytes are readable; copied once, then
        // only the copy is used.
        unsafe { user_memory::copy(b.as_mut_ptr(), frame.payload(), n) };
        Self::parse(&b[..n])
    }

    fn parse(b: &[u8]) -> Option<Self> {
        let u32_at = |i: usize| Some(u32::from_le_bytes(b.get(i..i + 4)?.try_into().ok()?));
        let u64_at = |i: usize| Some(u64::from_le_bytes(b.get(i..i + 8)?.try_into().ok()?));
        if *b.first()? != VERSION || b.get(3)? & !7 != 0 {
            return None;
        }
        let mut at = FIXED;
        let mut part = |len: u8| {
            let p = b.get(at..at + usize::from(len));
            at += usize::from(len);
            p
        };
        let from = NetAddress::new(part(*b.get(4)?)?, part(*b.get(5)?)?)?;
        let to = NetAddress::new(part(*b.get(6)?)?, part(*b.get(7)?)?)?;
        if at != b.len() {
            return None;
        }
        let max_transfer_bytes = u64_at(16)?;
        if max_transfer_bytes > TRANSFER_BYTES_MAX {
            return None;
        }
        let attributes = ViAttributes {
            reliability: Reliability::from_bits(u16::from(b[2]))?,
            max_transfer_bytes,
            qos: u64_at(24)?,
            ptag: None,
            rdma_write: b[3] & 1 != 0,
            rdma_read: b[3] & 2 != 0,
            rnr_wait: b[3] & 4 != 0,
        };
        Some(Self { code: ReplyCode::from_bits(b[1])?, connection: u32_at(8)?, ptag: u32_at(12)?, attributes, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame_of(line: &Line, bytes: &[u8]) -> Frame {
        // SAFETY: F1: both outlive the test's use.
        unsafe { Frame::new(line.0[0], line.0.as_ptr(), bytes.as_ptr(), bytes.len()) }
    }

    #[test]
    fn round_trip() {
        let mut m = Message::empty(ReplyCode::Pending);
        m.connection = 77;
        m.ptag = 5;
        m.attributes.rdma_read = true;
        m.attributes.rnr_wait = true;
        m.from = NetAddress::new(&[127, 0, 0, 1], &[9; 64]).unwrap();
        m.to = NetAddress::new(&[7; 16], b"x").unwrap();
        let mut line = Line::default();
        let (b, n) = m.store(Head::new(crate::frame::Op::ConnectReply, 3), &mut line);
        assert_eq!(Message::load(&frame_of(&line, &b[..n])), Some(m));
        for cut in 0..n {
            assert_eq!(Message::load(&frame_of(&line, &b[..cut])), None, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut line = Line::default();
            line.0[0] = Head::new(crate::frame::Op::ConnectRequest, 0).bulk().0;
            let _ = Message::load(&frame_of(&line, &bytes));
        }
    }
}
