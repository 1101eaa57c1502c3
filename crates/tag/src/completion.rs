// SPDX-License-Identifier: MIT OR Apache-2.0
//! How operations end, and why calls do nothing.

use crate::gone::Gone;

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
    /// The connection to the peer is lost, and the outcome is not known.
    ConnectionLost(Gone),
    /// The peer cannot be reached.
    Unreachable(Gone),
    /// The peer has no such memory, or does not permit this.
    RemoteAccess,
    /// Nothing to peek at.
    NoMessage,
    /// The peer cannot do this operation.
    Unsupported,
}

impl Failure {
    /// The failure of all that is under way with a peer that is gone.
    pub(crate) fn of(gone: Gone) -> Self {
        match gone {
            Gone::Unreachable(_) | Gone::OtherVersion => Self::Unreachable(gone),
            Gone::Broken(_) | Gone::Misbehaved => Self::ConnectionLost(gone),
        }
    }

    /// Why the peer is gone, if that is the reason.
    pub fn gone(self) -> Option<Gone> {
        if let Self::ConnectionLost(gone) | Self::Unreachable(gone) = self { Some(gone) } else { None }
    }

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
