// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits: spin for a while, then sleep until the bell, another thread of this process, or a timer.
//!
//! Sleeping waiters stand in a list under the token. The first is the *leader*: it sleeps on the NIC's bell besides its own, and makes progress for all; the
//! others sleep on their own bells only. Whoever finds that completions have come rings the bells of those waiters for whom there is something
//! (`Core::settle`). A leader that leaves wakes the next.
//!
//! No wake-up is lost: a waiter registers, arms, turns the engine and looks, all under the token; whatever completes later under the
//! token finds it in the list, and whatever a peer publishes later rings (N3).

use super::{Core, Shared, clock};
use crate::completion_queue::CqHandle;
use crate::engine::Engine;
use crate::error::Error;
use crate::time::{Duration, Instant};
use crate::vi::ViHandle;
use crate::wire::shm::ShmWire;
use bellwire_memory::event::Bell;
use bellwire_memory::pause::pause;
use bellwire_memory::token::Claim;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;

/// Pauses between two looks of a spinning wait.
const PAUSES_PER_LOOK: u32 = 4;
/// Looks between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 16;
/// Turns of the engine before a waiter sleeps although more could move.
const TURNS_BEFORE_SLEEP: u32 = 32;
/// First and longest time between two kicks of the peers.
const KICK_MIN: Duration = Duration::from_millis(1);
const KICK_MAX: Duration = Duration::from_millis(128);
/// VIs that are looked at to know whether a completion queue waits for a peer's engine.
const VIS_LOOKED_AT: usize = 64;
/// Bells kept for later waiters.
const SPARE_BELLS: usize = 64;

/// What a waiter waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A completed send-side request.
    Send(ViHandle),
    /// A completed receive.
    Receive(ViHandle),
    /// An entry of a completion queue.
    Cq(CqHandle),
    /// The end of a connection attempt.
    Connect,
    /// A connection request.
    Incoming,
}

impl Target {
    /// Whether the waiter should look; rather too often than not.
    fn is_ready(self, engine: &Engine<ShmWire>) -> bool {
        match self {
            Self::Send(vi) => engine.vis.get(vi).is_none_or(|v| v.send.has_done()),
            Self::Receive(vi) => engine.vis.get(vi).is_none_or(|v| v.receive.has_done()),
            Self::Cq(cq) => engine.cqs.get(cq).is_none_or(|q| !q.entries.is_empty()),
            Self::Connect | Self::Incoming => true,
        }
    }

    /// Whether only the peer's engine can end the wait, which may be asleep while its process computes.
    fn needs_peer(self, engine: &Engine<ShmWire>) -> bool {
        let unfinished = |v: &crate::vi::Vi| v.send.done != v.send.works.tail();
        match self {
            Self::Send(vi) => engine.vis.get(vi).is_some_and(unfinished),
            Self::Cq(_) if engine.vis.len() > VIS_LOOKED_AT => true,
            Self::Cq(cq) => engine.vis.iter().any(|(_, v)| v.send_cq == Some(cq) && unfinished(v) || v.receive_cq == Some(cq) && v.attributes.rnr_wait),
            Self::Connect => true,
            // The peer may be asleep over a message that we had no descriptor for.
            Self::Receive(vi) => engine.vis.get(vi).is_some_and(|v| v.attributes.rnr_wait),
            Self::Incoming => false,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    target: Target,
    bell: Arc<Bell>,
}

/// Those who sleep, or are about to; the first leads.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    list: Vec<Waiter>,
    spare: Vec<Arc<Bell>>,
    next_id: u64,
}

impl Waiters {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Rings for those who should look.
    pub(super) fn wake_ready(&self, engine: &Engine<ShmWire>) {
        for w in self.list.iter().filter(|w| w.target.is_ready(engine)) {
            let _ = w.bell.ring();
        }
    }

    pub(super) fn wake_leader(&self) {
        if let Some(w) = self.list.first() {
            let _ = w.bell.ring();
        }
    }
}

type Take<'a, R> = &'a mut dyn FnMut(&mut Engine<ShmWire>) -> Result<Option<R>, Error>;

/// Waits until `take` finds something, or `deadline`. `take` makes progress if it must.
#[cold]
pub(super) fn wait_for<R>(shared: &Shared, target: Target, deadline: Instant, mut take: Take<'_, R>) -> Result<R, Error> {
    let began = clock();
    if let Some(found) = spin(shared, began, deadline, &mut take)? {
        return Ok(found);
    }
    let mut place = Place::register(shared, target, began)?;
    loop {
        match place.look(deadline, take)? {
            Look::Found(found) => return Ok(found),
            Look::Again => {}
            Look::Sleep { until, leads } => place.sleep(until, leads),
        }
    }
}

/// Polls for as long as it has lately been worth it.
fn spin<R>(shared: &Shared, began: Instant, deadline: Instant, mut take: Take<'_, R>) -> Result<Option<R>, Error> {
    let budget = {
        let mut core = shared.token.enter(Claim::Bias);
        core.engine.set_now(began);
        core.spin_ns
    };
    let until = (began + Duration(budget)).min(deadline);
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if let Some(found) = shared.poll(&mut take)? {
                if budget < shared.spin_max_ns {
                    grow_spin(&mut shared.token.enter(Claim::Bias), shared.spin_max_ns);
                }
                return Ok(Some(found));
            }
            (0..PAUSES_PER_LOOK).for_each(|_| pause());
        }
        let now = clock();
        if now >= deadline {
            return Err(Error::Timeout);
        }
        if now >= until {
            return Ok(None);
        }
    }
}

