// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network's state: NICs, links, frames under way, events to come. Called by `port.rs` (one
//! NIC's view) and `world.rs` (time).

use super::SimConfig;
use crate::frame::{Head, Op};
use crate::handle::{Handle, Slab};
use crate::time::{Duration, Instant};
use crate::{LinkFailure, LinkId, LinkTag, Sent, WireEvent};
use bellwire_memory::line_queue::Line;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Links of one NIC, living.
const LINKS_MAX: usize = 1 << 16;
/// Bytes of a frame besides its payload.
const FRAME_OVERHEAD_BYTES: u64 = 64;

/// What a network has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStatistics {
    /// Frames taken by `send`.
    pub sent: u64,
    /// Frames consumed by a receiver.
    pub delivered: u64,
    /// Sends that found no room.
    pub no_room: u64,
    /// Looks at links for frames.
    pub looks: u64,
    /// Digest of all frames consumed, with their times. Two runs with equal digests did the same,
    /// as far as a wire can tell. Addresses in RDMA frames are left out: they differ from run to
    /// run.
    pub digest: u64,
}

/// A network, shared by its NICs and its owner.
#[derive(Clone, Debug)]
pub struct SimNetwork(pub(super) Rc<RefCell<Network>>);

impl SimNetwork {
    /// An empty network.
    pub fn new(config: SimConfig) -> Self {
        let random = Pcg64Mcg::seed_from_u64(config.seed);
        let statistics = SimStatistics { digest: 0xcbf2_9ce4_8422_2325, ..SimStatistics::default() };
        Self(Rc::new(RefCell::new(Network {
            config,
            random,
            now: Instant(0),
            nics: Vec::new(),
            links: Vec::new(),
            wakeups: BTreeSet::new(),
            next_event: 0,
            statistics,
        })))
    }

    /// Time goes on. It never runs backwards.
    pub fn advance_to(&self, now: Instant) {
        let mut network = self.0.borrow_mut();
        network.now = network.now.max(now);
        let after = Instant(network.now.0 + 1);
        let later = network.wakeups.split_off(&after);
        network.wakeups = later;
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.0.borrow().now
    }

    /// When something arrives next; [`Instant::NEVER`] if nothing is under way.
    pub fn next_arrival(&self) -> Instant {
        self.0.borrow().wakeups.first().copied().unwrap_or(Instant::NEVER)
    }

    /// A NIC stops without a word: frames under way to it are lost, frames that it sent arrive, and
    /// its peers hear of its death after a while.
    pub fn crash(&self, nic: usize) {
        self.0.borrow_mut().detach(nic, LinkFailure::PeerDied);
    }

    /// The counts of frames carried.
    pub fn statistics(&self) -> SimStatistics {
        self.0.borrow().statistics
    }
}

#[derive(Debug)]
pub(super) struct Network {
    pub(super) config: SimConfig,
    random: Pcg64Mcg,
    pub(super) now: Instant,
    nics: Vec<Nic>,
    links: Vec<Link>,
    /// Times at which something arrives, all later than `now`.
    wakeups: BTreeSet<Instant>,
    next_event: u64,
    statistics: SimStatistics,
}

#[derive(Debug)]
struct Nic {
    host: Vec<u8>,
    alive: bool,
    ends: Slab<LinkTag>,
    /// By time, and by number among those of the same time. A `None` request has been cancelled.
    events: BTreeMap<(Instant, u64), WireEvent>,
}

/// One end of a link.
#[derive(Debug)]
struct End {
    nic: usize,
    id: LinkId,
    open: bool,
    /// Frames on their way to this end, in order.
    inbox: VecDeque<Flying>,
    /// Frames that its sender may not count as free yet.
    occupied: usize,
    /// Room that becomes known to the sender at a time.
    credits: VecDeque<(Instant, usize)>,
    /// Consumed since the sender was told of room.
    consumed: usize,
    /// When the direction towards this end has transmitted all it took.
    idle_at: Instant,
    last_arrival: Instant,
}

#[derive(Debug)]
pub(super) struct Flying {
    arrival: Instant,
    pub(super) line: Line,
    pub(super) payload: Rc<Vec<u8>>,
}

/// A link; the one end of a loopback link is end 0.
#[derive(Debug)]
struct Link {
    ends: [End; 2],
    loopback: bool,
    up: bool,
}

impl LinkTag {
    const HERE: Self = Self;
}

impl Network {
    /// A new NIC: its number, and the payload bytes that its frames may carry.
    pub(super) fn attach(&mut self, host: &[u8]) -> (usize, usize) {
        self.nics.push(Nic { host: host.to_vec(), alive: true, ends: Slab::new(LINKS_MAX), events: BTreeMap::new() });
        (self.nics.len() - 1, self.config.payload_bytes_max)
    }

    fn schedule(&mut self, nic: usize, at: Instant, event: WireEvent) {
        self.next_event += 1;
        self.nics[nic].events.insert((at, self.next_event), event);
        self.wake(at);
    }

