// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client's and the peer's side: an attempt to connect, from the wire's search for the peer to
//! an outcome, with its two times (found by, answered by) and its tries in between.

use crate::attributes::{NetAddress, ViAttributes, ViState};
use crate::cause::Cause;
use crate::connection::message::ReplyCode;
use crate::connection::{RETRY_MAX, RETRY_MIN};
use crate::connections::{Attempt, IncomingHandle, Timer};
use crate::engine::Engine;
use crate::error::Error;
use crate::frame::{Head, Op};
use crate::handles::ViHandle;
use crate::parcel::Notice;
use crate::time::{Duration, Instant};
use crate::wire::{LinkFailure, LinkId, Rendezvous, Wire};
use rand_core::Rng;

impl<W: Wire> Engine<W> {
    /// Begins to connect `vi` to `remote`. See [`connect_status`](Self::connect_status).
    pub fn connect_request(&mut self, vi: ViHandle, local: &NetAddress, remote: &NetAddress, deadline: Instant) -> Result<(), Error> {
        self.begin_attempt(vi, Rendezvous::Client, local, remote, deadline, deadline)
    }

    /// As [`connect_request`](Self::connect_request), with two times: until when somebody has to
    /// wait there, and until when, once that process or NIC has been found, it has to answer. One
    /// that lives may get no processor for seconds; a name that nobody has is an error sooner.
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
            refusal: None,
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

    pub(super) fn resolve(&mut self, vi: ViHandle) {
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
                (a.link, a.refusal) = (Some(link), None);
                let op = if a.how == Rendezvous::Peer { Op::PeerRequest } else { Op::ConnectRequest };
                self.send_message(link, Head::new(op, 0), vi, ReplyCode::Accepted);
            }
            Err(LinkFailure::NotReachable) => self.attempt_ends(vi, Err(Error::NotReachable)),
            Err(reason @ LinkFailure::OtherVersion) => {
                a.refusal = Some(reason);
                self.attempt_ends(vi, Err(Error::NotReachable));
            }
            Err(LinkFailure::LocalLimit) => self.attempt_ends(vi, Err(Error::Resource)),
            Err(reason) if reason.is_of_keys() => {
                a.refusal = Some(reason);
                self.attempt_ends(vi, Err(Error::Key(reason)));
            }
            Err(reason) => {
                a.busy = reason == LinkFailure::Busy;
                if reason.is_of_another_user() {
                    a.refusal = Some(reason);
                }
                if a.busy {
                    self.found(vi);
                }
                self.try_later(vi);
            }
        }
    }

    /// Somebody waits there. (A NIC is not yet somebody.)
    pub(super) fn found(&mut self, vi: ViHandle) {
        let now = self.now;
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        let (before, after) = (a.found_by, now + a.patience);
        if before < after && before < a.deadline {
            a.found_by = after;
            self.connections.unschedule(before, Timer::Attempt(vi));
            self.connections.schedule(after, Timer::Attempt(vi));
        }
    }

    pub(super) fn try_later(&mut self, vi: ViHandle) {
        let jitter = Duration(u64::from(self.random.next_u32()) % RETRY_MIN.0);
        let now = self.now;
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        a.link = None;
        if a.found_by <= now && !a.busy {
            let why = a.not_found();
            return self.attempt_ends(vi, Err(why));
        }
        a.retry_at = now + a.backoff + jitter;
        a.backoff = Duration((a.backoff.0 * 2).min(RETRY_MAX.0));
        let at = a.retry_at;
        self.connections.schedule(at, Timer::Attempt(vi));
    }

    /// An attempt is over.
    pub(super) fn attempt_ends(&mut self, vi: ViHandle, outcome: Result<ViAttributes, Error>) {
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        if a.outcome.is_some() {
            return;
        }
        // Of nobody, it is told that another user's process was there.
        let outcome = match (outcome, a.refusal) {
            (Err(Error::NoMatch), Some(LinkFailure::NotAllowedThere)) => Err(Error::NotAllowedThere),
            (Err(Error::NoMatch), Some(_)) => Err(Error::NotAllowedHere),
            _ => outcome,
        };
        a.outcome = Some(outcome);
        // While a timer is set, every turn looks at the clock.
        for time in [a.deadline, a.found_by, a.retry_at] {
            self.connections.unschedule(time, Timer::Attempt(vi));
        }
        let Some(a) = self.connections.attempts.get_mut(&vi) else { return };
        self.completions += 1;
        let refusal = a.refusal;
        if let Some(request) = a.request.take() {
            self.connections.requests.remove(&request);
            self.wire.cancel(request);
        }
        if outcome.is_err() {
            if let Some(v) = self.vis.get_mut(vi) {
                v.set_state(ViState::Idle);
                v.cause = refusal.map(Cause::Link);
            }
            self.drop_connection_id(vi);
        }
        self.notice(vi, Notice::Connected(outcome.map(|theirs| theirs.qos)));
    }

    pub(super) fn give_up(&mut self, vi: ViHandle, why: Error) {
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
}
