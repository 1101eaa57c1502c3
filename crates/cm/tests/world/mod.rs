// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes with connection management on a network in virtual time, whose links lose messages,
//! break, and end with their processes.

use bellwire_cm::{Channel, Cm, Event, Gid, Host, Link, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const DELAY: u64 = MS / 10;

#[derive(Clone, Debug)]
pub enum Arrival {
    Accepted(Link, Gid),
    Opened(Link),
    Closed(Link, bool),
    Message(Link, Vec<u8>),
}

/// The network.
#[derive(Debug, Default)]
pub struct Net {
    pub now: u64,
    random: u64,
    /// Messages lost, of a thousand.
    pub loss: u64,
    owners: BTreeMap<(usize, Service), usize>,
    /// The other end of a link, while both are there.
    ends: BTreeMap<(usize, Link), (usize, Link)>,
    links: u64,
    queue: BTreeMap<(u64, u64), (usize, Arrival)>,
    sent: u64,
    pub messages: u64,
    pub signalled: BTreeMap<(usize, Channel), bool>,
    dead: BTreeSet<usize>,
    /// Links that are begun from now on neither open nor fail.
    pub is_stuck: bool,
    /// Queue pairs with completions that their processes have not taken.
    pub untaken: BTreeSet<(usize, u32)>,
    /// Queue pairs without a peer: process, own, the peer's address and number.
    pub orphaned: Vec<(usize, u32, Gid, u32)>,
}

impl Net {
    pub fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn put(&mut self, to: usize, arrival: Arrival) {
        self.sent += 1;
        self.queue.insert((self.now + DELAY, self.sent), (to, arrival));
    }

    pub fn link_ends(&self) -> usize {
        self.ends.len()
    }
}

/// The world as a process sees it. The host of process `i` is `i / 2`: two processes on each.
pub struct Side<'a>(pub &'a mut Net, pub usize);

pub fn gid(process: usize) -> Gid {
    let mut gid = [0; 16];
    gid[15] = 1 + (process / 2) as u8;
    gid
}

impl Host for Side<'_> {
    fn claim(&mut self, service: Service) -> bool {
        *self.0.owners.entry((self.1 / 2, service)).or_insert(self.1) == self.1
    }

    fn release(&mut self, service: Service) {
        assert_eq!(self.0.owners.remove(&(self.1 / 2, service)), Some(self.1), "only what was claimed is released");
    }

    fn open(&mut self, to: Gid, service: Service) -> Option<Link> {
        let host = usize::from(to[15]) - 1;
        self.0.links += 2;
        let (own, other) = (Link(self.0.links), Link(self.0.links + 1));
        match self.0.owners.get(&(host, service)).copied() {
            Some(_) if self.0.is_stuck => {}
            Some(owner) => {
                self.0.ends.insert((self.1, own), (owner, other));
                self.0.ends.insert((owner, other), (self.1, own));
                self.0.put(owner, Arrival::Accepted(other, gid(self.1)));
                self.0.put(self.1, Arrival::Opened(own));
            }
            None if host == self.1 / 2 => return None,
            None => self.0.put(self.1, Arrival::Closed(own, true)),
        }
        Some(own)
    }

    fn close(&mut self, link: Link) {
        if let Some((other, end)) = self.0.ends.remove(&(self.1, link)) {
            self.0.ends.remove(&(other, end));
            self.0.put(other, Arrival::Closed(end, false));
        }
    }

    fn may_answer(&mut self, to: Gid, service: Service) -> bool {
        let host = usize::from(to[15]) - 1;
        host != self.1 / 2 || self.0.owners.contains_key(&(host, service))
    }

    fn send(&mut self, link: Link, message: &[u8]) {
        assert!(message.len() <= bellwire_cm::MESSAGE_BYTES_MAX);
        self.0.messages += 1;
        let lost = self.0.draw() % 1000 < self.0.loss;
        if let Some((other, end)) = self.0.ends.get(&(self.1, link)).copied().filter(|_| !lost) {
            self.0.put(other, Arrival::Message(end, message.to_vec()));
        }
    }

    fn has_completions(&mut self, qp: u32) -> bool {
        self.0.untaken.contains(&(self.1, qp))
    }

    fn orphaned(&mut self, own: u32, gid: Gid, peer: u32) {
        self.0.orphaned.push((self.1, own, gid, peer));
    }

    fn signal(&mut self, channel: Channel, has_events: bool) {
        let was = self.0.signalled.insert((self.1, channel), has_events).unwrap_or(false);
        assert_ne!(was, has_events, "a channel is told of changes only");
    }
}

/// Processes and their network.
pub struct World {
    pub net: Net,
    pub cms: Vec<Cm>,
}

impl World {
    pub fn new(processes: usize, seed: u64, loss: u64) -> Self {
        let cms = (0..processes).map(|i| Cm::new(gid(i), seed ^ i as u64)).collect();
        Self { net: Net { now: SECOND, random: seed, loss, ..Net::default() }, cms }
    }

    /// Runs `f` on a process.
    pub fn on<R>(&mut self, process: usize, f: impl FnOnce(&mut Cm, &mut Side<'_>, u64) -> R) -> R {
        let now = self.net.now;
        f(&mut self.cms[process], &mut Side(&mut self.net, process), now)
    }

    pub fn event(&mut self, process: usize, channel: Channel) -> Option<Event> {
        let told = self.net.signalled.get(&(process, channel)).copied().unwrap_or(false);
        assert_eq!(told, self.cms[process].has_events(channel));
        self.on(process, |cm, host, _| cm.take_event(host, channel))
    }

    /// What happens next, until `end`. `false`: nothing.
    pub fn step(&mut self, end: u64) -> bool {
        let arrival = self.net.queue.first_key_value().map(|(k, _)| k.0);
        let timer = (0..self.cms.len()).filter(|p| !self.net.dead.contains(p)).filter_map(|p| self.cms[p].next_time().map(|t| (t, p))).min();
        match (arrival, timer) {
            (Some(at), timer) if at <= end && timer.is_none_or(|(t, _)| at <= t) => {
                let Some((_, (to, arrival))) = self.net.queue.pop_first() else { return false };
                self.net.now = self.net.now.max(at);
                if self.net.dead.contains(&to) {
                    return true;
                }
                self.on(to, |cm, host, now| match arrival {
                    Arrival::Accepted(link, gid) => cm.accepted(link, gid),
                    Arrival::Opened(link) => cm.opened(host, link, now),
                    Arrival::Closed(link, missing) => cm.closed(host, link, missing, now),
                    Arrival::Message(link, bytes) => cm.message(host, link, &bytes, now),
                });
                true
            }
            (_, Some((at, p))) if at <= end => {
                self.net.now = self.net.now.max(at);
                self.on(p, |cm, host, now| cm.tick(host, now));
                true
            }
            _ => {
                self.net.now = self.net.now.max(end);
                false
            }
        }
    }

    pub fn run(&mut self, time: u64) {
        let end = self.net.now + time;
        while self.step(end) {}
    }

    /// A process is killed: its links break and its services are free.
    pub fn kill(&mut self, process: usize) {
        self.net.dead.insert(process);
        self.net.owners.retain(|_, owner| *owner != process);
        let ends: Vec<(usize, Link)> = self.net.ends.keys().filter(|(p, _)| *p == process).copied().collect();
        for (p, link) in ends {
            Side(&mut self.net, p).close(link);
        }
    }
}

pub fn address(process: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + (process / 2) as u8], port))
}
