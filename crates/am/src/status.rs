// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call failed, and why a message came back.

use crate::header::ARGS_MAX;
use crate::name::Name;
use bellwire_peer::Death;

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Caller: a parameter means nothing, or the call is not allowed here (a request within a
    /// handler, a second reply).
    BadArgument,
    /// Local limit: memory, descriptors, handles.
    Resource,
    /// The message cannot leave without waiting; or the connection of a reply is gone.
    NotSent,
    /// The object to be changed is in use.
    InUse,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BadArgument => "a parameter means nothing, or the call is not allowed here",
            Self::Resource => "out of memory, descriptors or handles",
            Self::NotSent => "the message cannot leave",
            Self::InUse => "in use",
        })
    }
}

impl std::error::Error for Error {}

impl From<bellwire_via::Error> for Error {
    fn from(e: bellwire_via::Error) -> Self {
        match e {
            bellwire_via::Error::Resource => Self::Resource,
            bellwire_via::Error::InvalidState => Self::InUse,
            _ => Self::BadArgument,
        }
    }
}

/// Why a message came back to its sender; the values are those of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The arguments cannot be.
    BadArguments = 1,
    /// The translation is not in use.
    BadEntry = 2,
    /// The receiver's tag is another.
    BadTag = 3,
    /// The receiver has no such handler.
    BadHandler = 4,
    /// Outside the receiver's segment.
    BadSegmentOffset = 5,
    /// Too long.
    BadLength = 6,
    /// The endpoint is no more.
    BadEndpoint = 7,
    /// The receiver cannot keep up.
    Congestion = 8,
    /// Nobody is there, or the connection broke before an answer: whether the handler ran is not
    /// known then.
    Unreachable = 9,
    /// A reply met no handler.
    ReplyRejected = 10,
}

impl Status {
    /// For people: a clause without a full stop.
    pub const fn text(self) -> &'static str {
        match self {
            Self::BadArguments => "its arguments are not valid",
            Self::BadEntry => "the entry of the translation table is not in use",
            Self::BadTag => "the receiver has another tag",
            Self::BadHandler => "the receiver has no such handler",
            Self::BadSegmentOffset => "it reaches outside the receiver's segment",
            Self::BadLength => "it is too long",
            Self::BadEndpoint => "the endpoint does not exist any more",
            Self::Congestion => "the receiver takes nothing",
            Self::Unreachable => "the receiver cannot be reached",
            Self::ReplyRejected => "the reply met no handler",
        }
    }

    /// The status of a number that a peer has sent. A number that no status has means
    /// [`Unreachable`](Self::Unreachable).
    pub fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::BadArguments,
            2 => Self::BadEntry,
            3 => Self::BadTag,
            4 => Self::BadHandler,
            5 => Self::BadSegmentOffset,
            6 => Self::BadLength,
            7 => Self::BadEndpoint,
            8 => Self::Congestion,
            10 => Self::ReplyRejected,
            _ => Self::Unreachable,
        }
    }
}

/// What kind of message came back; the values are those of the C interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// A short request.
    #[default]
    Request = 1,
    /// A medium request.
    RequestMedium = 2,
    /// A bulk request.
    RequestXfer = 3,
    /// A short reply.
    Reply = 4,
    /// A medium reply.
    ReplyMedium = 5,
    /// A bulk reply.
    ReplyXfer = 6,
    /// A get.
    Get = 7,
}

/// A connection that has ended, for good: its peer is gone or cannot be reached, or has ended it.
/// All that came over it has been handled, and what was to come back has come back.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// The connection, as in [`Message::connection`](crate::Message::connection).
    pub connection: u64,
    /// The entry of the translation table that it was made for: requests there come back until it
    /// is mapped anew. `None`: the peer made it, to send requests.
    pub index: Option<u32>,
    /// The peer.
    pub name: Name,
    /// Why it ended; `None`: the peer's endpoint is no more.
    pub death: Option<Death>,
}

/// A message that came back: all of it but the payload of a medium, of which only the place is
/// known.
#[derive(Clone, Copy, Debug)]
pub struct Returned {
    /// Why.
    pub status: Status,
    /// Of a message whose connection ended, why it did: the peer process exited, for example.
    pub death: Option<Death>,
    /// What it was.
    pub operation: Operation,
    /// Where it was to go: index in the translation table, and the name there.
    pub index: u32,
    /// The name there.
    pub destination: Name,
    /// Its handler.
    pub handler: u8,
    /// How many arguments.
    pub arg_count: u8,
    /// Its arguments.
    pub args: [i32; ARGS_MAX],
    /// Address of the payload in the sender's memory, as it was given.
    pub source: usize,
    /// Bytes of payload.
    pub length: usize,
    /// Bulk: the offset in the receiver's segment. Get: the offset in its segment.
    pub offset: u64,
}

impl Returned {
    /// Why it came back, for people: a clause without a full stop.
    pub fn why(&self) -> String {
        let text = self.status.text();
        self.death.map_or_else(|| text.to_owned(), |death| format!("{text}: {death}"))
    }

    /// The arguments.
    pub fn args(&self) -> &[i32] {
        &self.args[..usize::from(self.arg_count)]
    }
}
