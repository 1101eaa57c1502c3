// SPDX-License-Identifier: MIT OR Apache-2.0
//! dsmc: a gas by discrete simulation Monte Carlo. Molecules move through cells and collide with
//! others of their cell. The cells are shared out in boxes; a molecule that moves into another
//! processor's cell goes there in a fine-grain message. How many went to whom is in shared memory,
//! and so is each cell's density, by which the neighbouring cells smooth their rate of collisions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::boxes::{Boxes, Place};
use super::collective::Barrier;
use super::random::Random;
use super::shared::Shared;
use super::{FLOP, HEAP, Program, Setup, Size, compare, prepared};
use crate::am::Am;
use crate::cluster::Outcome;
use crate::experiment::Failure;

/// The program.
pub const PROGRAM: Program = Program {
    name: "dsmc",
    about: "Monte Carlo simulation of a gas; molecules in fine-grain messages, counts and densities in shared memory",
    table4: &[(12, 45.0), (44, 25.0), (140, 26.0)],
    fits: |nodes, size| Boxes::cut(nodes, cells(size)).map(drop),
    run,
};

/// Cycles of the original's own work for each molecule and step: its cell, its place there, its
/// chance to collide.
const WORK: u64 = 120;
const MOLECULE: u16 = 1;
const BLOCK: usize = 128;
/// Greatest step in one dimension, in cells: a molecule goes to a neighbouring cell at most.
const STEP: f32 = 0.9;
/// Where a node's molecules begin.
const MOLECULES: u64 = HEAP;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Molecule {
    id: u32,
    at: [f32; 3],
    velocity: [f32; 3],
    energy: f32,
}

/// Cells in each dimension: 9720 of them in Table 4.
fn cells(size: Size) -> Place {
    if size == Size::Table4 { [18, 18, 30] } else { [6, 6, 8] }
}

struct Input {
    iterations: usize,
    boxes: Boxes,
    molecules: Vec<Molecule>,
    seed: u64,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        // 48600 molecules, five for each cell.
        let (cells, iterations) = (cells(size), if size == Size::Table4 { 20 } else { 3 });
        let mut random = Random::new(seed, 5);
        let molecule = |id| Molecule {
            id,
            at: cells.map(|cells| (random.unit() * cells as f64) as f32),
            velocity: [0; 3].map(|_| (random.normal() * 0.25).clamp(-1.0, 1.0) as f32 * STEP),
            energy: random.unit() as f32,
        };
        let molecules = (0..cells.iter().product::<usize>() as u32 * 5).map(molecule).collect();
        Self { iterations, boxes: Boxes::new(nodes, cells), molecules, seed }
    }

    fn cell(&self, molecule: &Molecule) -> [usize; 3] {
        std::array::from_fn(|x| (molecule.at[x] as usize).min(self.boxes.cells[x] - 1))
    }

    /// One step of a molecule; walls reflect.
    fn advance(&self, molecule: &mut Molecule) {
        for x in 0..3 {
            let side = self.boxes.cells[x] as f32;
            let to = molecule.at[x] + molecule.velocity[x];
            let inside = if to < 0.0 {
                -to
            } else if to >= side {
                (2.0 * side - to).min(side * 0.999_999)
            } else {
                to
            };
            if inside != to {
                molecule.velocity[x] = -molecule.velocity[x];
            }
            molecule.at[x] = inside;
        }
    }

    /// Collisions in a cell, whose molecules are in order of their numbers: so many pairs as
    /// `density`, the mean of the neighbourhood, says. How many.
    fn collide(&self, cell: usize, iteration: usize, density: f32, molecules: &mut [Molecule]) -> u64 {
        if molecules.len() < 2 {
            return 0;
        }
        let mut random = Random::new(self.seed ^ (cell as u64) << 20, 100 + iteration as u64);
        let pairs = (density * molecules.len() as f32 * 0.05) as usize;
        for _ in 0..pairs {
            let first = random.below(molecules.len());
            let second = (first + 1 + random.below(molecules.len() - 1)) % molecules.len();
            // Equal masses exchange the component along a random axis, and share their inner
            // energy.
            let axis = random.below(3);
            let (a, b) = (molecules[first].velocity[axis], molecules[second].velocity[axis]);
            (molecules[first].velocity[axis], molecules[second].velocity[axis]) = (b, a);
            let energy = (molecules[first].energy + molecules[second].energy) / 2.0;
            (molecules[first].energy, molecules[second].energy) = (energy, energy);
        }
        pairs as u64
    }

    /// Mean of the densities of a cell and its neighbours.
    fn smooth(densities: &[f32]) -> f32 {
        densities.iter().sum::<f32>() / densities.len() as f32
    }

    fn sequential(&self) -> Vec<f64> {
        let count = self.boxes.cells.iter().product();
        let mut molecules = self.molecules.clone();
        for iteration in 0..self.iterations {
            let mut cells: Vec<Vec<Molecule>> = vec![Vec::new(); count];
            for mut molecule in molecules.drain(..) {
                self.advance(&mut molecule);
                cells[self.boxes.index(self.cell(&molecule))].push(molecule);
            }
            let densities: Vec<f32> = cells.iter().map(|cell| cell.len() as f32).collect();
            for (index, cell) in cells.iter_mut().enumerate() {
                let near: Vec<f32> = self.boxes.around(self.boxes.cell(index)).map(|cell| densities[self.boxes.index(cell)]).collect();
                cell.sort_by_key(|molecule| molecule.id);
                self.collide(index, iteration, Self::smooth(&near), cell);
            }
            molecules = cells.into_iter().flatten().collect();
        }
        flat(molecules)
    }
}

