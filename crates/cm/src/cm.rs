// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine: channels and their events, links, tables.

use crate::host::{Host, Link};
use crate::id::{Id, State};
use crate::message::{Kind, Message};
use crate::types::{Channel, Error, Event, EventBody, EventKind, Gid, Parameters, REJECTED_BY_CONSUMER, REJECTED_TIMEOUT, Service};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Identifiers of a process.
pub(crate) const IDS_MAX: usize = 1 << 16;
/// Events that a channel holds: a peer that asks and leaves without end fills no memory.
const EVENTS_MAX: usize = 1 << 16;
/// How long a link that nobody uses stays, ns.
const LINK_IDLE: u64 = 10_000_000_000;
pub(crate) const ETIMEDOUT: i32 = -110;

/// A link.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub gid: Gid,
    /// What it was asked for; `None`: the peer asked.
    pub service: Option<Service>,
    pub is_open: bool,
    pub users: BTreeSet<u32>,
    /// When the last user left; whether that is among the timers.
    left: u64,
    is_timed: bool,
}

impl LinkState {
    fn new(gid: Gid, service: Option<Service>) -> Self {
        Self { gid, service, is_open: service.is_none(), users: BTreeSet::new(), left: 0, is_timed: false }
    }
}

/// A membership of a group.
#[derive(Debug)]
pub(crate) struct Membership {
    pub id: u32,
    pub reported: u32,
}

/// Connection management of a process.
#[derive(Debug)]
pub struct Cm {
    pub(crate) own: Gid,
    pub(crate) now: u64,
    random: u64,
    next: u32,
    /// The upper bits of numbers that are chosen here.
    pub(crate) range: u8,
    pub(crate) ids: BTreeMap<u32, Id>,
    pub(crate) channels: BTreeMap<Channel, VecDeque<Event>>,
    pub(crate) links: BTreeMap<Link, LinkState>,
    pub(crate) by_service: BTreeMap<(Gid, Service), Link>,
    /// The identifier that answers a peer's.
    pub(crate) by_remote: BTreeMap<(Link, u32), u32>,
    pub(crate) ports: BTreeMap<Service, BTreeSet<u32>>,
    pub(crate) claims: BTreeSet<Service>,
    pub(crate) memberships: BTreeMap<u32, Membership>,
    pub(crate) timers: BTreeSet<(u64, u32)>,
    pub(crate) idle: BTreeSet<(u64, Link)>,
}

impl Cm {
    /// That of a device at a GID. The seed decides about ports and packet numbers.
    pub fn new(own: Gid, seed: u64) -> Self {
        Self {
            own,
            now: 0,
            random: seed,
            next: 0,
            range: 0,
            ids: BTreeMap::new(),
            channels: BTreeMap::new(),
            links: BTreeMap::new(),
            by_service: BTreeMap::new(),
            by_remote: BTreeMap::new(),
            ports: BTreeMap::new(),
            claims: BTreeSet::new(),
            memberships: BTreeMap::new(),
            timers: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// The next of a row of numbers that look like chance (SplitMix64). Nothing is protected by
    /// them.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number that nothing has.
    pub(crate) fn number(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1) & 0xff_ffff;
            let number = u32::from(self.range) << 24 | self.next;
            if self.next != 0 && !self.is_used(number) {
                return number;
            }
        }
    }

    pub(crate) fn is_used(&self, number: u32) -> bool {
        self.ids.contains_key(&number) || self.memberships.contains_key(&number)
    }

    // ---- channels and events

    /// Makes a channel.
    pub fn create_channel(&mut self) -> Channel {
        let number = self.channels.keys().next_back().map_or(0, |last| last.wrapping_add(1));
        self.channels.insert(number, VecDeque::new());
        number
    }

    /// Ends a channel and its identifiers.
    pub fn destroy_channel<H: Host>(&mut self, host: &mut H, channel: Channel) {
        let ids: Vec<u32> = self.ids.iter().filter(|(_, id)| id.channel == channel).map(|(n, _)| *n).collect();
        for id in ids {
            self.end(host, id);
        }
        self.channels.remove(&channel);
    }

    /// Whether a channel has events.
    pub fn has_events(&self, channel: Channel) -> bool {
        self.channels.get(&channel).is_some_and(|events| !events.is_empty())
    }

    /// The next event of a channel, which stays.
    pub fn next_event(&self, channel: Channel) -> Option<&Event> {
        self.channels.get(&channel)?.front()
    }

