// SPDX-License-Identifier: MIT OR Apache-2.0
//! unstructured: computational fluid dynamics on an unstructured mesh of nodes, edges and faces
//! around a body. A loop over edges diffuses each variable between the ends of an edge, a loop over
//! faces lets the surface act on it. Each value has a single producer and known consumers: before
//! each loop a processor sends each consumer all the values of two variables that it needs in one
//! bulk message, without indices, as both know which.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::collective::Barrier;
use super::random::Random;
use super::{FLOP, HEAP, Program, Setup, Size, compare, fits_any, prepared};
use crate::am::Am;
use crate::cluster::Outcome;
use crate::experiment::Failure;

/// The program.
pub const PROGRAM: Program = Program {
    name: "unstructured",
    about: "fluid dynamics on an unstructured mesh; values batched for each consumer in bulk messages",
    table4: &[(8, 35.0), (351, 64.0)],
    fits: fits_any,
    run,
};

const UPDATE: u16 = 1;
const VARIABLES: usize = 4;
/// Variables whose values go together in a message.
const BATCH: usize = 2;
/// Where a node's arrays begin: values, edges, faces, changes.
const VALUES: u64 = HEAP;
const EDGES: u64 = HEAP + 0x2_8000;
const FACES: u64 = HEAP + 0x4_0000;
const CHANGES: u64 = HEAP + 0x4_8000;

/// Two points, and how strongly they act on each other.
type Edge = (usize, usize, f32);
/// Three points, and how strongly the surface acts on them.
type Face = ([usize; 3], f32);

struct Input {
    iterations: usize,
    nodes: usize,
    values: [Vec<f32>; VARIABLES],
    edges: Vec<Edge>,
    faces: Vec<Face>,
}

/// The two kinds of loops.
#[derive(Clone, Copy)]
enum Loop {
    Edges,
    Faces,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        let (count, edges, faces, iterations) = if size == Size::Table4 { (9428, 59_863, 5864, 10) } else { (400, 1600, 200, 2) };
        let mut random = Random::new(seed, 4);
        // A body twice as long as wide, its nodes in the order of recursive halves, so that each
        // processor has a compact piece.
        let mut points: Vec<[f64; 3]> = (0..count).map(|_| [random.unit() * 2.0, random.unit(), random.unit()]).collect();
        halve(&mut points, nodes);
        let pairs = nearest(&points, edges);
        let mut around = vec![BTreeSet::new(); count];
        for &(a, b) in &pairs {
            around[a].insert(b);
            around[b].insert(a);
        }
        // Faces are triangles of edges; those nearest to the hull.
        let mut triangles: Vec<[usize; 3]> =
            pairs.iter().filter_map(|&(a, b)| around[a].intersection(&around[b]).find(|&&c| c > b).map(|&c| [a, b, c])).collect();
        let depth = |face: &[usize; 3]| {
            let inside = |&n: &usize| points[n].iter().zip([2.0, 1.0, 1.0]).map(|(x, side)| x.min(side - x)).fold(1.0, f64::min);
            face.iter().map(inside).sum::<f64>()
        };
        triangles.sort_by(|a, b| depth(a).total_cmp(&depth(b)).then(a.cmp(b)));
        triangles.truncate(faces);
        let mut weight = || 0.01 + 0.04 * random.unit() as f32;
        let edges = pairs.into_iter().map(|(a, b)| (a, b, weight())).collect();
        let faces = triangles.into_iter().map(|face| (face, weight())).collect();
        Self { iterations, nodes, values: [(); VARIABLES].map(|()| (0..count).map(|_| random.unit() as f32).collect()), edges, faces }
    }

    fn count(&self) -> usize {
        self.values[0].len()
    }

    fn own(&self, node: usize) -> core::ops::Range<usize> {
        node * self.count() / self.nodes..(node + 1) * self.count() / self.nodes
    }

    fn owner(&self, point: usize) -> usize {
        (0..self.nodes).find(|&node| self.own(node).contains(&point)).expect("each point is somebody's")
    }

    fn sequential(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        for _ in 0..self.iterations {
            for kind in [Loop::Edges, Loop::Faces] {
                for values in &mut values {
                    let mut changes = vec![0.0; values.len()];
                    match kind {
                        Loop::Edges => by_edges(self.edges.iter(), values, &mut changes),
                        Loop::Faces => by_faces(self.faces.iter(), values, &mut changes),
                    }
                    values.iter_mut().zip(&changes).for_each(|(value, change)| *value += change);
                }
            }
        }
        values.iter().flatten().map(|&value| value.into()).collect()
    }
}

