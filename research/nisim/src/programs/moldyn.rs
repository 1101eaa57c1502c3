// SPDX-License-Identifier: MIT OR Apache-2.0
//! moldyn: molecular dynamics; Lennard-Jones forces between the pairs of a list, as in the
//! non-bonded part of CHARMM. The list is made anew every twenty iterations, from the distances of
//! all particles. Positions are in shared memory, written by the particle's processor and read by
//! those that have it in a pair. Forces are summed up by a custom bulk reduction: the array goes
//! round a ring, a part of it in each of as many steps as there are processors, always to the same
//! neighbour, who acknowledges that its buffer is free again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::collective::Barrier;
use super::random::Random;
use super::shared::Shared;
use super::{FLOP, HEAP, Program, Setup, Size, compare, fits_any, prepared};
use crate::am::Am;
use crate::cluster::Outcome;
use crate::experiment::Failure;

/// The program.
pub const PROGRAM: Program = Program {
    name: "moldyn",
    about: "molecular dynamics; positions in shared memory, a bulk reduction of forces round a ring",
    table4: &[(8, 5.0), (12, 65.0), (140, 27.0), (3084, 2.0)],
    fits: fits_any,
    run,
};

const PART: u16 = 1;
const TAKEN: u16 = 2;
/// Bytes of a block of the shared array of positions.
const BLOCK: usize = 128;
const POSITION: usize = 24;
/// Distance up to which particles attract each other, and beyond which a pair is not in the list,
/// in distances of the lattice.
const CUTOFF: f64 = 2.5;
const LISTED: f64 = 2.8;
/// Iterations that a list of pairs serves.
const LIST_SERVES: usize = 20;
/// Operations of a square of a distance: with the wrap, 30; the square, 5.
const DISTANCE_FLOPS: u64 = 35;
/// Operations of a pair: its distance; a division, 8; the force, 20; the potential, 9.
const PAIR_FLOPS: u64 = DISTANCE_FLOPS + 37;
const STEP: f64 = 0.002;
/// Where a node's arrays begin: forces, velocities, pairs, what arrives.
const FORCES: u64 = HEAP;
const VELOCITIES: u64 = HEAP + 0x1_0000;
const PAIRS: u64 = HEAP + 0x2_0000;
const LANDING: u64 = HEAP + 0x1_8000;

type Vector = [f64; 3];

struct Input {
    iterations: usize,
    nodes: usize,
    side: Vector,
    positions: Vec<Vector>,
    velocities: Vec<Vector>,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        // 2048 particles in columns of 4 x 4 x 8 of the lattice, one after the other, so that each
        // of 16 processors has a column.
        let (columns, height, iterations) = if size == Size::Table4 { ([4, 4], 8, 30) } else { ([2, 2], 4, 2) };
        let mut random = Random::new(seed, 3);
        let mut positions = Vec::new();
        for column in 0..columns[0] * columns[1] {
            for place in 0..16 * height {
                let at = [(column % columns[0]) * 4 + place % 4, (column / columns[0]) * 4 + place / 4 % 4, place / 16];
                positions.push(at.map(|x| x as f64 + 0.1 * random.unit()));
            }
        }
        let velocities = positions.iter().map(|_| [0; 3].map(|_| random.normal() * 0.5)).collect();
        let side = [columns[0] * 4, columns[1] * 4, height].map(|x| x as f64);
        Self { iterations, nodes, side, positions, velocities }
    }

    /// The particles of a processor.
    fn own(&self, node: usize) -> core::ops::Range<usize> {
        let count = self.positions.len();
        node * count / self.nodes..(node + 1) * count / self.nodes
    }

    /// Whether two particles are a pair of the list.
    fn is_listed(&self, one: &Vector, other: &Vector) -> bool {
        square(distance(one, other, &self.side)) < LISTED * LISTED
    }

    fn sequential(&self) -> Vec<f64> {
        let (mut positions, mut velocities) = (self.positions.clone(), self.velocities.clone());
        let (count, mut pairs) = (positions.len(), Vec::new());
        for iteration in 0..self.iterations {
            if iteration % LIST_SERVES == 0 {
                let listed = |i: usize| (i + 1..count).filter(|&j| self.is_listed(&positions[i], &positions[j])).collect::<Vec<usize>>();
                pairs = (0..count).map(listed).collect();
            }
            let mut forces = vec![[0.0; 3]; positions.len()];
            for (i, others) in pairs.iter().enumerate() {
                for &j in others {
                    let force = force(&distance(&positions[i], &positions[j], &self.side));
                    add(&mut forces[i], &force, 1.0);
                    add(&mut forces[j], &force, -1.0);
                }
            }
            for i in 0..positions.len() {
                add(&mut velocities[i], &forces[i], STEP);
                add(&mut positions[i], &velocities[i], STEP);
            }
        }
        positions.into_flattened()
    }
}

