// SPDX-License-Identifier: MIT OR Apache-2.0
//! spsolve: a very fine-grained solver of a sparse triangular system, again and again with a right
//! side that depends on the solution before. The matrix is a directed acyclic graph; messages
//! propagate values down its edges, and all computation happens in their handlers: one addition for
//! each message, and an element whose last message has come is solved and sends its own.

use std::cell::{Cell, RefCell};
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
    name: "spsolve",
    about: "sparse triangular solver; fine-grain messages down the edges of a graph, all computation in handlers",
    table4: &[(8, 6.0), (12, 3.0), (20, 91.0)],
    fits: fits_any,
    run,
};

const EDGE: u16 = 1;
/// Elements in a level of the graph: 3720 are 15 levels of 248.
const LEVEL: usize = 248;
/// Elements that an element needs, at most; fewer if the same one is drawn twice.
const NEEDS: usize = 8;
/// Levels that an edge goes up, at most.
const REACH: usize = 2;
/// Cycles of the original's own work at each end of a message: finding the element, its counters
/// and lists.
const WORK: u64 = 400;
/// Where a node's arrays begin: the elements' state, their edges.
const ELEMENTS: u64 = HEAP;
const EDGES: u64 = HEAP + 0x4000;
/// Bytes of an element's state: sum, right side, diagonal, count, first edge.
const ELEMENT_BYTES: u64 = 40;

struct Input {
    iterations: usize,
    nodes: usize,
    right: Vec<f64>,
    diagonal: Vec<f64>,
    /// Of each element: those that need its value, with coefficients.
    edges: Vec<Vec<(usize, f64)>>,
    needs: Vec<u32>,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        let (levels, iterations) = if size == Size::Table4 { (15, 10) } else { (4, 3) };
        let elements = levels * LEVEL;
        let mut random = Random::new(seed, 2);
        let (mut edges, mut needs) = (vec![Vec::new(); elements], vec![0; elements]);
        for (element, needs) in needs.iter_mut().enumerate().skip(LEVEL) {
            let level = element / LEVEL;
            let mut sources: Vec<usize> = (0..NEEDS).map(|_| (level - 1 - random.below(REACH.min(level))) * LEVEL + random.below(LEVEL)).collect();
            sources.sort_unstable();
            sources.dedup();
            *needs = sources.len() as u32;
            for source in sources {
                edges[source].push((element, random.unit() * 0.1));
            }
        }
        let mut numbers = |least: f64| (0..elements).map(|_| least + random.unit()).collect();
        Self { iterations, nodes, right: numbers(0.0), diagonal: numbers(2.0), edges, needs }
    }

    /// Elements are dealt out one by one.
    fn owner(&self, element: usize) -> usize {
        element % self.nodes
    }

    fn sequential(&self) -> Vec<f64> {
        let (mut right, mut solution) = (self.right.clone(), vec![0.0; self.right.len()]);
        for _ in 0..self.iterations {
            let mut sums = vec![0.0; right.len()];
            for element in 0..right.len() {
                solution[element] = (right[element] - sums[element]) / self.diagonal[element];
                right[element] = next_right(right[element], solution[element]);
                for &(to, coefficient) in &self.edges[element] {
                    sums[to] += coefficient * solution[element];
                }
            }
        }
        solution
    }
}

/// The right side of the next iteration.
fn next_right(right: f64, solution: f64) -> f64 {
    right * 0.5 + solution * 0.5
}

/// An element on its processor.
struct Element {
    sum: f64,
    missing: u32,
    right: f64,
    solution: f64,
}