/// The changes by edges; in their order, so that each sum is the same however the edges are shared
/// out.
fn by_edges<'a>(edges: impl Iterator<Item = &'a Edge>, values: &[f32], changes: &mut [f32]) {
    for &(a, b, weight) in edges {
        let flux = weight * (values[b] - values[a]);
        changes[a] += flux;
        changes[b] -= flux;
    }
}

/// The changes by faces, likewise.
fn by_faces<'a>(faces: impl Iterator<Item = &'a Face>, values: &[f32], changes: &mut [f32]) {
    for &(face, weight) in faces {
        let mean = (values[face[0]] + values[face[1]] + values[face[2]]) / 3.0;
        face.iter().for_each(|&point| changes[point] -= weight * mean);
    }
}

/// Orders points so that each of `parts` consecutive pieces is compact: across the longest side,
/// again and again.
fn halve(points: &mut [[f64; 3]], parts: usize) {
    if parts < 2 {
        return;
    }
    let extent = |x: usize| points.iter().map(|p| p[x]).fold(f64::MIN, f64::max) - points.iter().map(|p| p[x]).fold(f64::MAX, f64::min);
    let axis = (0..3).max_by(|&a, &b| extent(a).total_cmp(&extent(b))).unwrap_or(0);
    points.sort_by(|a, b| a[axis].total_cmp(&b[axis]));
    let left = parts / 2;
    let (first, second) = points.split_at_mut(points.len() * left / parts);
    halve(first, left);
    halve(second, parts - left);
}

