// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper thread: the work that must be done whether or not the application calls.
//!
//! It sleeps in `epoll` on the wire's control descriptor, a bell of its own, and the NIC's bell
//! (unless waiters sleep on that). In this order of depth:
//!
//! ```text
//!  deep      nothing pending; no CPU is used. Ends by: control (connections, peer death), a timer, being told (events, work left by a post), a ring.
//!            With duties (handlers, guarded links) or work left it has armed the bell before, so that peers ring.
//!  ticking   the application is active: every few milliseconds, is it still polling? (one load, no token) If not: move what there is, then deep.
//!  serving   it has found traffic while the application computes: it polls for a short while, then deep.
//! ```
//!
//! The helper enters with `Claim::Visit` and never gets the token's bias. While the application
//! polls it stays out of its way: kicks and ticks are answered by the application's own turns.

mod guard;

use super::handlers::{self, Job};
use super::machine::Ring;
use super::port::{BELL, CLOSE, CONTROL, DUTY, EVENTS, GUARD, STAT, TOLD, WORK};
use super::stat::Stat;
use super::state::Shared;
use super::{Core, clock, machine, timespec, wait};
use crate::time::{Duration, Instant};
use bellwire_memory::atomic::Ordering;
use bellwire_memory::pause::pause;
use bellwire_memory::processors;
use bellwire_memory::token::Claim;
use guard::Guarding;
use rustix::event::epoll;
use std::sync::Arc;

/// First tick after being told of work, and the following ones.
const TICK_FIRST: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(5);
/// Ticks in a row without anything pending, application polling, after which it sleeps deeply all
/// the same.
const QUIET_TICKS_MAX: u32 = 20;
/// How long it goes on polling after it has found something.
const LINGER: Duration = Duration::from_micros(20);
/// Pauses between two turns of the engine, and while it glances whether the application polls (some
/// microseconds).
const PAUSES_PER_TURN: u32 = 32;
const PAUSES_PER_GLANCE: u32 = 64;
/// Turns before it looks for something else to do.
const TURNS_MAX: u32 = 4096;

/// How the helper sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Deep(Instant),
    Tick(Duration),
}

/// Why it woke.
#[derive(Clone, Copy, Debug, Default)]
struct Woken {
    control: bool,
    bell: bool,
    guard: bool,
    reasons: u32,
    /// Sockets of the live view, one bit each.
    stat: u32,
}

struct Helper<'a> {
    shared: &'a Shared,
    mode: Mode,
    /// The application's turns, when last looked at.
    polls: u32,
    quiet_ticks: u32,
    guarding: Guarding,
    /// Ticks in a row that found the program of a NIC with a machine polling.
    steady: u32,
    /// The next tick of a NIC with a machine.
    pace: Duration,
    /// The scheduler was asked for short turns.
    has_short_turns: bool,
    jobs: Vec<Job>,
    /// What the machine has for threads of the program, to be rung without the token.
    rings: Vec<Arc<dyn Ring>>,
    stat: Stat,
}

/// The helper's thread.
pub(super) fn run(shared: &Shared, stat: Stat) {
    let mut helper = Helper {
        shared,
        mode: Mode::Tick(Duration(0)),
        polls: 0,
        quiet_ticks: 0,
        guarding: Guarding::default(),
        steady: 0,
        pace: machine::TICK,
        has_short_turns: false,
        jobs: Vec::new(),
        rings: Vec::new(),
        stat,
    };
    loop {
        let woken = helper.sleep();
        if woken.reasons & CLOSE != 0 {
            return;
        }
        if woken.stat != 0 {
            helper.stat.serve(shared, woken.stat);
        }
        helper.serve(woken);
    }
}

