// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outages and recoveries: partitions, links, nodes; and clocks that are wrong. From
//! the plan's timetable, or by hand.

use super::record::{DropCause, Mark, What};
use super::{Fabric, FabricError, node_name};
use crate::topology::{NodeId, Place, Topology};
use bellwire_faults::{Change, Clock, FaultPlan, Names, Outage, Pattern, Random, Timetable, Way, When};
use bellwire_time::Instant;
use core::cmp::Reverse;
use std::collections::VecDeque;

/// What the harness has to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricEvent {
    /// The node stopped: its ports are closed, what it had is lost.
    Crashed(NodeId),
    /// The node is there again and can attach ports anew.
    Restarted(NodeId),
}

/// No packets from some nodes to others.
#[derive(Clone, Debug)]
struct Cut {
    from: Vec<bool>,
    to: Vec<bool>,
    both: bool,
}

impl Cut {
    fn parts(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        self.from[a] && self.to[b] || self.both && self.from[b] && self.to[a]
    }
}

/// What an outage that is open now has done, to be undone at its end.
#[derive(Clone, Debug)]
enum Effect {
    Cut(Cut),
    Lanes(Vec<u32>),
    Nodes(Vec<u32>),
}

#[derive(Debug)]
pub(super) struct Outages {
    plan: Vec<Outage>,
    timetable: Timetable,
    open: Vec<(usize, Effect)>,
    /// Partitions that are open, from the plan and by hand.
    cuts: Vec<(usize, Cut)>,
    /// How many crashes each node is in.
    crashed: Vec<u32>,
    clocks: Vec<Clock>,
    events: VecDeque<FabricEvent>,
}

/// The number of outages made by hand, which no outage of a plan has.
const BY_HAND: usize = usize::MAX;

impl Outages {
    pub fn new(topology: &Topology, plan: &FaultPlan, seed: u64) -> Result<Self, FabricError> {
        check_names(topology, plan).map_err(FabricError::Plan)?;
        let clocks = topology.nodes.iter().zip(0..).map(|(node, number)| plan.clock(&node.name, number, seed)).collect();
        Ok(Self {
            plan: plan.outages.clone(),
            timetable: plan.timetable(seed),
            open: Vec::new(),
            cuts: Vec::new(),
            crashed: vec![0; topology.nodes.len()],
            clocks,
            events: VecDeque::new(),
        })
    }

    #[inline]
    pub const fn next_change(&self) -> u64 {
        self.timetable.next_change().0
    }

    #[inline]
    pub fn is_crashed(&self, node: u32) -> bool {
        self.crashed[node as usize] > 0
    }

    /// Whether packets from one node to another are cut off.
    #[inline]
    pub fn parts(&self, from: u32, to: u32) -> bool {
        !self.cuts.is_empty() && from != to && self.cuts.iter().any(|(_, cut)| cut.parts(from, to))
    }
}

/// Each pattern of the plan must stand for something.
fn check_names(topology: &Topology, plan: &FaultPlan) -> Result<(), String> {
    let nodes = || topology.nodes.iter().map(|n| n.name.as_str());
    let node = |pattern: &Pattern| match nodes().any(|name| pattern.matches(name)) {
        true => Ok(()),
        false => Err(format!("no node is called {pattern}")),
    };
    let all_nodes = |names: &Names| names.patterns().iter().try_for_each(node);
    let ends = || topology.links.iter().map(|link| link.ends.map(|end| topology.name(end)));
    let link = |way: &Way| match ends().any(|[a, b]| way.matches(a, b) || way.matches(b, a)) {
        true => Ok(()),
        false => Err(format!("no link goes {way}")),
    };
    plan.links.iter().try_for_each(|(way, _)| link(way))?;
    plan.skews.iter().try_for_each(|rule| all_nodes(&rule.nodes))?;
    plan.outages.iter().try_for_each(|outage| match outage {
        Outage::Partition(_, Some(way)) => all_nodes(&way.from).and_then(|()| all_nodes(&way.to)),
        Outage::Down(_, Some(way)) => link(way),
        Outage::Crash(_, Some(names)) => all_nodes(names),
        _ => Ok(()),
    })
}

impl Fabric {
    /// A node's crash or restart, in order of time.
    pub fn poll_event(&mut self) -> Option<FabricEvent> {
        self.outages.events.pop_front()
    }

