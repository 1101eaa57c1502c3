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

use crate::attributes::{NetAddress, Reliability, ViAttributes, ViState};
use crate::engine::Engine;
use crate::error::Error;
use crate::event::{AsyncError, AsyncErrorCode, Event};
use crate::frame::{self, DisconnectReason, Head, Op};
use crate::handle::{Handle, Slab};
use crate::inbox::Notice;
use crate::time::{Duration, Instant};
use crate::vi::{Connection, ViHandle};
use crate::wire::{LinkFailure, LinkId, Rendezvous, Wire};
use rand_core::Rng;
use std::collections::{BTreeMap, BTreeSet};

mod arrival;
mod message;
use message::ReplyCode;

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
    // ---- server

    /// Begins to wait for a request to `local` (host and discriminator).
    pub fn connect_wait(&mut self, local: &NetAddress, deadline: Instant) -> Result<WaitHandle, Error> {
        let c = &mut self.connections;
        let wait = c.waits.insert(Wait { address: *local, deadline, matched: None }).ok_or(Error::Resource)?;
        c.wait_order.push(wait);
        let listening = c.listening.entry(*local).or_insert(Listening { users: 0, active: false });
        listening.users += 1;
        if !listening.active {
            listening.active = self.wire.listen(local);
            if !listening.active {
                c.schedule(self.now + RETRY_MIN, Timer::Listen);
            }
        }
        Ok(wait)
    }

    /// Whether requests to this address come here. If not, though somebody here waits for it, somebody else on this host does.
    pub fn is_listening(&self, local: &NetAddress) -> bool {
        self.connections.listening.get(local).is_some_and(|l| l.active)
    }

    /// Requests for connections that have met a wait since the engine began: who remembers the number knows whether to ask [`poll_wait`](Self::poll_wait).
    #[inline]
    pub fn connection_requests(&self) -> u64 {
        self.connections.arrived
    }

    /// Whether a request has come. After anything but `Ok(None)` the wait is over.
    pub fn poll_wait(&mut self, wait: WaitHandle) -> Result<Option<ConnectionRequest>, Error> {
        let w = self.connections.waits.get(wait).ok_or(Error::InvalidParameter)?;
        let Some(incoming) = w.matched else {
            if w.deadline <= self.now {
                self.cancel_wait(wait);
                return Err(Error::Timeout);
            }
            return Ok(None);
        };
        let found = self.connections.incoming.get(incoming).map(|i| ConnectionRequest { incoming, remote: i.remote, attributes: i.attributes });
        self.end_wait(wait);
        // A request whose requester is gone before anybody saw it: the wait is over all the same.
        found.map(Some).ok_or(Error::Timeout)
    }

    /// Ends a wait; a request that had matched it is refused.
    pub fn cancel_wait(&mut self, wait: WaitHandle) {
        if let Some(incoming) = self.connections.waits.get(wait).and_then(|w| w.matched) {
            let _ = self.reject(incoming);
        }
        self.end_wait(wait);
    }

    fn end_wait(&mut self, wait: WaitHandle) {
        let c = &mut self.connections;
        let Some(w) = c.waits.remove(wait) else { return };
        c.wait_order.retain(|x| *x != wait);
        if let Some(l) = c.listening.get_mut(&w.address) {
            l.users -= 1;
            if l.users == 0 {
                if l.active {
                    self.wire.unlisten(&w.address);
                }
                c.listening.remove(&w.address);
            }
        }
    }

    /// Connects `vi` to the requester. On a mismatch of attributes the request stays, to be accepted with another VI or rejected.
    pub fn accept(&mut self, incoming: IncomingHandle, vi: ViHandle) -> Result<(), Error> {
        let i = self.connections.incoming.get(incoming).ok_or(Error::InvalidParameter)?;
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        if v.state != ViState::Idle {
            return Err(Error::InvalidState);
        }
        if i.gone {
            self.connections.incoming.remove(incoming);
            return Err(Error::Timeout);
        }
        compatible(&v.attributes, &i.attributes)?;
        let (link, to, theirs, ptag, remote) = (i.link, i.their_connection, i.attributes, i.their_ptag, i.remote);
        self.connections.incoming.remove(incoming);
        let own = self.new_connection_id(vi)?;
        self.reply(link, to, ReplyCode::Accepted, Some(vi));
        self.connected(vi, link, to, &theirs, ptag);
        debug_assert_eq!(self.vis.get(vi).and_then(|v| v.connection), Some(own));
        self.notice(vi, Notice::Accepted(theirs.qos, Box::new(remote)));
        Ok(())
    }

    /// Refuses a request.
    pub fn reject(&mut self, incoming: IncomingHandle) -> Result<(), Error> {
        let i = self.connections.incoming.remove(incoming).ok_or(Error::InvalidParameter)?;
        if !i.gone {
            self.reply(i.link, i.their_connection, ReplyCode::Rejected, None);
        }
        Ok(())
    }

    // ---- client and peer

    /// Begins to connect `vi` to `remote`. See [`connect_status`](Self::connect_status).
    pub fn connect_request(&mut self, vi: ViHandle, local: &NetAddress, remote: &NetAddress, deadline: Instant) -> Result<(), Error> {
        self.begin_attempt(vi, Rendezvous::Client, local, remote, deadline, deadline)
    }

    /// As [`connect_request`](Self::connect_request), with two times: until when somebody has to wait there, and until when, once that process or NIC has been found, it has to answer. One that
    /// lives may get no processor for seconds; a name that nobody has is an error sooner.
    pub fn connect_request_within(
        &mut self,
        vi: ViHandle,
        local: &NetAddress,
        remote: &NetAddress,
        found_by: Instant,
        answered_by: Instant,
    ) -> Result<(), Error> {
        self.begin_attempt(vi, Rendezvous::Client, local, remote, found_by, answered_by)
    }

    /// Begins to connect `vi` to a VI whose owner makes the mirrored call.
    pub fn peer_request(&mut self, vi: ViHandle, local: &NetAddress, remote: &NetAddress, deadline: Instant) -> Result<(), Error> {
        self.begin_attempt(vi, Rendezvous::Peer, local, remote, deadline, deadline)
    }

    fn begin_attempt(
        &mut self,
        vi: ViHandle,
        how: Rendezvous,
        local: &NetAddress,
        remote: &NetAddress,
        found_by: Instant,
        deadline: Instant,
    ) -> Result<(), Error> {
        let v = self.vis.get_mut(vi).ok_or(Error::InvalidParameter)?;
        if v.state != ViState::Idle || self.connections.attempts.contains_key(&vi) {
            return Err(Error::InvalidState);
        }
        v.set_state(ViState::ConnectPending);
        if let Err(e) = self.new_connection_id(vi) {
            if let Some(v) = self.vis.get_mut(vi) {
                v.set_state(ViState::Idle);
            }
            return Err(e);
        }
        let attempt = Attempt {
            how,
            local: *local,
            remote: *remote,
            deadline,
            found_by,
            patience: if found_by == Instant::NEVER { Duration(0) } else { found_by.since(self.now) },
            retry_at: Instant::NEVER,
            backoff: RETRY_MIN,
            request: None,
            link: None,
            matched: false,
            busy: false,
            outcome: None,
        };
        self.connections.attempts.insert(vi, attempt);
        for time in [found_by, deadline] {
            if time != Instant::NEVER {
                self.connections.schedule(time, Timer::Attempt(vi));
            }
        }
        self.resolve(vi);
        Ok(())
    }

    /// `Ok(None)` while it goes on; else the outcome, once: the peer's attributes, or why not.
    pub fn connect_status(&mut self, vi: ViHandle) -> Result<Option<ViAttributes>, Error> {
        if self.vis.get(vi).is_none() {
            return Err(Error::InvalidParameter);
        }
        let a = self.connections.attempts.get(&vi).ok_or(Error::InvalidState)?;
        let Some(outcome) = a.outcome else { return Ok(None) };
        self.connections.attempts.remove(&vi);
        outcome.map(Some)
    }

    fn resolve(&mut self, vi: ViHandle) {
        let c = &mut self.connections;
        let request = c.next_request;
        c.next_request += 1;
        let Some(a) = c.attempts.get_mut(&vi) else { return };
        a.request = Some(request);
        a.link = None;
        a.retry_at = Instant::NEVER;
        c.requests.insert(request, vi);
        self.wire.resolve(request, a.how, &a.local, &a.remote);
    }

    /// The wire has an answer.
    pub(crate) fn resolved(&mut self, request: u64, answer: Result<LinkId, LinkFailure>) {
        let Some(vi) = self.connections.requests.remove(&request) else { return };
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        a.request = None;
        match answer {
            Ok(link) => {
                a.link = Some(link);
                let op = if a.how == Rendezvous::Peer { Op::PeerRequest } else { Op::ConnectRequest };
                self.send_message(link, Head::new(op, 0), vi, ReplyCode::Accepted);
            }
            Err(LinkFailure::NotReachable) => self.attempt_ends(vi, Err(Error::NotReachable)),
            Err(LinkFailure::LocalLimit) => self.attempt_ends(vi, Err(Error::Resource)),
            Err(reason) => {
                a.busy = reason == LinkFailure::Busy;
                if a.busy {
                    self.found(vi);
                }
                self.try_later(vi);
            }
        }
    }

    /// Somebody waits there. (A NIC is not yet somebody.)
    fn found(&mut self, vi: ViHandle) {
        let now = self.now;
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        let (before, after) = (a.found_by, now + a.patience);
        if before < after && before < a.deadline {
            a.found_by = after;
            self.connections.unschedule(before, Timer::Attempt(vi));
            self.connections.schedule(after, Timer::Attempt(vi));
        }
    }

    fn try_later(&mut self, vi: ViHandle) {
        let jitter = Duration(u64::from(self.random.next_u32()) % RETRY_MIN.0);
        let now = self.now;
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        a.link = None;
        if a.found_by <= now && !a.busy {
            return self.attempt_ends(vi, Err(Error::NoMatch));
        }
        a.retry_at = now + a.backoff + jitter;
        a.backoff = Duration((a.backoff.0 * 2).min(RETRY_MAX.0));
        let at = a.retry_at;
        self.connections.schedule(at, Timer::Attempt(vi));
    }

    /// An attempt is over.
    fn attempt_ends(&mut self, vi: ViHandle, outcome: Result<ViAttributes, Error>) {
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        if a.outcome.is_some() {
            return;
        }
        a.outcome = Some(outcome);
        // While a timer is set, every turn looks at the clock.
        for time in [a.deadline, a.found_by, a.retry_at] {
            self.connections.unschedule(time, Timer::Attempt(vi));
        }
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        self.completions += 1;
        if let Some(request) = a.request.take() {
            self.connections.requests.remove(&request);
            self.wire.cancel(request);
        }
        if outcome.is_err() {
            if let Some(v) = self.vis.get_mut(vi) {
                v.set_state(ViState::Idle);
            }
            self.drop_connection_id(vi);
        }
        self.notice(vi, Notice::Connected(outcome.map(|theirs| theirs.qos)));
    }

    fn give_up(&mut self, vi: ViHandle, why: Error) {
        if let Some(a) = self.connections.attempts.get(&vi)
            && let Some(link) = a.link
            && a.how == Rendezvous::Client
        {
            self.send_message(link, Head::new(Op::ConnectCancel, 0), vi, ReplyCode::Accepted);
        }
        self.attempt_ends(vi, Err(why));
    }

    /// Links fail under attempts too: those are tried again.
    pub(crate) fn attempts_lost_link(&mut self, link: LinkId) {
        let hit: Vec<ViHandle> = self.connections.attempts.iter().filter(|(_, a)| a.link == Some(link) && a.outcome.is_none()).map(|(vi, _)| *vi).collect();
        for vi in hit {
            self.try_later(vi);
        }
        let gone: Vec<IncomingHandle> = self.connections.incoming.iter().filter(|(_, i)| i.link == link).map(|(h, _)| h).collect();
        for h in gone {
            if let Some(i) = self.connections.incoming.get_mut(h) {
                i.gone = true;
            }
        }
    }

    // ---- time

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

    fn listen_again(&mut self) {
        let mut again = false;
        for (address, l) in self.connections.listening.iter_mut().filter(|(_, l)| !l.active) {
            l.active = self.wire.listen(address);
            again |= !l.active;
        }
        if again {
            self.connections.schedule(self.now + RETRY_MAX, Timer::Listen);
        }
    }

    // ---- connected, and no longer

    fn new_connection_id(&mut self, vi: ViHandle) -> Result<crate::vi::ConnectionId, Error> {
        let id = self.connection_ids.insert(Connection { vi: vi.index() as u32 }).ok_or(Error::Resource)?;
        match self.vis.get_mut(vi) {
            Some(v) => v.connection = Some(id),
            None => {
                self.connection_ids.remove(id);
                return Err(Error::InvalidParameter);
            }
        }
        Ok(id)
    }

    fn drop_connection_id(&mut self, vi: ViHandle) {
        if let Some(id) = self.vis.get_mut(vi).and_then(|v| v.connection.take()) {
            self.connection_ids.remove(id);
        }
    }

    fn connected(&mut self, vi: ViHandle, link: LinkId, to: u32, theirs: &ViAttributes, their_ptag: u32) {
        let Some(v) = self.vis.get_mut(vi) else { return };
        v.reset_connection();
        v.set_state(ViState::Connected);
        v.link = link;
        v.remote_connection = to;
        v.remote_ptag = their_ptag;
        v.remote_write = theirs.rdma_write;
        v.remote_read = theirs.rdma_read;
        v.remote_rnr = theirs.rnr_wait;
        let reception = v.attributes.reliability == Reliability::ReliableReception;
        v.acknowledged = reception || theirs.rnr_wait;
        v.acknowledges = reception || v.attributes.rnr_wait;
        v.advertised_to = v.receive.done;
        v.update_paths();
        self.settle_faulty_receives(vi.index());
    }

    /// Ends a connection, or whatever state there is: both queues are flushed and the VI is idle.
    pub fn disconnect(&mut self, vi: ViHandle) -> Result<(), Error> {
        let v = self.vis.get(vi).ok_or(Error::InvalidParameter)?;
        let index = vi.index();
        match v.state {
            ViState::ConnectPending => {
                self.give_up(vi, Error::InvalidState);
            }
            ViState::Connected => {
                self.say_goodbye(index, DisconnectReason::Requested);
                self.flush(index);
                self.drop_connection_id(vi);
            }
            ViState::Idle | ViState::Error => {}
        }
        // An outcome that nobody has asked for must not stand in the way of the next attempt.
        self.connections.forget_attempt(vi);
        self.flush(index);
        self.ready.remove(index);
        if let Some(v) = self.vis.get_mut(vi) {
            v.reset_connection();
            v.set_state(ViState::Idle);
        }
        Ok(())
    }

    /// A connection breaks: error state, both queues flushed, the error handler and (with `reason`) the peer told.
    #[cold]
    pub(crate) fn break_connection(&mut self, index: usize, code: Option<AsyncErrorCode>, reason: Option<DisconnectReason>) {
        let Some(handle) = self.vis.handle_at(index) else { return };
        let Some(v) = self.vis.at(index) else { return };
        if v.state != ViState::Connected {
            return;
        }
        if let Some(reason) = reason {
            self.say_goodbye(index, reason);
        }
        if let Some(v) = self.vis.at(index) {
            v.set_state(ViState::Error);
        }
        self.flush(index);
        self.ready.remove(index);
        self.drop_connection_id(handle);
        self.completions += 1;
        if let Some(v) = self.vis.at(index) {
            v.link = LinkId::from_raw(0);
        }
        self.notice(handle, Notice::Broken);
        if let Some(code) = code {
            self.raise(Some(handle), code);
        }
    }

    /// Tells the peer what it has not heard yet, and that it is over.
    fn say_goodbye(&mut self, index: usize, reason: DisconnectReason) {
        self.send_last_acknowledgement(index);
        let Some(v) = self.vis.at(index) else { return };
        let (link, to) = (v.link, v.remote_connection);
        let mut line = frame::short(Head::new(Op::Disconnect, to), reason as u64, 0);
        self.send_control_line(link, &mut line);
    }

    /// What arrived before an error is acknowledged before the error is told.
    pub(crate) fn send_last_acknowledgement(&mut self, index: usize) {
        let Some(v) = self.vis.at(index) else { return };
        if v.acknowledges && v.acknowledged_sequence != v.expected_sequence {
            v.acknowledged_sequence = v.expected_sequence;
            let (link, mut line) = (v.link, frame::short(Head::new(Op::Ack, v.remote_connection), u64::from(v.expected_sequence), 0));
            self.send_control_line(link, &mut line);
        }
    }

    pub(crate) fn raise(&mut self, vi: Option<ViHandle>, code: AsyncErrorCode) {
        // A peer can raise errors faster than they are handled; beyond this many at a time they are not told one by one.
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event::AsyncError(AsyncError { vi, cq: None, code }));
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
