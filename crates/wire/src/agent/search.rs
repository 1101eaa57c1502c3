// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a NIC by its name: a question to the directory of an address, which is endpoint 0 of
//! its agent, as a packet; asked again until it is answered.
//!
//! The questions and answers are those of UDP (`udp/packet.rs`), only that the port told is an
//! endpoint's number, and the user its owner.

use crate::address::NetAddress;
use crate::time::{Duration, Instant};
use crate::udp::find::{ip_and_port, on_link_of};
use crate::udp::packet::{FIND_BYTES, Find, Found};
use crate::users::Allow;
use crate::{LinkFailure, Rendezvous, names};
use bellwire_proto::{Purpose, Seed, Stream};
use core::net::SocketAddr;
use rand_core::Rng;
use std::collections::{BTreeMap, VecDeque};

/// A question is repeated after this time. The time doubles with each question, up to the second
/// value, and the search ends after `FIND_TRIES` questions, five seconds in all. An endpoint needs
/// a frame to ask and another one to hear the answer, behind all others that ask. Questions that
/// came faster than they can be answered would keep the frames from new ones.
const FIND_PERIOD: Duration = Duration::from_millis(20);
const FIND_PERIOD_MAX: Duration = Duration::from_millis(1_000);
const FIND_TRIES: u32 = 10;
/// A peer that was not there is asked for again after this.
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Question {
    to: SocketAddr,
    find: Find,
    tries: u32,
    next_at: Instant,
    /// Of two peers: asked again until it is cancelled, for the other may come at any time.
    patient: bool,
}

/// One NIC's part in finding and being found.
#[derive(Debug)]
pub(super) struct Search {
    /// Names under which it waits, and for how many.
    waits: BTreeMap<u128, u32>,
    questions: BTreeMap<u64, Question>,
    /// The wait that a request of two peers keeps.
    mutual: BTreeMap<u64, u128>,
    found: VecDeque<(u64, Result<SocketAddr, LinkFailure>)>,
    random: Stream,
    next_timeout: Instant,
    user: u32,
    /// Other users of this host that are looked for; if it names any, no others are.
    allow: Allow,
}

