// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: a VI that carries messages of both directions.
//!
//! Its flow control and its sending side are those of all layers ([`Credits`], [`Channel`]): at
//! most [`WINDOW`] messages of a direction are out that the other side has not taken, and it is
//! told after a quarter of them; the Credit that tells it if nothing else does needs none itself.
//!
//! What cannot leave at once waits in `out`, in order; long messages that have been asked for, and
//! answers to reads, are `streams`, which go by turns when `out` can do nothing.

use crate::completion::Completion;
use crate::gather::Gather;
use crate::header::HeadBytes;
use crate::lent::{Lent, Word};
use crate::trial::Trial;
use bellwire_peer::{Channel, Credits};
use bellwire_via::handle::Handle;
use std::collections::VecDeque;

/// Messages of one direction that may be out.
pub const WINDOW: u32 = 128;
/// Messages taken that a peer is told of at once.
const TELL_AFTER: u32 = WINDOW / 4;
/// Messages that may wait in the inbox: those with a credit, and Credits.
pub(crate) const INBOX_LIMIT: u32 = WINDOW + 8;
/// Requests of our program that may wait to leave.
pub(crate) const OUT_MAX: usize = 1024;
/// Answers beyond them: a peer that makes more necessary does not take what it asked for.
pub(crate) const ANSWERS_MAX: usize = 1 << 17;

/// Names a connection.
pub(crate) type ConnectionId = Handle<Connection>;

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
    pub order: Order,
}

/// What of a connection's messages has to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Behind what was asked for before it.
    Behind,
    /// Everything that was asked for before it is to be done first.
    Fenced,
    /// It answers the peer, and passes what is fenced: the peer's own fence may wait for it.
    Answer,
}

impl Order {
    pub fn fenced_if(is_fenced: bool) -> Self {
        if is_fenced { Self::Fenced } else { Self::Behind }
    }
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
    pub channel: Channel,
    pub credits: Credits,
    pub peer: u32,
    /// Who it is as a source.
    pub source: u32,
    pub out: VecDeque<Out>,
    /// What is to be done when the rest of a message has left.
    pub then: Then,
    pub streams: VecDeque<Stream>,
    /// Requests that have left and wait for the peer.
    pub awaited: u32,
    /// The peer has no room for unexpected payloads; it knows that we have none.
    pub peer_is_full: bool,
    pub told_full: bool,
    /// Tells a peer that pulls long messages of ours that their memory still holds them.
    pub word: Option<Word>,
    /// Long messages that the peer lends: which way they come.
    pub trial: Trial,
}

impl Connection {
    pub(crate) fn new(channel: Channel, (peer, source): (u32, u32)) -> Self {
        Self {
            channel,
            credits: Credits::new(WINDOW, TELL_AFTER),
            peer,
            source,
            out: VecDeque::new(),
            then: Then::Nothing,
            streams: VecDeque::new(),
            awaited: 0,
            peer_is_full: false,
            told_full: false,
            word: None,
            trial: Trial::default(),
        }
    }

    /// Whether a message may leave now, before anything that waits.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.channel.is_ready() && self.out.is_empty() && self.credits.has_credit()
    }
}

/// Names an operation; its bits travel.
pub(crate) type OperationId = Handle<Operation>;

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Our message, to leave.
    Leaving,
    /// Our long message, to be asked for.
    Announced,
    /// Our long message, to be pulled or asked for.
    Lent,
    /// Our long message or write, to have left.
    Streaming,
    /// The peer, to say that it is done.
    Awaiting,
    /// The parts of a long message that we have asked for.
    Receiving,
    /// Ourselves, to pull a long message.
    Pulling,
    /// The bytes of a read or of a fetching atomic.
    Fetching,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Operation {
    pub doing: Doing,
    pub connection: ConnectionId,
    /// Memory of the program.
    pub gather: Gather,
    /// Bytes that have come, of those wanted.
    pub moved: usize,
    pub wanted: usize,
    /// The peer is to say that it has the message; or, of a receive: so is this to be answered.
    pub delivery: Option<u32>,
    /// The multi-receive that it is of.
    pub multi: Option<MultiId>,
    /// Of a receive: where its message lies at its sender, and the operation there.
    pub lent: Option<(Box<Lent>, u32)>,
    pub completion: Completion,
}

impl Operation {
    pub(crate) fn new(doing: Doing, connection: ConnectionId, gather: Gather, completion: Completion) -> Self {
        Self { doing, connection, gather, moved: 0, wanted: gather.len(), delivery: None, multi: None, lent: None, completion }
    }
}

/// Names a multi-receive buffer.
pub(crate) type MultiId = Handle<Multi>;

/// A buffer for several messages.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    /// Messages that are still coming into it.
    pub coming: u32,
    /// It is no longer posted.
    pub is_spent: bool,
}
