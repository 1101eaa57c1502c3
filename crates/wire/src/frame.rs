// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames: the messages between engines, on every wire, in a 64-byte line and, for more than
//! fits, payload bytes beside it.
//!
//! ```text
//!  word 0   bit 0      the wire's (lap bit)
//!           bits 1-5   operation
//!           bit 6      immediate data is valid
//!           bit 7      last frame of its message
//!           bits 8-15  length of inline data; BULK: the payload is beside the line
//!           bits 16-31 low bits of the message's sequence number (acknowledged connections)
//!           bits 32-63 connection id of the receiver (0: control frame)
//!  inline   immediate? word 1 holds it and data follows from word 2, else data from word 1
//!  BULK     word 1     offset of this fragment | total length << 32
//!           word 2     immediate data | fragment length << 32
//!           word 3     remote address       (RDMA)
//!           word 4     remote handle | work id << 32   (RDMA)
//!           word 7     the wire's (position of the payload)
//!  PULL      words 1 to 4 as BULK; word 5: address of the fragment in the sender's process. Nothing else of that VI follows before the answer.
//! ```
//!
//! Everything here was written by a peer: decoding never panics, and every value is checked before
//! use by the code that takes it (`deliver.rs` of the engine has the list).

use bellwire_memory::line_queue::Line;

/// Inline bytes without immediate data.
pub const INLINE_BYTES_MAX: usize = 56;
/// Inline bytes with immediate data.
pub const INLINE_BYTES_MAX_IMMEDIATE: usize = 48;
/// The inline length that says: payload beside the line.
const BULK: u8 = 0xff;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// A send, or a part of one.
    Send = 1,
    /// A send whose data has been placed in the advertised descriptor.
    SendPlaced = 2,
    /// RDMA write data.
    Write = 3,
    /// RDMA write with immediate data whose data has been placed.
    WritePlaced = 4,
    /// Asks for data.
    ReadRequest = 5,
    /// Data asked for.
    ReadResponse = 6,
    /// Messages up to a number are in memory.
    Ack = 7,
    /// Message `sequence` found no receive descriptor; it and those after it were not taken.
    ReceiverNotReady = 8,
    /// A receive descriptor is there now.
    ReceiverReady = 9,
    /// A request was refused: word 1 = status bits, word 2 = work id or sequence.
    Refused = 10,
    /// The connection is over: word 1 = reason.
    Disconnect = 11,
    /// Control: asks for a connection.
    ConnectRequest = 12,
    /// Answers it.
    ConnectReply = 13,
    /// The requester gave up.
    ConnectCancel = 14,
    /// Control: peer-to-peer request.
    PeerRequest = 15,
    /// Answers it.
    PeerAccept = 16,
    /// A part of a send that the receiver is to copy out of the sender's process.
    SendPull = 17,
    /// A part of an RDMA write likewise.
    WritePull = 18,
    /// Answers the last part of either: word 1 = work id, word 2 = 1 if all of it is in memory, 0
    /// if it must come another way.
    Pulled = 19,
}

impl Op {
    /// From the wire; `None` is a protocol error.
    #[inline]
    pub fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Send,
            2 => Self::SendPlaced,
            3 => Self::Write,
            4 => Self::WritePlaced,
            5 => Self::ReadRequest,
            6 => Self::ReadResponse,
            7 => Self::Ack,
            8 => Self::ReceiverNotReady,
            9 => Self::ReceiverReady,
            10 => Self::Refused,
            11 => Self::Disconnect,
            12 => Self::ConnectRequest,
            13 => Self::ConnectReply,
            14 => Self::ConnectCancel,
            15 => Self::PeerRequest,
            16 => Self::PeerAccept,
            17 => Self::SendPull,
            18 => Self::WritePull,
            19 => Self::Pulled,
            _ => return None,
        })
    }
}

/// Word 0, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u64);

/// The bits of word 0 that say: a send, whole, in this line, without immediate data, to that
/// connection.
pub const WHOLE_MASK: u64 = 0xffff_ffff_0000_00fe;
/// What no word 0 is under [`WHOLE_MASK`].
pub const NO_HEAD: u64 = 1;

const IMMEDIATE: u64 = 1 << 6;
const LAST: u64 = 1 << 7;

impl Head {
    /// A head for `op` to connection `to`.
    #[inline]
    pub const fn new(op: Op, to: u32) -> Self {
        Self((op as u64) << 1 | (to as u64) << 32 | LAST)
    }

    /// With inline length `len`.
    #[inline]
    pub const fn inline(self, len: usize) -> Self {
        Self(self.0 | (len as u64) << 8)
    }

    /// With payload beside the line.
    #[inline]
    pub const fn bulk(self) -> Self {
        Self(self.0 | (BULK as u64) << 8)
    }

    /// With immediate data, if `yes`.
    #[inline]
    pub const fn immediate(self, yes: bool) -> Self {
        Self(if yes { self.0 | IMMEDIATE } else { self.0 })
    }

