// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets move: into a lane's queue, onto the link, to its end, into the next queue or an inbox.
//! And time moves to the next event.
//!
//! Where a queue that holds is full, the lane that brought the packet waits in the queue's list;
//! the step that makes room puts the queue on `relieved`, and `settle` serves the lists in order
//! until nothing moves any more. Nothing here calls itself.

use super::hash::Map;
use super::lane::Flying;
use super::record::{DropCause, Mark, What};
use super::{Fabric, lane_name, node_name};
use crate::topology::{Routes, Topology, TopologyError};
use bellwire_faults::{Changes, Random, Verdict};
use bellwire_time::Instant;
use core::cmp::Reverse;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Flows between two nodes are spread over so many ways at most, a power of two.
const SPREAD: u64 = 64;

/// The taker of packets from a lane.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    Lane(u32),
    Port(u32),
}

/// The ways asked for so far, one behind the other in a list of lanes.
#[derive(Debug)]
pub(super) struct Ways {
    routes: Routes,
    seed: u64,
    lanes: Vec<u32>,
    /// By both nodes and the flow's share of the spread: where in the list.
    known: Map<u64, (u32, u32)>,
    given: Map<u64, (u32, u32)>,
}

impl Ways {
    pub fn new(routes: Routes, topology: &Topology, seed: u64) -> Result<Self, TopologyError> {
        let mut ways = Self { routes, seed, lanes: Vec::new(), known: Map::default(), given: Map::default() };
        for route in &topology.routes {
            let way = ways.routes.given(topology, route)?;
            let place = ways.list(&way);
            ways.given.insert(Self::pair(route.from.0, route.to.0), place);
        }
        Ok(ways)
    }

    const fn pair(source: u32, target: u32) -> u64 {
        (source as u64) << 24 | target as u64
    }

    fn list(&mut self, way: &[u32]) -> (u32, u32) {
        let begin = self.lanes.len() as u32;
        self.lanes.extend_from_slice(way);
        (begin, self.lanes.len() as u32)
    }

    /// The way of a flow: from where to where in the list. Empty to the same node.
    pub fn of(&mut self, source: u32, target: u32, from: SocketAddr, to: SocketAddr) -> Option<(u32, u32)> {
        let pair = Self::pair(source, target);
        if !self.given.is_empty()
            && let Some(&way) = self.given.get(&pair)
        {
            return Some(way);
        }
        let flow = Random::mix(self.seed, u64::from(from.port()) << 16 | u64::from(to.port())) % SPREAD;
        let key = pair << 8 | flow;
        if let Some(&way) = self.known.get(&key) {
            return Some(way);
        }
        let way = self.routes.way(source, target, Random::mix(pair, flow))?;
        let place = self.list(&way);
        self.known.insert(key, place);
        Some(place)
    }

    pub fn lane(&self, place: u32) -> u32 {
        self.lanes[place as usize]
    }
}

impl Fabric {
    /// When something happens next. Perhaps nothing happens then after all, but nothing happens
    /// before.
    pub fn next_event(&self) -> Instant {
        Instant(self.next())
    }

    #[inline]
    fn next(&self) -> u64 {
        let agenda = self.agenda.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let late = self.late.peek().map_or(u64::MAX, |Reverse((flying, _))| flying.arrive);
        agenda.min(late).min(self.outages.next_change())
    }

    /// Lets all happen that happens until a time, that included. Time does not go back: an earlier
    /// one does nothing. `NEVER` does nothing either.
    pub fn advance_to(&mut self, now: Instant) {
        if now == Instant::NEVER {
            return;
        }
        loop {
            let next = self.next();
            if next > now.0 {
                break;
            }
            // Events on the agenda may lie at the present, never before it.
            debug_assert!(next >= self.now);
            self.now = next.max(self.now);
            if self.outages.next_change() <= self.now {
                self.change_outages();
            } else if let Some(&Reverse((at, lane))) = self.agenda.peek()
                && at <= self.now
            {
                self.agenda.pop();
                if self.lanes[lane as usize].scheduled == at {
                    self.lanes[lane as usize].scheduled = u64::MAX;
                    self.lane_event(lane);
                }
            } else if let Some(Reverse((flying, lane))) = self.late.pop() {
                self.late_arrival(flying, lane);
            }
            self.settle();
        }
        self.now = self.now.max(now.0);
    }

