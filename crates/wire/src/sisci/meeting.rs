// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding each other, and making links.
//!
//! A *door* is a segment whose id is a hash of an address (a waiter's), or of two (two peers that
//! name each other). It says which data interrupt its NIC listens to, and which segment, the *hub*,
//! is there as long as the NIC is.
//!
//! ```text
//!  client                                          waiter
//!    connect to the door, read it; connect to hub and data interrupt
//!    make a segment      Knock(segment)  -------->   connect, make another: the link is there
//!    connect to it: the link is there  <-- Accept(segment)
//! ```
//!
//! Of two peers of a node the first makes the door and the second finds it; of two nodes that with
//! the smaller address makes it. Calls that take time are made by the worker. A segment, a door or
//! a message may be anybody's who may connect: what it says is checked, and costs at most a link.

use super::layout::SEGMENT_BYTES;
use super::link::{Foreign, Link, Parts};
use super::message::{Door, Message, NicId, Offer};
use super::notes::Note;
use super::outcome::{Found, Joined, Outcome, Place};
use super::worker::{DOORS_MAX, Job, door_id};
use super::{LINKS_MAX, Memory, SisciWire};
use crate::address::NetAddress;
use crate::handle::Handle;
use crate::{LinkFailure, LinkId, Rendezvous, WireEvent, names};
use bellwire_memory::membarrier;
use bellwire_sisci_calls::{Remote, RemoteDataInterrupt, Segment, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Links that others have begun to make, most.
const JOINING_MAX: usize = 256;

/// For whom a door is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// A waiter.
    Waiter,
    /// A request, the first of two peers: its own address and the peer's.
    Request(u64, NetAddress, NetAddress),
}

impl For {
    fn is_request(self, request: u64) -> bool {
        matches!(self, Self::Request(r, ..) if r == request)
    }
}

#[derive(Debug)]
struct OpenDoor {
    key: u128,
    who: For,
    _segment: Segment,
}

/// A request of this NIC's.
#[derive(Debug)]
enum Asking {
    /// The worker looks.
    Finding,
    /// It has knocked.
    Knocked { found: Found, inbound: Segment },
    /// It is let in; `token` names the link to be.
    Joining { token: u64, _hub: Remote },
}

/// A link to be, of which the worker connects to the other end.
#[derive(Debug)]
struct Joining {
    inbound: Segment,
    offer: Offer,
    place: Place,
    /// Our request, and theirs to answer.
    request: Option<u64>,
    answer: Option<u64>,
    connector: bool,
}

/// Doors, requests, and links to be.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    doors: Vec<OpenDoor>,
    asking: BTreeMap<u64, Asking>,
    joining: BTreeMap<u64, Joining>,
    next_token: u64,
}

fn key_of_waiter(address: &NetAddress) -> u128 {
    names::hash_of(&[address])
}

/// The same from both sides, and no waiter's.
fn key_of_pair(a: &NetAddress, b: &NetAddress) -> u128 {
    !names::hash_of(if a <= b { [a, b] } else { [b, a] }.as_slice())
}

/// Whether a door was opened.
enum Opened {
    Yes,
    /// Somebody has one with this key.
    Taken,
    Failed,
}

impl SisciWire {
    fn open_door(&mut self, key: u128, who: For) -> Opened {
        for n in 0..DOORS_MAX {
            match Segment::create(&self.sisci, Some(door_id(key, n)), super::message::DOOR_BYTES) {
                Ok(segment) => {
                    let door = Door { key, id: self.id(), control: self.control.number(), hub: self.hub.id() }.store();
                    // SAFETY: the segment has DOOR_BYTES, and nobody else can connect yet.
                    unsafe { segment.base().copy_from_nonoverlapping(door.as_ptr(), door.len()) };
                    if segment.open().is_err() {
                        return Opened::Failed;
                    }
                    self.meetings.doors.push(OpenDoor { key, who, _segment: segment });
                    return Opened::Yes;
                }
                Err(e) if e.0 == code::SEGMENTID_USED => {
                    // Of another address, whose hash begins alike: then the next one.
                    let mut bytes = [0; super::message::DOOR_BYTES];
                    let mut other = match Remote::connect(&self.sisci, self.sisci.node(), door_id(key, n), 0, None) {
                        Ok(other) => other,
                        Err(_) => return Opened::Taken,
                    };
                    if other.map(false).and_then(|()| other.read(0, &mut bytes)).is_err() || Door::load(&bytes).is_some_and(|d| d.key == key) {
                        return Opened::Taken;
                    }
                }
                Err(_) => return Opened::Failed,
            }
        }
        Opened::Failed
    }

