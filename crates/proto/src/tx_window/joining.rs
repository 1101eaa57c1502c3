// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short frames wait for each other, so that a stream of small messages does not cost a packet and
//! a system call for each: Nagle's rule without its delay. So does what is left of a long message
//! beyond whole runs, while such messages follow one another.
//!
//! A frame that finds the path idle leaves at once. While packets are in flight, new frames collect
//! in the last packet, for a few microseconds at most. Used by `leave.rs` (which packets may
//! leave); `transport/output.rs` keeps the sessions in which something waits.

use super::Tx;
use super::leave::Allowance;
use bellwire_time::{Duration, Instant};

/// With fewer packets in flight, nothing waits: a question of two messages, or an answer behind an
/// acknowledgement, costs no time.
const IN_FLIGHT_LEAST: u32 = 2;
/// Runs that leave no further apart are those of a stream.
const STREAM_WITHIN: Duration = Duration::from_micros(50);

/// The state of the frames that have not left.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    /// When new packets left last, and when before that.
    departed: Instant,
    before: Instant,
    /// Nothing was in flight then: questions and answers in turn are no stream, however fast.
    fresh: bool,
    /// One of them is long, or belongs to a longer message.
    long: bool,
    /// They are not to wait: somebody is about to sleep.
    asked: bool,
    /// Others that waited with them have left, in a run that had room for more.
    rest: bool,
    /// The transport has noted that they wait.
    pub(crate) noted: bool,
}

impl Joining {
    /// Written frames wait no longer.
    pub(crate) fn hurry(&mut self) {
        self.asked = true;
    }

    /// The frame written now, or the next one, is long or belongs to a longer message.
    #[inline]
    pub(crate) fn lengthen(&mut self) {
        self.long = true;
    }

    /// Packets have left beside those in flight; whether they were all that there were, and whether
    /// they were a whole run.
    #[inline]
    pub(crate) fn left(&mut self, now: Instant, in_flight: u32, all: bool, whole: bool) {
        if self.departed != now {
            (self.before, self.departed, self.fresh) = (self.departed, now, in_flight == 0);
        }
        (self.long, self.asked, self.rest) = (self.long && !all, self.asked && !all, !all && !whole);
        self.noted = false;
    }

    /// Whether runs follow one another: not those of one message, which leave at one instant.
    #[inline]
    fn is_stream(&self, now: Instant) -> bool {
        let last = if self.departed == now { self.before } else { self.departed };
        !self.fresh && now.since(last) < STREAM_WITHIN
    }
}

impl Tx {
    /// Whether a short frame that is written now would leave at once in a packet of its own, if the
    /// windows let it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.next == self.end && self.flying < IN_FLIGHT_LEAST && self.lost.is_empty() && self.forced == 0 && !self.more && !self.losses.by_channels
    }

    /// Whether what has not left may still wait for more, the time aside.
    //= P-JOIN-2
    #[inline]
    pub(crate) fn is_joinable(&self, bytes_max: usize) -> bool {
        !self.joining.long && !self.joining.asked && !self.joining.rest && self.next != self.end && self.unsent() < bytes_max
    }

    /// Whether what has not left waits for more.
    //= P-JOIN-1
    #[inline]
    pub(crate) fn is_joining(&self, allowance: &Allowance) -> bool {
        if self.flying < IN_FLIGHT_LEAST || allowance.now >= self.joining.departed + allowance.join_delay {
            return false;
        }
        self.is_joinable(allowance.join_bytes) || self.is_remainder(allowance)
    }

    /// Whether it is what a stream of long messages has left over: less than a whole run, which the
    /// next message may fill.
    //= P-JOIN-3
    #[inline]
    fn is_remainder(&self, allowance: &Allowance) -> bool {
        let waiting = self.end.wrapping_sub(self.next);
        self.joining.long && !self.joining.asked && !self.joining.rest && waiting > 0 && waiting < allowance.run && self.joining.is_stream(allowance.now)
    }

    /// When what waits for more leaves at the latest; `None`: nothing does, or not for that.
    #[inline]
    pub(crate) fn joining_until(&self, allowance: &Allowance) -> Option<Instant> {
        self.is_joining(allowance).then(|| self.joining.departed + allowance.join_delay)
    }
}
