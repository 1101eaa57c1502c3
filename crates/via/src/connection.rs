// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: client/server and peer-to-peer, told by frames on a link that the wire finds or makes.
//!
//! ```text
//!  client                          server                       peer A                     peer B
//!  connect_request                 connect_wait                 peer_request               peer_request
//!    wire.resolve -> link            wire.listen                  wire.resolve (Peer) on both sides -> link
//!    ConnectRequest  ------------->  match: Pending   (or NoMatch: tried again until the deadline)
//!                    <-------------  accept / reject            PeerRequest <------------> PeerRequest
//!  Connected                       Connected                    whoever has a matching request of its own is
//!                                                               connected, and says PeerAccept (of two crossed
//!                                                               requests, the side with the greater address)
//! ```
//!
//! A connection id is made for each attempt and never used again; frames for an id that is gone are dropped. Times are deadlines given by the caller.
//!
//! `connection/serve.rs`: the server; `attempt.rs`: the client, and peers; `arrival.rs`: what frames say of it; `message.rs`: those frames; `ending.rs`: connected, and no longer. Here: what is under
//! way, and its times.

use crate::attributes::{NetAddress, ViAttributes};
use crate::cause::Cause;
use crate::engine::Engine;
use crate::error::Error;
use crate::event::{AsyncError, AsyncErrorCode, Event};
use crate::handle::{Handle, Slab};
use crate::time::{Duration, Instant};
use crate::vi::ViHandle;
use crate::wire::{LinkId, Rendezvous, Wire};
use std::collections::{BTreeMap, BTreeSet};

mod arrival;
mod attempt;
mod ending;
mod message;
mod serve;

/// Waiters and unanswered incoming requests that a NIC keeps.
const WAITS_MAX: usize = 1 << 12;
const INCOMING_MAX: usize = 1 << 12;
/// Errors that wait to be told: more than one for each VI.
const EVENTS_MAX: usize = 1 << 17;
/// First and longest pause between two tries of a request that found nobody.
const RETRY_MIN: Duration = Duration::from_micros(200);
const RETRY_MAX: Duration = Duration::from_millis(8);

/// Somebody waits for a connection request.
#[derive(Debug)]
pub struct Wait {
    address: NetAddress,
    deadline: Instant,
    matched: Option<IncomingHandle>,
}
/// Names a wait.
pub type WaitHandle = Handle<Wait>;

/// A connection request that has come in.
#[derive(Debug)]
pub struct Incoming {
    link: LinkId,
    their_connection: u32,
    remote: NetAddress,
    attributes: ViAttributes,
    their_ptag: u32,
    gone: bool,
}
/// Names an incoming request: VIA's connection handle.
pub type IncomingHandle = Handle<Incoming>;

/// Our request for a connection.
#[derive(Debug)]
struct Attempt {
    how: Rendezvous,
    local: NetAddress,
    remote: NetAddress,
    deadline: Instant,
    /// Until when it is tried again though nobody waits there; and for how long, from when somebody was last there: who serves many has no place for more at times, or no listener for a moment.
    found_by: Instant,
    patience: Duration,
    retry_at: Instant,
    backoff: Duration,
    /// The wire's answer is awaited.
    request: Option<u64>,
    link: Option<LinkId>,
    /// Somebody took the request and has not answered.
    matched: bool,
    /// Somebody waits there, who had no room for it the last time.
    busy: bool,
    outcome: Option<Result<ViAttributes, Error>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Attempt(ViHandle),
    NotReady(usize),
    Listen,
}

#[derive(Debug)]
struct Listening {
    users: u32,
    active: bool,
}

/// All that is under way.
#[derive(Debug)]
pub(crate) struct Connections {
    waits: Slab<Wait>,
    /// First come, first served.
    wait_order: Vec<WaitHandle>,
    incoming: Slab<Incoming>,
    attempts: BTreeMap<ViHandle, Attempt>,
    requests: BTreeMap<u64, ViHandle>,
    listening: BTreeMap<NetAddress, Listening>,
    timers: BTreeSet<(Instant, Timer)>,
    /// The first of `timers`.
    first_timeout: Instant,
    next_request: u64,
    /// Requests that have met a wait, ever.
    arrived: u64,
    /// Some link has control frames that found no room.
    pub control_pending: bool,
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

    fn schedule(&mut self, at: Instant, timer: Timer) {
        self.timers.insert((at, timer));
        self.first_timeout = self.first_timeout.min(at);
    }

    fn unschedule(&mut self, at: Instant, timer: Timer) {
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

    fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let due = self.timers.first().copied().filter(|(at, _)| *at <= now);
        if let Some(entry) = due {
            self.timers.remove(&entry);
        }
        self.first_timeout = self.timers.first().map_or(Instant::NEVER, |(at, _)| *at);
        due.map(|(_, timer)| timer)
    }
}

/// What `connect_wait` brought.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRequest {
    /// To accept or reject.
    pub incoming: IncomingHandle,
    /// The requester's address and discriminator.
    pub remote: NetAddress,
    /// The requester's VI.
    pub attributes: ViAttributes,
}

impl<W: Wire> Engine<W> {
    #[cold]
    pub(crate) fn handle_timeout(&mut self) {
        while let Some(timer) = self.connections.pop_due(self.now) {
            match timer {
                Timer::NotReady(index) => self.ready.insert(index),
                Timer::Listen => self.listen_again(),
                Timer::Attempt(vi) => {
                    let now = self.now;
                    let Some(a) = self.connections.attempts.get(&vi).filter(|a| a.outcome.is_none()) else { continue };
                    if a.deadline <= now {
                        let why = if a.matched || a.how == Rendezvous::Peer { Error::Timeout } else { Error::NoMatch };
                        self.give_up(vi, why);
                    } else if a.found_by <= now && a.link.is_none() && !a.busy && a.request.is_some_and(|request| !self.wire.has_found(request)) {
                        self.give_up(vi, Error::NoMatch);
                    } else if (a.retry_at <= now || a.found_by <= now) && a.request.is_none() && a.link.is_none() {
                        // Also when the time to be found has passed: a process that gets little of the processors has hardly tried. If nobody is there now, that ends it.
                        self.resolve(vi);
                    }
                }
            }
        }
    }

    pub(crate) fn raise(&mut self, vi: Option<ViHandle>, code: AsyncErrorCode, cause: Option<Cause>) {
        // A peer can raise errors faster than they are handled; beyond this many at a time they are not told one by one.
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event::AsyncError(AsyncError { vi, cq: None, code, cause }));
        }
    }
}

/// Whether two VIs can be connected.
fn compatible(a: &ViAttributes, b: &ViAttributes) -> Result<(), Error> {
    if a.reliability != b.reliability {
        return Err(Error::InvalidReliability);
    }
    if a.max_transfer_bytes != b.max_transfer_bytes {
        return Err(Error::InvalidMtu);
    }
    Ok(())
}