    /// Puts a lane's next event on the agenda, unless an earlier or equal one stands there.
    fn schedule(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let at = state.next_event(self.now);
        if at < state.scheduled {
            state.scheduled = at;
            self.agenda.push(Reverse((at, lane)));
        }
    }

    /// Gives a packet to a lane's queue, which takes or drops it; `false` if the queue holds and is
    /// full.
    pub(super) fn offer(&mut self, lane: u32, id: u32) -> bool {
        let now = self.now;
        let bytes = self.packets.bytes(id);
        let state = &mut self.lanes[lane as usize];
        if state.spec.mtu_bytes != 0 && bytes > u64::from(state.spec.mtu_bytes) {
            self.discard(id, DropCause::TooBig, Some(lane));
            return true;
        }
        let full = state.is_full(now, bytes);
        if state.holds() {
            if full {
                return false;
            }
            state.waiting.push_back(id);
            state.waiting_bytes += bytes;
            state.statistics.queue_bytes_peak = state.statistics.queue_bytes_peak.max(state.waiting_bytes);
            self.packets.get_mut(id).next += 1;
            self.pump(lane);
        } else if full {
            self.discard(id, DropCause::QueueFull, Some(lane));
        } else {
            self.packets.get_mut(id).next += 1;
            self.depart(lane, id);
        }
        self.schedule(lane);
        true
    }

    /// Lets what waits in a queue that holds onto the link, as far as the link is free and its
    /// buffer has room.
    fn pump(&mut self, lane: u32) {
        let mut moved = false;
        while let Some(&id) = self.lanes[lane as usize].waiting.front() {
            let bytes = self.packets.bytes(id);
            let state = &mut self.lanes[lane as usize];
            if state.free_at > self.now || !state.has_credit(bytes) {
                break;
            }
            state.waiting.pop_front();
            state.waiting_bytes -= bytes;
            self.depart(lane, id);
            moved = true;
        }
        let state = &self.lanes[lane as usize];
        if moved && !(state.waiters.is_empty() && state.blocked.is_empty()) {
            self.relieved.push_back(Sink::Lane(lane));
        }
    }

    /// Sends a packet over the link as soon as that is free, and lets the plan judge what becomes
    /// of it.
    fn depart(&mut self, lane: u32, id: u32) {
        let now = self.now;
        let packet = self.packets.get(id);
        let mark = Mark { bytes: packet.bytes.len() as u64, hash: packet.hash };
        let state = &mut self.lanes[lane as usize];
        let departed = state.occupy(now, mark.bytes);
        if !state.holds() {
            state.enter_backlog(now, departed, mark.bytes);
        }
        state.statistics.packets += 1;
        state.statistics.bytes += mark.bytes;
        self.record.statistics.hops += 1;
        match state.faults.judge(Instant(departed), packet.bytes.len()) {
            Verdict::Drop(cause) => self.discard(id, cause.into(), Some(lane)),
            Verdict::Pass(changes) => {
                let arrive = departed.saturating_add(state.spec.latency.0).saturating_add(changes.delay.0);
                let flying = Flying { arrive, departed, packet: id, credit: state.take_credit(mark.bytes) };
                let what = if changes.late { What::Late } else { What::Passed };
                self.record.note(now, what, lane, mark, arrive, || lane_name(&self.topology, lane));
                self.fly(lane, flying, changes);
            }
        }
    }

    fn fly(&mut self, lane: u32, flying: Flying, changes: Changes) {
        let copy = changes.duplicate.then(|| self.packets.copy(flying.packet));
        if let Some(corruption) = changes.corruption {
            self.packets.corrupt(flying.packet, corruption);
            self.record.statistics.corrupted += 1;
            self.note_packet(What::Corrupted, lane, flying.packet);
        }
        self.record.statistics.late += u64::from(changes.late);
        let second = copy.map(|packet| Flying { packet, credit: 0, ..flying });
        for flying in [Some(flying), second].into_iter().flatten() {
            if changes.late {
                self.late.push(Reverse((flying, lane)));
            } else {
                let flight = &mut self.lanes[lane as usize].flight;
                debug_assert!(flight.back().is_none_or(|last| last.arrive <= flying.arrive), "L1");
                flight.push_back(flying);
            }
        }
        if let Some(copy) = copy {
            self.record.statistics.duplicated += 1;
            self.note_packet(What::Duplicated, lane, copy);
        }
    }

