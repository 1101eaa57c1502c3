// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a request for a connection (`Nic::connect_wait`).
//!
//! Threads that wait so stand in a list of their own (`callers.rs`), apart from the waiters of
//! `waiters.rs`. A server usually has such a thread for as long as it runs. As a waiter it would be
//! the leader, and the NIC's bell would ring, and the thread wake, for each message to the NIC.
//! Here the bell stays with the helper thread, which moves what comes while the program computes; a
//! program that polls moves it itself. Each thread sleeps on a bell of its own, which rings only if
//! a request has met its wait.
//!
//! No wake-up is lost: a thread registers, arms the bell for the helper, turns the engine and
//! looks, all under the token. A request that meets its wait later does so in a turn of another
//! thread. That thread settles before it lets the token go (N1), and finds the waiting thread in
//! the list. The engine's timers are the helper's; the thread only watches its own deadline.

use super::Core;
use super::callers::Caller;
use super::clock;
use super::spin::Spin;
use super::state::Shared;
use super::target::Target;
use super::wait::{Look, TURNS_BEFORE_SLEEP, look_once, spin_first};
use crate::connection::ConnectionRequest;
use crate::connections::WaitHandle;
use crate::engine::Engine;
use crate::error::Error;
use crate::time::Instant;
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use bellwire_memory::token::Claim;
use rustix::event::{PollFd, PollFlags, poll};
use std::sync::Arc;

/// Waits until a request has met `wait`, or `deadline`. The wait goes on after an error of the
/// call itself; its owner ends it.
#[cold]
pub(super) fn wait_for_request(shared: &Shared, wait: WaitHandle, mut now: Instant, deadline: Instant) -> Result<ConnectionRequest, Error> {
    let take = &mut |engine: &mut Engine<HostWire>| {
        engine.progress();
        engine.poll_wait(wait)
    };
    if let Some(found) = spin_first(shared, Target::Connect, &mut now, deadline, Spin::Nic, take)? {
        return Ok(found);
    }
    let mut place = Place::register(shared, wait, now)?;
    loop {
        match place.look(deadline)? {
            Look::Found(request) => return Ok(request),
            Look::Again => place.now = clock(),
            Look::Sleep { until, .. } => place.sleep(until),
        }
    }
}

/// A place in the list; left when dropped.
struct Place<'a> {
    shared: &'a Shared,
    wait: WaitHandle,
    bell: Arc<Bell>,
    /// When it last looked at the clock: before its first look, and after each sleep.
    now: Instant,
    /// Its bell ended its last sleep.
    rung: bool,
}

impl<'a> Place<'a> {
    fn register(shared: &'a Shared, wait: WaitHandle, now: Instant) -> Result<Self, Error> {
        let mut core = shared.token.enter(Claim::Bias);
        let bell = core.waiters.take_bell()?;
        if core.callers.is_empty() {
            core.callers.seen = core.engine.connection_requests();
        }
        core.callers.list.push(Caller { wait, bell: Arc::clone(&bell) });
        core.note_sleepers();
        drop(core);
        Ok(Self { shared, wait, bell, now, rung: false })
    }

    /// Makes what progress there is and looks.
    fn look(&mut self, deadline: Instant) -> Result<Look<ConnectionRequest>, Error> {
        let mut core = self.shared.token.enter(Claim::Bias);
        let core = &mut *core;
        core.waiters.wakeups += u64::from(core::mem::take(&mut self.rung));
        core.engine.set_now(self.now);
        // Else a leader has the bell, and moves what it tells of.
        let is_for_helper = core.waiters.is_empty();
        let mut turns = 0;
        let outcome = loop {
            if is_for_helper {
                core.arm_for_helper(&self.shared.port);
            }
            let moved = core.engine.progress();
            turns += 1;
            match look_once(&mut core.engine, |engine| engine.poll_wait(self.wait)) {
                Ok(Some(request)) => break Ok(Look::Found(request)),
                Err(e) => break Err(e),
                Ok(None) if self.now >= deadline => break Err(Error::Timeout),
                Ok(None) if !(moved || is_for_helper && core.needs_arming()) => {
                    core.waiters.sleeps += 1;
                    break Ok(Look::Sleep { until: deadline, leads: false });
                }
                Ok(None) if turns >= TURNS_BEFORE_SLEEP => break Ok(Look::Again),
                Ok(None) => {}
            }
        };
        if core.needs_settling() {
            core.settle(self.shared);
        }
        outcome
    }

    /// Sleeps; a signal wakes too. Early returns are harmless: the caller looks again.
    fn sleep(&mut self, until: Instant) {
        let timeout = (until != Instant::NEVER).then(|| super::timespec(until.since(self.now)));
        if poll(&mut [PollFd::new(&*self.bell, PollFlags::IN)], timeout.as_ref()).is_ok_and(|n| n != 0) {
            self.rung = true;
            let _ = self.bell.clear();
        }
        self.now = clock();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut core = self.shared.token.enter(Claim::Bias);
        let Core { callers, waiters, .. } = &mut *core;
        if let Some(at) = callers.list.iter().position(|caller| caller.wait == self.wait) {
            waiters.keep_bell(callers.list.swap_remove(at).bell);
        }
        core.note_sleepers();
    }
}
