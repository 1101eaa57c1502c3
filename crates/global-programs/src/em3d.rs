// SPDX-License-Identifier: MIT OR Apache-2.0
//! em3d: in each step every node of one side becomes itself less the weighted sum of its neighbours on the other side, then the other way round.

use std::collections::HashMap;

use bellwire_global::{Error, Global, GlobalPtr, SpreadArray};

use crate::scrambled;

/// How values of other processes are come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Each by a read where it is used.
    Read,
    /// Each once in a step, by gets that are all under way together.
    Get,
    /// Those of a process together, in bulk: their owner lays them side by side.
    Bulk,
}

impl Version {
    /// All of them.
    pub const ALL: [Version; 3] = [Version::Read, Version::Get, Version::Bulk];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Version::Read => "read",
            Version::Get => "get",
            Version::Bulk => "bulk",
        }
    }
}

/// A graph: the same one whatever the number of processes, except for who is whose neighbour.
#[derive(Debug, Clone, Copy)]
pub struct Graph {
    /// Nodes on each side, of each process.
    pub nodes: usize,
    /// Edges of a node.
    pub degree: usize,
    /// Per cent of them that end in another process.
    pub percent: u64,
    /// Steps.
    pub steps: usize,
}

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Time of all steps.
    pub seconds: f64,
    /// Values of this process that are not what the reference says.
    pub wrong: usize,
}

impl Outcome {
    /// Nanoseconds for each edge of a process and step.
    pub fn ns_per_edge(&self, graph: &Graph) -> f64 {
        self.seconds * 1e9 / (2 * graph.nodes * graph.degree * graph.steps) as f64
    }
}

/// An edge's other end, and its weight.
struct Edge {
    process: usize,
    index: usize,
    weight: f64,
}

impl Graph {
    fn value(side: usize, process: usize, index: usize) -> f64 {
        1.0 + (scrambled([1, side as u64, process as u64, index as u64]) % 1000) as f64 / 1000.0
    }

    fn edge(&self, side: usize, node: (usize, usize), edge: usize, processes: usize) -> Edge {
        let of = |what: u64| scrambled([what << 32 | edge as u64, side as u64, node.0 as u64, node.1 as u64]);
        let is_remote = processes > 1 && of(2) % 100 < self.percent;
        let process = if is_remote { (node.0 + 1 + of(3) as usize % (processes - 1)) % processes } else { node.0 };
        Edge { process, index: of(4) as usize % self.nodes, weight: (of(5) % 1000) as f64 / (20_000.0 * self.degree as f64) }
    }

    /// The values of all processes after all steps, by one process.
    fn reference(&self, processes: usize) -> [Vec<f64>; 2] {
        let mut sides = [0, 1].map(|side| (0..processes * self.nodes).map(|i| Self::value(side, i / self.nodes, i % self.nodes)).collect::<Vec<_>>());
        let edges = [0, 1].map(|side| {
            let of_node = |i: usize| (0..self.degree).map(move |edge| self.edge(side, (i / self.nodes, i % self.nodes), edge, processes));
            (0..processes * self.nodes).flat_map(of_node).map(|edge| (edge.process * self.nodes + edge.index, edge.weight)).collect::<Vec<_>>()
        });
        for _ in 0..self.steps {
            for side in [0, 1] {
                let mut values = std::mem::take(&mut sides[side]);
                for (value, edges) in values.iter_mut().zip(edges[side].chunks(self.degree)) {
                    *value = edges.iter().fold(*value, |sum, (from, weight)| sum - weight * sides[1 - side][*from]);
                }
                sides[side] = values;
            }
        }
        sides
    }
}

/// One side of this process's part: where its edges end in an array of this process's nodes of the other side, then ghosts of others'.
struct Side<'g> {
    values: SpreadArray<'g, f64>,
    ends: Vec<u32>,
    weights: Vec<f64>,
    /// Ghosts, by process: that process's index of each, in the order in which they lie here.
    ghosts: Vec<Vec<u32>>,
    /// What others want of the *other* side's nodes of this process: by process.
    wanted: Vec<Vec<u32>>,
    /// Where this process lays those side by side, a block of `room` for each process.
    exports: SpreadArray<'g, f64>,
    room: usize,
}

/// Runs a version, and compares with the reference if `is_checked`. Collective.
///
/// # Errors
/// Those of global memory.
pub fn run(global: &Global, graph: &Graph, version: Version, is_checked: bool) -> Result<Outcome, Error> {
    let sides = [Side::make(global, graph, 0)?, Side::make(global, graph, 1)?];
    // This process's values of the other side, then ghosts.
    let mut seen = [vec![0.0; sides[0].places(graph)], vec![0.0; sides[1].places(graph)]];
    global.barrier()?;
    let begin = Global::now();
    for _ in 0..graph.steps {
        for side in [0, 1] {
            let (to, from) = (&sides[side], &sides[1 - side]);
            if version == Version::Read {
                to.compute_reading(global, graph, from)?;
            } else {
                to.fill(global, graph, version, from, &mut seen[side])?;
                to.compute(graph, &seen[side]);
            }
            global.barrier()?;
        }
    }
    let seconds = (Global::now() - begin).as_secs_f64();
    let mut wrong = 0;
    if is_checked {
        let reference = graph.reference(global.processes() as usize);
        let own = global.process() as usize * graph.nodes;
        for (side, reference) in sides.iter().zip(&reference) {
            let values = side.values.local(0);
            wrong += (0..graph.nodes).filter(|&i| values.get(i).to_bits() != reference[own + i].to_bits()).count();
        }
    }
    global.barrier()?;
    Ok(Outcome { seconds, wrong })
}

