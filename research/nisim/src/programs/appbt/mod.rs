// SPDX-License-Identifier: MIT OR Apache-2.0
//! appbt: computational fluid dynamics on a cube, after the NAS benchmark of that name:
//! block-tridiagonal systems of 5 x 5 blocks along the lines of each dimension in turn. The cube is
//! shared out in boxes; processors read their neighbours' border cells in shared memory, and hand
//! on lines that cross their boxes: forward while they eliminate, backward while they substitute,
//! some lines at a time.

mod lines;
pub mod physics;

use std::cell::RefCell;
use std::sync::Arc;

use super::boxes::{Boxes, Place};
use super::collective::Barrier;
use super::random::Random;
use super::shared::Shared;
use super::{FLOP, HEAP, Program, Setup, Size, compare, prepared};
use crate::am::Am;
use crate::cluster::Outcome;
use crate::experiment::Failure;
use lines::Lines;
use physics::{Cell, RIGHT_SIDE_FLOPS, eliminate, right_side, substitute};

/// The program.
pub const PROGRAM: Program = Program {
    name: "appbt",
    about: "fluid dynamics on a cube, block-tridiagonal systems along its lines; all in shared memory",
    table4: &[(12, 67.0), (32, 32.0)],
    fits: |nodes, size| Boxes::cut(nodes, [side(size); 3]).map(drop),
    run,
};

/// Bytes of a cell in shared memory, which is a block of it.
const BLOCK: usize = 20;
/// Where a node's arrays begin: changes of its cells, what its lines hand on.
const CHANGES: u64 = HEAP;
const ROWS: u64 = HEAP + 0x1_0000;

/// Cells of a side of the cube.
fn side(size: Size) -> usize {
    if size == Size::Table4 { 24 } else { 6 }
}

struct Input {
    iterations: usize,
    boxes: Boxes,
    cells: Vec<Cell>,
}

impl Input {
    fn new(nodes: usize, size: Size, seed: u64) -> Self {
        let (side, iterations) = (side(size), if size == Size::Table4 { 4 } else { 2 });
        let boxes = Boxes::new(nodes, [side; 3]);
        let mut random = Random::new(seed, 7);
        let mut cell = || std::array::from_fn(|m| if m == 0 { 1.0 } else { 0.3 } + 0.2 * random.unit() as f32);
        Self { iterations, boxes, cells: (0..side * side * side).map(|_| cell()).collect() }
    }

    /// The neighbours of a cell in each dimension; the cell itself beyond the border.
    fn around(&self, cell: Place) -> [[Place; 2]; 3] {
        std::array::from_fn(|x| {
            let (mut before, mut after) = (cell, cell);
            before[x] = before[x].saturating_sub(1);
            after[x] = (after[x] + 1).min(self.boxes.cells[x] - 1);
            [before, after]
        })
    }

    fn sequential(&self) -> Vec<f64> {
        let (mut cells, boxes) = (self.cells.clone(), &self.boxes);
        for _ in 0..self.iterations {
            let value = |place: Place| cells[boxes.index(place)];
            let right = |index: usize| right_side(&cells[index], &self.around(boxes.cell(index)).map(|pair| pair.map(value)));
            let mut changes: Vec<Cell> = (0..cells.len()).map(right).collect();
            for dimension in 0..3 {
                for first in (0..cells.len()).filter(|&index| boxes.cell(index)[dimension] == 0) {
                    let stride: usize = boxes.cells[..dimension].iter().product();
                    let line: Vec<usize> = (0..boxes.cells[dimension]).map(|place| first + place * stride).collect();
                    let mut rows = Vec::new();
                    for (place, &index) in line.iter().enumerate() {
                        let before = place.checked_sub(1).map(|before| (&cells[line[before]], &rows[before]));
                        rows.push(eliminate(dimension, before, line.get(place + 1).map(|&after| &cells[after]), &changes[index]));
                    }
                    let mut after = None;
                    for (&index, row) in line.iter().zip(&rows).rev() {
                        changes[index] = substitute(row, after.as_ref());
                        after = Some(changes[index]);
                    }
                }
            }
            cells.iter_mut().zip(&changes).for_each(|(cell, change)| (0..5).for_each(|m| cell[m] += change[m]));
        }
        cells.into_flattened().into_iter().map(f64::from).collect()
    }
}

