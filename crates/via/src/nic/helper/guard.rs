// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper on guard: frames wait to share a packet, and the application, which posted them, may
//! compute instead of looking again. So nothing waits for longer than [`TICK`], about.

use super::{Helper, Mode, Woken};
use crate::time::Duration;
use bellwire_memory::token::Claim;
use rustix::event::{PollFd, PollFlags, poll};

/// Between two looks.
pub(super) const TICK: Duration = Duration::from_micros(200);
/// Looks, in all, between two times that it is asked whether a guard is needed; and looks in a row
/// that found nobody polling, after which the helper takes over altogether.
const TICKS_PER_ROUND: u32 = 100;
const ABSENT_TICKS_MAX: u32 = 25;

/// The state of the guard.
#[derive(Debug, Default)]
pub(super) struct Guarding {
    pub(super) on: bool,
    ticks: u32,
    absent: u32,
}

impl Helper<'_> {
    /// How long the helper ticks apart, if it ticks.
    pub(super) fn tick_length(&self, usual: Duration) -> Duration {
        if self.guarding.on { usual.min(TICK) } else { usual }
    }

    /// Sleeps as long as a guard does, unless something happens. (Sleeping on the epoll set alone
    /// is exact to the millisecond only.)
    pub(super) fn sleep_on_guard(&self, time: Duration) {
        let _ = poll(&mut [PollFd::new(&self.shared.port.epoll, PollFlags::IN)], Some(&super::timespec(time)));
    }

    pub(super) fn begin_guard(&mut self) {
        self.guarding = Guarding { on: true, ..Guarding::default() };
    }

    /// One look. A poller sees to it itself.
    pub(super) fn guard(&mut self) {
        self.guarding.ticks += 1;
        if self.guarding.ticks.is_multiple_of(TICKS_PER_ROUND) {
            self.guarding.on = !self.shared.token.enter(Claim::Visit).engine.wire.guard_may_go();
        }
        if self.has_polled() {
            self.guarding.absent = 0;
            self.mode = Mode::Tick(self.tick_after(super::TICK));
            return;
        }
        self.guarding.absent += 1;
        if self.guarding.absent >= ABSENT_TICKS_MAX {
            self.guarding.absent = 0;
            return self.settle_down();
        }
        self.visit(Woken::default());
    }
}
