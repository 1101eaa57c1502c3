// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a call goes through what the NIC, its helper and its waiters share: the token is taken,
//! engine code runs, what must be settled is settled. A poll does some things besides, now and
//! then.

use crate::engine::Engine;
use crate::error::Error;
use crate::nic::clock;
use crate::nic::give_way::{self, Poller};
use crate::nic::state::{Core, POLLS_PER_TURN, Shared};
use crate::time::Instant;
use crate::wire::host::HostWire;
use bellwire_memory::atomic::Ordering;
use bellwire_memory::token::{Claim, Held};
use std::time::Duration;

impl Shared {
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Engine<HostWire>) -> R) -> R {
        let mut core = self.token.enter(Claim::Bias);
        let result = f(&mut core.engine);
        if core.needs_settling() {
            core.settle(self);
        }
        result
    }

    /// As [`with`](Self::with), for calls of the data path: in the child of a `fork`, which has
    /// none of the NIC's memory, an error.
    #[inline(always)]
    pub(super) fn try_with<R>(&self, f: impl FnOnce(&mut Engine<HostWire>) -> Result<R, Error>) -> Result<R, Error> {
        self.here()?;
        self.with(f)
    }

    /// One look by `poll`, which takes what is there or moves what it needs and takes then.
    #[inline]
    pub(super) fn poll<R>(&self, poll: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<Option<R>, Error> {
        self.poll_as(Poller::Completions, poll)
    }

    /// As [`poll`](Self::poll), for whatever `poller` looks for.
    #[inline(always)]
    pub(super) fn poll_as<R>(&self, poller: Poller, poll: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>) -> Result<Option<R>, Error> {
        self.take_or_poll_as(poller, |_| Ok(None), poll)
    }

    /// As [`poll`](Self::poll), unless `take` finds something that is already complete.
    #[inline(always)]
    pub(super) fn take_or_poll<R>(
        &self,
        take: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
        poll: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        self.take_or_poll_as(Poller::Completions, take, poll)
    }

    #[inline(always)]
    fn take_or_poll_as<R>(
        &self,
        poller: Poller,
        take: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
        poll: impl FnOnce(&mut Engine<HostWire>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        self.here()?;
        let mut core = self.token.enter(Claim::Bias);
        if core.begin_take() {
            core = self.besides(core, poller);
        }
        let result = match take(&mut core.engine) {
            Ok(None) => {
                core.tell_look(self);
                poll(&mut core.engine)
            }
            found => found,
        };
        if core.needs_settling() {
            core.settle(self);
        }
        result
    }

    /// What a poll does before it looks, now and then: the whole turn that is due once in so many
    /// polls, whatever is found; unusual things; and letting others run when the polls before found
    /// nothing, unless a poller does that when it holds no lock.
    #[cold]
    #[inline(never)]
    pub(super) fn besides<'a>(&'a self, mut core: Held<'a, Core>, poller: Poller) -> Held<'a, Core> {
        if core.attentive {
            core.attend(self);
        }
        if core.polls.is_multiple_of(POLLS_PER_TURN) {
            core.tell_look(self);
            match poller {
                Poller::Completions => core.engine.progress_in_turn(),
                Poller::Frames => core.engine.turn_besides_frames(),
            };
            let completions = core.engine.completions();
            core.crowd.turn(completions);
        }
        match poller {
            Poller::Frames => {
                // Relaxed: a hint of this or another thread that polls.
                self.gives_way.store(core.crowd.is_due(), Ordering::Relaxed);
                core
            }
            Poller::Completions if core.crowd.is_due() => {
                drop(core);
                give_way::give_way(self, poller);
                self.token.enter(Claim::Bias)
            }
            Poller::Completions => core,
        }
    }

    /// Now, and the deadline `timeout` from now; the engine is told the time.
    pub(super) fn deadline(&self, timeout: Option<Duration>) -> Result<(Instant, Instant), Error> {
        self.here()?;
        let now = clock();
        self.token.enter(Claim::Bias).engine.set_now(now);
        Ok((now, timeout.map_or(Instant::NEVER, |t| now + t.into())))
    }
}
