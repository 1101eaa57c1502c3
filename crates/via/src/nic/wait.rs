// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits: spin for a while, then sleep until the bell, another thread of this process, or a timer.
//!
//! Sleeping waiters stand in a list under the token. The first is the *leader*: it sleeps on the
//! NIC's bell and on the leader's bell (`Port`), and makes progress for all; the others sleep on
//! bells of their own. A thread that finds that completions have come rings for those waiters for
//! whom there is something (`Core::settle`). A leader that leaves wakes the next. Threads that wait
//! for requests for connections are no waiters in this sense; see `request_wait.rs`.
//!
//! No wake-up is lost: a waiter registers, arms, turns the engine and looks, all under the token;
//! whatever completes later under the token finds it in the list, and whatever a peer publishes
//! later rings (N3). The leader's two bells are edge-triggered in one `epoll` set, so it need not
//! silence them: a ring that nobody slept through stays in the set, and the next leader looks once
//! too often.
//!
//! System calls of a sleep in steady state: one by the leader (`epoll_pwait2`; between hosts
//! `ppoll`, on an only peer's socket beside), two by the peer that wakes it (none between hosts).
//! The bell stays armed, and waiters', when they leave; the helper takes it back at its next tick
//! if the application does not wait again.

use super::port::{WORK, WokenBy};
use super::spin::Spin;
use super::state::Shared;
use super::target::Target;
use super::waiters::Waiter;
use super::waits::Waits;
use super::{Core, SPIN_MAX, clock, saturating_ns};
use crate::engine::Engine;
use crate::error::Error;
use crate::handles::ViHandle;
use crate::time::{Duration, Instant};
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use bellwire_memory::pause::pause;
use bellwire_memory::token::Claim;
use rustix::event::{PollFd, PollFlags, poll};
use std::net::UdpSocket;
use std::sync::Arc;

/// Pauses between two looks of a spinning wait.
const PAUSES_PER_LOOK: u32 = 4;
/// Looks between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 16;
/// Turns of the engine before a waiter sleeps although more could move.
pub(super) const TURNS_BEFORE_SLEEP: u32 = 32;
/// First and longest time between two kicks of the peers.
const KICK_MIN: Duration = Duration::from_millis(1);
const KICK_MAX: Duration = Duration::from_millis(128);
/// Sleeps between two times that the leader silences the bells where a ring wakes it all the same;
/// elsewhere (B2 of `memory::event`) it does before each.
pub(super) const SLEEPS_PER_CLEAR: u64 = 256;
/// Of the waits that end before the clock has been looked at again, one in so many is timed. (A
/// prime: programs have rhythms.)
const WAITS_PER_TIMED: u64 = 13;