impl Search {
    pub(super) fn new(seed: Seed, allow: Allow) -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            allow,
            waits: BTreeMap::new(),
            questions: BTreeMap::new(),
            mutual: BTreeMap::new(),
            found: VecDeque::new(),
            random: seed.stream(Purpose::Questions),
            next_timeout: Instant::NEVER,
        }
    }

    pub(super) fn next_timeout(&self) -> Instant {
        self.next_timeout
    }

    pub(super) fn is_asking(&self) -> bool {
        !self.questions.is_empty() || !self.found.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.waits.is_empty() || self.is_asking()
    }

    pub(super) fn poll_found(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        self.found.pop_front()
    }

    /// The names under which it waits.
    pub(super) fn names(&self) -> impl Iterator<Item = u128> {
        self.waits.keys().copied()
    }

    /// It waits under this name. Whether the agent must be told.
    pub(super) fn wait(&mut self, name: u128) -> bool {
        let users = self.waits.entry(name).or_insert(0);
        *users += 1;
        *users == 1
    }

    /// No longer. Whether the agent must be told.
    pub(super) fn wait_no_more(&mut self, name: u128) -> bool {
        let Some(users) = self.waits.get_mut(&name) else { return false };
        *users -= 1;
        *users == 0 && self.waits.remove(&name).is_some()
    }

    /// Looks for the NIC at `remote`. A name that the agent must be told of.
    pub(super) fn locate(&mut self, now: Instant, own: SocketAddr, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) -> Option<u128> {
        let place = ip_and_port(remote.host()).filter(|(ip, _)| ip.is_ipv4() == own.is_ipv4());
        let Some((ip, port)) = place else {
            self.answer(request, Err(LinkFailure::NotReachable));
            return None;
        };
        if let Some(port) = port {
            self.answer(request, Ok(on_link_of(own, ip, port)));
            return None;
        }
        let (mut told, mut name) = (None, names::hash_of(&[remote]));
        if how == Rendezvous::Peer {
            let own = names::hash_of(&[local, remote]);
            self.mutual.insert(request, own);
            told = self.wait(own).then_some(own);
            name = names::hash_of(&[remote, local]);
        }
        let find = Find { nonce: self.random.next_u64(), name };
        let question = Question { to: on_link_of(own, ip, 0), find, tries: 0, next_at: now, patient: how == Rendezvous::Peer };
        self.questions.insert(request, question);
        self.note_timeouts();
        told
    }

    /// The answer is no longer wanted, or what it was for is over. A name to tell the agent.
    pub(super) fn cancel(&mut self, request: u64) -> Option<u128> {
        self.questions.remove(&request);
        self.found.retain(|(r, _)| *r != request);
        self.note_timeouts();
        let name = self.mutual.remove(&request)?;
        self.wait_no_more(name).then_some(name)
    }

    fn answer(&mut self, request: u64, answer: Result<SocketAddr, LinkFailure>) {
        self.questions.remove(&request);
        self.found.push_back((request, answer));
        self.note_timeouts();
    }

    /// An answer of a directory.
    pub(super) fn handle_packet(&mut self, now: Instant, own: SocketAddr, from: SocketAddr, bytes: &[u8]) {
        let Some(found) = Found::load(bytes) else { return };
        let open = self.questions.iter().find(|(_, q)| q.find == Find { nonce: found.nonce, name: found.name } && q.to == from);
        let Some(request) = open.map(|(r, _)| *r) else { return };
        let is_allowed = self.allow.is_empty() || from.ip() != own.ip() || found.user == self.user || self.allow.names_user(found.user);
        let is_there = found.port != 0 && is_allowed;
        if !is_there && let Some(q) = self.questions.get_mut(&request).filter(|q| q.patient) {
            (q.tries, q.next_at) = (0, now + PATIENCE);
            return self.note_timeouts();
        }
        let answer = match found.port {
            0 => Err(LinkFailure::NobodyThere),
            port if is_allowed => Ok(on_link_of(own, from.ip(), port)),
            _ => Err(LinkFailure::NotAllowedHere),
        };
        self.answer(request, answer);
    }

    /// Questions whose time has come: sent by `ask`.
    pub(super) fn handle_timeout(&mut self, now: Instant, mut ask: impl FnMut(SocketAddr, &[u8; FIND_BYTES])) {
        if self.next_timeout > now {
            return;
        }
        let mut late = Vec::new();
        for (request, q) in self.questions.iter_mut().filter(|(_, q)| q.next_at <= now) {
            if q.tries >= FIND_TRIES && !q.patient {
                late.push(*request);
                continue;
            }
            q.tries += 1;
            q.next_at = now + Duration((FIND_PERIOD.0 << (q.tries - 1).min(16)).min(FIND_PERIOD_MAX.0));
            ask(q.to, &q.find.store());
        }
        late.into_iter().for_each(|request| self.answer(request, Err(LinkFailure::NobodyThere)));
        self.note_timeouts();
    }

    fn note_timeouts(&mut self) {
        self.next_timeout = self.questions.values().map(|q| q.next_at).fold(Instant::NEVER, Instant::min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of a question that a directory answers with an endpoint of `user`.
    fn outcome(allow: &Allow, how: Rendezvous, directory: &str, user: u32) -> Option<Result<SocketAddr, LinkFailure>> {
        let (now, own) = (Instant(1), "10.0.0.1:1024".parse().unwrap());
        let mut search = Search::new(7.into(), allow.clone());
        let directory: SocketAddr = directory.parse().unwrap();
        let local = NetAddress::new(&[10, 0, 0, 1], b"here").unwrap();
        let remote = NetAddress::new(&crate::udp::host_address(SocketAddr::new(directory.ip(), 0)), b"there").unwrap();
        search.locate(now, own, 1, how, &local, &remote);
        let mut asked = None;
        search.handle_timeout(now, |to, bytes| asked = Some((to, *bytes)));
        let (to, bytes) = asked.unwrap();
        assert_eq!(to, directory);
        let find = Find::load(&bytes).unwrap();
        search.handle_packet(now, own, directory, &Found { nonce: find.nonce, name: find.name, user, port: 2048 }.store());
        search.poll_found().map(|(_, answer)| answer)
    }

    #[test]
    fn of_this_host_only_allowed_users_are_found_if_any_is_named() {
        let own = rustix::process::geteuid().as_raw();
        let (friend, stranger) = (own + 1, own + 2);
        let allow = Allow::of_users([friend]);
        let (here, elsewhere) = ("10.0.0.1:0", "10.0.0.2:0");
        let found = |ip: &str| Some(Ok(SocketAddr::new(ip.parse().unwrap(), 2048)));
        for user in [own, friend, stranger] {
            assert_eq!(outcome(&Allow::NOBODY, Rendezvous::Client, here, user), found("10.0.0.1"), "nobody is named");
            assert_eq!(outcome(&allow, Rendezvous::Client, elsewhere, user), found("10.0.0.2"), "another host's user ids say nothing");
        }
        for user in [own, friend] {
            assert_eq!(outcome(&allow, Rendezvous::Client, here, user), found("10.0.0.1"));
        }
        assert_eq!(outcome(&allow, Rendezvous::Client, here, stranger), Some(Err(LinkFailure::NotAllowedHere)));
        assert_eq!(outcome(&allow, Rendezvous::Peer, here, stranger), None, "asked again: the one that is meant may come");
    }
}