    fn wake(&mut self, at: Instant) {
        if at > self.now {
            self.wakeups.insert(at);
        }
    }

    /// The link and end that a NIC's handle names, while that end is open.
    fn find(&self, nic: usize, id: LinkId) -> Option<(usize, usize)> {
        self.nics.get(nic)?.ends.get(id)?;
        self.links.iter().enumerate().rev().find_map(|(at, link)| {
            let end = link.ends.iter().position(|e| e.open && e.nic == nic && e.id == id)?;
            Some((at, end))
        })
    }

    /// The index of the end that frames from `end` arrive at.
    fn far(link: &Link, end: usize) -> usize {
        if link.loopback { 0 } else { 1 - end }
    }

    pub(super) fn send(&mut self, nic: usize, id: LinkId, line: &Line, length: usize, fill: impl FnOnce(*mut u8) -> bool) -> Sent {
        let Some((at, end)) = self.find(nic, id) else { return Sent::Broken };
        let far = Self::far(&self.links[at], end);
        if !self.links[at].up || !self.links[at].ends[far].open || !self.nics[nic].alive {
            return Sent::Broken;
        }
        let now = self.now;
        let to = &mut self.links[at].ends[far];
        while let Some((_, room)) = to.credits.front().filter(|(when, _)| *when <= now) {
            to.occupied -= room;
            to.credits.pop_front();
        }
        if to.occupied >= self.config.queue_frames_max {
            self.statistics.no_room += 1;
            return Sent::NoRoom;
        }
        let mut payload = vec![0; length];
        if !fill(payload.as_mut_ptr()) {
            return Sent::Unfilled;
        }
        let bits = (FRAME_OVERHEAD_BYTES + length as u64) * 8;
        let transmission = Duration((bits * 1_000_000_000).checked_div(self.config.bits_per_second).unwrap_or(0));
        let jitter = if self.config.jitter.0 == 0 { 0 } else { self.random.next_u64() % self.config.jitter.0 };
        to.idle_at = to.idle_at.max(now) + transmission;
        let arrival = (to.idle_at + self.config.latency + Duration(jitter)).max(to.last_arrival);
        to.last_arrival = arrival;
        to.occupied += 1;
        to.inbox.push_back(Flying { arrival, line: *line, payload: Rc::new(payload) });
        self.statistics.sent += 1;
        self.wake(arrival);
        Sent::Yes
    }

    /// The frame that has arrived at an end; `Err` if there is no such link (any more).
    pub(super) fn front(&self, nic: usize, id: LinkId) -> Result<Option<&Flying>, ()> {
        let (at, end) = self.find(nic, id).ok_or(())?;
        let link = &self.links[at];
        Ok(link.ends[end].inbox.front().filter(|f| f.arrival <= self.now))
    }

    pub(super) fn consume(&mut self, nic: usize, id: LinkId) {
        let Some((at, end)) = self.find(nic, id) else { return };
        let now = self.now;
        let to = &mut self.links[at].ends[end];
        if to.inbox.front().is_some_and(|f| f.arrival <= now)
            && let Some(frame) = to.inbox.pop_front()
        {
            to.consumed += 1;
            self.statistics.delivered += 1;
            self.digest(nic, at, &frame);
        }
    }

    pub(super) fn count_look(&mut self) {
        self.statistics.looks += 1;
    }

    /// The sender hears of room after the link's latency.
    pub(super) fn finish_receiving(&mut self, nic: usize, id: LinkId) {
        let Some((at, end)) = self.find(nic, id) else { return };
        let when = self.now + self.config.latency;
        let to = &mut self.links[at].ends[end];
        if to.consumed != 0 {
            to.credits.push_back((when, core::mem::take(&mut to.consumed)));
            self.wake(when);
        }
    }

    fn digest(&mut self, nic: usize, link: usize, frame: &Flying) {
        let head = Head(frame.line.0[0]);
        let has_address = head.is_bulk() || head.op() == Some(Op::ReadRequest);
        let mut digest = self.statistics.digest;
        let mut mix = |word: u64| digest = (digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        mix(self.now.0);
        mix((nic as u64) << 32 | link as u64);
        for (i, word) in frame.line.0.iter().enumerate() {
            mix(if i == 3 && has_address { 0 } else { *word });
        }
        for bytes in frame.payload.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            mix(u64::from_le_bytes(word));
        }
        self.statistics.digest = digest;
    }

    // ---- links

