// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which way packets go. Distances to a node are found when somebody first sends there; the fabric
//! keeps the ways that it has asked for.
//!
//! A *lane* is one direction of a link: link `l` has lanes `2l` (from its first end) and `2l + 1`
//! (back), so `lane ^ 1` is the way back. A *state* is a place and a phase. Under
//! [`Routing::UpDown`] phase 1 means that the way has gone down and may not go up again; otherwise
//! every way stays in phase 0. Ups and downs follow the order of a breadth-first tree from the
//! switch with most links, so no circle of lanes is used by ways that wait for each other.

use super::{Place, Route, Routing, Topology, TopologyError, fail};
use bellwire_faults::Random;
use std::cell::OnceCell;
use std::collections::VecDeque;

const UNREACHED: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct Routes {
    /// Lanes that leave each place.
    out: Vec<Vec<u32>>,
    /// Where each lane leads.
    heads: Vec<u32>,
    /// Lanes that go up; empty where that does not matter.
    up: Vec<bool>,
    nodes: u32,
    seed: u64,
    by_target: bool,
    /// For each node, hops from each state to it; found at first need.
    distances: Vec<OnceCell<Box<[u16]>>>,
}

impl Routes {
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let places = topology.nodes.len() + topology.switches.len();
        let mut out = vec![Vec::new(); places];
        let mut heads = Vec::with_capacity(topology.links.len() * 2);
        for (i, link) in topology.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| topology.number(end));
            out[a as usize].push(2 * i as u32);
            out[b as usize].push(2 * i as u32 + 1);
            heads.extend([b, a]);
        }
        let nodes = topology.nodes.len() as u32;
        let mut routes = Self {
            out,
            heads,
            up: Vec::new(),
            nodes,
            seed,
            by_target: topology.routing == Routing::ByTarget,
            distances: vec![OnceCell::new(); nodes as usize],
        };
        if topology.routing == Routing::UpDown {
            routes.up = routes.ups();
        }
        routes
    }

    /// For each lane whether it leads nearer to the root.
    fn ups(&self) -> Vec<bool> {
        let places = self.out.len();
        let mut order = vec![u32::MAX; places];
        let mut next = 0;
        // Each part that hangs together has a root of its own. Nodes are leaves and come last.
        let mut roots: Vec<usize> = (self.nodes as usize..places).collect();
        roots.sort_by_key(|&p| core::cmp::Reverse(self.out[p].len()));
        for root in roots {
            let mut queue = VecDeque::from([root]);
            while let Some(place) = queue.pop_front() {
                if order[place] != u32::MAX {
                    continue;
                }
                order[place] = next;
                next += 1;
                queue.extend(self.out[place].iter().map(|&lane| self.heads[lane as usize] as usize).filter(|&p| p >= self.nodes as usize));
            }
        }
        for (i, place) in order.iter_mut().take(self.nodes as usize).enumerate() {
            *place = next + i as u32;
        }
        let tail = |lane: usize| self.heads[lane ^ 1] as usize;
        (0..self.heads.len()).map(|lane| order[self.heads[lane] as usize] < order[tail(lane)]).collect()
    }

    /// The phase after this lane; `None` if it may not be taken.
    fn phase_after(&self, lane: u32, phase: usize) -> Option<usize> {
        match (self.up.get(lane as usize), phase) {
            (None, _) => Some(0),
            (Some(true), 0) => Some(0),
            (Some(true), _) => None,
            (Some(false), _) => Some(1),
        }
    }

    fn distances(&self, to: u32) -> &[u16] {
        self.distances[to as usize].get_or_init(|| {
            let mut hops = vec![UNREACHED; self.out.len() * 2].into_boxed_slice();
            let mut queue = VecDeque::from([(to, 0), (to, 1)]);
            (hops[to as usize * 2], hops[to as usize * 2 + 1]) = (0, 0);
            while let Some((place, phase)) = queue.pop_front() {
                let here = hops[place as usize * 2 + phase];
                if place < self.nodes && place != to {
                    continue;
                }
                for &back in &self.out[place as usize] {
                    let lane = back ^ 1;
                    let from = self.heads[back as usize];
                    for before in 0..2 {
                        let state = from as usize * 2 + before;
                        if self.phase_after(lane, before) == Some(phase) && hops[state] == UNREACHED {
                            hops[state] = here.saturating_add(1).min(UNREACHED - 1);
                            queue.push_back((from, before));
                        }
                    }
                }
            }
            hops
        })
    }

    fn reaches(&self, from: u32, to: u32) -> bool {
        self.distances(to)[from as usize * 2] != UNREACHED
    }

    /// Two nodes between which no way leads, if there are such.
    pub fn parted(&self) -> Option<(u32, u32)> {
        // Usually all nodes hang on switches that hang together; then nothing needs to be looked at
        // in pairs.
        let mut seen = vec![false; self.out.len()];
        let mut queue: Vec<u32> = (self.nodes..self.out.len() as u32).take(1).collect();
        while let Some(place) = queue.pop() {
            if !core::mem::replace(&mut seen[place as usize], true) && place >= self.nodes {
                queue.extend(self.out[place as usize].iter().map(|&lane| self.heads[lane as usize]));
            }
        }
        if seen[..self.nodes as usize].iter().all(|&s| s) {
            return None;
        }
        let pairs = (0..self.nodes).flat_map(|to| (0..to).map(move |from| (from, to)));
        pairs.into_iter().find(|&(from, to)| !self.reaches(from, to))
    }

    /// The lanes of a shortest way between two nodes, in order; among equal ones the flow decides,
    /// or the target. `None` if there is no way.
    pub fn way(&self, from: u32, to: u32, flow: u64) -> Option<Vec<u32>> {
        let hops = self.distances(to);
        let (mut place, mut phase) = (from, 0);
        let mut way = Vec::new();
        let mut digits = u64::from(to);
        while place != to {
            let here = hops[place as usize * 2 + phase];
            let nearer = |lane: &u32| {
                let next = self.phase_after(*lane, phase)?;
                let head = self.heads[*lane as usize];
                let forwards = head >= self.nodes || head == to;
                (here != UNREACHED && forwards && hops[head as usize * 2 + next].checked_add(1) == Some(here)).then_some((*lane, next))
            };
            let lanes = || self.out[place as usize].iter().filter_map(nearer);
            let count = lanes().count() as u64;
            if count == 0 {
                return None;
            }
            let hash = if self.by_target { digits } else { Random::mix(Random::mix(self.seed, flow), u64::from(place)) };
            digits /= count;
            let (lane, next) = lanes().nth((hash % count) as usize)?;
            way.push(lane);
            (place, phase) = (self.heads[lane as usize], next);
        }
        Some(way)
    }

    /// The lanes of a given route. Where several links join two places, the first is taken.
    pub fn given(&self, topology: &Topology, route: &Route) -> Result<Vec<u32>, TopologyError> {
        let mut place = Place::Node(route.from);
        let stops = route.via.iter().map(|&s| Place::Switch(s)).chain([Place::Node(route.to)]);
        let mut way = Vec::new();
        for stop in stops {
            let head = topology.number(stop);
            let lane = self.out[topology.number(place) as usize].iter().find(|&&lane| self.heads[lane as usize] == head);
            let Some(&lane) = lane else {
                return fail(format!("a route goes from {} to {}, but no link does", topology.name(place), topology.name(stop)));
            };
            way.push(lane);
            place = stop;
        }
        Ok(way)
    }
}
