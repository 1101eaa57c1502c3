// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection between a user and an object of another host: one VI. Its messages and RDMA writes
//! arrive in their order.
//!
//! Each message of a user needs a credit, and the owner counts it when it is handled. A fence that
//! is counted has arrived, and with it all RDMA writes before it.

use super::export::ExportId;
use super::message::{HEAD_BYTES, Head};
use crate::error::Error;
use bellwire_peer::{Channel, Connected, Credits, Put};
use bellwire_via::handle::Handle;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Instant};
use std::collections::VecDeque;
use std::sync::Weak;

/// Messages of a user that the owner has not counted yet.
pub(crate) const WINDOW: u32 = 64;
/// Messages to a peer that wait to leave; a peer that takes none for so long is given up.
const OUT_MAX: usize = 4096;

/// Names a connection.
pub(crate) type SessionId = Handle<Session>;

/// What a user is told of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The owner asks it to leave.
    Unavailable,
    /// The owner has ended it.
    Ended,
    /// The owner is gone.
    Lost,
    /// The owner does not answer for now.
    Silent,
    /// It answers again.
    Answers,
}

/// A user's object.
pub(crate) trait Import: Send + Sync {
    /// Something happened to its connection. Called with the NIC's token held: it may not call
    /// [`Far`](super::Far).
    fn told(&self, news: News);
}

/// What an owner has let a user use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    pub size: u64,
    /// Where it lies in the owner's memory, and its handle there.
    pub address: u64,
    pub handle: u32,
}

/// How far a user's connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Asking,
    Granted(Granted),
    Over(Error),
}

/// Whose end it is.
pub(crate) enum Side {
    Owner {
        export: ExportId,
        /// The export has let the user in, and is told when it leaves.
        is_in: bool,
    },
    User {
        user: Option<Weak<dyn Import>>,
        phase: Phase,
    },
}

/// A connection.
pub(crate) struct Session {
    pub(crate) channel: Channel,
    pub(crate) side: Side,
    /// The node of a user, as it says.
    pub(crate) node: u32,
    /// Messages of a user that are left for later.
    pub(crate) untaken: u32,
    pub(crate) credits: Credits<u32>,
    out: VecDeque<Vec<u8>>,
    /// RDMA requests that the engine has.
    pub(crate) posted: u32,
    /// A write was posted since the last thing that the owner counts.
    pub(crate) wants_fence: bool,
    /// When the peer was heard last, and when it was last asked for a sign of life.
    pub(crate) heard: Instant,
    pub(crate) asked: Instant,
    pub(crate) is_silent: bool,
}

impl Connected for Session {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

impl Session {
    pub(crate) fn new(channel: Channel, side: Side, node: u32, now: Instant) -> Self {
        Self {
            channel,
            side,
            node,
            untaken: 0,
            credits: Credits::new(WINDOW, 1),
            out: VecDeque::new(),
            posted: 0,
            wants_fence: false,
            heard: now,
            asked: now,
            is_silent: false,
        }
    }

    /// Whether something waits to leave.
    pub fn has_unsent(&self) -> bool {
        self.channel.is_open() && (!self.out.is_empty() || self.channel.has_rest())
    }

    /// A user's connection that is up.
    pub fn granted(&self) -> Result<Granted, Error> {
        match self.side {
            Side::User { phase: Phase::Granted(granted), .. } => Ok(granted),
            Side::User { phase: Phase::Over(error), .. } => Err(error),
            _ => Err(Error::NotConnected),
        }
    }

    /// Whether the owner has counted a user's first `number` messages.
    pub fn has_counted(&self, number: u32) -> bool {
        self.credits.acked().wrapping_sub(number).cast_signed() >= 0
    }

    /// Sends a message, now or behind those that wait. `false`: the peer takes nothing.
    pub(crate) fn send<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, data: &[u8]) -> bool {
        self.credits.has_told();
        let head = Head { handled: self.credits.handled(), ..*head };
        if head.is_of_user() {
            self.has_said();
        }
        let mut message = Vec::with_capacity(HEAD_BYTES + data.len());
        message.extend_from_slice(&head.bytes());
        message.extend_from_slice(data);
        self.out.push_back(message);
        self.leave(engine);
        self.out.len() <= OUT_MAX
    }

    /// A user has sent something that the owner counts.
    pub(super) fn has_said(&mut self) {
        self.credits.has_sent();
        self.wants_fence = false;
    }

    /// Sends what waits, as far as it can leave.
    pub fn leave<W: Wire>(&mut self, engine: &mut Engine<W>) {
        if self.channel.push(engine) {
            while let Some(message) = self.out.front() {
                // SAFETY: U2: no body; the head is borrowed.
                match unsafe { self.channel.put(engine, message, (core::ptr::null(), 0)) } {
                    Put::Left => drop(self.out.pop_front()),
                    Put::Kept => {
                        self.out.pop_front();
                        break;
                    }
                    // Broken: the notice of it is on its way.
                    Put::Stuck | Put::Broken => break,
                }
            }
        }
        self.channel.flush(engine);
    }
}
