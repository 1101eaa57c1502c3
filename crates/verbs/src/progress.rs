// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: whoever polls a completion queue or waits for an event moves everything. A thread stands in when nobody has for a millisecond, and at once when a completion queue is armed; so a peer's writes, reads and
//! atomics are done while the program computes, and descriptors become readable. While nothing comes it sleeps.
//!
//! What one thread does alone costs no locked instruction: the lock is a token biased to it, like the NIC's. Locks are taken in the order core, NIC, channel.

use crate::core::Core;
use crate::types::Error;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use bellwire_memory::token::{Claim, Held, Token};
use bellwire_via::{Engine, Nic};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) type HostWire = bellwire_via::wire::host::HostWire;

/// Most steps in one poll.
const STEPS: u32 = 32;
/// How long nobody has polled before the thread does.
const TICK: Duration = Duration::from_millis(1);
/// The same after it had something to do.
const TICK_MIN: Duration = Duration::from_micros(100);
/// Longest sleep; while something waits to leave, which nobody says when it can.
const LOOK: Duration = Duration::from_secs(10);
const SLICE: Duration = Duration::from_millis(1);
/// How long the thread holds answers back that a request of the program may take along.
const LINGER: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct Shared {
    // Before the NIC: nothing of it outlives that.
    pub core: Token<Core>,
    pub nic: Nic,
    /// Looks of the program.
    pub polls: AtomicU64,
    /// Completion queues that are armed.
    pub armed: AtomicU32,
    pub closing: AtomicBool,
    /// The thread sleeps for long; written with the core held.
    pub dozing: AtomicBool,
    /// The thread sleeps on it between two looks at whether it is needed.
    pub pace: Mutex<()>,
    pub bell: Condvar,
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn clock() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    #[inline]
    pub(crate) fn core(&self) -> Held<'_, Core> {
        self.core.enter(Claim::Bias)
    }

    /// Runs `f` on the machine and the engine.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Engine<HostWire>) -> Result<R, Error>) -> Result<R, Error> {
        let mut core = self.core();
        let mut outcome = Err(Error::InChild);
        self.nic.try_with(|engine| {
            outcome = f(&mut core, engine);
            Ok(())
        })?;
        self.rouse(&core);
        outcome
    }

    /// What waits to leave or to be said, or for a time, is the thread's business if the program does not look again.
    #[inline]
    pub(crate) fn rouse(&self, core: &Core) {
        // Relaxed: both sides hold the core.
        if !(core.unsent.is_empty() && core.owing.is_empty() && core.timers.is_empty()) && self.dozing.load(Ordering::Relaxed) {
            self.dozing.store(false, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Looks until there is nothing, or `until`. Returns whether anything was there.
    #[inline]
    pub(crate) fn look(&self, core: &mut Core, mut until: impl FnMut(&Core) -> bool) -> Result<bool, Error> {
        let (mut moved, mut requests) = (false, 0);
        self.nic.poll_with(|engine| {
            if !core.timers.is_empty() {
                core.now = clock();
                core.timeouts(engine);
            }
            requests = engine.connection_requests();
            for _ in 0..STEPS {
                if !core.step(engine) {
                    break;
                }
                moved = true;
                if until(core) {
                    break;
                }
            }
            Ok(Some(()))
        })?;
        if requests != core.acceptor.seen() {
            self.nic.now();
            self.nic.with(|engine| core.accept(engine));
            moved = true;
        }
        self.rouse(core);
        // Relaxed: a hint for the thread, which looks again.
        self.armed.store(core.armed, Ordering::Relaxed);
        Ok(moved)
    }

    /// Sleeps until something may have come, or `until`, or `limit`.
    pub(crate) fn sleep(&self, limit: Duration, until: impl Fn() -> bool) -> Result<(), Error> {
        let core = self.core();
        let (inbox, accepted) = (core.inbox, core.acceptor.seen());
        let mut slice = match (core.owing.is_empty(), core.unsent.is_empty()) {
            (true, true) => limit,
            (true, false) => limit.min(SLICE),
            (false, _) => limit.min(LINGER),
        };
        if let Some((at, _)) = core.timers.first() {
            slice = slice.min(Duration::from_nanos(at.saturating_sub(clock()).max(1000)));
        }
        // Relaxed: with the core held.
        self.dozing.store(slice > SLICE, Ordering::Relaxed);
        drop(core);
        // Relaxed: who wakes us has changed it before.
        let roused = || slice > SLICE && !self.dozing.load(Ordering::Relaxed);
        let outcome = self.nic.inbox_wait_until(inbox, accepted, Some(slice), || roused() || until());
        // Relaxed: at worst it is woken once too often.
        self.dozing.store(false, Ordering::Relaxed);
        match outcome {
            Ok(()) | Err(bellwire_via::Error::Timeout) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Has whoever sleeps look again.
    pub(crate) fn wake(&self) {
        self.nic.with(Engine::rouse);
    }

    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: only says that it ends; who set it wakes us.
        self.closing.load(Ordering::Relaxed)
    }
}

/// Whether the thread holds answers back. A program that posts a request for each that comes (a ping-pong) takes them along, and its peer then finds them together with what it waits for, in one look: told at once, they would have
/// the peer look at its memory only, where nothing comes without its own thread. Who has posted nothing since answers were held in vain is not waited for.
#[derive(Debug, Default)]
struct Patience {
    /// Requests that the program had posted when it was last waited for in vain.
    in_vain: u64,
    /// The same when answers began to be held back, and the time.
    held: Option<(u64, u64)>,
}

impl Patience {
    fn lasts(&mut self, core: &Core) -> bool {
        if let Some((posts, since)) = self.held.filter(|(posts, _)| *posts == core.posts)
            && clock().saturating_sub(since) >= LINGER.as_nanos() as u64
        {
            self.in_vain = posts;
        }
        core.posts != self.in_vain
    }

    fn note(&mut self, core: &Core) {
        self.held = if core.owing.is_empty() { None } else { self.held.filter(|(posts, _)| *posts == core.posts).or_else(|| Some((core.posts, clock()))) };
    }
}

/// The thread that stands in.
pub(crate) fn run(shared: &Shared) {
    let (mut seen, mut tick, mut patience) = (0, TICK, Patience::default());
    while !shared.is_closing() {
        // Relaxed: hints.
        let (polls, armed) = (shared.polls.load(Ordering::Relaxed), shared.armed.load(Ordering::Relaxed));
        let polled = core::mem::replace(&mut seen, polls) != polls;
        if polled && armed == 0 {
            drop(shared.bell.wait_timeout(lock(&shared.pace), tick));
            tick = (2 * tick).min(TICK);
            continue;
        }
        if shared.core().is_down() {
            // What has come stays where it is: sleeping for it would be none.
            drop(shared.bell.wait_timeout(lock(&shared.pace), TICK));
        } else if shared.sleep(LOOK, || shared.is_closing()).is_err() {
            return;
        }
        // Relaxed: a hint.
        while !shared.is_closing() && (armed != 0 || shared.polls.load(Ordering::Relaxed) == seen) {
            let mut core = shared.core();
            core.lingers = patience.lasts(&core);
            let moved = shared.look(&mut core, |_| false);
            core.lingers = false;
            patience.note(&core);
            drop(core);
            if !matches!(moved, Ok(true)) {
                break;
            }
            // The program looks at its memory, not here, and is waited for.
            tick = TICK_MIN;
        }
    }
}

impl Core {
    #[inline]
    pub(crate) fn has_entries(&self, cq: u32) -> bool {
        self.cqs.get(bellwire_via::handle::Handle::from_raw(cq)).is_none_or(|q| !q.entries.is_empty())
    }
}
