// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short frames wait for each other, so that a stream of small messages does not cost a packet and a system call for each: Nagle's rule without its delay.
//!
//! Who finds the way idle leaves at once. While packets are under way, what is written collects in the last packet, for a few microseconds at most. Used by `tx_window.rs` (what may leave);
//! `transport/output.rs` keeps the sessions in which something waits.

use crate::tx_window::{Allowance, Tx};
use bellwire_time::Instant;

/// With fewer packets in flight, nothing waits: a question of two messages, or an answer behind an acknowledgement, costs no time.
const IN_FLIGHT_LEAST: u32 = 2;

/// What is known about the frames that have not left.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    /// When new packets left last.
    departed: Instant,
    /// They are not to wait: one is long, or belongs to a longer message, or somebody is about to sleep, or others that waited with them have left.
    urgent: bool,
    /// The transport has noted that they wait.
    pub(crate) noted: bool,
}

impl Joining {
    /// What is written, or will be written next, waits no longer.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Packets have left; whether they were all that there were. What has waited with them does not wait again.
    pub(crate) fn left(&mut self, now: Instant, all: bool) {
        self.departed = now;
        self.urgent = !all;
        self.noted = false;
    }
}

impl Tx {
    /// Whether a short frame that is written now would leave at once in a packet of its own, if the windows let it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.next == self.end && self.flying < IN_FLIGHT_LEAST && self.lost.is_empty() && self.forced == 0 && !self.more && !self.losses.by_channels
    }

    /// Whether what has not left may still wait for more, the time aside.
    //= P-JOIN-2
    #[inline]
    pub(crate) fn is_joinable(&self, bytes_max: usize) -> bool {
        !self.joining.urgent && self.next != self.end && self.unsent() < bytes_max
    }

    /// Whether what has not left waits for more.
    //= P-JOIN-1
    #[inline]
    pub(crate) fn is_joining(&self, allowance: &Allowance) -> bool {
        self.flying >= IN_FLIGHT_LEAST && allowance.now < self.joining.departed + allowance.join_delay && self.is_joinable(allowance.join_bytes)
    }

    /// When what waits for more leaves at the latest; `None`: nothing does, or not for that.
    #[inline]
    pub(crate) fn joining_until(&self, allowance: &Allowance) -> Option<Instant> {
        self.is_joining(allowance).then(|| self.joining.departed + allowance.join_delay)
    }
}
