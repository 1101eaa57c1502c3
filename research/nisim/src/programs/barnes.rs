// SPDX-License-Identifier: MIT OR Apache-2.0
//! barnes: the Barnes-Hut method for bodies that attract each other. Bodies lie in shared memory,
//! those of a processor near to each other in space; each processor builds the octree of its bodies
//! there, and all trees together are walked for each body: a cell far enough away acts as one body.

use std::sync::Arc;

use super::collective::Barrier;
use super::random::Random;
use super::shared::Shared;
use super::{FLOP, Program, Setup, Size, compare, fits_any, prepared};
use crate::am::Am;
use crate::cluster::Outcome;
use crate::experiment::Failure;

/// The program.
pub const PROGRAM: Program = Program {
    name: "barnes",
    about: "Barnes-Hut method for bodies that attract each other; all in shared memory",
    table4: &[(12, 67.0), (16, 4.0), (140, 29.0)],
    fits: fits_any,
    run,
};

const BLOCK: usize = 128;
/// A cell opens unless its side is less than so much of its distance.
const OPENING: f64 = 0.9;
/// Softens the attraction of near bodies.
const SOFTENING: f64 = 0.0025;
const STEP: f64 = 0.01;
/// Half the side of the space.
const HALF: f64 = 8.0;
/// Bytes of a body: position and mass. A cell has a block: centre and mass, side, eight children.
const BODY: usize = 32;
const CHILDREN: usize = 40;
/// Room for the cells of a processor's tree, in half of its bodies. A third of it is filled: with
/// this much, what the sixteen fill lies side by side in a direct-mapped cache of 1 MB.
const CELLS: usize = 3;
/// No child, in place of a number; numbers of bodies have this bit.
const NOBODY: u32 = u32::MAX;
const IS_BODY: u32 = 1 << 31;
/// The deepest cell: bodies in the same place would not come apart.
const DEPTH: usize = 40;

type Vector = [f64; 3];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Body {
    at: Vector,
    mass: f64,
}

/// A cell of a tree, in its builder's hands.
#[derive(Clone, Debug)]
struct Cell {
    centre: Vector,
    mass: f64,
    side: f64,
    middle: Vector,
    children: [u32; 8],
}

struct Input {
    nodes: usize,
    steps: usize,
    bodies: Vec<Body>,
    velocities: Vec<Vector>,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        let (count, steps) = if size == Size::Table4 { (16_384, 2) } else { (256, 2) };
        let mut random = Random::new(seed, 6);
        // A Plummer sphere, cut off.
        let mut bodies: Vec<Body> = (0..count)
            .map(|_| {
                let radius = (1.0 / ((0.01 + 0.9 * random.unit()).powf(-2.0 / 3.0) - 1.0)).sqrt();
                let direction = [0; 3].map(|_| random.normal());
                let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-9);
                Body { at: direction.map(|x| x / length * radius.min(HALF * 0.9)), mass: 1.0 / count as f64 }
            })
            .collect();
        bodies.sort_by_key(|body| along_curve(&body.at));
        let velocities = bodies.iter().map(|_| [0; 3].map(|_| random.normal() * 0.2)).collect();
        Self { nodes, steps, bodies, velocities }
    }

    fn own(&self, node: usize) -> core::ops::Range<usize> {
        node * self.bodies.len() / self.nodes..(node + 1) * self.bodies.len() / self.nodes
    }

    /// Number of a processor's first cell.
    fn first_cell(&self, node: usize) -> usize {
        let bodies = self.bodies.len().div_ceil(self.nodes);
        // Few bodies have more cells each, down to the deepest.
        node * (CELLS * bodies / 2).max(bodies + DEPTH)
    }

    fn sequential(&self) -> Vec<f64> {
        let (mut bodies, mut velocities) = (self.bodies.clone(), self.velocities.clone());
        for _ in 0..self.steps {
            let trees: Vec<Vec<Cell>> = (0..self.nodes).map(|node| build(&bodies, self.own(node), self.first_cell(node))).collect();
            let forces: Vec<Vector> = bodies
                .iter()
                .map(|body| {
                    let mut force = [0.0; 3];
                    for (node, tree) in trees.iter().enumerate() {
                        let mut open = vec![self.first_cell(node) as u32];
                        while let Some(next) = open.pop() {
                            if next & IS_BODY != 0 {
                                let other = bodies[(next ^ IS_BODY) as usize];
                                attract(&mut force, &body.at, &other.at, other.mass);
                                continue;
                            }
                            let cell = &tree[next as usize - self.first_cell(node)];
                            if is_far(&body.at, &cell.centre, cell.side) {
                                attract(&mut force, &body.at, &cell.centre, cell.mass);
                            } else {
                                open.extend(cell.children.iter().rev().filter(|&&child| child != NOBODY));
                            }
                        }
                    }
                    force
                })
                .collect();
            for ((body, velocity), force) in bodies.iter_mut().zip(&mut velocities).zip(&forces) {
                advance(body, velocity, force);
            }
        }
        bodies.iter().flat_map(|body| body.at).collect()
    }
}