    pub(super) fn resolve(&mut self, nic: usize, request: u64, host: &[u8]) {
        let there_and_back = Duration(2 * self.config.latency.0);
        let (soon, later) = (self.now + self.config.latency, self.now + there_and_back);
        let Some(peer) = self.nics.iter().rposition(|n| n.alive && n.host == host) else {
            return self.schedule(nic, later, WireEvent::Unresolved { request, reason: LinkFailure::NobodyThere });
        };
        let joined = |l: &Link| {
            l.up && l.ends[0].open && (l.loopback || l.ends[1].open) && {
                let ends = (l.ends[0].nic, l.ends[1].nic);
                ends == (nic, peer) || ends == (peer, nic)
            }
        };
        if let Some(at) = self.links.iter().position(joined) {
            let mine = usize::from(self.links[at].ends[0].nic != nic);
            let link = self.links[at].ends[mine].id;
            return self.schedule(nic, later, WireEvent::LinkUp { link, request: Some(request) });
        }
        let Some(link) = self.nics[nic].ends.insert(LinkTag::HERE) else {
            return self.schedule(nic, later, WireEvent::Unresolved { request, reason: LinkFailure::LocalLimit });
        };
        let loopback = peer == nic;
        let far = if loopback { Some(link) } else { self.nics[peer].ends.insert(LinkTag::HERE) };
        let Some(far) = far else {
            self.nics[nic].ends.remove(link);
            return self.schedule(nic, later, WireEvent::Unresolved { request, reason: LinkFailure::NobodyThere });
        };
        self.links.push(Link { ends: [End::new(nic, link, true), End::new(peer, far, !loopback)], loopback, up: true });
        if !loopback {
            self.schedule(peer, soon, WireEvent::LinkUp { link: far, request: None });
        }
        self.schedule(nic, later, WireEvent::LinkUp { link, request: Some(request) });
    }

    pub(super) fn cancel(&mut self, nic: usize, cancelled: u64) {
        for event in self.nics[nic].events.values_mut() {
            match event {
                WireEvent::LinkUp { request, .. } if *request == Some(cancelled) => *request = None,
                WireEvent::Unresolved { request, .. } if *request == cancelled => *request = 0,
                _ => {}
            }
        }
    }

    pub(super) fn failure(&self, nic: usize, link: LinkId) -> LinkFailure {
        LinkFailure::told(self.nics[nic].events.values(), link)
    }

    pub(super) fn has_events(&self, nic: usize) -> bool {
        self.nics[nic].events.first_key_value().is_some_and(|((at, _), _)| *at <= self.now)
    }

    pub(super) fn poll_event(&mut self, nic: usize) -> Option<WireEvent> {
        loop {
            let first = self.nics[nic].events.first_entry().filter(|e| e.key().0 <= self.now)?;
            let event = first.remove();
            match event {
                // News of an end that has been closed meanwhile.
                WireEvent::LinkUp { link, request } if self.nics[nic].ends.get(link).is_none() => {
                    if let Some(request) = request {
                        return Some(WireEvent::Unresolved { request, reason: LinkFailure::NobodyThere });
                    }
                }
                WireEvent::LinkDown { link, .. } if self.nics[nic].ends.get(link).is_none() => {}
                _ => return Some(event),
            }
        }
    }

    pub(super) fn close(&mut self, nic: usize, id: LinkId) {
        let Some((at, end)) = self.find(nic, id) else { return };
        self.close_end(at, end, LinkFailure::PeerClosed, self.config.latency);
    }

    /// An end is gone: its handle is freed, and the other end hears why.
    fn close_end(&mut self, at: usize, end: usize, reason: LinkFailure, after: Duration) {
        let link = &mut self.links[at];
        let here = &mut link.ends[end];
        here.open = false;
        here.inbox.clear();
        let (nic, id) = (here.nic, here.id);
        let was_up = core::mem::replace(&mut link.up, false);
        let far = &link.ends[1 - end];
        let (far_nic, far_id, tell) = (far.nic, far.id, was_up && far.open && !link.loopback);
        self.nics[nic].ends.remove(id);
        if tell {
            self.schedule(far_nic, self.now + after, WireEvent::LinkDown { link: far_id, reason });
        }
        while self.links.last().is_some_and(|l| l.ends.iter().all(|e| !e.open)) {
            self.links.pop();
        }
    }

    /// A NIC is no more.
    pub(super) fn detach(&mut self, nic: usize, reason: LinkFailure) {
        if !core::mem::replace(&mut self.nics[nic].alive, false) {
            return;
        }
        let after = if reason == LinkFailure::PeerDied { self.config.death_latency } else { self.config.latency };
        for at in (0..self.links.len()).rev() {
            for end in 0..2 {
                if self.links.get(at).is_some_and(|l| l.ends[end].open && l.ends[end].nic == nic) {
                    self.close_end(at, end, reason, after);
                }
            }
        }
        self.nics[nic].events.clear();
    }

    pub(super) fn is_loopback(&self, nic: usize, id: LinkId) -> bool {
        self.find(nic, id).is_some_and(|(at, _)| self.links[at].loopback)
    }
}

impl End {
    fn new(nic: usize, id: LinkId, open: bool) -> Self {
        Self { nic, id, open, inbox: VecDeque::new(), occupied: 0, credits: VecDeque::new(), consumed: 0, idle_at: Instant(0), last_arrival: Instant(0) }
    }
}

const _: () = assert!(size_of::<Handle<LinkTag>>() == 4);
