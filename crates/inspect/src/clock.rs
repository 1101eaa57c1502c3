// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time for measurements: a cheap tick counter for single round trips, and bounded patience for
//! loops that poll.
//!
//! Loops are timed as a whole with [`std::time::Instant`]; only the percentile benchmark needs a
//! stamp per round trip.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;

/// How many polls pass between two looks at the clock.
const POLLS_PER_LOOK: u32 = 1 << 14;

/// The processor's time stamp; elsewhere than on x86-64, the monotonic clock in nanoseconds.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        bellwire_memory::ticks::ticks()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// As [`ticks`], when all instructions before are done.
#[inline]
pub fn settled_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    ticks()
}

/// Nanoseconds per tick, measured over `time`.
pub fn ns_per_tick(time: Duration) -> f64 {
    let (start, start_ticks) = (Instant::now(), ticks());
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
    start.elapsed().as_nanos() as f64 / (ticks().wrapping_sub(start_ticks).max(1)) as f64
}

/// Computes for `time`, as a program does between two messages.
pub fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Ends a polling loop that would otherwise never end, at almost no cost per poll.
///
/// Every few thousand polls it also gives the processor away once, so that two polling processes on
/// one core still make progress.
#[derive(Debug)]
pub struct Patience {
    polls: u32,
    time: Duration,
    /// From the first look at the clocks on: one is read by a system call, which a loop that waits
    /// for one message with each patience cannot afford.
    deadlines: Option<Deadlines>,
}

#[derive(Clone, Copy, Debug)]
struct Deadlines {
    /// In the time that this thread has run.
    run: Duration,
    /// In real time, should this thread hardly run.
    at_last: Instant,
}

impl Deadlines {
    fn after(time: Duration) -> Self {
        Self { run: time_run() + time, at_last: Instant::now() + time * BUSY_FACTOR }
    }

    /// Whether they are over for a thread that has run for so long, at this time.
    fn are_over(&self, run: Duration, now: Instant) -> bool {
        run > self.run || now > self.at_last
    }
}

/// How many times longer than asked for patience lasts on a machine so busy that the poller hardly
/// runs.
const BUSY_FACTOR: u32 = 8;

/// The time that the calling thread has run.
fn time_run() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

impl Patience {
    /// Patience for `time` of polling, from a few thousand polls on: time in which other programs
    /// have the processor does not count, since they delay the other side just as much.
    #[inline]
    pub fn lasting(time: Duration) -> Self {
        Patience { polls: 0, time, deadlines: None }
    }

    /// To be called after each unsuccessful poll.
    ///
    /// # Errors
    /// Once the time is over.
    #[inline]
    pub fn tick(&mut self) -> Result<(), Error> {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_LOOK) { self.look() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self) -> Result<(), Error> {
        let deadlines = *self.deadlines.get_or_insert_with(|| Deadlines::after(self.time));
        if deadlines.are_over(time_run(), Instant::now()) {
            return Err(Error::failed("the other side did not answer in time"));
        }
        std::thread::yield_now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let mut patience = Patience::lasting(Duration::from_millis(1));
        let mut polls = 0u64;
        while patience.tick().is_ok() {
            polls += 1;
            assert!(polls < 1 << 40);
        }
        assert!(polls >= u64::from(POLLS_PER_LOOK) - 1);
    }

    #[test]
    fn time_of_others_does_not_count() {
        let time = Duration::from_millis(20);
        let (run, begun) = (time_run(), Instant::now());
        let deadlines = Deadlines::after(time);
        // A thread that does not run uses nothing up, until the last deadline.
        assert!(!deadlines.are_over(run, begun + 2 * time));
        assert!(deadlines.are_over(run, Instant::now() + (BUSY_FACTOR + 1) * time));
        // One that runs has used it up after that time.
        assert!(deadlines.are_over(time_run() + 2 * time, begun));
    }

    #[test]
    fn ticks_advance() {
        let scale = ns_per_tick(Duration::from_millis(2));
        assert!(scale > 0.0 && scale < 1000.0, "{scale}");
    }
}