    /// Takes the next event of a channel.
    pub fn take_event<H: Host>(&mut self, host: &mut H, channel: Channel) -> Option<Event> {
        let events = self.channels.get_mut(&channel)?;
        let event = events.pop_front()?;
        if events.is_empty() {
            host.signal(channel, false);
        }
        // It is there: an identifier that ends takes its events along.
        let owner = self.ids.get_mut(&event.owner)?;
        owner.reported += 1;
        if event.kind == EventKind::ConnectRequest {
            owner.backlog += 1;
        }
        if let Some(membership) = event.membership().and_then(|m| self.memberships.get_mut(&m)) {
            membership.reported += 1;
        }
        Some(event)
    }

    pub(crate) fn push<H: Host>(&mut self, host: &mut H, event: Event) -> bool {
        let Some(channel) = self.ids.get(&event.owner).map(|id| id.channel) else { return false };
        let Some(events) = self.channels.get_mut(&channel) else { return false };
        if events.len() >= EVENTS_MAX {
            return false;
        }
        events.push_back(event);
        if events.len() == 1 {
            host.signal(channel, true);
        }
        true
    }

    /// Tells the program of an identifier. One that it does not know yet has no name for that.
    pub(crate) fn tell<H: Host>(&mut self, host: &mut H, number: u32, kind: EventKind, status: i32, body: EventBody) {
        if let Some(id) = self.ids.get(&number).filter(|id| !id.unclaimed) {
            let event = Event { kind, id: number, uid: id.uid, status, body, owner: number };
            self.push(host, event);
        }
    }

    /// Takes the events that are not given yet and for which that is true.
    pub(crate) fn discard<H: Host>(&mut self, host: &mut H, channel: Channel, mut which: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let Some(events) = self.channels.get_mut(&channel) else { return Vec::new() };
        let (gone, stay): (Vec<Event>, VecDeque<Event>) = {
            let mut gone = Vec::new();
            let mut stay = VecDeque::new();
            for event in events.drain(..) {
                if which(&event) {
                    gone.push(event);
                } else {
                    stay.push_back(event);
                }
            }
            (gone, stay)
        };
        let emptied = stay.is_empty() && !gone.is_empty();
        *events = stay;
        if emptied {
            host.signal(channel, false);
        }
        gone
    }

    // ---- identifiers

    /// The identifier, if it is the channel's (I1).
    pub(crate) fn of(&mut self, channel: Channel, number: u32) -> Result<&mut Id, Error> {
        match self.ids.get_mut(&number) {
            Some(id) if id.channel == channel => Ok(id),
            Some(_) => Err(Error::Invalid),
            None => Err(Error::Missing),
        }
    }

    /// Ends an identifier: the peer is told what its state asks for. Events that it was given.
    pub(crate) fn end<H: Host>(&mut self, host: &mut H, number: u32) -> u32 {
        let Some(state) = self.ids.get(&number).map(|id| id.state) else { return 0 };
        let is_datagram = self.ids.get(&number).is_some_and(|id| id.kind == crate::types::QpKind::Datagram);
        match state {
            State::Requested => self.say(host, number, Kind::Reject, REJECTED_TIMEOUT, &[]),
            State::Asked if is_datagram => self.say(host, number, Kind::Resolved, 2, &[]),
            State::Asked | State::Replied | State::Answered => self.say(host, number, Kind::Reject, REJECTED_BY_CONSUMER, &[]),
            State::Established if !is_datagram => self.say(host, number, Kind::Leave, 0, &[]),
            State::Left => self.say(host, number, Kind::Left, 0, &[]),
            _ => {}
        }
        self.give_up_port(host, number);
        self.unlink(number);
        let Some(id) = self.ids.remove(&number) else { return 0 };
        self.timers.remove(&(id.due, number));
        self.memberships.retain(|_, m| m.id != number);
        // Requests that the program has not seen are refused.
        for event in self.discard(host, id.channel, |e| e.owner == number || e.id == number) {
            match event.kind {
                EventKind::ConnectRequest if event.id != number => drop(self.end(host, event.id)),
                EventKind::ConnectRequest => {
                    if let Some(listener) = self.ids.get_mut(&event.owner) {
                        listener.backlog += 1;
                    }
                }
                _ => {}
            }
        }
        id.reported
    }

    // ---- ports

    /// Whether a port can be had by an identifier, with its address and options.
    pub(crate) fn is_free(&self, service: Service, number: u32, listens: bool) -> bool {
        let Some(id) = self.ids.get(&number) else { return false };
        let others = self.ports.get(&service).into_iter().flatten().filter(|other| **other != number);
        !others.filter_map(|other| self.ids.get(other)).any(|other| id.conflicts(other, listens))
    }

    /// Has what peers ask of a service come here.
    pub(crate) fn claim<H: Host>(&mut self, host: &mut H, service: Service) -> bool {
        self.claims.contains(&service) || host.claim(service) && self.claims.insert(service)
    }

