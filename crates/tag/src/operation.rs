// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations under way, and how they end.

use crate::connection::ConnectionId;
use crate::gather::Gather;
use crate::name::Name;
use crate::words::Verdict;
use bellwire_via::handle::Handle;

bitflags::bitflags! {
    /// What a completion is of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Notes: u16 {
        /// A message without a tag.
        const MESSAGE = 1;
        /// A tagged message.
        const TAGGED = 1 << 1;
        /// Remote memory.
        const REMOTE_MEMORY = 1 << 2;
        /// An atomic.
        const ATOMIC = 1 << 3;
        /// We sent.
        const SEND = 1 << 4;
        /// We received.
        const RECEIVE = 1 << 5;
        /// We read.
        const READ = 1 << 6;
        /// We wrote.
        const WRITE = 1 << 7;
        /// A peer read.
        const REMOTE_READ = 1 << 8;
        /// A peer wrote.
        const REMOTE_WRITE = 1 << 9;
        /// `data` came with it.
        const DATA = 1 << 10;
        /// The buffer of a multi-receive is the program's again.
        const RELEASED = 1 << 11;
        /// The message was set aside for a claim.
        const CLAIMED = 1 << 12;
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The message was longer than the receive: its beginning is there.
    Truncated,
    /// The program has cancelled it.
    Canceled,
    /// The connection to the peer is lost; what became of it is not known.
    ConnectionLost,
    /// The peer cannot be reached.
    Unreachable,
    /// The peer has no such memory, or does not permit this.
    RemoteAccess,
    /// Nothing to peek at.
    NoMessage,
    /// The peer cannot do this operation.
    Unsupported,
}

impl Failure {
    /// As the outcome in a message; 0 is success.
    pub(crate) fn to_bits(self) -> u32 {
        if self == Self::Unsupported { 2 } else { 1 }
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        if bits == 2 { Self::Unsupported } else { Self::RemoteAccess }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The program's name for it.
    pub context: usize,
    /// What it was.
    pub notes: Notes,
    /// Its success is not to be told, only counted.
    pub silent: bool,
    /// Bytes.
    pub length: usize,
    /// Where a received message begins.
    pub buffer: usize,
    /// Data that came with the message.
    pub data: u64,
    /// Its tag.
    pub tag: u64,
    /// What the program calls who sent it; [`NOBODY`] if it has no name for it.
    pub source: u64,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Bytes that did not fit.
    pub excess: usize,
}

/// No peer that the program knows.
pub const NOBODY: u64 = u64::MAX;

impl Completion {
    /// A success without further news.
    #[inline]
    pub fn new(context: usize, notes: Notes, silent: bool) -> Self {
        Self { context, notes, silent, length: 0, buffer: 0, data: 0, tag: 0, source: NOBODY, failure: None, excess: 0 }
    }

    /// Whether the program is to hear of it.
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        !self.silent || self.failure.is_some() || self.notes.contains(Notes::RELEASED)
    }

    /// Whether it is of a receive, or of what a peer did.
    #[inline]
    pub(crate) fn is_of_receives(&self) -> bool {
        self.notes.intersects(Notes::RECEIVE | Notes::REMOTE_WRITE | Notes::REMOTE_READ)
    }
}

/// Hears what the users of other endpoints say ([`Endpoint::say`](crate::Endpoint::say)), and how
/// the connections on which they say it stand. It is asked while the endpoint is locked, by the
/// program's thread or by the NIC's helper: it must not call the endpoint.
pub trait Listener: Send {
    /// The user of another endpoint has said something. The words are another process's: anything.
    fn said(&mut self, from: Name, words: &[u8]) -> Verdict;

    /// The connection to this peer is there, and what has waited for it to be said is said.
    fn reached(&mut self, peer: Name);

    /// There is no connection to this peer any more, or none could be made.
    fn lost(&mut self, peer: Name, failure: Failure) -> Verdict;
}

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Too much is under way: poll, then try again.
    Again,
    /// No such peer, or it is gone.
    Unreachable,
    /// An argument cannot be.
    BadArgument,
    /// Too long for this call.
    TooLong,
    /// Memory or descriptors are at their limit.
    Resource,
    /// In the child of a `fork`.
    InChild,
}

impl From<bellwire_via::Error> for Error {
    fn from(e: bellwire_via::Error) -> Self {
        match e {
            bellwire_via::Error::InvalidState => Self::InChild,
            bellwire_via::Error::Resource => Self::Resource,
            _ => Self::BadArgument,
        }
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
    /// Our long message or write, to have left.
    Streaming,
    /// The peer, to say that it is done.
    Awaiting,
    /// The parts of a long message that we have asked for.
    Receiving,
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
    pub completion: Completion,
}

impl Operation {
    pub(crate) fn new(doing: Doing, connection: ConnectionId, gather: Gather, completion: Completion) -> Self {
        Self { doing, connection, gather, moved: 0, wanted: gather.len(), delivery: None, multi: None, completion }
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
