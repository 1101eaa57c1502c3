// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repetitions and time-outs. Links lose nothing, so a message is repeated only for a peer that
//! does not look. The number of tries bounds the wait.

use crate::cm::{Cm, ETIMEDOUT};
use crate::host::Host;
use crate::id::State;
use crate::types::{EventBody, EventKind, QpKind, REJECTED_BY_CONSUMER, REJECTED_NO_SERVICE, REJECTED_TIMEOUT, Service};

const SECOND: u64 = 1_000_000_000;
/// Between two tries of a request or an acceptance, and how many: 20 s in all, since a busy machine
/// may leave a process without a processor for long.
const PAUSE: u64 = 2 * SECOND;
const TRIES: u32 = 10;
/// The same of the end of a connection.
const LEAVE_PAUSE: u64 = SECOND;
const LEAVE_TRIES: u32 = 5;
/// How long a request looks for its service, and how often. Programs tell each other by other ways
/// that one is about to listen, and the other one asks at once.
const LOOK: u64 = SECOND / 4;
const LOOK_PAUSE: u64 = SECOND / 200;
/// How long a peer may take for an answer that said that it has the request.
const WAIT: u64 = 70 * SECOND;
/// How long a queue pair is not to be used again.
const TIME_WAIT: u64 = SECOND / 2;
/// How long a program may take for completions before it is told that the peer left, and how often
/// they are looked at.
const PART: u64 = SECOND / 5;
const PART_PAUSE: u64 = SECOND / 1000;

impl Cm {
    /// When [`tick`](Self::tick) is to be called next, ns.
    pub fn next_time(&self) -> Option<u64> {
        let (timer, idle) = (self.timers.first().map(|t| t.0), self.idle.first().map(|t| t.0));
        timer.into_iter().chain(idle).min()
    }