/// Looks without the pauses of a spinning thread: the look is for a thing that was there a moment
/// ago, not for one that may come.
pub(super) fn look_once<R>(engine: &mut Engine<HostWire>, take: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<Option<R>, Error> {
    engine.polled_last = ViHandle::from_raw(0);
    take(engine)
}

pub(super) type Take<'a, R> = &'a mut dyn FnMut(&mut Engine<HostWire>) -> Result<Option<R>, Error>;

/// Waits until `take` finds something, or `deadline`. `take` makes progress if it must.
#[cold]
pub(super) fn wait_for<R>(shared: &Shared, target: Target, mut now: Instant, deadline: Instant, spin: Spin, mut take: Take<'_, R>) -> Result<R, Error> {
    let began = now;
    if let Some(found) = spin_first(shared, target, &mut now, deadline, spin, &mut take)? {
        return Ok(found);
    }
    let mut place = Place::register(shared, target, began, now)?;
    loop {
        match place.look(deadline, take)? {
            Look::Found(found) => return Ok(found),
            Look::Again => place.now = clock(),
            Look::Sleep { until, leads } => place.sleep(until, leads),
        }
    }
}

/// Polls before sleeping, for as long as was asked for, or as has lately been worth it.
pub(super) fn spin_first<R>(shared: &Shared, target: Target, now: &mut Instant, deadline: Instant, spin: Spin, take: Take<'_, R>) -> Result<Option<R>, Error> {
    let began = *now;
    let (budget, ran) = {
        let mut core = shared.token.enter(Claim::Bias);
        let budget = match spin {
            Spin::Nic => core.spin.begin(),
            Spin::For(time) => saturating_ns(time.min(SPIN_MAX)),
        };
        (budget, core.crowd.ran())
    };
    if budget == 0 {
        return Ok(None);
    }
    let found = poll_for(shared, now, Duration(budget), deadline, (spin == Spin::Nic).then_some(ran), take);
    let mut core = shared.token.enter(Claim::Bias);
    match found {
        Ok(None) if spin == Spin::Nic => {
            let crowded = core.crowd.ran() != ran;
            core.spin.was_vain(crowded);
        }
        Ok(None) => {}
        Ok(Some(_)) | Err(_) => {
            if spin == Spin::Nic && found.is_ok() {
                core.spin.paid();
            }
            count_polled(&mut core.waiters.counted, target, began, *now);
        }
    }
    found
}

/// Counts a wait that ended while it polled. `now` is when it looked at the clock last.
fn count_polled(counted: &mut Waits, target: Target, began: Instant, now: Instant) {
    let Some(waits) = counted.at(target) else { return };
    waits.count += 1;
    if now != began {
        waits.time(now.since(began), 1);
    } else if waits.count.is_multiple_of(WAITS_PER_TIMED) {
        waits.time(clock().since(began), WAITS_PER_TIMED);
    }
}

/// Polls for `budget`, or, if `ran` is given, until others have run since it was read, or
/// `deadline`.
fn poll_for<R>(shared: &Shared, now: &mut Instant, budget: Duration, deadline: Instant, ran: Option<u32>, take: Take<'_, R>) -> Result<Option<R>, Error> {
    let until = (*now + budget).min(deadline);
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if let Some(found) = shared.poll(&mut *take)? {
                return Ok(Some(found));
            }
            (0..PAUSES_PER_LOOK).for_each(|_| pause());
        }
        *now = clock();
        if *now >= deadline {
            return Err(Error::Timeout);
        }
        if *now >= until || ran.is_some_and(|ran| shared.token.enter(Claim::Bias).crowd.ran() != ran) {
            return Ok(None);
        }
    }
}

/// What a look came to.
pub(super) enum Look<R> {
    Found(R),
    Again,
    Sleep { until: Instant, leads: bool },
}

/// A place among the waiters; left when dropped.
struct Place<'a> {
    shared: &'a Shared,
    id: u64,
    target: Target,
    bell: Arc<Bell>,
    began: Instant,
    slept: bool,
    /// When it last looked at the clock: before its first look, and after each sleep.
    now: Instant,
    kick_at: Instant,
    kick_pause: Duration,
    /// Its time is the alarm's business.
    alarmed: bool,
    /// What it watches beside the bells when it leads.
    apart: Option<Arc<UdpSocket>>,
    /// The event that ended its last sleep.
    woken: WokenBy,
    left: bool,
}

impl<'a> Place<'a> {
    fn register(shared: &'a Shared, target: Target, began: Instant, now: Instant) -> Result<Self, Error> {
        let mut core = shared.token.enter(Claim::Bias);
        let bell = core.waiters.take_bell()?;
        let id = core.waiters.next_id;
        core.waiters.next_id += 1;
        if core.waiters.is_empty() {
            // The bell is ours now; the helper does not listen to it.
            if !core::mem::replace(&mut core.bell_is_waiters, true) {
                shared.port.listen_to_bell(false);
            }
            core.leader_until = Instant::NEVER;
        }
        core.lingers = false;
        core.note_attention();
        core.waiters.list.push(Waiter { id, target, began, bell: Arc::clone(&bell) });
        core.note_sleepers();
        drop(core);
        Ok(Self {
            shared,
            id,
            target,
            bell,
            began,
            slept: false,
            now,
            kick_at: Instant(0),
            kick_pause: KICK_MIN,
            alarmed: false,
            apart: None,
            woken: WokenBy::Time,
            left: false,
        })
    }

