// SPDX-License-Identifier: MIT OR Apache-2.0
//! em3d: electromagnetic waves in three dimensions, on a bipartite graph of electric and magnetic
//! nodes. In each half step the values of one kind are computed from those of the other kind that
//! they depend on. A custom update protocol: who computes a value sends it, in a message of its
//! own, to each processor that depends on it; a half step ends with a barrier.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
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
    name: "em3d",
    about: "electromagnetic waves on a bipartite graph; fine-grain messages of a custom update protocol",
    table4: &[(12, 2.0), (20, 98.0)],
    fits: fits_any,
    run,
};

/// Cycles of the original's own work for each dependence: the pointers through which it finds the
/// value.
const WORK: u64 = 68;
const UPDATE: u16 = 1;
/// Remote dependences of a hundred.
const REMOTE: usize = 10;
/// Processors to either side that remote dependences reach.
const SPAN: usize = 6;
const DEGREE: usize = 5;

/// Where arrays begin in a node's memory: values of the two kinds, copies of others' values, and
/// the dependences.
const VALUES: [u64; 2] = [HEAP, HEAP + 0x4000];
const COPIES: [u64; 2] = [HEAP + 0x8000, HEAP + 0xc000];
const DEPENDENCES: [u64; 2] = [HEAP + 0x1_0000, HEAP + 0x2_0000];

/// The graph. Elements of each kind are numbered over all processors, `per` on each.
struct Input {
    per: usize,
    iterations: usize,
    values: [Vec<f64>; 2],
    /// Of each kind, of each element: elements of the other kind and weights.
    depends: [Vec<Vec<(usize, f64)>>; 2],
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        // 16K nodes of the graph: half of each kind, evenly over the processors.
        let (per, iterations) = if size == Size::Table4 { (16_384 / 2 / nodes.min(8192), 10) } else { (32, 2) };
        let mut random = Random::new(seed, 1);
        let mut source = |owner: usize| {
            let remote = random.below(100) < REMOTE;
            let distance = 1 + random.below(SPAN.min(nodes - 1));
            let back = random.below(2) == 0;
            let from = if !remote { owner } else { (owner + if back { nodes - distance } else { distance }) % nodes };
            (from * per + random.below(per), random.unit() / DEGREE as f64)
        };
        let mut kind = || (0..nodes * per).map(|element| (0..DEGREE).map(|_| source(element / per)).collect()).collect();
        let depends = [kind(), kind()];
        let mut values = || (0..nodes * per).map(|_| random.unit()).collect();
        Self { per, iterations, values: [values(), values()], depends }
    }

    fn sequential(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        for step in 0..self.iterations * 2 {
            let kind = step % 2;
            for (element, depends) in self.depends[kind].iter().enumerate() {
                let sum: f64 = depends.iter().map(|&(from, weight)| weight * values[1 - kind][from]).sum();
                values[kind][element] -= sum;
            }
        }
        values.concat()
    }

    /// Which elements of a kind a processor needs from others, in order: their copies' places.
    fn copies(&self, node: usize, kind: usize) -> Vec<usize> {
        let own = node * self.per..(node + 1) * self.per;
        let mut needed: Vec<usize> = self.depends[1 - kind][own.clone()].iter().flatten().map(|&(from, _)| from).filter(|from| !own.contains(from)).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}

/// Where a value that is depended on lies.
#[derive(Clone, Copy)]
enum Place {
    Own(usize),
    Copy(usize),
}