fn flat(mut molecules: Vec<Molecule>) -> Vec<f64> {
    molecules.sort_by_key(|molecule| molecule.id);
    molecules.iter().flat_map(|m| m.at.into_iter().chain(m.velocity).chain([m.energy]).map(f64::from)).collect()
}

/// A processor's part.
struct Part {
    am: Am,
    input: Arc<Input>,
    shared: Shared,
    arrived: RefCell<Vec<Molecule>>,
    received: Cell<u32>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("dsmc", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    compare("dsmc", &flat(parts.concat()), &expected, 0.0)?;
    Ok(outcome)
}

impl Molecule {
    fn bytes(&self, cell: usize) -> Vec<u8> {
        let numbers = self.at.into_iter().chain(self.velocity).chain([self.energy]).flat_map(f32::to_le_bytes);
        (cell as u32).to_le_bytes().into_iter().chain(self.id.to_le_bytes()).chain(numbers).collect()
    }

    fn parse(bytes: &[u8]) -> Self {
        let word = |index: usize| -> [u8; 4] { bytes[index * 4..index * 4 + 4].try_into().expect("four bytes") };
        let number = |index: usize| f32::from_le_bytes(word(index));
        Self { id: u32::from_le_bytes(word(1)), at: [2, 3, 4].map(number), velocity: [5, 6, 7].map(number), energy: number(8) }
    }
}

impl Part {
    /// Where the counts of messages of a processor begin in shared memory; the densities are behind
    /// them, in whole blocks for each processor.
    fn counts(&self, node: usize) -> usize {
        node * (self.am.cpu().nodes() * 4).next_multiple_of(BLOCK)
    }

    fn density(&self, cell: [usize; 3]) -> usize {
        self.counts(self.am.cpu().nodes()) + self.input.boxes.place(cell, BLOCK / 4) * 4
    }

    /// Molecules move; those that leave are sent. How many went to whom is added up.
    async fn advance(&self, molecules: Vec<Molecule>, sent: &mut [u32]) -> Vec<Molecule> {
        let (cpu, mut stay) = (self.am.cpu(), Vec::new());
        for (index, mut molecule) in molecules.into_iter().enumerate() {
            self.am.breathe().await;
            cpu.load_range(MOLECULES + index as u64 * 32, 32).await;
            self.input.advance(&mut molecule);
            cpu.compute(9 * FLOP);
            cpu.instructions(12);
            let cell = self.input.cell(&molecule);
            let owner = self.input.boxes.owner(cell);
            if owner == cpu.node() {
                cpu.store_range(MOLECULES + stay.len() as u64 * 32, 32).await;
                stay.push(molecule);
            } else {
                sent[owner] += 1;
                self.am.send(owner, MOLECULE, &molecule.bytes(self.input.boxes.index(cell))).await;
            }
        }
        stay
    }