    /// Makes what progress there is and looks.
    fn look<R>(&mut self, deadline: Instant, take: Take<'_, R>) -> Result<Look<R>, Error> {
        let shared = self.shared;
        let mut core = shared.token.enter(Claim::Bias);
        let core = &mut *core;
        match core::mem::replace(&mut self.woken, WokenBy::Time) {
            WokenBy::Time => {}
            WokenBy::Packet => core.waiters.wakeups += 1,
            WokenBy::Bell => {
                core.waiters.wakeups += 1;
                core.engine.wire.look_everywhere();
            }
        }
        let now = self.now;
        core.engine.set_now(now);
        let leads = core.waiters.list.first().is_some_and(|w| w.id == self.id);
        if leads && (core.waiters.sleeps.is_multiple_of(SLEEPS_PER_CLEAR) || core.engine.wire().bell_must_be_cleared()) {
            core.engine.wire.clear_bell();
        }
        let mut turns = 0;
        let outcome = loop {
            core.count_poll(shared);
            // Also after a turn that has left work behind: a waiter for room says so.
            core.arm();
            self.apart = if leads { core.engine.wire.watch_apart() } else { None };
            // Messages for an inbox stay in the wire.
            let moved = if self.target == Target::Inbox { core.engine.turn_besides_frames() } else { core.engine.progress() };
            turns += 1;
            match look_once(&mut core.engine, &mut *take) {
                Ok(Some(found)) => break Ok(Look::Found(found)),
                Err(e) => break Err(e),
                Ok(None) if now >= deadline => break Err(Error::Timeout),
                Ok(None) if !moved && !core.needs_arming() => {
                    core.engine.wire.acknowledge_before_sleep();
                    break Ok(Look::Sleep { until: self.plan(core, now, deadline, leads), leads });
                }
                Ok(None) if turns >= TURNS_BEFORE_SLEEP => break Ok(Look::Again),
                Ok(None) => {}
            }
        };
        match outcome {
            Ok(Look::Sleep { .. }) => {
                core.waiters.sleeps += 1;
                self.slept = true;
            }
            Ok(Look::Again) => {}
            _ => self.leave(core),
        }
        if core.needs_settling() {
            core.settle(shared);
        }
        outcome
    }

    /// Until when to sleep; kicks the peers if it is time.
    fn plan(&mut self, core: &mut Core, now: Instant, deadline: Instant, leads: bool) -> Instant {
        let mut until = deadline.min(core.engine.next_timeout());
        if self.target.needs_peer(&core.engine) {
            if now >= self.kick_at {
                core.engine.wire.kick_peers();
                self.kick_at = now + self.kick_pause;
                self.kick_pause = Duration((self.kick_pause.0 * 2).min(KICK_MAX.0));
            }
            until = until.min(self.kick_at);
        }
        if leads {
            core.leader_until = until;
            self.set_alarm(core, now, until);
        }
        until
    }

    /// The leader is woken in time. An alarm that is set already may ring early, once in many
    /// sleeps: that costs less than to set it for each.
    fn set_alarm(&mut self, core: &mut Core, now: Instant, until: Instant) {
        if until != Instant::NEVER && (core.alarm_at <= now || until < core.alarm_at) {
            core.alarm_at = if self.shared.port.wake_leader_at(until) { until } else { Instant(0) };
        }
        self.alarmed = until == Instant::NEVER || core.alarm_at != Instant(0);
    }

    /// Sleeps; a signal wakes too. Early returns are harmless: the caller looks again.
    fn sleep(&mut self, until: Instant, leads: bool) {
        let left = (until != Instant::NEVER).then(|| until.since(self.now));
        if leads {
            self.woken = self.shared.port.sleep_as_leader(left.filter(|_| !self.alarmed), self.apart.as_deref());
            self.now = clock();
            return;
        }
        let timeout = left.map(super::timespec);
        if poll(&mut [PollFd::new(&*self.bell, PollFlags::IN)], timeout.as_ref()).is_ok_and(|n| n != 0) {
            self.woken = WokenBy::Bell;
            let _ = self.bell.clear();
        }
        self.now = clock();
    }

    /// Leaves the list, with the token held.
    fn leave(&mut self, core: &mut Core) {
        if core::mem::replace(&mut self.left, true) {
            return;
        }
        let Some(at) = core.waiters.list.iter().position(|w| w.id == self.id) else { return };
        let waiter = core.waiters.list.remove(at);
        if let Some(waits) = core.waiters.counted.at(self.target) {
            waits.count += 1;
            waits.slept += u64::from(self.slept);
            waits.time(self.now.since(self.began), 1);
        }
        core.waiters.keep_bell(waiter.bell);
        core.note_sleepers();
        if core.waiters.is_empty() {
            core.linger();
            if core.deep_until != Instant(0) && core.has_duties() {
                // Until the application waits again or the helper takes the bell over.
                core.tell(&self.shared.port, WORK);
            }
        } else if at == 0 {
            // The next one leads, and has to sleep as a leader does; it may still sleep on its own
            // bell.
            core.leader_until = Instant::NEVER;
            let _ = core.waiters.list[0].bell.ring();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.left {
            let mut core = self.shared.token.enter(Claim::Bias);
            self.leave(&mut core);
        }
    }
}