/// Where a point lies on a curve through all of space that keeps near things together.
fn along_curve(at: &Vector) -> u64 {
    let cells = at.map(|x| ((x + HALF) / (2.0 * HALF) * 1024.0) as u64);
    (0..10).fold(0, |key, bit| (0..3).fold(key, |key, x| key | (cells[x] >> bit & 1) << (3 * bit + x)))
}

/// The octree of some bodies; its cells are numbered from `first` on.
fn build(bodies: &[Body], own: core::ops::Range<usize>, first: usize) -> Vec<Cell> {
    let new = |middle, side| Cell { centre: [0.0; 3], mass: 0.0, side, middle, children: [NOBODY; 8] };
    let mut cells = vec![new([0.0; 3], 2.0 * HALF)];
    let octant = |at: &Vector, middle: &Vector| (0..3).fold(0, |octant, x| octant | usize::from(at[x] >= middle[x]) << x);
    for index in own {
        let (mut at, mut depth) = (0, 0);
        loop {
            let place = octant(&bodies[index].at, &cells[at].middle);
            let child = cells[at].children[place];
            if child == NOBODY || depth > DEPTH {
                cells[at].children[place] = index as u32 | IS_BODY;
                break;
            }
            if child & IS_BODY != 0 {
                // Two bodies in one octant: a cell in between.
                let quarter = cells[at].side / 4.0;
                let middle = std::array::from_fn(|x| cells[at].middle[x] + if place >> x & 1 == 1 { quarter } else { -quarter });
                let mut between = new(middle, cells[at].side / 2.0);
                between.children[octant(&bodies[(child ^ IS_BODY) as usize].at, &middle)] = child;
                cells[at].children[place] = (first + cells.len()) as u32;
                cells.push(between);
            }
            (at, depth) = (cells[at].children[place] as usize - first, depth + 1);
        }
    }
    // Children come behind their parents.
    for index in (0..cells.len()).rev() {
        let (mut centre, mut mass) = ([0.0; 3], 0.0);
        for &child in cells[index].children.iter().filter(|&&child| child != NOBODY) {
            let (at, weight) = match child & IS_BODY {
                0 => (cells[child as usize - first].centre, cells[child as usize - first].mass),
                _ => (bodies[(child ^ IS_BODY) as usize].at, bodies[(child ^ IS_BODY) as usize].mass),
            };
            (0..3).for_each(|x| centre[x] += at[x] * weight);
            mass += weight;
        }
        (cells[index].centre, cells[index].mass) = (centre.map(|x| x / mass), mass);
    }
    cells
}