    pub(super) fn open_waiters_door(&mut self, local: &NetAddress) -> bool {
        matches!(self.open_door(key_of_waiter(local), For::Waiter), Opened::Yes)
    }

    pub(super) fn close_waiters_door(&mut self, local: &NetAddress) {
        let key = key_of_waiter(local);
        self.meetings.doors.retain(|d| d.key != key || d.who != For::Waiter);
    }

    fn unresolved(&mut self, request: u64, reason: LinkFailure) {
        self.events.push_back(WireEvent::Unresolved { request, reason });
    }

    pub(super) fn begin_to_resolve(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        let Some(place) = self.place_of(remote) else { return self.unresolved(request, LinkFailure::NotReachable) };
        let key = match how {
            Rendezvous::Client => key_of_waiter(remote),
            Rendezvous::Peer => {
                let key = key_of_pair(local, remote);
                if place.near || local <= remote {
                    match self.open_door(key, For::Request(request, *local, *remote)) {
                        Opened::Yes => return,
                        // Another request of ours waits there for the same peer; it would only meet
                        // ourselves.
                        Opened::Taken
                            if local != remote && self.meetings.doors.iter().any(|d| matches!(d.who, For::Request(_, l, r) if (&l, &r) == (local, remote))) =>
                        {
                            return self.unresolved(request, LinkFailure::NobodyThere);
                        }
                        Opened::Taken if place.near => {}
                        Opened::Taken => return self.unresolved(request, LinkFailure::NobodyThere),
                        Opened::Failed => return self.unresolved(request, LinkFailure::LocalLimit),
                    }
                }
                key
            }
        };
        self.meetings.asking.insert(request, Asking::Finding);
        self.worker.give(Job::Find { request, key, place });
    }

    /// The request has its link, or is no longer wanted.
    pub(super) fn end_request(&mut self, request: u64) {
        self.meetings.doors.retain(|d| !d.who.is_request(request));
        match self.meetings.asking.remove(&request) {
            Some(Asking::Joining { token, .. }) => _ = self.meetings.joining.remove(&token),
            Some(Asking::Knocked { found, inbound }) => self.bury(Box::new((inbound, found)), true),
            Some(Asking::Finding) | None => {}
        }
    }

    /// Whether links are being made, or memory is being mapped.
    pub fn is_meeting(&self) -> bool {
        let maps = |link: &Link| link.held.foreign.values().any(|f| matches!(f, Foreign::Requested { .. }));
        !self.meetings.asking.is_empty() || !self.meetings.joining.is_empty() || self.links.iter().any(|(_, link)| maps(link))
    }

    pub(super) fn has_knocked(&self, request: u64) -> bool {
        self.meetings.asking.get(&request).is_some_and(|a| !matches!(a, Asking::Finding))
    }

    fn fail(&mut self, request: u64, reason: LinkFailure) {
        if self.meetings.asking.contains_key(&request) {
            self.end_request(request);
            self.unresolved(request, reason);
        }
    }

    fn bury(&self, what: Box<dyn Send>, near: bool) {
        self.worker.give(Job::Bury { what, near });
    }

    fn our_offer(&self, inbound: &Segment) -> Offer {
        Offer {
            id: self.id(),
            node: self.sisci.node(),
            control: self.control.number(),
            bell: self.bell.as_ref().map_or(0, bellwire_sisci_calls::Interrupt::number),
            segment: inbound.id(),
            barriers: membarrier::register().global_expedited,
            mapped: self.config.switches.memory == Memory::Allocate,
        }
    }

    fn make_inbound(&self) -> Result<Segment, LinkFailure> {
        let segment = Segment::create(&self.sisci, None, SEGMENT_BYTES).map_err(|_| LinkFailure::LocalLimit)?;
        segment.open().map_err(|_| LinkFailure::LocalLimit)?;
        Ok(segment)
    }

    /// Says something to a NIC with which there is no link yet.
    fn say_to(&self, control: &Arc<RemoteDataInterrupt>, message: &Message) {
        let bytes = message.store();
        if control.trigger(&bytes).is_err() {
            self.worker.give(Job::Say { control: Arc::clone(control), bytes: bytes.to_vec() });
        }
    }

    /// The link to a NIC; of a loopback the end of the side that asked for it.
    fn find_link(&self, peer: NicId) -> Option<LinkId> {
        let own = self.id();
        let is_it = |l: &Link| l.parts().peer == peer && (peer != own || l.parts().connector);
        self.links.iter().find(|(_, l)| is_it(l)).map(|(h, _)| LinkId::from_raw(h.raw()))
    }