    pub(crate) fn give_up_port<H: Host>(&mut self, host: &mut H, number: u32) {
        let Some(service) = self.ids.get_mut(&number).and_then(|id| id.service.take()) else { return };
        if let Some(users) = self.ports.get_mut(&service) {
            users.remove(&number);
            if users.is_empty() {
                self.ports.remove(&service);
                if self.claims.remove(&service) {
                    host.release(service);
                }
            }
        }
    }

    // ---- links

    /// The link to a service, begun if there is none.
    pub(crate) fn link_to<H: Host>(&mut self, host: &mut H, gid: Gid, service: Service) -> Option<Link> {
        if let Some(link) = self.by_service.get(&(gid, service)) {
            return Some(*link);
        }
        let link = host.open(gid, service)?;
        self.by_service.insert((gid, service), link);
        self.links.insert(link, LinkState::new(gid, Some(service)));
        Some(link)
    }

    /// An identifier speaks by a link from now on.
    pub(crate) fn put_on(&mut self, number: u32, link: Link) {
        self.unlink(number);
        let (Some(state), Some(id)) = (self.links.get_mut(&link), self.ids.get_mut(&number)) else { return };
        state.users.insert(number);
        id.link = Some(link);
    }

    pub(crate) fn unlink(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let Some(link) = id.link.take() else { return };
        if self.by_remote.get(&(link, id.remote)) == Some(&number) {
            self.by_remote.remove(&(link, id.remote));
        }
        if let Some(state) = self.links.get_mut(&link) {
            state.users.remove(&number);
            state.left = self.now;
            if state.users.is_empty() && state.service.is_some() && !core::mem::replace(&mut state.is_timed, true) {
                self.idle.insert((self.now.saturating_add(LINK_IDLE), link));
            }
        }
    }

    /// A peer made a link to a service of ours.
    pub fn accepted(&mut self, link: Link, gid: Gid) {
        self.links.insert(link, LinkState::new(gid, None));
    }

    /// A link that we asked for can be used.
    pub fn opened<H: Host>(&mut self, host: &mut H, link: Link, now: u64) {
        self.now = now;
        let Some(state) = self.links.get_mut(&link) else { return };
        state.is_open = true;
        let users: Vec<u32> = state.users.iter().copied().collect();
        for number in users {
            self.send_pending(host, number);
            if self.ids.get(&number).is_some_and(|id| id.state == State::Requested) {
                self.begin_on_link(number);
            }
        }
    }

    /// A link is over, or could not be made; `is_missing`: nobody has the service.
    pub fn closed<H: Host>(&mut self, host: &mut H, link: Link, is_missing: bool, now: u64) {
        self.now = now;
        let Some(state) = self.links.remove(&link) else { return };
        self.forget(link, &state);
        for number in state.users {
            if let Some(id) = self.ids.get_mut(&number) {
                self.by_remote.remove(&(link, id.remote));
                id.link = None;
            }
            self.lost(host, number, state.is_open, is_missing);
        }
    }

    /// A link is not the one to its service any more.
    fn forget(&mut self, link: Link, state: &LinkState) {
        if let Some(service) = state.service.map(|s| (state.gid, s))
            && self.by_service.get(&service) == Some(&link)
        {
            self.by_service.remove(&service);
        }
    }

    /// Closes links that nobody has used for long.
    pub(crate) fn end_idle<H: Host>(&mut self, host: &mut H) {
        while let Some((at, link)) = self.idle.first().copied().filter(|(at, _)| *at <= self.now) {
            self.idle.remove(&(at, link));
            let Some(state) = self.links.get_mut(&link) else { continue };
            state.is_timed = false;
            let end = state.left.saturating_add(LINK_IDLE);
            if !state.users.is_empty() {
                continue;
            }
            if end > self.now {
                state.is_timed = true;
                self.idle.insert((end, link));
                continue;
            }
            if let Some(state) = self.links.remove(&link) {
                self.forget(link, &state);
            }
            host.close(link);
        }
    }

    /// Sends a message of an identifier once, if its link is there.
    pub(crate) fn say<H: Host>(&mut self, host: &mut H, number: u32, kind: Kind, reason: u32, data: &[u8]) {
        let Some(id) = self.ids.get(&number) else { return };
        let Some(link) = id.link.filter(|l| self.links.get(l).is_some_and(|l| l.is_open)) else { return };
        let parameters = Parameters { data: data.to_vec(), ..Parameters::default() };
        host.send(link, &Message { reason, parameters, ..id.message(number, kind) }.store());
    }

    /// Sends what an identifier sends until it is answered.
    pub(crate) fn send_pending<H: Host>(&mut self, host: &mut H, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let Some(link) = id.link.filter(|l| self.links.get(l).is_some_and(|l| l.is_open)) else { return };
        if let Some(message) = &id.pending {
            host.send(link, &message.store());
        }
    }

    /// How many identifiers there are.
    pub fn ids(&self) -> usize {
        self.ids.len()
    }
}
