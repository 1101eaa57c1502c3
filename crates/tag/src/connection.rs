// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: a VI that carries messages of both directions.
//!
//! Credits: at most [`WINDOW`] messages of a direction are out that the other side has not taken. Whatever it sends says how many it has; if it has nothing else to send, a Credit does after a quarter of the
//! window, which itself needs no credit (at most four are under way). So a peer never finds the inbox full.
//!
//! What cannot leave at once waits in `out`, in order; long messages that have been asked for, and answers to reads, are `streams`, which go by turns when `out` can do nothing.

use crate::gather::Gather;
use crate::header::HeadBytes;
use crate::operation::OperationId;
use bellwire_via::ViHandle;
use bellwire_via::handle::Handle;
use std::collections::VecDeque;

/// Messages of one direction that may be out.
pub const WINDOW: u32 = 128;
/// Messages taken that a peer is told of at once.
pub(crate) const TELL_AFTER: u32 = WINDOW / 4;
/// Messages that may wait in the inbox: those with a credit, and Credits.
pub(crate) const INBOX_LIMIT: u32 = WINDOW + 8;
/// Requests of our program that may wait to leave.
pub(crate) const OUT_MAX: usize = 1024;
/// Answers beyond them: a peer that makes more necessary does not take what it asked for.
pub(crate) const ANSWERS_MAX: usize = 1 << 17;

/// Names a connection.
pub(crate) type ConnectionId = Handle<Connection>;

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Open,
}

/// What follows a message's head.
#[derive(Debug)]
pub(crate) enum Body {
    Nothing,
    /// Bytes of the program's memory (G1 of `gather.rs`): from, how many.
    Memory(Gather, usize, usize),
    Owned(Box<[u8]>),
    /// Not a message: a stream begins here.
    Stream(Box<Stream>),
}

/// What becomes of an operation when its message has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    Finish(OperationId),
    /// It waits for the peer; counted, for who wants to be behind it.
    Await,
}

/// A message that waits to leave.
#[derive(Debug)]
pub(crate) struct Out {
    pub head: HeadBytes,
    pub body: Body,
    pub then: Then,
    /// Everything before it is to be done first.
    pub fence: bool,
}

/// Where the bytes of a stream go, and come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flow {
    /// A message that was asked for, to the peer's operation.
    Message { to: u32, from: Gather },
    /// Our memory that was read, to the peer's operation.
    Region { to: u32, key: u64, address: u64 },
    /// A write.
    Write { from: Gather, key: u64, address: u64, data: Option<u64> },
}

/// Bytes on their way.
#[derive(Debug)]
pub(crate) struct Stream {
    pub flow: Flow,
    /// Our operation.
    pub own: Option<OperationId>,
    pub at: usize,
    pub end: usize,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub vi: ViHandle,
    pub state: State,
    pub peer: u32,
    /// Who it is as a source.
    pub source: u32,
    /// Messages sent, and how many of them the peer has taken.
    pub sent: u32,
    pub acked: u32,
    /// Messages taken, and how many of them the peer has been told of.
    pub handled: u32,
    pub told: u32,
    pub out: VecDeque<Out>,
    /// Bytes of the first of `out` that have left.
    pub part: usize,
    pub streams: VecDeque<Stream>,
    /// Requests that have left and wait for the peer.
    pub awaited: u32,
    /// The endpoint knows that something waits to leave.
    pub is_unsent: bool,
    /// The peer has no room for unexpected payloads; it knows that we have none.
    pub peer_is_full: bool,
    pub told_full: bool,
}

impl Connection {
    pub(crate) fn new(vi: ViHandle, state: State, (peer, source): (u32, u32)) -> Self {
        Self {
            vi,
            state,
            peer,
            source,
            sent: 0,
            acked: 0,
            handled: 0,
            told: 0,
            out: VecDeque::new(),
            part: 0,
            streams: VecDeque::new(),
            awaited: 0,
            is_unsent: false,
            peer_is_full: false,
            told_full: false,
        }
    }

    /// Whether a message may leave now, before anything that waits.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.state == State::Open && self.out.is_empty() && self.has_credit()
    }

    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.sent.wrapping_sub(self.acked) < WINDOW
    }

    /// The peer has taken so many messages. `false`: it cannot have.
    #[inline]
    pub(crate) fn acknowledge(&mut self, handled: u32) -> bool {
        let fine = handled.wrapping_sub(self.acked) <= self.sent.wrapping_sub(self.acked);
        if fine {
            self.acked = handled;
        }
        fine
    }
}
