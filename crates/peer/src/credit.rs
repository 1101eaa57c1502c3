// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credits: the flow control of one connection.
//!
//! Each side counts the messages that it has sent and those that it has handled. Every message
//! carries the sender's `handled` count, so the peer learns how many of its messages are handled. A
//! side may have `window` messages outstanding. A side with nothing else to send tells its count in
//! a message of its own after `tell_after` messages; such a message needs no credit. So an inbox
//! with room for the window and those messages never overflows.
//!
//! The counts wrap. A layer chooses their width: the one that its headers carry.

use core::fmt::Debug;

/// A count that wraps.
pub trait Count: Copy + Debug + Ord + Default {
    /// The distance from `earlier` to here.
    fn since(self, earlier: Self) -> Self;
    /// The count after this one.
    fn next(self) -> Self;
}

macro_rules! count {
    ($($type:ty)*) => {$(
        impl Count for $type {
            #[inline(always)]
            fn since(self, earlier: Self) -> Self {
                self.wrapping_sub(earlier)
            }
            #[inline(always)]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }
        }
    )*};
}
count!(u16 u32);

/// The counts of one side of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Credits<N = u32> {
    window: N,
    tell_after: N,
    sent: N,
    acked: N,
    handled: N,
    told: N,
}

impl<N: Count> Credits<N> {
    /// A new connection: at most `window` messages are outstanding, and the peer is told after
    /// `tell_after` of its messages.
    pub fn new(window: N, tell_after: N) -> Self {
        let zero = N::default();
        Self { window, tell_after, sent: zero, acked: zero, handled: zero, told: zero }
    }

    /// The counts as if so many messages had passed in each direction: for tests of counts that
    /// wrap.
    pub fn starting_at(mut self, count: N) -> Self {
        (self.sent, self.acked, self.handled, self.told) = (count, count, count, count);
        self
    }

    // ---- messages to the peer

    /// Messages that may be outstanding from now on.
    pub fn set_window(&mut self, window: N) {
        self.window = window;
    }

    /// Messages that may be outstanding.
    #[inline(always)]
    pub fn window(&self) -> N {
        self.window
    }

    /// Messages sent.
    #[inline(always)]
    pub fn sent(&self) -> N {
        self.sent
    }

    /// Messages that the peer has handled, as far as it has told.
    #[inline(always)]
    pub fn acked(&self) -> N {
        self.acked
    }

    /// Messages that the peer has not told to be handled.
    #[inline(always)]
    pub fn outstanding(&self) -> N {
        self.sent.since(self.acked)
    }

    /// Whether a message that needs a credit may leave.
    #[inline(always)]
    pub fn has_credit(&self) -> bool {
        self.outstanding() < self.window
    }

    /// A message that needs a credit leaves.
    #[inline(always)]
    pub fn has_sent(&mut self) {
        self.sent = self.sent.next();
    }

    /// The peer has handled `handled` messages. Returns how many more than it had told before, or
    /// `None` if it cannot have: then nothing changes.
    #[inline(always)]
    pub fn acknowledge(&mut self, handled: N) -> Option<N> {
        let more = handled.since(self.acked);
        if more > self.outstanding() {
            return None;
        }
        self.acked = handled;
        Some(more)
    }

    /// Gives up on the oldest outstanding message; its number.
    pub fn give_up_oldest(&mut self) -> Option<N> {
        let number = self.acked;
        (number != self.sent).then(|| self.acked = number.next())?;
        Some(number)
    }

    // ---- messages of the peer

    /// Messages handled: the count that each message to the peer carries.
    #[inline(always)]
    pub fn handled(&self) -> N {
        self.handled
    }

    /// A message of the peer that needed a credit is handled.
    #[inline(always)]
    pub fn has_handled(&mut self) {
        self.handled = self.handled.next();
    }

    /// The last message counted by [`has_handled`](Self::has_handled) is not handled after all: its
    /// answer could not leave. Nothing was told since.
    pub fn unhandle(&mut self, before: N) {
        self.handled = before;
    }

    /// A message to the peer carries the count, or is about to.
    #[inline(always)]
    pub fn has_told(&mut self) {
        self.told = self.handled;
    }

    /// Messages handled that the peer has not been told of.
    #[inline(always)]
    pub fn untold(&self) -> N {
        self.handled.since(self.told)
    }

    /// Whether the peer must be told now.
    #[inline(always)]
    pub fn owes(&self) -> bool {
        self.untold() >= self.tell_after
    }

    /// The peer has handled `handled` messages, and this side one more of the peer's. `false`: the
    /// peer cannot have, or it must be told; then nothing changes.
    #[inline(always)]
    pub fn exchange(&mut self, handled: N) -> bool {
        let next = self.handled.next();
        if next.since(self.told) >= self.tell_after || self.acknowledge(handled).is_none() {
            return false;
        }
        self.handled = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_peer_cannot_handle_what_was_not_sent() {
        let mut credits = Credits::new(2u16, 1).starting_at(u16::MAX);
        assert!(credits.has_credit());
        credits.has_sent();
        credits.has_sent();
        assert_eq!((credits.has_credit(), credits.outstanding()), (false, 2));
        assert_eq!(credits.acknowledge(2), None);
        assert_eq!((credits.acknowledge(0), credits.outstanding()), (Some(1), 1));
        assert_eq!(credits.acknowledge(u16::MAX), None);
        assert_eq!(credits.give_up_oldest(), Some(0));
        assert_eq!(credits.give_up_oldest(), None);
    }

    proptest! {
        /// Two sides that obey the rules: no more than the window is ever outstanding, no count is
        /// refused, and both sides agree when everything has arrived.
        #[test]
        fn two_sides_never_exceed_the_window(window in 1u32..40, start: u32, steps in prop::collection::vec(0u8..4, 0..400)) {
            let tell_after = window.div_ceil(4);
            let mut sides = [Credits::new(window, tell_after).starting_at(start); 2];
            // Messages under way, by the side that gets them: whether each needs a credit, and its
            // count.
            let mut ways: [std::collections::VecDeque<(bool, u32)>; 2] = Default::default();
            for step in steps {
                let (from, to) = (usize::from(step & 1), usize::from(!step & 1));
                if step < 2 {
                    if sides[from].has_credit() {
                        ways[to].push_back((true, sides[from].handled()));
                        sides[from].has_sent();
                        sides[from].has_told();
                    }
                } else if let Some((counts, handled)) = ways[from].pop_front() {
                    prop_assert!(sides[from].acknowledge(handled).is_some());
                    if counts {
                        sides[from].has_handled();
                    }
                    if sides[from].owes() {
                        ways[to].push_back((false, sides[from].handled()));
                        sides[from].has_told();
                    }
                }
                for (side, way) in [(0, 1), (1, 0)] {
                    let under_way = ways[way].iter().filter(|(counts, _)| *counts).count() as u32;
                    prop_assert!(under_way <= window && sides[side].outstanding() <= window && sides[way].untold() < tell_after);
                }
            }
            while let Some(to) = ways.iter().position(|way| !way.is_empty()) {
                let (counts, handled) = ways[to].pop_front().unwrap();
                prop_assert!(sides[to].acknowledge(handled).is_some());
                if counts {
                    sides[to].has_handled();
                }
            }
            for (side, other) in [(0, 1), (1, 0)] {
                prop_assert_eq!(sides[side].sent(), sides[other].handled());
                prop_assert_eq!(sides[side].outstanding(), sides[other].untold() .max(sides[side].outstanding()));
            }
        }
    }
}