    /// With the last mark only if `yes`.
    #[inline]
    pub const fn last(self, yes: bool) -> Self {
        Self(if yes { self.0 | LAST } else { self.0 & !LAST })
    }

    /// With the low bits of `sequence`.
    #[inline]
    pub const fn sequence(self, sequence: u32) -> Self {
        Self(self.0 | ((sequence & 0xffff) as u64) << 16)
    }

    /// The operation.
    #[inline]
    pub fn op(self) -> Option<Op> {
        Op::from_bits((self.0 >> 1) as u8 & 0x1f)
    }

    /// Whether immediate data is valid.
    #[inline]
    pub const fn has_immediate(self) -> bool {
        self.0 & IMMEDIATE != 0
    }

    /// Whether this is the message's last frame.
    #[inline]
    pub const fn is_last(self) -> bool {
        self.0 & LAST != 0
    }

    /// Whether the payload is beside the line.
    #[inline]
    pub const fn is_bulk(self) -> bool {
        (self.0 >> 8) as u8 == BULK
    }

    /// Inline length, `None` if it cannot be.
    #[inline]
    pub const fn inline_len(self) -> Option<usize> {
        let len = (self.0 >> 8) as u8 as usize;
        let max = if self.has_immediate() { INLINE_BYTES_MAX_IMMEDIATE } else { INLINE_BYTES_MAX };
        if len <= max { Some(len) } else { None }
    }

    /// Low 16 bits of the sequence number.
    #[inline]
    pub const fn sequence_low(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The receiver's connection id.
    #[inline]
    pub const fn to(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The BULK words 1 to 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// Where in the message this fragment belongs, bytes.
    pub offset: u32,
    /// Length of the whole message, bytes.
    pub total: u32,
    /// Immediate data, if the head says so.
    pub immediate: u32,
    /// Bytes of payload with this frame.
    pub length: u32,
    /// RDMA: address in the target's memory of the first byte of the message.
    pub remote_address: u64,
    /// RDMA: the target's handle.
    pub remote_handle: u32,
    /// The initiator's name for the request.
    pub work: u32,
}

impl Bulk {
    /// Into a line.
    #[inline]
    pub fn store(&self, head: Head, line: &mut Line) {
        line.0[0] = head.0;
        line.0[1] = u64::from(self.offset) | u64::from(self.total) << 32;
        line.0[2] = u64::from(self.immediate) | u64::from(self.length) << 32;
        line.0[3] = self.remote_address;
        line.0[4] = u64::from(self.remote_handle) | u64::from(self.work) << 32;
    }
}

/// A short frame with two words of content.
#[inline]
pub fn short(head: Head, word1: u64, word2: u64) -> Line {
    let mut line = Line::default();
    line.0[0] = head.0;
    line.0[1] = word1;
    line.0[2] = word2;
    line
}

/// Why a connection ended, as told to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DisconnectReason {
    /// The peer called disconnect.
    Requested = 1,
    /// No receive descriptor was posted.
    ReceiveQueueEmpty = 2,
    /// The message was too long for the descriptor.
    TooLong = 3,
    /// RDMA write refused.
    WriteProtection = 4,
    /// RDMA read refused.
    ReadProtection = 5,
    /// A local error at the peer.
    PeerError = 6,
    /// The peer sent nonsense.
    Protocol = 7,
    /// The memory of a receive is not there.
    ReceiveFault = 8,
}

impl DisconnectReason {
    /// From the wire; anything unknown is a protocol error.
    pub fn from_bits(bits: u64) -> Self {
        match bits {
            1 => Self::Requested,
            2 => Self::ReceiveQueueEmpty,
            3 => Self::TooLong,
            4 => Self::WriteProtection,
            5 => Self::ReadProtection,
            6 => Self::PeerError,
            8 => Self::ReceiveFault,
            _ => Self::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        let h = Head::new(Op::Send, 0xdead_beef).inline(48).immediate(true).sequence(0x1_2345);
        assert_eq!(
            (h.op(), h.to(), h.inline_len(), h.has_immediate(), h.is_last(), h.sequence_low()),
            (Some(Op::Send), 0xdead_beef, Some(48), true, true, 0x2345)
        );
        assert!(!h.is_bulk() && !h.last(false).is_last());
        assert_eq!(h.0 & 1, 0, "bit 0 is the wire's");
        assert_eq!(Head::new(Op::Send, 1).inline(57).inline_len(), None);
        assert_eq!(Head::new(Op::Send, 1).immediate(true).inline(49).inline_len(), None);
        assert!(Head::new(Op::Write, 1).bulk().is_bulk());
    }

    #[test]
    fn every_op_survives() {
        for bits in 0..32 {
            if let Some(op) = Op::from_bits(bits) {
                assert_eq!(op as u8, bits);
                assert_eq!(Head::new(op, 7).op(), Some(op));
            }
        }
        assert_eq!(Op::from_bits(0), None);
        assert_eq!(Op::from_bits(20), None);
    }
}