fn grow_spin(core: &mut Core, max: u64) {
    core.spin_ns = (core.spin_ns * 2).clamp(max / 16, max);
}

enum Look<R> {
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
    kick_at: Instant,
    kick_pause: Duration,
    left: bool,
}

impl<'a> Place<'a> {
    fn register(shared: &'a Shared, target: Target, began: Instant) -> Result<Self, Error> {
        let mut core = shared.token.enter(Claim::Bias);
        let bell = match core.waiters.spare.pop() {
            Some(bell) => bell,
            None => Arc::new(Bell::create().map_err(|_| Error::Resource)?),
        };
        let id = core.waiters.next_id;
        core.waiters.next_id += 1;
        if core.waiters.is_empty() {
            // The bell is ours now; the helper does not listen to it.
            shared.port.listen_to_bell(false);
            core.leader_until = Instant::NEVER;
        }
        core.helper_armed = false;
        core.waiters.list.push(Waiter { id, target, bell: Arc::clone(&bell) });
        drop(core);
        Ok(Self { shared, id, target, bell, began, kick_at: Instant(0), kick_pause: KICK_MIN, left: false })
    }

    /// Makes what progress there is and looks.
    fn look<R>(&mut self, deadline: Instant, take: Take<'_, R>) -> Result<Look<R>, Error> {
        let shared = self.shared;
        let mut core = shared.token.enter(Claim::Bias);
        let core = &mut *core;
        let now = clock();
        core.engine.set_now(now);
        let leads = core.waiters.list.first().is_some_and(|w| w.id == self.id);
        if leads {
            core.engine.wire_mut().clear_bell();
        }
        core.arm();
        let mut turns = 0;
        let outcome = loop {
            core.begin_poll(shared);
            let moved = core.engine.progress();
            turns += 1;
            match take(&mut core.engine) {
                Ok(Some(found)) => break Ok(Look::Found(found)),
                Err(e) => break Err(e),
                Ok(None) if now >= deadline => break Err(Error::Timeout),
                Ok(None) if !moved => break Ok(Look::Sleep { until: self.plan(core, now, deadline, leads), leads }),
                Ok(None) if turns >= TURNS_BEFORE_SLEEP => break Ok(Look::Again),
                Ok(None) => {}
            }
        };
        if !matches!(outcome, Ok(Look::Again | Look::Sleep { .. })) {
            self.leave(core, now);
        }
        if core.needs_settling() {
            core.settle(&shared.port);
        }
        outcome
    }

    /// Until when to sleep; kicks the peers if it is time.
    fn plan(&mut self, core: &mut Core, now: Instant, deadline: Instant, leads: bool) -> Instant {
        let mut until = deadline.min(core.engine.next_timeout());
        if self.target.needs_peer(&core.engine) {
            if now >= self.kick_at {
                core.engine.wire_mut().kick_peers();
                self.kick_at = now + self.kick_pause;
                self.kick_pause = Duration((self.kick_pause.0 * 2).min(KICK_MAX.0));
            }
            until = until.min(self.kick_at);
        }
        if leads {
            core.leader_until = until;
        }
        until
    }

    /// Sleeps; a signal wakes too. Early returns are harmless: the caller looks again.
    fn sleep(&self, until: Instant, leads: bool) {
        let timeout = (until != Instant::NEVER).then(|| {
            let left = until.since(clock()).0;
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
        });
        let wire_bell = self.shared.port.wire_bell();
        let mut fds = [PollFd::new(&*self.bell, PollFlags::IN), PollFd::from_borrowed_fd(wire_bell, PollFlags::IN)];
        let count = if leads { 2 } else { 1 };
        let _ = poll(&mut fds[..count], timeout.as_ref());
        let _ = self.bell.clear();
    }

    /// Leaves the list, with the token held.
    fn leave(&mut self, core: &mut Core, now: Instant) {
        if core::mem::replace(&mut self.left, true) {
            return;
        }
        // Would spinning on have been cheaper than sleeping?
        let max = self.shared.spin_max_ns;
        if now.since(self.began).0 <= max {
            grow_spin(core, max);
        } else {
            core.spin_ns = (core.spin_ns / 2).max(max / 16);
        }
        let Some(at) = core.waiters.list.iter().position(|w| w.id == self.id) else { return };
        let waiter = core.waiters.list.remove(at);
        if core.waiters.spare.len() < SPARE_BELLS {
            // A ring that came too late would be the next waiter's: it looks once too often.
            core.waiters.spare.push(waiter.bell);
        }
        if core.waiters.is_empty() {
            core.disarm();
            core.engine.wire_mut().clear_bell();
            self.shared.port.listen_to_bell(true);
            if core.deep_until != Instant(0) && core.has_duties() {
                core.tell(&self.shared.port, super::helper::WORK);
            }
        } else if at == 0 {
            // The next one leads: it has to listen to the bell.
            core.leader_until = Instant::NEVER;
            core.waiters.wake_leader();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.left {
            let mut core = self.shared.token.enter(Claim::Bias);
            self.leave(&mut core, clock());
        }
    }
}