    /// How many molecules the others have sent here, since the beginning.
    async fn expected(&self) -> u32 {
        let (me, mut sum) = (self.am.cpu().node(), 0);
        for other in (0..self.am.cpu().nodes()).filter(|&other| other != me) {
            let mut word = [0; 4];
            self.shared.read(self.counts(other) + me * 4, &mut word).await;
            sum += u32::from_le_bytes(word);
        }
        sum
    }

    async fn collide(&self, iteration: usize, cells: &mut [Vec<Molecule>]) {
        let cpu = self.am.cpu();
        for (index, cell) in self.input.boxes.own(cpu.node()).enumerate() {
            let mut near = Vec::new();
            for neighbour in self.input.boxes.around(cell) {
                near.extend(self.shared.read_f32::<1>(self.density(neighbour)).await);
            }
            let number = self.input.boxes.index(cell);
            let pairs = self.input.collide(number, iteration, Input::smooth(&near), &mut cells[index]);
            cpu.load_range(MOLECULES + (index * 5) as u64 * 32, pairs * 64).await;
            cpu.store_range(MOLECULES + (index * 5) as u64 * 32, pairs * 32).await;
            cpu.compute((8 + pairs * 20) * FLOP);
            cpu.instructions(10 + cells[index].len() as u64 * 8);
        }
    }

    async fn step(&self, barrier: &Barrier, iteration: usize, molecules: Vec<Molecule>, sent: &mut [u32]) -> Vec<Molecule> {
        let (cpu, boxes) = (self.am.cpu(), &self.input.boxes);
        let mut all = self.advance(molecules, sent).await;
        let counts: Vec<u8> = sent.iter().flat_map(|count| count.to_le_bytes()).collect();
        self.shared.write(self.counts(cpu.node()), &counts).await;
        barrier.wait().await;
        let expected = self.expected().await;
        self.am.wait(|| self.received.get() >= expected).await;
        all.append(&mut self.arrived.borrow_mut());
        let mut cells: Vec<Vec<Molecule>> = boxes.own(cpu.node()).map(|_| Vec::new()).collect();
        for molecule in all {
            // Others may be asking for counts that are at home here.
            self.am.breathe().await;
            cpu.instructions(6);
            cpu.compute(WORK);
            cells[boxes.place_in_own(self.input.cell(&molecule))].push(molecule);
        }
        for (cell, molecules) in boxes.own(cpu.node()).zip(&mut cells) {
            molecules.sort_by_key(|molecule| molecule.id);
            self.shared.write_f32(self.density(cell), [molecules.len() as f32]).await;
        }
        barrier.wait().await;
        self.collide(iteration, &mut cells).await;
        cells.concat()
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<Molecule> {
    let (me, nodes) = (am.cpu().node(), am.cpu().nodes());
    let row = (nodes * 4).div_ceil(BLOCK);
    let boxes = &input.boxes;
    let bytes = nodes * row * BLOCK + boxes.places(BLOCK / 4) * 4;
    let home = |block: usize| if block < nodes * row { block / row } else { boxes.home((block - nodes * row) * BLOCK / 4, BLOCK / 4) };
    let shared = Shared::new(&am, bytes, BLOCK, home);
    let part = Rc::new(Part { am: am.clone(), input: input.clone(), shared, arrived: RefCell::default(), received: Cell::new(0) });
    let receiver = part.clone();
    am.on(MOLECULE, move |am, _, payload| {
        let part = receiver.clone();
        async move {
            let place = part.arrived.borrow().len() as u64;
            am.cpu().store_range(MOLECULES + 0x4_0000 + place * 32, 32).await;
            part.arrived.borrow_mut().push(Molecule::parse(&payload));
            part.received.set(part.received.get() + 1);
        }
    });
    let barrier = Barrier::new(&am);
    let mut molecules: Vec<Molecule> = input.molecules.iter().copied().filter(|molecule| input.boxes.owner(input.cell(molecule)) == me).collect();
    let mut sent = vec![0; nodes];
    for iteration in 0..input.iterations {
        barrier.wait().await;
        molecules = part.step(&barrier, iteration, molecules, &mut sent).await;
    }
    barrier.wait().await;
    molecules
}
