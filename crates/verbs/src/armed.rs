// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the helper thread sees to completions at once, while a completion queue is armed.
//!
//! A program hears of completions in one of two ways. It may sleep on the descriptor of a channel
//! by `poll` or `epoll`, of which the device learns nothing. Then the helper serves it from the
//! moment that it arms a queue: peers ring, and each message wakes the helper. Or the program calls
//! `ibv_get_cq_event` on an empty channel. That call looks itself before it sleeps, so the helper
//! has nothing to do until then; what it did anyway, in the midst of a ping-pong, cost more than
//! the message.
//!
//! Which of the two a program does shows by that call. A program that goes over to the descriptor
//! shows by events that the helper delivers with no such call between them: the helper looks when
//! the program has not for a millisecond. So at most [`UNASKED_MAX`] events are late, by that time.

/// Events in a row that the helper delivers before it takes the program for one that sleeps on a
/// descriptor. One may be a coincidence: the helper was at work when the call began.
const UNASKED_MAX: u32 = 2;

/// The armed queues of a device, and how the program waits for their completions.
#[derive(Debug, Default)]
pub(crate) struct ArmedQueues {
    /// Completion queues that are armed.
    pub count: u32,
    /// Threads that sleep in `ibv_get_cq_event`, or are about to.
    pub sleepers: u32,
    /// The program is about to sleep for an event of connection management, most likely the answer
    /// to what it has just said.
    pub expects_event: bool,
    /// The helper steps the machine.
    pub is_helper: bool,
    /// The program waits by `ibv_get_cq_event`, which looks itself.
    waits_itself: bool,
    /// Events that the helper has delivered since the last such call, while nobody slept.
    unasked: u32,
}

impl ArmedQueues {
    /// Whether the helper must see to traffic at once, although the program has just polled.
    pub(crate) fn need_helper(&self) -> bool {
        self.expects_event || (self.count != 0 && (!self.waits_itself || self.sleepers != 0))
    }

    /// A thread of the program waits for completions, and has found no event.
    pub(crate) fn waits_itself(&mut self) {
        (self.waits_itself, self.unasked) = (true, 0);
    }

    /// The helper has told the program of a completion.
    pub(crate) fn told_unasked(&mut self) {
        if self.sleepers == 0 {
            self.unasked = self.unasked.saturating_add(1);
            self.waits_itself &= self.unasked < UNASKED_MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ArmedQueues, UNASKED_MAX};

    #[test]
    fn the_helper_is_needed_unless_the_program_looks_itself() {
        let mut a = ArmedQueues { count: 1, ..ArmedQueues::default() };
        // The descriptor alone.
        assert!(a.need_helper());
        a.waits_itself();
        assert!(!a.need_helper());
        // It sleeps, is told, and wakes.
        a.sleepers = 1;
        assert!(a.need_helper());
        a.told_unasked();
        a.sleepers = 0;
        assert!(!a.need_helper(), "it goes on as before");
        assert_eq!(UNASKED_MAX, 2);
        // Events that it did not wait for: one while it was about to.
        a.told_unasked();
        assert!(!a.need_helper());
        a.waits_itself();
        a.told_unasked();
        assert!(!a.need_helper());
        a.told_unasked();
        assert!(a.need_helper());
        a.count = 0;
        assert!(!a.need_helper());
    }
}