    /// Does what is due.
    pub fn tick<H: Host>(&mut self, host: &mut H, now: u64) {
        self.now = now;
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            if let Some(id) = self.ids.get_mut(&number).filter(|id| id.due == at) {
                id.due = 0;
                self.due(host, number);
            }
        }
        self.end_idle(host);
    }

    /// Sets when an identifier is to be seen to.
    fn at(&mut self, number: u32, at: u64) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        self.timers.remove(&(id.due, number));
        id.due = at;
        if at != 0 {
            self.timers.insert((at, number));
        }
    }

    /// Something was sent that the peer is to answer.
    pub(crate) fn begin(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        (id.tries, id.waits) = (1, false);
        let link = id.link.filter(|_| id.state == State::Requested).and_then(|link| self.links.get(&link));
        let pause = match id.state {
            State::Leaving => LEAVE_PAUSE,
            _ if link.is_some_and(|link| !link.is_open) => LOOK,
            _ => PAUSE,
        };
        let at = self.now.saturating_add(pause);
        self.at(number, at);
    }

    /// The link of a request is there: what it has waited for that counts.
    pub(crate) fn begin_on_link(&mut self, number: u32) {
        self.begin(number);
        let now = self.now;
        if let Some(id) = self.ids.get_mut(&number) {
            id.tries += u32::try_from(now.saturating_sub(id.asked_at) / PAUSE).unwrap_or(TRIES).min(TRIES);
        }
    }

    /// A request waits for its link. The process that had the service may have died meanwhile; that
    /// breaks nothing yet. `false`: it has its link.
    fn waits_for_link<H: Host>(&mut self, host: &mut H, number: u32) -> bool {
        let Some(pending) = self.ids.get(&number).filter(|id| id.state == State::Requested).and_then(|id| id.link) else { return false };
        let Some(link) = self.links.get(&pending).filter(|link| !link.is_open) else { return false };
        let to = link.service.map(|service| (link.gid, service));
        if to.is_none_or(|(gid, service)| host.may_answer(gid, service)) {
            self.at(number, self.now.saturating_add(LOOK));
        } else {
            host.close(pending);
            self.closed(host, pending, true, self.now);
        }
        true
    }

    /// The peer has a request and takes its time.
    pub(crate) fn wait(&mut self, number: u32) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.waits = true;
        }
        let at = self.now.saturating_add(WAIT);
        self.at(number, at);
    }

    /// Nothing is waited for.
    pub(crate) fn settle(&mut self, number: u32) {
        self.at(number, 0);
    }

    /// Ends what an identifier was about; it keeps its number only.
    pub(crate) fn finish(&mut self, number: u32, state: State) {
        self.settle(number);
        self.unlink(number);
        if let Some(id) = self.ids.get_mut(&number) {
            (id.state, id.pending) = (state, None);
        }
    }

    pub(crate) fn time_wait(&mut self, number: u32) {
        self.finish(number, State::TimeWait);
        let at = self.now.saturating_add(TIME_WAIT);
        self.at(number, at);
    }

    fn due<H: Host>(&mut self, host: &mut H, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.state == State::Requested && id.link.is_none() {
            if let (Some(gid), Some(to)) = (id.peer_gid, id.destination) {
                self.ask(host, number, gid, to.port());
            }
            return;
        }
        if id.state == State::Established && id.parting != 0 {
            return self.part(host, number);
        }
        if self.waits_for_link(host, number) {
            return;
        }
        let Some(id) = self.ids.get_mut(&number) else { return };
        let (pause, most) = if id.state == State::Leaving { (LEAVE_PAUSE, LEAVE_TRIES) } else { (PAUSE, TRIES) };
        match id.state {
            State::TimeWait => {
                id.state = State::Over;
                self.tell(host, number, EventKind::TimewaitExit, 0, EventBody::Nothing);
            }
            State::Requested | State::Replied | State::Leaving if id.tries < most && !id.waits => {
                id.tries += 1;
                let at = self.now.saturating_add(pause);
                self.send_pending(host, number);
                self.at(number, at);
            }
            State::Leaving => self.left(host, number, ETIMEDOUT),
            State::Requested | State::Replied => {
                self.finish(number, State::Over);
                self.tell(host, number, EventKind::Unreachable, ETIMEDOUT, EventBody::Nothing);
            }
            _ => {}
        }
    }

    /// Nobody has the service that a request is for: it looks again for a while. `false`: it has.
    pub(crate) fn looks_again(&mut self, number: u32) -> bool {
        let Some(id) = self.ids.get(&number).filter(|id| id.state == State::Requested) else { return false };
        if self.now.saturating_sub(id.asked_at) >= LOOK {
            return false;
        }
        // Another process may have it by then.
        if let (Some(gid), Some(to)) = (id.peer_gid, id.destination) {
            let service = Service { space: id.space, port: to.port() };
            self.by_service.remove(&(gid, service));
        }
        self.unlink(number);
        let at = self.now.saturating_add(LOOK_PAUSE);
        self.at(number, at);
        true
    }

    /// The peer ended the connection, or its link is over. The program is told when it has taken
    /// the completions of the queue pair. On a device these come well before the message that ends
    /// the connection: programs drop what is not complete when they hear of the end.
    pub(crate) fn part<H: Host>(&mut self, host: &mut H, number: u32) {
        let now = self.now;
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.parting == 0 {
            id.parting = now.saturating_add(PART);
        }
        if now < id.parting && host.has_completions(id.ours.qp) {
            return self.at(number, now.saturating_add(PART_PAUSE));
        }
        if id.link.is_none() {
            return self.left(host, number, 0);
        }
        (id.state, id.pending) = (State::Left, None);
        self.settle(number);
        self.tell(host, number, EventKind::Disconnected, 0, EventBody::Nothing);
    }

    /// The link of an identifier is over. `had_been`: it was open; `is_missing`: nobody has the
    /// service that it was to lead to.
    pub(crate) fn lost<H: Host>(&mut self, host: &mut H, number: u32, had_been: bool, is_missing: bool) {
        if is_missing && self.looks_again(number) {
            return;
        }
        let Some(id) = self.ids.get(&number) else { return };
        let is_datagram = id.kind == QpKind::Datagram;
        let rejected = |reason: u32| (EventKind::Rejected, reason as i32);
        let (kind, status) = match id.state {
            State::Requested if is_datagram && is_missing => (EventKind::Unreachable, 1),
            State::Requested if is_datagram => (EventKind::Unreachable, ETIMEDOUT),
            State::Requested if had_been => rejected(REJECTED_BY_CONSUMER),
            State::Requested if is_missing => rejected(REJECTED_NO_SERVICE),
            State::Requested => (EventKind::Unreachable, ETIMEDOUT),
            State::Answered => rejected(REJECTED_BY_CONSUMER),
            State::Replied => rejected(REJECTED_TIMEOUT),
            State::Established if is_datagram => return,
            State::Established => {
                // A peer that said goodbye before leaves no orphan.
                let pair = (id.parting == 0).then_some((id.ours.qp, id.peer_gid, id.theirs.qp));
                self.part(host, number);
                if let Some((own, Some(gid), peer)) = pair {
                    host.orphaned(own, gid, peer);
                }
                return;
            }
            State::Leaving => return self.left(host, number, 0),
            // The program does not know of it, or knows of its end.
            State::Asked => return self.finish(number, State::Over),
            State::Left => return self.time_wait(number),
            _ => return,
        };
        self.finish(number, State::Over);
        self.tell(host, number, kind, status, EventBody::Nothing);
    }
}