    /// Something is due on a lane.
    fn lane_event(&mut self, lane: u32) {
        while let Some(&flying) = self.lanes[lane as usize].flight.front() {
            let state = &self.lanes[lane as usize];
            if flying.arrive > self.now || state.held {
                break;
            }
            if state.was_down_for(&flying) {
                self.discard(flying.packet, DropCause::LinkDown, Some(lane));
            } else if !self.move_on(flying.packet) {
                if self.lanes[lane as usize].holds() {
                    self.hold(lane, flying.packet);
                    break;
                }
                let cause = if self.next_lane(flying.packet).is_some() { DropCause::QueueFull } else { DropCause::InboxFull };
                self.discard(flying.packet, cause, Some(lane));
            }
            let state = &mut self.lanes[lane as usize];
            state.flight.pop_front();
            state.give_credit(flying.credit);
        }
        self.pump(lane);
        self.schedule(lane);
    }

    fn late_arrival(&mut self, flying: Flying, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let place = if state.held { state.flight.partition_point(|f| f.arrive <= flying.arrive) } else { 0 };
        state.flight.insert(place, flying);
        self.lane_event(lane);
    }

    /// The lane that a packet takes next; `None` at its node.
    fn next_lane(&self, id: u32) -> Option<u32> {
        let packet = self.packets.get(id);
        (packet.next < packet.end).then(|| self.ways.lane(packet.next))
    }

    /// Hands a packet at the end of a lane to the next hop; `false` if there is no room.
    fn move_on(&mut self, id: u32) -> bool {
        match self.next_lane(id) {
            Some(next) => self.offer(next, id),
            None => self.deliver(id),
        }
    }

    /// The first packet of a lane finds no room and stays.
    fn hold(&mut self, lane: u32, id: u32) {
        let waiters = match (self.next_lane(id), self.port_for(id)) {
            (Some(next), _) => &mut self.lanes[next as usize].waiters,
            (None, Some(port)) => &mut self.ports[port as usize].waiters,
            (None, None) => unreachable!("a packet for no port is dropped, not refused"),
        };
        waiters.push_back(lane);
        self.lanes[lane as usize].held = true;
        self.lanes[lane as usize].statistics.held += 1;
        self.record.statistics.held += 1;
        self.note_packet(What::Held, lane, id);
    }

    /// Serves those who wait for queues that have room again, in the order in which they came.
    #[inline]
    pub(super) fn settle(&mut self) {
        while let Some(sink) = self.relieved.pop_front() {
            self.serve(sink);
        }
    }

    fn serve(&mut self, sink: Sink) {
        while let Some(lane) = self.waiters(sink).front().copied() {
            let Some(flying) = self.lanes[lane as usize].flight.front().copied() else { unreachable!("a lane that waits holds a packet") };
            if !self.move_on(flying.packet) {
                return;
            }
            self.waiters(sink).pop_front();
            let state = &mut self.lanes[lane as usize];
            state.held = false;
            state.flight.pop_front();
            state.give_credit(flying.credit);
            self.lane_event(lane);
        }
        if let Sink::Lane(lane) = sink {
            self.writable.extend(self.lanes[lane as usize].blocked.drain(..));
        }
    }

    fn waiters(&mut self, sink: Sink) -> &mut VecDeque<u32> {
        match sink {
            Sink::Lane(lane) => &mut self.lanes[lane as usize].waiters,
            Sink::Port(port) => &mut self.ports[port as usize].waiters,
        }
    }

    /// Drops a packet, at a lane or at its sender's or receiver's node.
    pub(super) fn discard(&mut self, id: u32, cause: DropCause, lane: Option<u32>) {
        let packet = self.packets.take(id);
        let mark = Mark { bytes: packet.bytes.len() as u64, hash: packet.hash };
        let place = lane.unwrap_or(packet.target);
        if let Some(lane) = lane {
            self.lanes[lane as usize].statistics.dropped += 1;
        }
        let name = || lane.map_or_else(|| node_name(&self.topology, packet.target), |lane| lane_name(&self.topology, lane));
        self.record.note_drop(self.now, cause, place, mark, name);
        self.packets.recycle(packet.bytes);
    }

    fn note_packet(&mut self, what: What, lane: u32, id: u32) {
        let packet = self.packets.get(id);
        let mark = Mark { bytes: packet.bytes.len() as u64, hash: packet.hash };
        self.record.note(self.now, what, lane, mark, 0, || lane_name(&self.topology, lane));
    }
}
