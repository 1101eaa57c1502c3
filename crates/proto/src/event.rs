// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the transport tells its caller, other than packets and deliveries.

use crate::ids::{NicId, SessionId};

/// An event, fetched by [`poll_event`](crate::Transport::poll_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session is up: frames can be sent. One per [`connect`](crate::Transport::connect) (its
    /// context is in it; the session may be another one than that call gave, when the two NICs
    /// began at once), and one without context for a session that the peer began.
    Up {
        /// This end.
        session: SessionId,
        /// The value that `connect` was given.
        context: Option<u64>,
        /// The peer's name.
        peer: NicId,
        /// Whether the peer began it.
        incoming: bool,
    },
    /// A session could not be made; the id that [`connect`](crate::Transport::connect) gave is
    /// void.
    Failed {
        /// The value that `connect` was given.
        context: u64,
        /// Why.
        reason: FailReason,
    },
    /// A session is over. Frames that may not have been delivered can be fetched by
    /// [`poll_returned`](crate::Transport::poll_returned); the id is void when that has given
    /// `None`.
    Down {
        /// This end.
        session: SessionId,
        /// Why.
        reason: DownReason,
    },
    /// The peer refused a packet; it is sent again later. Told once for any number of refusals
    /// until this event has been fetched.
    Refused {
        /// This end.
        session: SessionId,
        /// The latest reason.
        reason: Refusal,
    },
    /// Frames came back although the session goes on:
    /// [`poll_returned`](crate::Transport::poll_returned) has them.
    Returned {
        /// This end.
        session: SessionId,
    },
    /// After [`Sent::NoRoom`]: there is room again.
    Room {
        /// This end.
        session: SessionId,
    },
}

/// The outcome of a [`send`](crate::Transport::send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The frame is on its way.
    Yes,
    /// The transmit ring or the window is full. [`Event::Room`] says when it is worth trying again.
    NoRoom,
    /// The frame does not fit into a packet: see [`payload_max`](crate::Transport::payload_max),
    /// which can become smaller when the path changes.
    TooLong,
    /// `fill` could not write the payload. A frame without meaning travels in its place, which the
    /// receiver does not see.
    Unfilled,
    /// The session is not up (being made, closed, down, or unknown).
    Broken,
}

/// Why a session could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailReason {
    /// Nobody answered in time.
    NoAnswer,
    /// The peer speaks no version of the protocol that we do.
    Version,
    /// The peer has no room for another session.
    PeerFull,
    /// The peer takes no sessions from others.
    NotAccepting,
    /// [`close`](crate::Transport::close) was called before it was up.
    Closed,
    /// The peer takes authenticated packets only, and we have no key.
    PeerWantsKey,
    /// We have a key, and the peer has none.
    PeerHasNoKey,
    /// The peer's key is another one, or one of the two does not believe the other's.
    OtherKey,
    /// There is no public key of that host.
    HostUnknown,
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DownReason {
    /// [`close`](crate::Transport::close) was called here, and everything sent had been
    /// acknowledged.
    Closed,
    /// The peer closed it.
    PeerClosed,
    /// The peer was restarted: it has begun a new session under the same name.
    PeerRestarted,
    /// The peer knows the session no more.
    PeerForgot,
    /// Nothing of the peer's came for [`Config::unreachable_after`](crate::Config::unreachable_after),
    /// or what came for three times as long answers nothing that was sent.
    Unreachable,
    /// The peer's host says that nobody is at its address any more: its process has ended.
    PeerGone,
    /// Close was called here, and the peer did not take everything in
    /// [`Config::close_time`](crate::Config::close_time).
    CloseTimeout,
    /// The peer acknowledged what was never sent, or otherwise broke the protocol.
    PeerMisbehaved,
    /// Our key has sealed all that is safe, and the peer never said that it has seen it; or all
    /// counters are used up.
    KeySpent,
}

/// Why a receiver refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refusal {
    /// The endpoint is not resident: it is being loaded.
    NotResident = 1,
    /// No receive descriptor.
    NoReceive = 2,
    /// The receiver has no memory for it at present.
    Busy = 3,
    /// No such stream.
    NoStream = 4,
    /// Protection forbids it.
    Protection = 5,
}

impl Refusal {
    /// Whether it may pass: the packet is sent again. Otherwise its frames return to their sender
    /// at once.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::NotResident | Self::NoReceive | Self::Busy)
    }

    pub(crate) const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::NotResident,
            2 => Self::NoReceive,
            3 => Self::Busy,
            4 => Self::NoStream,
            5 => Self::Protection,
            _ => return None,
        })
    }
}

/// Why a frame came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReason {
    /// The session ended. The frame may or may not have been delivered.
    Down(DownReason),
    /// The receiver refused it, and it was not delivered.
    Refused(Refusal),
    /// [`recall`](crate::Transport::recall) took it back: it was not delivered.
    Recalled,
}