    fn link_of_token(&self, token: u64) -> Option<LinkId> {
        self.links.iter().find(|(_, l)| l.parts().token == token).map(|(h, _)| LinkId::from_raw(h.raw()))
    }

    /// The link whose segment of ours has an id.
    fn link_of_segment(&self, id: u32) -> Option<LinkId> {
        self.links.iter().find(|(_, l)| l.parts().inbound.id() == id).map(|(h, _)| LinkId::from_raw(h.raw()))
    }

    pub(super) fn handle(&mut self, note: Note) {
        match note {
            Note::Said(bytes) => {
                if let Some(message) = Message::load(&bytes) {
                    self.said(message);
                }
            }
            Note::Done(Outcome::Found { request, found }) => self.found(request, found),
            Note::Done(Outcome::Joined { token, joined }) => self.joined(token, joined),
            Note::Done(Outcome::Mapped { token, segment, write, remote }) => self.mapped(token, segment, write, remote),
            Note::LinkEnded { token, lost } => {
                if let Some(link) = self.link_of_token(token) {
                    let reason = if lost { LinkFailure::PeerDied } else { LinkFailure::PeerClosed };
                    self.events.push_back(WireEvent::LinkDown { link, reason });
                } else if let Some(j) = self.meetings.joining.remove(&token)
                    && let Some(request) = j.request
                {
                    self.fail(request, LinkFailure::Busy);
                }
            }
            Note::HubEnded { request } => self.fail(request, LinkFailure::NobodyThere),
        }
    }

    fn found(&mut self, request: u64, found: Result<Found, LinkFailure>) {
        if !matches!(self.meetings.asking.get(&request), Some(Asking::Finding)) {
            return;
        }
        let found = match found {
            Ok(found) => found,
            Err(reason) => return self.fail(request, reason),
        };
        if let Some(link) = self.find_link(found.door.id) {
            self.meetings.asking.remove(&request);
            self.events.push_back(WireEvent::LinkUp { link, request: Some(request) });
            return;
        }
        match self.make_inbound() {
            Ok(inbound) => {
                let knock = Message::Knock { key: found.door.key, request, offer: self.our_offer(&inbound) };
                self.say_to(&found.control, &knock);
                self.meetings.asking.insert(request, Asking::Knocked { found, inbound });
            }
            Err(reason) => self.fail(request, reason),
        }
    }

    fn begin_to_join(&mut self, joining: Joining, control: Option<Arc<RemoteDataInterrupt>>) -> u64 {
        self.meetings.next_token += 1;
        let token = self.meetings.next_token;
        self.worker.give(Job::Join { token, offer: joining.offer, place: joining.place, control });
        self.meetings.joining.insert(token, joining);
        token
    }

    fn said(&mut self, message: Message) {
        match message {
            Message::Knock { key, request, offer } => self.knocked(key, request, offer),
            Message::Accept { request, offer } => {
                let Some(Asking::Knocked { found, inbound }) = self.meetings.asking.remove(&request) else { return };
                let control = Arc::clone(&found.control);
                let joining = Joining { inbound, offer, place: found.place, request: Some(request), answer: None, connector: true };
                let token = self.begin_to_join(joining, Some(control));
                self.meetings.asking.insert(request, Asking::Joining { token, _hub: found.hub });
            }
            Message::Refuse { request, busy } => {
                if matches!(self.meetings.asking.get(&request), Some(Asking::Knocked { .. })) {
                    self.fail(request, if busy { LinkFailure::Busy } else { LinkFailure::NobodyThere });
                }
            }
            Message::Want { to, segment, write } => {
                if let Some(link) = self.link_of_segment(to) {
                    self.events.push_back(WireEvent::MapRequest { link, segment, write });
                }
            }
            Message::Give { to, segment, id, write } => self.given(to, segment, id, write),
            Message::Gone { to, segment } => {
                if let Some(link) = self.link_of_segment(to).and_then(|id| self.link(id))
                    && let Some(foreign) = link.forget(segment)
                {
                    self.bury(Box::new(foreign), true);
                }
            }
        }
    }

    fn knocked(&mut self, key: u128, request: u64, offer: Offer) {
        let own = self.sisci.node();
        let place = Place { node: offer.node, near: offer.node == own };
        let door = self.meetings.doors.iter().find(|d| d.key == key).map(|d| d.who);
        let has_room = self.links.len() + self.meetings.joining.len() < LINKS_MAX && self.meetings.joining.len() < JOINING_MAX;
        let inbound = if has_room { self.make_inbound().ok() } else { None };
        let (Some(who), Some(inbound)) = (door, inbound) else {
            // It is told by the way that it has named; a failure there is its own loss.
            if let Ok(control) = RemoteDataInterrupt::connect(&self.sisci, offer.node, offer.control, 0) {
                self.say_to(&Arc::new(control), &Message::Refuse { request, busy: door.is_some() });
            }
            return;
        };
        let own_request = if let For::Request(own, ..) = who { Some(own) } else { None };
        self.begin_to_join(Joining { inbound, offer, place, request: own_request, answer: Some(request), connector: false }, None);
    }