impl<'g> Side<'g> {
    fn make(global: &'g Global, graph: &Graph, side: usize) -> Result<Self, Error> {
        let (me, processes) = (global.process() as usize, global.processes() as usize);
        let values = SpreadArray::new(global, processes, graph.nodes, 0.0f64)?;
        let own = values.local(0);
        (0..graph.nodes).for_each(|i| own.set(i, Graph::value(side, me, i)));
        // Each process reckons for all what they want of whom: the graph is known everywhere.
        let wants = |process: usize| {
            let mut ghosts = vec![Vec::new(); processes];
            let mut known = HashMap::new();
            let mut edges = Vec::with_capacity(graph.nodes * graph.degree);
            for node in 0..graph.nodes {
                for edge in 0..graph.degree {
                    let edge = graph.edge(side, (process, node), edge, processes);
                    if edge.process != process {
                        known.entry((edge.process, edge.index)).or_insert_with(|| {
                            ghosts[edge.process].push(edge.index as u32);
                            ghosts[edge.process].len() - 1
                        });
                    }
                    edges.push(edge);
                }
            }
            (ghosts, known, edges)
        };
        let (ghosts, known, edges) = wants(me);
        let begins: Vec<usize> = ghosts.iter().scan(graph.nodes, |at, of| Some(std::mem::replace(at, *at + of.len()))).collect();
        let end = |edge: &Edge| known.get(&(edge.process, edge.index)).map_or(edge.index, |place| begins[edge.process] + place) as u32;
        let wanted: Vec<Vec<u32>> = (0..processes).map(|other| if other == me { Vec::new() } else { wants(other).0.swap_remove(me) }).collect();
        let room = global.max(wanted.iter().map(Vec::len).max().unwrap_or(0).max(1))?;
        let exports = SpreadArray::new(global, processes, room * processes, 0.0)?;
        Ok(Self { values, ends: edges.iter().map(end).collect(), weights: edges.iter().map(|edge| edge.weight).collect(), ghosts, wanted, exports, room })
    }

    fn places(&self, graph: &Graph) -> usize {
        graph.nodes + self.ghosts.iter().map(Vec::len).sum::<usize>()
    }

    /// Brings what this side's edges end at.
    fn fill(&self, global: &Global, graph: &Graph, version: Version, from: &Side<'_>, seen: &mut [f64]) -> Result<(), Error> {
        let (own, mut ghosts) = seen.split_at_mut(graph.nodes);
        from.values.local(0).copy_to(own);
        if version == Version::Bulk {
            for (process, wanted) in self.wanted.iter().enumerate() {
                let place = self.exports.local(0).part(process * self.room, wanted.len());
                wanted.iter().enumerate().for_each(|(i, index)| place.set(i, own[*index as usize]));
            }
            global.barrier()?;
        }
        global.split(|phase| {
            for (process, indices) in self.ghosts.iter().enumerate() {
                let of_process;
                (of_process, ghosts) = std::mem::take(&mut ghosts).split_at_mut(indices.len());
                if version == Version::Bulk {
                    phase.get_slice(of_process, self.exports.block(process).part(global.process() as usize * self.room, indices.len()))?;
                    continue;
                }
                let begin: GlobalPtr<f64> = from.values.block(process).begin();
                for (ghost, index) in of_process.iter_mut().zip(indices) {
                    phase.get(ghost, begin.offset(*index as isize))?;
                }
            }
            Ok(())
        })
    }

    /// This side's new values.
    fn compute(&self, graph: &Graph, seen: &[f64]) {
        // SAFETY: in this half of a step nobody else uses this side's values: others read those of the other side, behind the barrier before.
        let values = unsafe { self.values.local(0).as_mut_slice() };
        for ((value, ends), weights) in values.iter_mut().zip(self.ends.chunks_exact(graph.degree)).zip(self.weights.chunks_exact(graph.degree)) {
            *value = ends.iter().zip(weights).fold(*value, |sum, (end, weight)| sum - weight * seen[*end as usize]);
        }
    }

    /// The same, with a read for each edge that ends elsewhere.
    fn compute_reading(&self, global: &Global, graph: &Graph, from: &Side<'_>) -> Result<(), Error> {
        let places: Vec<GlobalPtr<f64>> =
            self.ghosts.iter().enumerate().flat_map(|(process, indices)| indices.iter().map(move |index| from.values.at(process, *index as usize))).collect();
        let (own, values) = (from.values.local(0), self.values.local(0));
        for (node, (ends, weights)) in self.ends.chunks_exact(graph.degree).zip(self.weights.chunks_exact(graph.degree)).enumerate() {
            let mut sum = values.get(node);
            for (end, weight) in ends.iter().zip(weights) {
                let end = *end as usize;
                sum -= weight * if end < graph.nodes { own.get(end) } else { global.read(places[end - graph.nodes])? };
            }
            values.set(node, sum);
        }
        Ok(())
    }
}