fn distance(a: &Vector, b: &Vector, side: &Vector) -> Vector {
    std::array::from_fn(|x| {
        let straight = a[x] - b[x];
        straight - side[x] * (straight / side[x]).round()
    })
}

fn square(v: Vector) -> f64 {
    v.iter().map(|x| x * x).sum()
}

fn add(to: &mut Vector, what: &Vector, times: f64) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += what * times);
}

/// Lennard-Jones, with its minimum at a distance of the lattice.
fn force(distance: &Vector) -> Vector {
    let square = square(*distance);
    if square > CUTOFF * CUTOFF {
        return [0.0; 3];
    }
    let inverse = 1.0 / square;
    let sixth = inverse * inverse * inverse;
    distance.map(|x| x * inverse * sixth * (sixth - 1.0))
}

/// A processor's part.
struct Part {
    am: Am,
    input: Arc<Input>,
    shared: Shared,
    forces: RefCell<Vec<Vector>>,
    /// Of each own particle, those behind it that are near: the pairs that are computed here.
    pairs: RefCell<Vec<Vec<usize>>>,
    /// The data that arrived from the ring, and how often; how often the neighbour has taken the
    /// data sent.
    landed: RefCell<Option<(usize, Vec<u8>)>>,
    taken: Cell<usize>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("moldyn", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    // The order of the sums is that of the ring.
    compare("moldyn", &parts.concat(), &expected, 1e-6)?;
    Ok(outcome)
}

impl Part {
    /// Makes the list of pairs, from where all particles are now.
    async fn list(&self) {
        let cpu = self.am.cpu();
        let (mut listed, mut pairs) = (PAIRS, Vec::new());
        for i in self.input.own(cpu.node()) {
            let own: Vector = self.shared.read_f64(i * POSITION).await;
            let mut near = Vec::new();
            for j in i + 1..self.input.positions.len() {
                let other: Vector = self.shared.read_f64(j * POSITION).await;
                cpu.compute(DISTANCE_FLOPS * FLOP);
                if self.input.is_listed(&own, &other) {
                    cpu.store(listed).await;
                    listed += 8;
                    near.push(j);
                }
            }
            pairs.push(near);
        }
        self.pairs.replace(pairs);
    }

    /// Forces of the pairs whose first particle is here.
    async fn pairs(&self) {
        let cpu = self.am.cpu();
        self.forces.borrow_mut().fill([0.0; 3]);
        let (mut listed, pairs) = (PAIRS, self.pairs.take());
        for (i, others) in self.input.own(cpu.node()).zip(&pairs) {
            let own: Vector = self.shared.read_f64(i * POSITION).await;
            for &j in others {
                cpu.load(listed).await;
                listed += 8;
                let force = force(&distance(&own, &self.shared.read_f64(j * POSITION).await, &self.input.side));
                cpu.compute(PAIR_FLOPS * FLOP);
                cpu.load_range(FORCES + (j * POSITION) as u64, POSITION as u64).await;
                cpu.store_range(FORCES + (j * POSITION) as u64, POSITION as u64).await;
                let mut forces = self.forces.borrow_mut();
                add(&mut forces[i], &force, 1.0);
                add(&mut forces[j], &force, -1.0);
            }
            cpu.store_range(FORCES + (i * POSITION) as u64, POSITION as u64).await;
        }
        self.pairs.replace(pairs);
    }

