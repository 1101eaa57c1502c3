// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waiters that sleep, or are about to; how they come and go is in `wait.rs`.

use super::port::Port;
use super::target::Target;
use super::waits::Waits;
use crate::engine::Engine;
use crate::error::Error;
use crate::time::Instant;
use crate::wire::host::HostWire;
use bellwire_memory::event::Bell;
use std::sync::Arc;

/// Bells kept for later waiters.
const SPARE_BELLS: usize = 64;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) target: Target,
    /// When its call began.
    pub(super) began: Instant,
    pub(super) bell: Arc<Bell>,
}

/// Those who sleep, or are about to; the first leads.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    pub(super) list: Vec<Waiter>,
    spare: Vec<Arc<Bell>>,
    pub(super) next_id: u64,
    /// What their waits are counted in.
    pub(super) counted: Waits,
    /// Times that one of them slept, and that it was woken by something else than the time.
    pub(super) sleeps: u64,
    pub(super) wakeups: u64,
}

impl Waiters {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A bell to sleep on.
    pub(super) fn take_bell(&mut self) -> Result<Arc<Bell>, Error> {
        match self.spare.pop() {
            Some(bell) => Ok(bell),
            None => Ok(Arc::new(Bell::create().map_err(|_| Error::Resource)?)),
        }
    }

    /// Keeps it for a later waiter. A ring that comes too late is that one's: it looks once too
    /// often.
    pub(super) fn keep_bell(&mut self, bell: Arc<Bell>) {
        if self.spare.len() < SPARE_BELLS {
            self.spare.push(bell);
        }
    }

    /// What those in the list wait for, and for how long they have at `now`, ns.
    pub(super) fn waiting(&self, now: Instant) -> impl Iterator<Item = (Target, u64)> {
        self.list.iter().map(move |w| (w.target, now.since(w.began).0))
    }

    /// Rings for those who should look.
    pub(super) fn wake_ready(&self, engine: &Engine<HostWire>, port: &Port) {
        for (at, w) in self.list.iter().enumerate().filter(|(_, w)| w.target.is_ready(engine)) {
            if at == 0 {
                port.wake_leader();
            } else {
                let _ = w.bell.ring();
            }
        }
    }

    pub(super) fn wake_leader(&self, port: &Port) {
        if !self.list.is_empty() {
            port.wake_leader();
        }
    }
}