    /// Whether a node has crashed and not restarted yet.
    pub fn is_crashed(&self, node: NodeId) -> bool {
        self.outages.is_crashed(node.0)
    }

    /// What a node's clock shows at a time.
    pub fn local_time(&self, node: NodeId, now: Instant) -> Instant {
        self.outages.clocks[node.0 as usize].local(now)
    }

    /// The first time at which a node's clock shows `local` or more: when to wake who asked for a
    /// time of his own clock.
    pub fn global_time(&self, node: NodeId, local: Instant) -> Instant {
        self.outages.clocks[node.0 as usize].global(local)
    }

    /// Stops a node; each crash needs a restart of its own.
    pub fn crash(&mut self, node: NodeId) {
        self.outages.crashed[node.0 as usize] += 1;
        if self.outages.crashed[node.0 as usize] > 1 {
            return;
        }
        self.note_node(What::Crashed, node.0);
        self.outages.events.push_back(FabricEvent::Crashed(node));
        self.close_all_of(node.0);
        let mine: Vec<u32> = self.lanes_between(|from, _| from == Place::Node(node)).collect();
        for &lane in &mine {
            for id in self.lanes[lane as usize].purge(self.now) {
                self.discard(id, DropCause::Crash, Some(lane));
            }
        }
        let (taken_back, kept) =
            core::mem::take(&mut self.late).into_sorted_vec().into_iter().partition(|Reverse((f, lane))| mine.contains(lane) && f.departed > self.now);
        let taken_back: Vec<_> = taken_back;
        self.late = std::collections::BinaryHeap::from(kept);
        for Reverse((flying, lane)) in taken_back {
            self.lanes[lane as usize].give_credit(flying.credit);
            self.discard(flying.packet, DropCause::Crash, Some(lane));
        }
        self.settle();
    }

    /// Starts a node again that has crashed; nothing if it has not.
    pub fn restart(&mut self, node: NodeId) {
        let crashes = &mut self.outages.crashed[node.0 as usize];
        if *crashes == 0 {
            return;
        }
        *crashes -= 1;
        if *crashes == 0 {
            self.note_node(What::Restarted, node.0);
            self.outages.events.push_back(FabricEvent::Restarted(node));
        }
    }

    /// Cuts some nodes off from others, until [`Fabric::mend`] or [`Fabric::heal`]; `both`: in both
    /// directions.
    pub fn cut(&mut self, from: &[NodeId], to: &[NodeId], both: bool) {
        let set = |nodes: &[NodeId]| (0..self.topology.nodes.len() as u32).map(|n| nodes.contains(&NodeId(n))).collect();
        let cut = Cut { from: set(from), to: set(to), both };
        self.note_outage(What::Begins, BY_HAND);
        self.outages.cuts.push((BY_HAND, cut));
    }

    /// Ends all partitions that were made by hand.
    pub fn mend(&mut self) {
        self.outages.cuts.retain(|(outage, _)| *outage != BY_HAND);
        self.note_outage(What::Ends, BY_HAND);
    }

    /// Takes the links between two places down, both directions, or up again; `false` if there are
    /// none, or not all are down. Each time down needs a time up of its own.
    pub fn set_link(&mut self, a: Place, b: Place, up: bool) -> bool {
        let lanes: Vec<u32> = self.lanes_between(|x, y| (x, y) == (a, b) || (x, y) == (b, a)).collect();
        if lanes.is_empty() || up && lanes.iter().any(|&l| !self.lanes[l as usize].is_down()) {
            return false;
        }
        self.note_outage(if up { What::Ends } else { What::Begins }, BY_HAND);
        self.switch_lanes(&lanes, up);
        true
    }

    /// Ends all faults for ever: those of links, outages, crashes, and what was done by hand.
    /// Clocks stay as they are.
    pub fn heal(&mut self) {
        self.record.note(self.now, What::Healed, 0, Mark::default(), 0, String::new);
        for lane in &mut self.lanes {
            lane.faults.heal();
            lane.repair(self.now);
        }
        self.outages.timetable = Timetable::new(&[], None, 0);
        self.outages.open.clear();
        self.outages.cuts.clear();
        for node in 0..self.outages.crashed.len() {
            self.outages.crashed[node] = self.outages.crashed[node].min(1);
            self.restart(NodeId(node as u32));
        }
    }

