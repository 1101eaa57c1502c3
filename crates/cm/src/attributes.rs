// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an identifier's queue pair is to be set to, for each state that it moves to.

use crate::cm::Cm;
use crate::id::State;
use crate::types::{Channel, Error, Gid, QpKind, UDP_QKEY};

/// Which attributes are given: the numbers of the verbs interface.
#[derive(Clone, Copy, Debug)]
pub struct Mask;

impl Mask {
    /// The state to move to.
    pub const STATE: u32 = 1;
    /// What the peer may do.
    pub const ACCESS: u32 = 1 << 3;
    /// Index of the partition key.
    pub const PKEY_INDEX: u32 = 1 << 4;
    /// Port.
    pub const PORT: u32 = 1 << 5;
    /// Key of datagrams.
    pub const QKEY: u32 = 1 << 6;
    /// The peer's address.
    pub const ADDRESS: u32 = 1 << 7;
    /// MTU.
    pub const MTU: u32 = 1 << 8;
    /// Wait for an answer.
    pub const TIMEOUT: u32 = 1 << 9;
    /// Tries of a request.
    pub const RETRIES: u32 = 1 << 10;
    /// Tries of a send that finds no receive.
    pub const RNR_RETRIES: u32 = 1 << 11;
    /// First packet received.
    pub const RECEIVE_NUMBER: u32 = 1 << 12;
    /// Reads issued at a time.
    pub const READS_OUT: u32 = 1 << 13;
    /// How long a peer waits that finds no receive.
    pub const RNR_TIMER: u32 = 1 << 15;
    /// First packet sent.
    pub const SEND_NUMBER: u32 = 1 << 16;
    /// Reads served at a time.
    pub const READS_IN: u32 = 1 << 17;
    /// The peer's queue pair.
    pub const PEER: u32 = 1 << 20;
}

/// States of a queue pair that are asked for.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
/// 4096 bytes.
const MTU: u8 = 5;
/// 268 ms, of which as many as there are tries: a peer that is gone is given up after 2 s.
const TIMEOUT: u8 = 16;
/// Writes, or writes, reads and atomics.
const WRITE: u32 = 2;
const READ_AND_ATOMIC: u32 = 4 | 8;

/// Attributes of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Which are given.
    pub mask: u32,
    /// The state to move to.
    pub state: u32,
    /// What the peer may do.
    pub access: u32,
    /// Key of datagrams.
    pub qkey: u32,
    /// The peer's device.
    pub gid: Gid,
    /// The peer's queue pair.
    pub peer: u32,
    /// First packet received.
    pub receive_number: u32,
    /// First packet sent.
    pub send_number: u32,
    /// MTU, as the interface encodes it.
    pub mtu: u8,
    /// Wait for an answer, as the interface encodes it.
    pub timeout: u8,
    /// Tries of a request.
    pub retries: u8,
    /// Tries of a send that finds no receive.
    pub rnr_retries: u8,
    /// Reads issued at a time.
    pub reads_out: u8,
    /// Reads served at a time.
    pub reads_in: u8,
}

impl Cm {
    /// What the queue pair of an identifier is to be set to when it moves to a state.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the peer has not said enough yet.
    pub fn attributes(&mut self, channel: Channel, id: u32, to: u32) -> Result<Attributes, Error> {
        let id = self.of(channel, id)?;
        if !id.has_device {
            return Err(Error::Invalid);
        }
        // As the peer is not known before, it may do nothing.
        let is_known = matches!(id.state, State::Asked | State::Replied | State::Answered | State::Established | State::Left | State::Leaving);
        if id.kind == QpKind::Datagram {
            let mask = Mask::STATE | if to == INIT { Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY } else { 0 } | if to == RTS { Mask::SEND_NUMBER } else { 0 };
            return if matches!(to, INIT..=RTS) {
                Ok(Attributes { mask, state: to, qkey: UDP_QKEY, send_number: id.numbers.1, ..Attributes::default() })
            } else {
                Err(Error::Invalid)
            };
        }
        // An XRC side that only sends serves nothing; one that only receives issues nothing.
        let (issues, serves) = (id.kind.is_reliable() && id.kind != QpKind::XrcReceive, id.kind.is_reliable() && id.kind != QpKind::XrcSend);
        let access = if is_known { WRITE | READ_AND_ATOMIC } else { 0 };
        // Both sides use the tries that the active side asked for.
        let retries = if id.is_passive { id.theirs.retry_count } else { id.ours.retry_count };
        match to {
            INIT => Ok(Attributes { mask: Mask::STATE | Mask::ACCESS | Mask::PKEY_INDEX | Mask::PORT, state: to, access, ..Attributes::default() }),
            RTR if is_known => Ok(Attributes {
                mask: Mask::STATE | Mask::ADDRESS | Mask::MTU | Mask::PEER | Mask::RECEIVE_NUMBER | if serves { Mask::READS_IN | Mask::RNR_TIMER } else { 0 },
                state: to,
                gid: id.peer_gid.ok_or(Error::Invalid)?,
                peer: id.theirs.qp,
                receive_number: id.numbers.0,
                mtu: MTU,
                reads_in: id.theirs.initiator_depth,
                access,
                ..Attributes::default()
            }),
            RTS if is_known => Ok(Attributes {
                mask: Mask::STATE | Mask::SEND_NUMBER | if issues { Mask::TIMEOUT | Mask::RETRIES | Mask::RNR_RETRIES | Mask::READS_OUT } else { 0 },
                state: to,
                send_number: id.numbers.1,
                timeout: id.ack_timeout.unwrap_or(TIMEOUT),
                retries,
                rnr_retries: id.theirs.rnr_retry_count,
                reads_out: id.theirs.responder_resources,
                ..Attributes::default()
            }),
            _ => Err(Error::Invalid),
        }
    }
}
