// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection attempts of a NIC that are under way, and their times. The calls are in
//! `connection.rs`.

use crate::attributes::{NetAddress, ViAttributes};
use crate::error::Error;
use crate::handle::{Handle, Slab};
use crate::handles::ViHandle;
use crate::time::{Duration, Instant};
use crate::wire::{LinkFailure, LinkId, Rendezvous};
use std::collections::{BTreeMap, BTreeSet};

/// Waiters and unanswered incoming requests that a NIC keeps.
const WAITS_MAX: usize = 1 << 12;
const INCOMING_MAX: usize = 1 << 12;

/// Somebody waits for a connection request.
#[derive(Debug)]
pub struct Wait {
    pub(crate) address: NetAddress,
    pub(crate) deadline: Instant,
    pub(crate) matched: Option<IncomingHandle>,
}
/// Names a wait.
pub type WaitHandle = Handle<Wait>;

/// A connection request that has come in.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) link: LinkId,
    pub(crate) their_connection: u32,
    pub(crate) remote: NetAddress,
    pub(crate) attributes: ViAttributes,
    pub(crate) their_ptag: u32,
    pub(crate) gone: bool,
}
/// Names an incoming request: VIA's connection handle.
pub type IncomingHandle = Handle<Incoming>;

/// Our request for a connection.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) how: Rendezvous,
    pub(crate) local: NetAddress,
    pub(crate) remote: NetAddress,
    pub(crate) deadline: Instant,
    /// Until when it is tried again though nobody waits there; and for how long, from when somebody
    /// was last there: a server of many has no place for more at times, or no listener for a
    /// moment.
    pub(crate) found_by: Instant,
    pub(crate) patience: Duration,
    pub(crate) retry_at: Instant,
    pub(crate) backoff: Duration,
    /// The wire's answer is awaited.
    pub(crate) request: Option<u64>,
    pub(crate) link: Option<LinkId>,
    /// Somebody took the request and has not answered.
    pub(crate) matched: bool,
    /// Somebody waits there, who had no room for it the last time.
    pub(crate) busy: bool,
    /// Another user's process was there, and a grant was missing; or the keys were not those.
    pub(crate) refusal: Option<LinkFailure>,
    pub(crate) outcome: Option<Result<ViAttributes, Error>>,
}

impl Attempt {
    /// What the caller is told if nobody was there in time. A peer that does not ask is one that
    /// is waited for.
    pub(crate) fn not_found(&self) -> Error {
        if self.how == Rendezvous::Peer { Error::Timeout } else { Error::NoMatch }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Attempt(ViHandle),
    NotReady(usize),
    Listen,
}

#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) users: u32,
    pub(crate) active: bool,
}

/// All that is under way.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) waits: Slab<Wait>,
    /// First come, first served.
    pub(crate) wait_order: Vec<WaitHandle>,
    pub(crate) incoming: Slab<Incoming>,
    pub(crate) attempts: BTreeMap<ViHandle, Attempt>,
    pub(crate) requests: BTreeMap<u64, ViHandle>,
    pub(crate) listening: BTreeMap<NetAddress, Listening>,
    pub(crate) timers: BTreeSet<(Instant, Timer)>,
    /// The first of `timers`.
    pub(crate) first_timeout: Instant,
    pub(crate) next_request: u64,
    /// Requests that have met a wait, ever.
    pub(crate) arrived: u64,
    /// Some link has control frames that found no room.
    pub(crate) control_pending: bool,
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self {
            waits: Slab::new(WAITS_MAX),
            wait_order: Vec::new(),
            incoming: Slab::new(INCOMING_MAX),
            attempts: BTreeMap::new(),
            requests: BTreeMap::new(),
            listening: BTreeMap::new(),
            timers: BTreeSet::new(),
            first_timeout: Instant::NEVER,
            next_request: 1,
            arrived: 0,
            control_pending: false,
        }
    }

    #[inline]
    pub(crate) fn next_timeout(&self) -> Instant {
        self.first_timeout
    }

    pub(crate) fn schedule(&mut self, at: Instant, timer: Timer) {
        self.timers.insert((at, timer));
        self.first_timeout = self.first_timeout.min(at);
    }

    pub(crate) fn unschedule(&mut self, at: Instant, timer: Timer) {
        self.timers.remove(&(at, timer));
        self.first_timeout = self.timers.first().map_or(Instant::NEVER, |(at, _)| *at);
    }

    pub(crate) fn schedule_not_ready(&mut self, at: Instant, vi: usize) {
        self.schedule(at, Timer::NotReady(vi));
    }

    /// Drops an attempt that is over, with its outcome.
    pub(crate) fn forget_attempt(&mut self, vi: ViHandle) {
        self.attempts.remove(&vi);
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let due = self.timers.first().copied().filter(|(at, _)| *at <= now);
        if let Some(entry) = due {
            self.timers.remove(&entry);
        }
        self.first_timeout = self.timers.first().map_or(Instant::NEVER, |(at, _)| *at);
        due.map(|(_, timer)| timer)
    }
}