    /// The plan's changes that are due.
    pub(super) fn change_outages(&mut self) {
        while let Some(change) = self.outages.timetable.take(Instant(self.now)) {
            self.note_outage(if change.begins { What::Begins } else { What::Ends }, change.outage);
            if change.begins {
                let effect = self.effect(change);
                self.begin(change.outage, effect);
            } else if let Some(place) = self.outages.open.iter().position(|(outage, _)| *outage == change.outage) {
                let (outage, effect) = self.outages.open.remove(place);
                self.end(outage, effect);
            }
        }
    }

    /// Whom an outage strikes that begins.
    fn effect(&self, change: Change) -> Effect {
        let outage = &self.outages.plan[change.outage];
        let random = matches!(outage.when(), When::Random { .. });
        let node_names = || self.topology.nodes.iter().map(|n| n.name.as_str());
        let all = || vec![true; self.topology.nodes.len()];
        match outage {
            Outage::Partition(_, Some(way)) => {
                let set = |names: &Names| node_names().map(|name| names.matches(name)).collect();
                Effect::Cut(Cut { from: set(&way.from), to: set(&way.to), both: way.both })
            }
            Outage::Partition(_, None) if random => {
                let mut sides = Random::new(change.draw, 0);
                let one: Vec<bool> = all().iter().map(|_| sides.below(2) == 0).collect();
                let other = one.iter().map(|side| !side).collect();
                let (from, to) = if change.cuts(true) { (one, other) } else { (other, one) };
                Effect::Cut(Cut { from, to, both: change.cuts(true) && change.cuts(false) })
            }
            Outage::Partition(_, None) => Effect::Cut(Cut { from: all(), to: all(), both: true }),
            Outage::Down(_, way) => {
                let struck = |a, b| way.as_ref().is_none_or(|way| way.matches(self.topology.name(a), self.topology.name(b)));
                let mut lanes: Vec<u32> = self.lanes_between(struck).collect();
                if random && way.is_none() && !lanes.is_empty() {
                    let link = Random::new(change.draw, 0).below(lanes.len() as u64 / 2) as u32;
                    lanes = vec![2 * link, 2 * link + 1];
                }
                Effect::Lanes(lanes)
            }
            Outage::Crash(_, names) => {
                let struck = |name: &str| names.as_ref().is_none_or(|names| names.matches(name));
                let mut nodes: Vec<u32> = node_names().zip(0..).filter_map(|(name, node)| struck(name).then_some(node)).collect();
                if random && !nodes.is_empty() {
                    nodes = vec![nodes[Random::new(change.draw, 0).below(nodes.len() as u64) as usize]];
                }
                Effect::Nodes(nodes)
            }
        }
    }

    fn begin(&mut self, outage: usize, effect: Effect) {
        match &effect {
            Effect::Cut(cut) => self.outages.cuts.push((outage, cut.clone())),
            Effect::Lanes(lanes) => self.switch_lanes(lanes, false),
            Effect::Nodes(nodes) => nodes.iter().for_each(|&node| self.crash(NodeId(node))),
        }
        self.outages.open.push((outage, effect));
    }

    fn end(&mut self, outage: usize, effect: Effect) {
        match effect {
            Effect::Cut(_) => self.outages.cuts.retain(|(other, _)| *other != outage),
            Effect::Lanes(lanes) => self.switch_lanes(&lanes, true),
            Effect::Nodes(nodes) => nodes.iter().for_each(|&node| self.restart(NodeId(node))),
        }
    }

    fn switch_lanes(&mut self, lanes: &[u32], up: bool) {
        for &lane in lanes {
            let lane = &mut self.lanes[lane as usize];
            if up { lane.come_up(self.now) } else { lane.go_down(self.now) }
        }
    }

    fn note_outage(&mut self, what: What, outage: usize) {
        let name = || self.outages.plan.get(outage).map_or_else(|| "by hand".into(), ToString::to_string);
        self.record.note(self.now, what, outage as u32, Mark::default(), 0, name);
    }

    fn note_node(&mut self, what: What, node: u32) {
        self.record.note(self.now, what, node, Mark::default(), 0, || node_name(&self.topology, node));
    }
}