struct Part {
    am: Am,
    input: Arc<Input>,
    elements: RefCell<Vec<Element>>,
    solved: Cell<usize>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("spsolve", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    let solution: Vec<f64> = (0..input.right.len()).map(|element| parts[input.owner(element)][element / input.nodes]).collect();
    // The order of the additions is that of the messages.
    compare("spsolve", &solution, &expected, 1e-9)?;
    Ok(outcome)
}

impl Part {
    fn new(am: Am, input: Arc<Input>) -> Self {
        let own = (am.cpu().node()..input.right.len()).step_by(input.nodes);
        let elements = own.map(|element| Element { sum: 0.0, missing: input.needs[element], right: input.right[element], solution: 0.0 });
        Self { elements: RefCell::new(elements.collect()), solved: Cell::new(0), am, input }
    }

    /// Adds to an element's sum. If it was the last one, the element is solved, and so is what
    /// hangs on it here; messages go to the other processors.
    async fn add(&self, element: usize, value: f64) {
        let mut ready = self.added(element, value).await.into_iter().collect::<Vec<usize>>();
        while let Some(element) = ready.pop() {
            self.solve(element, &mut ready).await;
        }
    }

    /// The element, if it lacks nothing more.
    async fn added(&self, element: usize, value: f64) -> Option<usize> {
        let (cpu, index) = (self.am.cpu(), element / self.input.nodes);
        let address = ELEMENTS + index as u64 * ELEMENT_BYTES;
        cpu.load_range(address, 16).await;
        cpu.store_range(address, 16).await;
        cpu.compute(FLOP + WORK);
        cpu.instructions(8);
        let mut elements = self.elements.borrow_mut();
        elements[index].sum += value;
        elements[index].missing -= 1;
        (elements[index].missing == 0).then_some(element)
    }

    async fn solve(&self, element: usize, ready: &mut Vec<usize>) {
        let (cpu, index) = (self.am.cpu(), element / self.input.nodes);
        let address = ELEMENTS + index as u64 * ELEMENT_BYTES;
        cpu.load_range(address, ELEMENT_BYTES).await;
        cpu.store_range(address, ELEMENT_BYTES).await;
        // A division is long.
        cpu.compute(16 * FLOP);
        let solution = {
            let mut elements = self.elements.borrow_mut();
            let state = &mut elements[index];
            state.solution = (state.right - state.sum) / self.input.diagonal[element];
            // Messages of the next iteration may come before this node leaves the barrier.
            (state.right, state.sum, state.missing) = (next_right(state.right, state.solution), 0.0, self.input.needs[element]);
            state.solution
        };
        self.solved.set(self.solved.get() + 1);
        for (number, &(to, coefficient)) in self.input.edges[element].iter().enumerate() {
            cpu.load_range(EDGES + (index * 16 + number) as u64 * 16, 16).await;
            cpu.compute(FLOP + WORK);
            cpu.instructions(4);
            let value = coefficient * solution;
            if self.input.owner(to) == cpu.node() {
                ready.extend(self.added(to, value).await);
            } else {
                let payload = [&(to as u32).to_le_bytes()[..], &value.to_le_bytes()].concat();
                self.am.send(self.input.owner(to), EDGE, &payload).await;
            }
        }
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<f64> {
    let (barrier, part) = (Barrier::new(&am), Rc::new(Part::new(am.clone(), input.clone())));
    let receiver = part.clone();
    am.on(EDGE, move |_, _, payload| {
        let part = receiver.clone();
        async move {
            let (element, value) = payload.split_at(4);
            let element = u32::from_le_bytes(element.try_into().expect("four bytes")) as usize;
            part.add(element, f64::from_le_bytes(value.try_into().expect("eight bytes"))).await;
        }
    });
    let own: Vec<usize> = (am.cpu().node()..input.right.len()).step_by(input.nodes).collect();
    barrier.wait().await;
    for iteration in 1..=input.iterations {
        for &root in own.iter().filter(|&&element| input.needs[element] == 0) {
            let mut ready = vec![root];
            while let Some(element) = ready.pop() {
                part.solve(element, &mut ready).await;
            }
        }
        am.wait(|| part.solved.get() >= iteration * own.len()).await;
        barrier.wait().await;
    }
    part.elements.borrow().iter().map(|element| element.solution).collect()
}
