// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: where the time of a message goes, for a measuring program that asks with its own
//! [`Probe`] (`bellwire paper 000`).
//!
//! As in `bellwire-am`, the calls of a message's way are generic over who watches. Programs call
//! them with [`Off`], of whose marks no code is left. A mark says what was done since the mark
//! before it, so the marks of a round trip add up to all of it.

pub use bellwire_trace::probe::{Off, Probe};

/// A step of a message's way. Its mark says that it has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Request, reply: the peer, a credit and a buffer are found.
    Allowed,
    /// The message and its descriptor are put together.
    Built,
    /// `VipPostSend`.
    Sent,
    /// Poll: the call is entered, and what waits looked at.
    Entered,
    /// `VipCQDone` of sends.
    SendsLooked,
    /// The VI of its entry is found.
    SendFound,
    /// `VipSendDone`.
    SendDone,
    /// The send's descriptor and buffer are free.
    SendRecycled,
    /// From sends to receives.
    Turned,
    /// `VipCQDone` of receives.
    ReceivesLooked,
    /// The VI of its entry is found.
    ReceiveFound,
    /// `VipRecvDone`.
    ReceiveDone,
    /// The message is read: its head, checked.
    Read,
    /// A request is queued and taken off the queue; an answer's request is found, its credit back.
    Sorted,
    /// What it asks for is done: memory is read or written, or the handler has done its work.
    Acted,
    /// All is back in its place: a handler, or what a reply has left to do.
    Finished,
    /// The receive's descriptor is ready again.
    ReceiveArmed,
    /// `VipPostRecv`.
    ReceivePosted,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = Self::ReceivePosted as usize + 1;
}