/// A processor's part.
struct Part {
    am: Am,
    values: [RefCell<Vec<f64>>; 2],
    copies: [RefCell<Vec<f64>>; 2],
    received: [Cell<usize>; 2],
    /// Of each kind, of each own element: processors that depend on it, and the copies' places
    /// there.
    consumers: [Vec<Vec<(usize, u32)>>; 2],
    depends: [Vec<Vec<(Place, f64)>>; 2],
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("em3d", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    let kind = |kind: usize| parts.iter().flat_map(move |part: &[Vec<f64>; 2]| part[kind].iter().copied());
    compare("em3d", &kind(0).chain(kind(1)).collect::<Vec<f64>>(), &expected, 0.0)?;
    Ok(outcome)
}

impl Part {
    fn new(am: Am, input: &Input) -> Self {
        let (me, per) = (am.cpu().node(), input.per);
        let own = me * per..(me + 1) * per;
        let mut consumers = [vec![Vec::new(); per], vec![Vec::new(); per]];
        for other in (0..am.cpu().nodes()).filter(|&other| other != me) {
            for (kind, consumers) in consumers.iter_mut().enumerate() {
                for (place, element) in input.copies(other, kind).into_iter().enumerate().filter(|(_, element)| own.contains(element)) {
                    consumers[element - own.start].push((other, place as u32));
                }
            }
        }
        let places: [BTreeMap<usize, usize>; 2] =
            [0, 1].map(|kind| input.copies(me, kind).into_iter().enumerate().map(|(place, element)| (element, place)).collect());
        let depends = [0, 1].map(|kind| {
            let place = |from: usize| if own.contains(&from) { Place::Own(from - own.start) } else { Place::Copy(places[1 - kind][&from]) };
            input.depends[kind][own.clone()].iter().map(|list| list.iter().map(|&(from, weight)| (place(from), weight)).collect()).collect()
        });
        Self {
            values: [0, 1].map(|kind| RefCell::new(input.values[kind][own.clone()].to_vec())),
            copies: [0, 1].map(|kind| RefCell::new(vec![0.0; places[kind].len()])),
            received: Default::default(),
            consumers,
            depends,
            am,
        }
    }

    /// The values of a kind go to the nodes that depend on them.
    async fn send(&self, kind: usize) {
        for (element, consumers) in self.consumers[kind].iter().enumerate() {
            for &(to, place) in consumers {
                self.am.cpu().load(VALUES[kind] + element as u64 * 8).await;
                self.am.cpu().instructions(4);
                let value = self.values[kind].borrow()[element];
                let payload = [&(place << 1 | kind as u32).to_le_bytes()[..], &value.to_le_bytes()].concat();
                self.am.send(to, UPDATE, &payload).await;
            }
        }
    }

    /// A value has arrived.
    async fn receive(&self, payload: &[u8]) {
        let (place, value) = payload.split_at(4);
        let place = u32::from_le_bytes(place.try_into().expect("four bytes"));
        let (kind, place) = ((place & 1) as usize, (place >> 1) as usize);
        self.am.cpu().instructions(4);
        self.am.cpu().store(COPIES[kind] + place as u64 * 8).await;
        self.copies[kind].borrow_mut()[place] = f64::from_le_bytes(value.try_into().expect("eight bytes"));
        self.received[kind].set(self.received[kind].get() + 1);
    }

    /// New values of a kind.
    async fn compute(&self, kind: usize) {
        let cpu = self.am.cpu();
        let mut dependence = DEPENDENCES[kind];
        for (element, depends) in self.depends[kind].iter().enumerate() {
            let mut sum = 0.0;
            for &(place, weight) in depends {
                // The weight, and the pointer to the value.
                cpu.load_range(dependence, 16).await;
                dependence += 16;
                let (address, value) = match place {
                    Place::Own(index) => (VALUES[1 - kind] + index as u64 * 8, self.values[1 - kind].borrow()[index]),
                    Place::Copy(index) => (COPIES[1 - kind] + index as u64 * 8, self.copies[1 - kind].borrow()[index]),
                };
                cpu.load(address).await;
                cpu.compute(2 * FLOP + WORK);
                sum += weight * value;
            }
            let address = VALUES[kind] + element as u64 * 8;
            cpu.load(address).await;
            cpu.store(address).await;
            cpu.compute(FLOP);
            cpu.instructions(6);
            self.values[kind].borrow_mut()[element] -= sum;
        }
    }
}

async fn node(am: Am, input: Arc<Input>) -> [Vec<f64>; 2] {
    let (barrier, part) = (Barrier::new(&am), Rc::new(Part::new(am.clone(), &input)));
    let receiver = part.clone();
    am.on(UPDATE, move |_, _, payload| {
        let part = receiver.clone();
        async move { part.receive(&payload).await }
    });
    barrier.wait().await;
    for iteration in 1..=input.iterations {
        for kind in [0, 1] {
            part.send(1 - kind).await;
            let expected = iteration * part.copies[1 - kind].borrow().len();
            am.wait(|| part.received[1 - kind].get() >= expected).await;
            part.compute(kind).await;
            barrier.wait().await;
        }
    }
    [0, 1].map(|kind| part.values[kind].take())
}
