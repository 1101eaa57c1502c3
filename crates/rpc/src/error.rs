// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a call ends other than by its result, and why other calls of this crate fail.

use crate::wire::status;
use bellwire_am::{Death, Status};

/// What a handler answers when it cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A number that caller and handler agree on.
    pub code: i32,
    /// The same for people.
    pub message: String,
}

impl Failure {
    /// A failure with a number and a text.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&self.code.to_le_bytes(), self.message.as_bytes()].concat()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (code, text) = bytes.split_first_chunk::<4>()?;
        Some(Self { code: i32::from_le_bytes(*code), message: String::from_utf8_lossy(text).into_owned() })
    }
}

/// Why a peer is gone, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    status: Status,
    death: Option<Death>,
}

impl Gone {
    pub(crate) fn new(status: Status, death: Option<Death>) -> Self {
        Self { status, death }
    }

    /// Why the connection ended: the peer process exited, for example. `None`: [`why`](Self::why)
    /// says all that there is to say, that the peer closed its node, for example.
    pub fn death(&self) -> Option<Death> {
        self.death
    }

    /// The reason, for people: a clause without a full stop.
    pub fn why(&self) -> String {
        match (self.death, self.status) {
            (Some(death), _) => death.to_string(),
            (None, Status::BadEndpoint) => "it closed its node".to_owned(),
            (None, status) => status.text().to_owned(),
        }
    }

    /// Whether an attempt to connect found no node at the peer's address.
    fn is_nobody(&self) -> bool {
        use bellwire_via::Error::{NoMatch, Rejected};
        matches!(self.death, Some(Death::Unreachable(NoMatch | Rejected)))
    }

    /// The reason for calls that end now, if an earlier connection to the peer ended by `before`.
    /// The address of a process that exited is nobody's: that the process exited says more.
    pub(crate) fn after(self, before: Option<Self>) -> Self {
        before.filter(|_| self.is_nobody()).unwrap_or(self)
    }
}

/// Why a call ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The handler's answer.
    Failed(Failure),
    /// The peer serves no procedure of this name.
    UnknownProcedure,
    /// The peer's procedure of this name has other types, or another version.
    WrongType,
    /// The peer cannot decode the arguments.
    BadArguments,
    /// The result cannot be decoded, or is no result: the peer's fault.
    BadReply,
    /// The peer has as many calls under way, or as much memory in use, as it allows.
    Overloaded,
    /// The result is larger than this node's [`Limits`](crate::Limits) allow.
    TooLarge,
    /// The handler ended without an answer.
    Dropped,
    /// The peer is gone or cannot be reached, and why; whether the handler has run is not known.
    Gone(Gone),
    /// The peer is no node, or not of this version, or does not let this one in.
    Incompatible,
    /// The time is over. The peer has been told.
    Deadline,
    /// Cancelled here. The peer has been told.
    Cancelled,
    /// The call was not begun.
    NotStarted(Error),
}

impl CallError {
    /// What a status of the wire means, with the bytes that came with it; `None`: a result.
    pub(crate) fn of(code: u32, bytes: &[u8]) -> Option<Self> {
        Some(match code {
            status::OK => return None,
            status::FAILED => Failure::from_bytes(bytes).map_or(Self::BadReply, Self::Failed),
            status::UNKNOWN_PROCEDURE => Self::UnknownProcedure,
            status::WRONG_TYPE => Self::WrongType,
            status::BAD_ARGUMENTS => Self::BadArguments,
            status::OVERLOADED => Self::Overloaded,
            status::DROPPED => Self::Dropped,
            status::INCOMPATIBLE => Self::Incompatible,
            _ => Self::BadReply,
        })
    }
}

impl core::fmt::Display for CallError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Failed(failure) => write!(f, "{} (code {})", failure.message, failure.code),
            Self::Gone(gone) => write!(f, "the peer is gone: {}", gone.why()),
            Self::NotStarted(e) => e.fmt(f),
            other => f.write_str(match other {
                Self::UnknownProcedure => "the peer has no such procedure",
                Self::WrongType => "the peer's procedure of this name has other types or another version",
                Self::BadArguments => "the peer cannot decode the arguments",
                Self::BadReply => "the peer's reply cannot be understood",
                Self::Overloaded => "the peer has too many calls or too much memory in use",
                Self::TooLarge => "the result is larger than this node allows",
                Self::Dropped => "the handler ended without an answer",
                Self::Incompatible => "the peer is no node, of another version, or does not let this one in",
                Self::Deadline => "the time is over",
                _ => "cancelled",
            }),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotStarted(e) => Some(e),
            _ => None,
        }
    }
}

impl From<Error> for CallError {
    fn from(e: Error) -> Self {
        Self::NotStarted(e)
    }
}

/// Why a call of this crate did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// As many calls to this peer are under way as [`Limits::window`](crate::Limits) allows.
    Busy,
    /// Within a handler, where nothing may wait.
    WrongMoment,
    /// No such peer (any more).
    BadPeer,
    /// A name that is empty, longer than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX), or served
    /// already.
    BadName,
    /// Bytes that are no address.
    BadAddress,
    /// The NIC cannot be opened.
    Device(String),
    /// A call of Active Messages failed.
    Messages(bellwire_am::Error),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Busy => f.write_str("too many calls to this peer are under way"),
            Self::WrongMoment => f.write_str("not within a handler"),
            Self::BadPeer => f.write_str("no such peer"),
            Self::BadName => f.write_str("the name is empty, too long, or served already"),
            Self::BadAddress => f.write_str("this is no address"),
            Self::Device(why) => f.write_str(why),
            Self::Messages(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<bellwire_am::Error> for Error {
    fn from(e: bellwire_am::Error) -> Self {
        Self::Messages(e)
    }
}
