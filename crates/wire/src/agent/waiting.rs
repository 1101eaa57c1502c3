// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a port waits for: room in its ring, the endpoint's turn, an agent in the same thread.

use super::segment::ProgramEnd;
use crate::clock::clock;
use crate::time::{Duration, Instant};
use core::fmt;
use core::net::SocketAddr;

/// Room is looked for again after this, if the agent has not rung.
pub(super) const STALL: Duration = Duration::from_millis(2);
/// So is the endpoint's turn.
const TURN_LOOK: Duration = Duration::from_millis(20);
/// While the endpoint waits for its turn, so many packets wait with it: as much as a turn takes, if
/// they are long. More would mostly be the same again, and thousands of endpoints over a few frames
/// would have their turns for packets that were sent again too early.
const WAITING_MAX: u32 = 4;

/// Packets that found no room.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    pub(super) bytes: Vec<u8>,
    pub(super) to: Option<SocketAddr>,
    pub(super) segment: usize,
    pub(super) retry_at: Instant,
}

/// The endpoint's turn at the agent, and what waits for it in the ring.
#[derive(Debug)]
pub(super) struct Turn {
    /// Packets written since the last look.
    waiting: u32,
    /// Enough packets wait, and the turn is looked for again then; else never.
    look_at: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self { waiting: 0, look_at: Instant::NEVER }
    }
}

impl Turn {
    /// Whether enough packets wait: no others are to be written, and those that would be are made
    /// when the turn has come, by what is known then.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.look_at != Instant::NEVER
    }

    /// When the next look is due.
    pub(super) fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Packets were written. Whether it is time for a [`look`](Self::look).
    #[inline]
    pub(super) fn has_written(&mut self, packets: usize) -> bool {
        self.waiting = self.waiting.saturating_add(packets as u32);
        self.waiting >= WAITING_MAX
    }

    /// Looks where the endpoint stands. Whether that has changed.
    pub(super) fn look(&mut self, end: Option<&mut ProgramEnd>) -> bool {
        let waits = end.is_some_and(|end| !end.is_resident() && end.tx.is_empty() == Ok(false));
        if !waits {
            self.waiting = 0;
        }
        let was_held = self.is_held();
        self.look_at = if waits { clock() + TURN_LOOK } else { Instant::NEVER };
        was_held != waits
    }
}

/// Called again and again instead of sleeping while the agent is waited for, by tests whose agent
/// is in the same thread.
pub(super) struct Meanwhile(pub(super) Option<Box<dyn FnMut() + Send>>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meanwhile({})", self.0.is_some())
    }
}
