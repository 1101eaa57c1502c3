// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a NIC by its name: a question to the directory of an address, which is endpoint 0 of
//! its agent, as a packet; asked again until it is answered.
//!
//! The questions and answers are those of UDP (docs/PROTOCOL.md, "Finding a NIC"), only that the
//! port told is an endpoint's number.

use crate::address::NetAddress;
use crate::time::{Duration, Instant};
use crate::udp::find::{ip_and_port, on_link_of};
use crate::udp::packet::{FIND_BYTES, Find, Found};
use crate::{LinkFailure, Rendezvous, names};
use bellwire_proto::{Purpose, Seed, Stream};
use core::net::SocketAddr;
use rand_core::Rng;
use std::collections::{BTreeMap, VecDeque};

/// A question is repeated after this, and given up after so many.
const FIND_PERIOD: Duration = Duration::from_millis(20);
/// More than UDP's: an endpoint that is not resident answers when it has been loaded, and an agent
/// may be starting anew.
const FIND_TRIES: u32 = 50;
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
}

impl Search {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
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
        if found.port == 0
            && let Some(q) = self.questions.get_mut(&request).filter(|q| q.patient)
        {
            (q.tries, q.next_at) = (0, now + PATIENCE);
            return self.note_timeouts();
        }
        let answer = if found.port == 0 { Err(LinkFailure::NobodyThere) } else { Ok(on_link_of(own, from.ip(), found.port)) };
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
            q.next_at = now + if q.tries > FIND_TRIES { PATIENCE } else { FIND_PERIOD };
            ask(q.to, &q.find.store());
        }
        late.into_iter().for_each(|request| self.answer(request, Err(LinkFailure::NobodyThere)));
        self.note_timeouts();
    }

    fn note_timeouts(&mut self) {
        self.next_timeout = self.questions.values().map(|q| q.next_at).fold(Instant::NEVER, Instant::min);
    }
}