impl Helper<'_> {
    fn sleep(&mut self) -> Woken {
        let left = match self.mode {
            Mode::Deep(Instant::NEVER) => None,
            Mode::Deep(until) => Some(until.since(clock())),
            Mode::Tick(d) => Some(self.tick_length(d)),
        };
        let mut timeout = left.map(timespec);
        if let Some(time) = left.filter(|left| (self.guarding.on && *left <= guard::TICK) || (self.is_driven() && *left < machine::TICK)) {
            self.sleep_on_guard(time);
            timeout = Some(timespec(Duration(0)));
        }
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(u64::MAX) }; 4];
        // A signal is a wake-up without a reason.
        let n = epoll::wait(&self.shared.port.epoll, &mut events[..], timeout.as_ref()).unwrap_or(0);
        let mut woken = Woken::default();
        for e in &events[..n] {
            match e.data.u64() {
                CONTROL => woken.control = true,
                TOLD => {
                    let _ = self.shared.port.told.clear();
                }
                BELL => woken.bell = true,
                GUARD => woken.guard = true,
                slot @ STAT.. => woken.stat |= 1 << ((slot - STAT) % 32),
                _ => {}
            }
        }
        // Acquire: pairs with the release in tell().
        woken.reasons = self.shared.port.reasons.swap(0, Ordering::Acquire);
        woken
    }

    fn serve(&mut self, woken: Woken) {
        if woken.guard {
            self.begin_guard();
        }
        if woken.reasons & DUTY != 0 && self.is_driven() && !self.has_short_turns {
            // It serves peers between two turns of a program that computes, not after them.
            self.has_short_turns = processors::ask_short_turns();
        }
        let timer = matches!(self.mode, Mode::Deep(until) if until <= clock());
        if woken.control || timer || woken.reasons & EVENTS != 0 {
            self.visit(woken);
            return self.go_on();
        }
        if woken.reasons & WORK != 0 && !woken.bell {
            // Its poster is likely to poll now: look again in a moment.
            self.has_polled();
            self.quiet_ticks = 0;
            self.mode = Mode::Tick(self.tick_after(TICK_FIRST));
            return;
        }
        if woken.bell || woken.reasons & DUTY != 0 {
            if woken.reasons != 0 {
                // The thread that told us counts on us to be awake.
                self.mode = Mode::Tick(self.tick_after(TICK));
            }
            // One of many on few processors polls, but not at this moment: we run in its place, or
            // another does; or it polls a few times and computes a little. Serving it at each ring,
            // and arming the bell anew, would go on for ever.
            let has_polled = woken.reasons == 0 && self.has_polled();
            // Relaxed: a hint, as is the glance that it saves. A program that sleeps on a
            // completion queue has just polled, but does not go on.
            let may_poll = self.shared.armed_queues.load(Ordering::Relaxed) == 0;
            if may_poll && has_polled && self.stay_out() {
                self.mode = Mode::Tick(self.tick_after(TICK_FIRST));
            } else if may_poll && !self.is_driven() && self.is_polling() {
                // It may stop at any moment without arming anew.
                self.mode = Mode::Tick(self.tick_after(TICK));
            } else {
                self.settle_down();
            }
            return;
        }
        match self.mode {
            Mode::Tick(_) if woken.guard => _ = self.has_polled(),
            Mode::Tick(_) if self.guarding.on => self.guard(),
            Mode::Tick(_) => self.tick(),
            // A thread that posts while we sleep so wakes us by more than that.
            Mode::Deep(_) => {}
        }
    }

    /// Peers need not ring until the next tick, which looks whether the program still polls: the
    /// next ring, a microsecond later, would find that it has not polled since this one. `false`:
    /// the program is about to sleep on a completion queue after all, and this ring may be for it.
    fn stay_out(&self) -> bool {
        let mut core = self.shared.token.enter(Claim::Visit);
        if core.is_armed() {
            return false;
        }
        core.set_deep(Instant(0));
        if core.waiters.is_empty() {
            core.disarm();
            core.engine.wire.clear_bell();
        }
        if core.needs_settling() {
            core.settle(self.shared);
        }
        true
    }

    /// After something that had to be done: who moves the rest?
    fn go_on(&mut self) {
        let is_polling = if self.is_driven() { self.has_polled() } else { self.is_polling() };
        if is_polling {
            self.mode = Mode::Tick(self.tick_after(TICK));
        } else {
            self.settle_down();
        }
    }

    fn tick(&mut self) {
        if !self.has_polled() {
            self.steady = 0;
            return self.settle_down();
        }
        self.steady = self.steady.saturating_add(1);
        self.mode = Mode::Tick(self.tick_after(TICK));
        self.quiet_ticks += 1;
        if self.quiet_ticks >= QUIET_TICKS_MAX {
            self.quiet_ticks = 0;
            let mut core = self.shared.token.enter(Claim::Visit);
            if !core.has_duties() && !core.engine.has_work() && core.next_timeout() == Instant::NEVER && !core.engine.has_events() {
                core.set_deep(Instant::NEVER);
                self.mode = Mode::Deep(Instant::NEVER);
            }
        }
    }

    /// Whether there is a machine, for which the program polls something else than the engine.
    fn is_driven(&self) -> bool {
        // Relaxed: a hint; what it is about is looked at under the token.
        self.shared.is_driven.load(Ordering::Relaxed)
    }

    /// How long to leave a program alone that polls. One with a machine may turn to its own memory
    /// next, where nothing arrives unless the helper looks: if the helper has just found something,
    /// it looks again soon, and less and less often while the program goes on polling.
    fn tick_after(&mut self, usual: Duration) -> Duration {
        if !self.is_driven() {
            return usual;
        }
        let most = if self.steady >= machine::STEADY { machine::TICK_STEADY } else { machine::TICK };
        let next = Duration((2 * self.pace.0).min(most.0));
        core::mem::replace(&mut self.pace, next)
    }

    fn polls_now(&self) -> u32 {
        // Relaxed: a sign of life; nothing is read through it.
        self.shared.polls.0.load(Ordering::Relaxed)
    }

    /// Whether the application has made turns since this was last asked.
    fn has_polled(&mut self) -> bool {
        let now = self.polls_now();
        core::mem::replace(&mut self.polls, now) != now
    }

    /// Whether the application is making turns right now.
    fn is_polling(&mut self) -> bool {
        self.polls = self.polls_now();
        for _ in 0..PAUSES_PER_GLANCE {
            pause();
            if self.has_polled() {
                return true;
            }
        }
        false
    }

    /// Control, events, timers: at once, whatever the application does.
    fn visit(&mut self, woken: Woken) {
        let mut core = self.shared.token.enter(Claim::Visit);
        core.set_deep(Instant(0));
        core.engine.set_now(clock());
        if woken.control {
            core.engine.handle_control();
            if core.armed {
                // A link that has come up has not seen the barrier yet.
                let for_room = core.engine.wire().is_armed_for_room();
                core.engine.wire.arm(for_room);
            }
        }
        let now = core.engine.now();
        for _ in 0..8 {
            if !core.turn(self.shared, now) {
                break;
            }
        }
        handlers::collect(&mut core, &mut self.jobs);
        core.take_rings(&mut self.rings);
        if core.needs_settling() {
            core.settle(self.shared);
        }
        drop(core);
        self.ring();
        handlers::run(self.shared, &mut self.jobs);
        handlers::report_kept(self.shared);
    }

    /// The application computes, waits, or is idle: move what there is, then sleep deeply.
    fn settle_down(&mut self) {
        self.has_polled();
        let mut linger_until = Instant(0);
        for _ in 0..TURNS_MAX {
            let now = clock();
            let mut core = self.shared.token.enter(Claim::Visit);
            core.set_deep(Instant(0));
            core.engine.set_now(now);
            let watched = core.is_armed();
            let mut moved = core.turn(self.shared, now);
            if !moved && now >= linger_until {
                moved = self.prepare_sleep(&mut core);
            }
            handlers::collect(&mut core, &mut self.jobs);
            if let Some(orphans) = self.orphans(&mut core, moved) {
                self.jobs.push(orphans);
            }
            let deep = !moved && now >= linger_until && self.jobs.is_empty();
            if deep {
                let until = core.next_timeout();
                core.set_deep(until);
                self.mode = Mode::Deep(until);
            } else if moved && !self.is_driven() && core.waiters.is_empty() && !core.watches.any_armed() {
                // Awake: peers need not ring for each message.
                core.disarm();
                core.engine.wire.clear_bell();
            }
            if core.needs_settling() {
                core.settle(self.shared);
            }
            let woke_program = watched && !core.is_armed();
            core.take_rings(&mut self.rings);
            drop(core);
            self.ring();
            if deep {
                return;
            }
            if woke_program && self.jobs.is_empty() {
                // It takes over; if it does not, the next tick shows.
                self.mode = Mode::Tick(TICK_FIRST);
                return;
            }
            if moved {
                // From now on: a machine's turn may take as long as that.
                linger_until = clock() + LINGER;
                (self.pace, self.steady) = (machine::TICK_MIN, 0);
            }
            handlers::run(self.shared, &mut self.jobs);
            (0..PAUSES_PER_TURN).for_each(|_| pause());
            if self.has_polled() {
                self.mode = Mode::Tick(self.tick_after(TICK));
                return;
            }
            // Relaxed: only whether to stop here; sleep() takes the reasons.
            if self.shared.port.reasons.load(Ordering::Relaxed) != 0 {
                break;
            }
        }
        self.mode = Mode::Tick(Duration(0));
    }

    /// Wakes threads of the program, which want the token.
    fn ring(&mut self) {
        self.rings.drain(..).for_each(|ring| ring.ring());
    }

    /// Arms the bell if somebody may need us while we sleep. True if there was something to move
    /// after all.
    fn prepare_sleep(&self, core: &mut Core) -> bool {
        if !core.waiters.is_empty() {
            // The bell is theirs, and so is what it announces.
            return false;
        }
        if !core.has_duties() && !core.engine.has_work() {
            core.disarm();
            return false;
        }
        if self.is_driven() && core.armed && !core.bell_is_waiters && !core.needs_arming() {
            // The bell stays armed while the helper serves, as it does for a waiter. A ring since
            // the last turn ends the next sleep.
            core.linger();
            core.helper_sleeps = core.helper_sleeps.wrapping_add(1);
            if core.helper_sleeps.is_multiple_of(wait::SLEEPS_PER_CLEAR) || core.engine.wire().bell_must_be_cleared() {
                core.engine.wire.clear_bell();
                return core.turn(self.shared, core.engine.now());
            }
            return false;
        }
        core.engine.wire.clear_bell();
        core.arm_for_helper(&self.shared.port);
        let now = core.engine.now();
        core.turn(self.shared, now) || core.needs_arming()
    }

    /// Now and then handlers are left behind by VIs that were destroyed; going to sleep is the time
    /// to find them.
    fn orphans(&self, core: &mut Core, moved: bool) -> Option<Job> {
        if moved || core.handlers.is_empty() { None } else { handlers::take_orphans(core) }
    }
}