    /// Sums the forces of all processors: afterwards those of the own particles are complete.
    async fn reduce(&self, sent: &mut usize) {
        let (cpu, nodes) = (self.am.cpu(), self.input.nodes);
        let (me, right) = (cpu.node(), (cpu.node() + 1) % nodes);
        for step in 0..nodes - 1 {
            let part = (me + 2 * nodes - 1 - step) % nodes;
            self.am.wait(|| self.taken.get() == *sent).await;
            let mut payload = (part as u32).to_le_bytes().to_vec();
            let own = self.input.own(part);
            cpu.load_range(FORCES + (own.start * POSITION) as u64, (own.len() * POSITION) as u64).await;
            payload.extend(self.forces.borrow()[own].iter().flatten().flat_map(|x| x.to_le_bytes()));
            self.am.send(right, PART, &payload).await;
            *sent += 1;
            self.am.wait(|| self.landed.borrow().is_some()).await;
            let (part, bytes) = self.landed.take().expect("something has landed");
            self.sum(part, &bytes).await;
            self.am.send((me + nodes - 1) % nodes, TAKEN, &[]).await;
        }
    }

    async fn sum(&self, part: usize, bytes: &[u8]) {
        let (cpu, own) = (self.am.cpu(), self.input.own(part));
        cpu.load_range(LANDING, bytes.len() as u64).await;
        cpu.load_range(FORCES + (own.start * POSITION) as u64, bytes.len() as u64).await;
        cpu.store_range(FORCES + (own.start * POSITION) as u64, bytes.len() as u64).await;
        cpu.compute((own.len() * 3) as u64 * FLOP);
        let values = bytes.chunks_exact(8).map(|word| f64::from_le_bytes(word.try_into().expect("eight bytes")));
        let mut forces = self.forces.borrow_mut();
        forces[own].as_flattened_mut().iter_mut().zip(values).for_each(|(force, value)| *force += value);
    }

    /// New velocities and positions of the own particles.
    async fn advance(&self, velocities: &mut [Vector]) {
        let cpu = self.am.cpu();
        for (velocity, i) in velocities.iter_mut().zip(self.input.own(cpu.node())) {
            let force = self.forces.borrow()[i];
            add(velocity, &force, STEP);
            let mut position: Vector = self.shared.read_f64(i * POSITION).await;
            add(&mut position, velocity, STEP);
            cpu.load_range(FORCES + (i * POSITION) as u64, POSITION as u64).await;
            cpu.load_range(VELOCITIES + (i * POSITION) as u64, POSITION as u64).await;
            cpu.store_range(VELOCITIES + (i * POSITION) as u64, POSITION as u64).await;
            cpu.compute(12 * FLOP);
            self.shared.write_f64(i * POSITION, position).await;
        }
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<f64> {
    let (me, count) = (am.cpu().node(), input.positions.len());
    let home = |block: usize| (block * BLOCK / POSITION).min(count - 1) * input.nodes / count;
    let shared = Shared::new(&am, count * POSITION, BLOCK, home);
    shared.preset(&input.positions.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    let (pairs, landed, taken) = Default::default();
    let part = Rc::new(Part { am: am.clone(), input: input.clone(), shared, forces: RefCell::new(vec![[0.0; 3]; count]), pairs, landed, taken });
    let (receiver, sender) = (part.clone(), part.clone());
    am.on(PART, move |am, _, payload| {
        let part = receiver.clone();
        async move {
            am.fetch_payload().await;
            am.cpu().store_range(LANDING, payload.len() as u64).await;
            let (number, bytes) = payload.split_at(4);
            let number = u32::from_le_bytes(number.try_into().expect("four bytes")) as usize;
            assert!(part.landed.replace(Some((number, bytes.to_vec()))).is_none(), "the buffer was free");
        }
    });
    am.on(TAKEN, move |_, _, _| {
        sender.taken.set(sender.taken.get() + 1);
        async {}
    });
    let (barrier, mut velocities, mut sent) = (Barrier::new(&am), input.velocities[input.own(me)].to_vec(), 0);
    for iteration in 0..input.iterations {
        barrier.wait().await;
        if iteration % LIST_SERVES == 0 {
            part.list().await;
        }
        part.pairs().await;
        part.reduce(&mut sent).await;
        // Nobody reads a position any more.
        barrier.wait().await;
        part.advance(&mut velocities).await;
    }
    barrier.wait().await;
    let mut positions = Vec::new();
    for i in input.own(me) {
        positions.extend(part.shared.read_f64::<3>(i * POSITION).await);
    }
    barrier.wait().await;
    positions
}