fn square(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn is_far(at: &Vector, centre: &Vector, side: f64) -> bool {
    side * side < OPENING * OPENING * square(at, centre)
}

fn attract(force: &mut Vector, at: &Vector, other: &Vector, mass: f64) {
    let distance = square(at, other) + SOFTENING;
    let strength = mass / (distance * distance.sqrt());
    (0..3).for_each(|x| force[x] += (other[x] - at[x]) * strength);
}

fn advance(body: &mut Body, velocity: &mut Vector, force: &Vector) {
    for x in 0..3 {
        velocity[x] += force[x] * STEP;
        body.at[x] = (body.at[x] + velocity[x] * STEP).clamp(-HALF, HALF);
    }
}

/// A processor's part. Bodies come first in shared memory, then the cells.
struct Part {
    am: Am,
    input: Arc<Input>,
    shared: Shared,
    cells: usize,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("barnes", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    compare("barnes", &parts.concat(), &expected, 0.0)?;
    Ok(outcome)
}

impl Part {
    async fn body(&self, index: usize) -> Body {
        let [x, y, z, mass] = self.shared.read_f64(index * BODY).await;
        Body { at: [x, y, z], mass }
    }

    /// Builds the tree of the own bodies in shared memory.
    async fn build(&self) {
        let (cpu, me) = (self.am.cpu(), self.am.cpu().node());
        let mut bodies = self.input.bodies.clone();
        for index in self.input.own(me) {
            bodies[index] = self.body(index).await;
        }
        let first = self.input.first_cell(me);
        let tree = build(&bodies, self.input.own(me), first);
        assert!(tree.len() <= self.input.first_cell(1), "the tree has room");
        for (index, cell) in tree.iter().enumerate() {
            // Finding the octants, and the sums.
            cpu.compute(40 * FLOP);
            cpu.instructions(60);
            let at = self.cells + (first + index) * BLOCK;
            self.shared.write_f64(at, [cell.centre[0], cell.centre[1], cell.centre[2], cell.mass, cell.side]).await;
            self.shared.write(at + CHILDREN, cell.children.map(u32::to_le_bytes).as_flattened()).await;
        }
    }

    /// What all bodies do to one.
    async fn force(&self, at: &Vector) -> Vector {
        let (cpu, mut force) = (self.am.cpu(), [0.0; 3]);
        for node in 0..self.input.nodes {
            let mut open = vec![self.input.first_cell(node) as u32];
            while let Some(next) = open.pop() {
                if next & IS_BODY != 0 {
                    let other = self.body((next ^ IS_BODY) as usize).await;
                    attract(&mut force, at, &other.at, other.mass);
                    cpu.compute(28 * FLOP);
                    continue;
                }
                let offset = self.cells + next as usize * BLOCK;
                let [x, y, z, mass, side] = self.shared.read_f64(offset).await;
                cpu.compute(10 * FLOP);
                if is_far(at, &[x, y, z], side) {
                    attract(&mut force, at, &[x, y, z], mass);
                    cpu.compute(18 * FLOP);
                } else {
                    let mut children = [[0; 4]; 8];
                    self.shared.read(offset + CHILDREN, children.as_flattened_mut()).await;
                    open.extend(children.iter().rev().map(|&child| u32::from_le_bytes(child)).filter(|&child| child != NOBODY));
                    cpu.instructions(24);
                }
            }
        }
        force
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<f64> {
    let (me, count) = (am.cpu().node(), input.bodies.len());
    let cells = (count * BODY).next_multiple_of(BLOCK);
    let per_node = input.first_cell(1);
    let home = |block: usize| match block.checked_sub(cells / BLOCK) {
        None => (block * (BLOCK / BODY) * input.nodes / count).min(input.nodes - 1),
        Some(cell) => (cell / per_node).min(input.nodes - 1),
    };
    let shared = Shared::new(&am, cells + input.first_cell(input.nodes) * BLOCK, BLOCK, home);
    let bytes = input.bodies.iter().flat_map(|body| [body.at[0], body.at[1], body.at[2], body.mass]).flat_map(f64::to_le_bytes);
    shared.preset(&bytes.collect::<Vec<u8>>());
    let (barrier, part) = (Barrier::new(&am), Part { am: am.clone(), input: input.clone(), shared, cells });
    let mut velocities = input.velocities[input.own(me)].to_vec();
    for _ in 0..input.steps {
        barrier.wait().await;
        part.build().await;
        barrier.wait().await;
        let mut forces = Vec::new();
        for index in input.own(me) {
            let body = part.body(index).await;
            forces.push(part.force(&body.at).await);
        }
        // Nobody reads a body any more.
        barrier.wait().await;
        for ((index, velocity), force) in input.own(me).zip(&mut velocities).zip(&forces) {
            let mut body = part.body(index).await;
            advance(&mut body, velocity, force);
            am.cpu().compute(12 * FLOP);
            part.shared.write_f64(index * BODY, body.at).await;
        }
    }
    barrier.wait().await;
    let mut positions = Vec::new();
    for index in input.own(me) {
        positions.extend(part.body(index).await.at);
    }
    barrier.wait().await;
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells in place of bodies change the force by little.
    #[test]
    fn the_method_is_near_the_sum_over_all_bodies() {
        let input = Input { steps: 1, ..Input::new(4, Size::Small, 1) };
        let ours = input.sequential();
        let exact = input.bodies.iter().zip(&input.velocities).flat_map(|(body, velocity)| {
            let (mut moved, mut velocity, mut force) = (*body, *velocity, [0.0; 3]);
            input.bodies.iter().for_each(|other| attract(&mut force, &body.at, &other.at, other.mass));
            advance(&mut moved, &mut velocity, &force);
            moved.at
        });
        let far = ours.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 1e-5 && far > 0.0, "{far}");
    }
}