/// The `count` shortest of the edges between points and their neighbours, in order.
fn nearest(points: &[[f64; 3]], count: usize) -> Vec<(usize, usize)> {
    let reach = (2.0 * 12.0 * count as f64 / (points.len() * points.len()) as f64).cbrt();
    let cell = |p: &[f64; 3]| p.map(|x| (x / reach) as i64);
    let mut cells: BTreeMap<[i64; 3], Vec<usize>> = BTreeMap::new();
    points.iter().enumerate().for_each(|(index, point)| cells.entry(cell(point)).or_default().push(index));
    let mut edges = Vec::new();
    for (a, point) in points.iter().enumerate() {
        let at = cell(point);
        for near in 0..27_i64 {
            let there = [at[0] + near % 3 - 1, at[1] + near / 3 % 3 - 1, at[2] + near / 9 - 1];
            for &b in cells.get(&there).into_iter().flatten().filter(|&&b| b > a) {
                let length: f64 = point.iter().zip(&points[b]).map(|(x, y)| (x - y) * (x - y)).sum();
                edges.push((length, a, b));
            }
        }
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut edges: Vec<(usize, usize)> = edges.into_iter().take(count).map(|(_, a, b)| (a, b)).collect();
    edges.sort_unstable();
    edges
}

/// A processor's part.
struct Part {
    am: Am,
    input: Arc<Input>,
    /// All values as far as they are known here.
    values: [RefCell<Vec<f32>>; VARIABLES],
    /// Of each other processor, the points whose values go to it; and those that come from it.
    out: BTreeMap<usize, Vec<usize>>,
    into: BTreeMap<usize, Vec<usize>>,
    received: Cell<usize>,
    /// Those with an own point, in order.
    edges: Vec<Edge>,
    faces: Vec<Face>,
    ends: Vec<[usize; 2]>,
    changes: RefCell<Vec<f32>>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("unstructured", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    let ours: Vec<f64> = (0..VARIABLES).flat_map(|variable| parts.iter().flat_map(move |part: &Vec<Vec<f64>>| part[variable].clone())).collect();
    compare("unstructured", &ours, &expected, 0.0)?;
    Ok(outcome)
}

impl Part {
    fn new(am: &Am, input: &Arc<Input>) -> Self {
        let own = input.own(am.cpu().node());
        let (mut out, mut into): (BTreeMap<usize, BTreeSet<usize>>, BTreeMap<usize, BTreeSet<usize>>) = Default::default();
        let mut note = |group: &[usize]| {
            if group.iter().all(|point| own.contains(point)) || !group.iter().any(|point| own.contains(point)) {
                return;
            }
            let (here, there): (Vec<usize>, Vec<usize>) = group.iter().partition(|point| own.contains(point));
            for point in there {
                let other = input.owner(point);
                into.entry(other).or_default().insert(point);
                out.entry(other).or_default().extend(&here);
            }
        };
        input.edges.iter().for_each(|&(a, b, _)| note(&[a, b]));
        input.faces.iter().for_each(|(face, _)| note(face));
        let lists = |sets: BTreeMap<usize, BTreeSet<usize>>| sets.into_iter().map(|(node, points)| (node, points.into_iter().collect())).collect();
        Self {
            am: am.clone(),
            values: [0, 1, 2, 3].map(|variable| RefCell::new(input.values[variable].clone())),
            out: lists(out),
            into: lists(into),
            received: Cell::new(0),
            edges: input.edges.iter().filter(|(a, b, _)| own.contains(a) || own.contains(b)).copied().collect(),
            faces: input.faces.iter().filter(|(face, _)| face.iter().any(|point| own.contains(point))).copied().collect(),
            ends: input.edges.iter().filter(|(a, b, _)| own.contains(a) || own.contains(b)).map(|&(a, b, _)| [a, b]).collect(),
            changes: RefCell::new(vec![0.0; input.count()]),
            input: input.clone(),
        }
    }

    fn address(variable: usize, point: usize) -> u64 {
        VALUES + (variable * 0xa000 + point * 4) as u64
    }

    /// Own values of the variables from `first` on go to the nodes that need them.
    async fn update(&self, first: usize) {
        for (&to, points) in &self.out {
            let mut payload = (first as u32).to_le_bytes().to_vec();
            for variable in first..first + BATCH {
                for &point in points {
                    self.am.cpu().load(Self::address(variable, point)).await;
                    self.am.cpu().instructions(3);
                    payload.extend(self.values[variable].borrow()[point].to_le_bytes());
                }
            }
            self.am.send(to, UPDATE, &payload).await;
        }
    }

    async fn receive(&self, from: usize, payload: &[u8]) {
        self.am.fetch_payload().await;
        let (first, values) = payload.split_at(4);
        let first = u32::from_le_bytes(first.try_into().expect("four bytes")) as usize;
        let places = (first..first + BATCH).flat_map(|variable| self.into[&from].iter().map(move |&point| (variable, point)));
        for ((variable, point), value) in places.zip(values.chunks_exact(4)) {
            self.am.cpu().store(Self::address(variable, point)).await;
            self.am.cpu().instructions(3);
            self.values[variable].borrow_mut()[point] = f32::from_le_bytes(value.try_into().expect("four bytes"));
        }
        self.received.set(self.received.get() + 1);
    }

    /// A loop over edges or faces, for one variable.
    async fn sweep(&self, kind: Loop, variable: usize) {
        let cpu = self.am.cpu();
        let (list, groups): (u64, Vec<&[usize]>) = match kind {
            Loop::Edges => (EDGES, self.ends.iter().map(|ends| &ends[..]).collect()),
            Loop::Faces => (FACES, self.faces.iter().map(|(face, _)| &face[..]).collect()),
        };
        for (index, points) in groups.into_iter().enumerate() {
            cpu.load_range(list + index as u64 * 16, 16).await;
            for &point in points {
                cpu.load(Self::address(variable, point)).await;
                cpu.load(CHANGES + point as u64 * 4).await;
                cpu.store(CHANGES + point as u64 * 4).await;
            }
            cpu.compute(5 * FLOP);
            cpu.instructions(6);
        }
        let mut changes = self.changes.take();
        changes.fill(0.0);
        match kind {
            Loop::Edges => by_edges(self.edges.iter(), &self.values[variable].borrow(), &mut changes),
            Loop::Faces => by_faces(self.faces.iter(), &self.values[variable].borrow(), &mut changes),
        }
        let own = self.input.own(cpu.node());
        for point in own {
            cpu.load(CHANGES + point as u64 * 4).await;
            cpu.store(Self::address(variable, point)).await;
            cpu.compute(FLOP);
            self.values[variable].borrow_mut()[point] += changes[point];
        }
        self.changes.replace(changes);
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<Vec<f64>> {
    let (barrier, part) = (Barrier::new(&am), Rc::new(Part::new(&am, &input)));
    let receiver = part.clone();
    am.on(UPDATE, move |_, from, payload| {
        let part = receiver.clone();
        async move { part.receive(from, &payload).await }
    });
    barrier.wait().await;
    let mut expected = 0;
    for _ in 0..input.iterations {
        for kind in [Loop::Edges, Loop::Faces] {
            for first in (0..VARIABLES).step_by(BATCH) {
                part.update(first).await;
            }
            expected += part.into.len() * VARIABLES / BATCH;
            am.wait(|| part.received.get() >= expected).await;
            for first in (0..VARIABLES).step_by(BATCH) {
                barrier.wait().await;
                for variable in first..first + BATCH {
                    part.sweep(kind, variable).await;
                }
                barrier.wait().await;
            }
        }
    }
    let own = input.own(am.cpu().node());
    part.values.iter().map(|values| values.borrow()[own.clone()].iter().map(|&value| value.into()).collect()).collect()
}