    fn joined(&mut self, token: u64, joined: Result<Joined, LinkFailure>) {
        let Some(j) = self.meetings.joining.remove(&token) else { return };
        let made = joined.and_then(|joined| self.make_link(token, joined, &j.offer, j.inbound, j.place, j.connector));
        match (made, j.answer) {
            (Ok(link), answer) => {
                if let (Some(request), Some(l)) = (answer, self.look_at(link)) {
                    let accept = Message::Accept { request, offer: self.our_offer(&l.parts().inbound) };
                    self.say(link, &accept);
                }
                // A request that two peers have for each other may have been served meanwhile.
                let request = j.request.filter(|r| j.connector || self.meetings.doors.iter().any(|d| d.who.is_request(*r)));
                if let Some(request) = request {
                    self.meetings.asking.remove(&request);
                    self.end_request(request);
                }
                self.events.push_back(WireEvent::LinkUp { link, request });
            }
            (Err(reason), None) => {
                if let Some(request) = j.request {
                    self.fail(request, reason);
                }
            }
            // The peer learns of it by the end of its segment's connection, or has gone.
            (Err(_), Some(_)) => {}
        }
    }

    fn make_link(&mut self, token: u64, joined: Joined, offer: &Offer, inbound: Segment, place: Place, connector: bool) -> Result<LinkId, LinkFailure> {
        let own = self.our_offer(&inbound);
        let parts = Parts {
            inbound: Arc::new(inbound),
            remote: joined.remote,
            control: joined.control,
            bell: joined.bell,
            peer: offer.id,
            to: offer.segment,
            place,
            loopback: offer.id == self.id(),
            connector,
            mapped: own.mapped && offer.mapped && place.near,
            barriers: own.barriers && offer.barriers && place.near,
            token,
        };
        let mut link = Link::new(&self.sisci, parts, self.config.switches.dma_from).map_err(|_| LinkFailure::LocalLimit)?;
        link.arm(self.armed);
        for (slot, entry) in &self.allocations.regions {
            link.publish(*slot, Some(entry), None);
        }
        let word = link.rung_word();
        let handle = self.links.insert(link).ok_or(LinkFailure::LocalLimit)?;
        if let Some(manager) = &self.manager {
            // SAFETY: E1 of notes.rs: end_link() takes it off the list before the segment goes.
            unsafe { manager.add(token, word) };
        }
        Ok(LinkId::from_raw(handle.raw()))
    }

    /// Frees a link.
    pub(super) fn end_link(&mut self, id: LinkId) {
        self.allocations.link_closed(id);
        let Some(link) = self.links.remove(Handle::from_raw(id.raw())) else { return };
        if let Some(manager) = &self.manager {
            manager.remove(link.parts().token);
        }
        let near = link.is_near();
        self.bury(Box::new(link.into_held()), near);
    }

    // ---- allocations of the peer

    fn given(&mut self, to: u32, segment: u32, id: u32, write: bool) {
        let Some(link) = self.link_of_segment(to).and_then(|id| self.link(id)) else { return };
        if !matches!(link.held.foreign.get(&segment), Some(Foreign::Requested { .. } | Foreign::Mapped { write: false, .. })) {
            return;
        }
        if id == 0 {
            if !matches!(link.held.foreign.get(&segment), Some(Foreign::Mapped { .. })) {
                link.held.foreign.insert(segment, Foreign::Refused { write });
            }
            return;
        }
        let (token, place) = (link.parts().token, link.parts().place);
        self.worker.give(Job::Map { token, segment, id, write, place });
    }

    fn mapped(&mut self, token: u64, segment: u32, write: bool, remote: Option<Remote>) {
        let Some(link) = self.link_of_token(token).and_then(|id| self.link(id)) else { return };
        // Freed meanwhile: it is forgotten.
        if !link.held.foreign.contains_key(&segment) {
            return;
        }
        let before = link.forget(segment);
        let now = match remote {
            Some(remote) => Foreign::Mapped { remote, write },
            None => Foreign::Refused { write },
        };
        link.held.foreign.insert(segment, now);
        if let Some(before) = before {
            self.bury(Box::new(before), true);
        }
    }
}