/// A processor's part.
struct Part {
    am: Am,
    input: Arc<Input>,
    shared: Shared,
    /// What is handed on, in shared memory behind the cells.
    lines: Lines,
    /// Of each own cell, in order.
    changes: RefCell<Vec<Cell>>,
}

fn run(setup: &Setup<'_>) -> Result<Outcome, Failure> {
    let (input, expected) = prepared("appbt", setup, Input::new, Input::sequential);
    let (parts, outcome) = setup.simulate(|am| node(am, input.clone()))?;
    let boxes = &input.boxes;
    let ours: Vec<f64> = (0..input.cells.len())
        .flat_map(|index| {
            let cell = boxes.cell(index);
            let values: &Vec<Cell> = &parts[boxes.owner(cell)];
            values[boxes.place_in_own(cell)].map(f64::from)
        })
        .collect();
    compare("appbt", &ours, &expected, 0.0)?;
    Ok(outcome)
}

impl Part {
    async fn cell(&self, place: Place) -> Cell {
        self.shared.read_f32(self.input.boxes.place(place, 1) * BLOCK).await
    }

    /// The right sides of the own cells.
    async fn right_sides(&self) {
        for (index, place) in self.input.boxes.own(self.am.cpu().node()).enumerate() {
            let mut around = [[[0.0; 5]; 2]; 3];
            for (values, places) in around.as_flattened_mut().iter_mut().zip(self.input.around(place).as_flattened()) {
                *values = self.cell(*places).await;
            }
            let right = right_side(&self.cell(place).await, &around);
            self.am.cpu().compute(RIGHT_SIDE_FLOPS * FLOP);
            self.am.cpu().store_range(CHANGES + (index * BLOCK) as u64, BLOCK as u64).await;
            self.changes.borrow_mut()[index] = right;
        }
    }

    /// The own cells with their changes.
    async fn advance(&self) {
        for (index, place) in self.input.boxes.own(self.am.cpu().node()).enumerate() {
            let (mut cell, change) = (self.cell(place).await, self.changes.borrow()[index]);
            self.am.cpu().load_range(CHANGES + (index * BLOCK) as u64, BLOCK as u64).await;
            self.am.cpu().compute(5 * FLOP);
            (0..5).for_each(|m| cell[m] += change[m]);
            self.shared.write_f32(self.input.boxes.place(place, 1) * BLOCK, cell).await;
        }
    }
}

async fn node(am: Am, input: Arc<Input>) -> Vec<Cell> {
    let (me, boxes) = (am.cpu().node(), &input.boxes);
    let cells = boxes.places(1);
    let lines = Lines::new(boxes, cells);
    let home = |block: usize| if block < cells { boxes.home(block, 1) } else { lines.home(block) };
    let shared = Shared::new(&am, lines.end() * BLOCK, BLOCK, home);
    let mut bytes = vec![0; cells * BLOCK];
    for (index, cell) in input.cells.iter().enumerate() {
        let at = boxes.place(boxes.cell(index), 1) * BLOCK;
        bytes[at..at + BLOCK].copy_from_slice(cell.map(f32::to_le_bytes).as_flattened());
    }
    shared.preset(&bytes);
    let changes = RefCell::new(vec![[0.0; 5]; boxes.own(me).count()]);
    let (barrier, part) = (Barrier::new(&am), Part { am: am.clone(), input: input.clone(), shared, lines, changes });
    for iteration in 0..input.iterations {
        barrier.wait().await;
        part.right_sides().await;
        for dimension in 0..3 {
            part.solve(dimension, iteration).await;
        }
        // Nobody reads a cell any more.
        barrier.wait().await;
        part.advance().await;
    }
    barrier.wait().await;
    let mut result = Vec::new();
    for place in boxes.own(me) {
        result.push(part.cell(place).await);
    }
    barrier.wait().await;
    result
}
