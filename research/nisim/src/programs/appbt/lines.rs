// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines that cross boxes: what their processors hand on to each other in shared memory, and the
//! solver of the part of them in a box.
//!
//! For each dimension and processor there are, at home on it: for each of its lines six blocks with
//! the last row it eliminated, and one with the solution of its first cell; and two counters, of
//! groups of lines handed on forward and backward. A counter only rises.

use super::physics::{Cell, ELIMINATE_FLOPS, Row, SUBSTITUTE_FLOPS};
use super::{BLOCK, Boxes, CHANGES, FLOP, Part, Place, ROWS, eliminate, substitute};

/// Blocks of a line: six of its row, one of its solution.
const LINE: usize = 7;

/// Where things lie, in blocks.
pub struct Lines {
    first: usize,
    /// Room for the lines of a processor in one dimension.
    most: usize,
    nodes: usize,
}

impl Lines {
    /// Behind `first` blocks of other things.
    pub fn new(boxes: &Boxes, first: usize) -> Self {
        let side = |x: usize| boxes.cells[x].div_ceil(boxes.boxes[x]);
        let most = (0..3).map(|x| side((x + 1) % 3) * side((x + 2) % 3)).max().unwrap_or(0);
        Self { first, most, nodes: boxes.boxes.iter().product() }
    }

    fn room(&self) -> usize {
        3 * (self.most * LINE + 2)
    }

    /// The first block behind.
    pub fn end(&self) -> usize {
        self.first + self.nodes * self.room()
    }

    /// Whose block it is.
    pub fn home(&self, block: usize) -> usize {
        (block - self.first) / self.room()
    }

    fn of(&self, node: usize, dimension: usize) -> usize {
        self.first + node * self.room() + dimension * (self.most * LINE + 2)
    }

    /// Bytes before a line's row.
    fn row(&self, node: usize, dimension: usize, line: usize) -> usize {
        (self.of(node, dimension) + 2 + line * LINE) * BLOCK
    }

    /// Bytes before a line's solution.
    fn solution(&self, node: usize, dimension: usize, line: usize) -> usize {
        self.row(node, dimension, line) + (LINE - 1) * BLOCK
    }

    /// Bytes before a counter of groups handed on.
    fn counter(&self, node: usize, dimension: usize, backward: bool) -> usize {
        (self.of(node, dimension) + usize::from(backward)) * BLOCK
    }
}

impl Part {
    /// Solves the part of all lines along a dimension that lies in the own box, a group at a time:
    /// those of one row across.
    pub(super) async fn solve(&self, dimension: usize, iteration: usize) {
        let boxes = &self.input.boxes;
        let me = self.am.cpu().node();
        let place = boxes.box_of(me);
        let [across, up] = [(dimension + 1) % 3, (dimension + 2) % 3];
        let (across, up) = ((across, boxes.range(place[across], across)), (up, boxes.range(place[up], up)));
        let neighbour = |step: isize| {
            let mut other = place;
            other[dimension] = other[dimension].checked_add_signed(step).filter(|&at| at < boxes.boxes[dimension])?;
            Some(boxes.node(other))
        };
        let (before, after) = (neighbour(-1), neighbour(1));
        let start = |group: usize, line: usize| {
            let mut cell = [boxes.range(place[dimension], dimension).start; 3];
            (cell[up.0], cell[across.0]) = (up.1.start + group, across.1.start + line);
            cell
        };
        let done = (iteration * up.1.len()) as u32;
        let mut rows: Vec<Vec<Row>> = Vec::new();
        for group in 0..up.1.len() {
            if let Some(before) = before {
                self.shared.wait_word(self.lines.counter(before, dimension, false), done + group as u32 + 1).await;
            }
            for line in 0..across.1.len() {
                rows.push(self.forward(dimension, start(group, line), group * across.1.len() + line, before, after).await);
            }
            if after.is_some() {
                self.count(self.lines.counter(me, dimension, false), done + group as u32 + 1).await;
            }
        }
        for group in 0..up.1.len() {
            if let Some(after) = after {
                self.shared.wait_word(self.lines.counter(after, dimension, true), done + group as u32 + 1).await;
            }
            for line in 0..across.1.len() {
                let number = group * across.1.len() + line;
                self.backward(dimension, start(group, line), number, &rows[number], before.is_some(), after).await;
            }
            if before.is_some() {
                self.count(self.lines.counter(me, dimension, true), done + group as u32 + 1).await;
            }
        }
    }

    async fn count(&self, counter: usize, value: u32) {
        self.shared.write(counter, &value.to_le_bytes()).await;
    }

    fn length(&self, dimension: usize) -> usize {
        let boxes = &self.input.boxes;
        boxes.range(boxes.box_of(self.am.cpu().node())[dimension], dimension).len()
    }

    /// Eliminates a line's cells from its first one in the box on.
    async fn forward(&self, dimension: usize, start: Place, line: usize, before: Option<usize>, after: Option<usize>) -> Vec<Row> {
        let (cpu, boxes) = (self.am.cpu(), &self.input.boxes);
        let moved = |steps: isize| {
            let mut cell = start;
            cell[dimension] = cell[dimension].checked_add_signed(steps)?;
            Some(cell)
        };
        let mut handed: Option<Row> = None;
        if let Some(before) = before {
            let numbers: [f32; 30] = self.shared.read_f32(self.lines.row(before, dimension, line)).await;
            handed = Some((std::array::from_fn(|m| std::array::from_fn(|j| numbers[m * 5 + j])), std::array::from_fn(|m| numbers[25 + m])));
        }
        let mut previous: Option<Cell> = None;
        if let Some(place) = before.and_then(|_| moved(-1)) {
            previous = Some(self.cell(place).await);
        }
        let mut rows: Vec<Row> = Vec::new();
        let length = self.length(dimension);
        for step in 0..length {
            let place = moved(step as isize).expect("in the box");
            let mut next = None;
            if let Some(place) = moved(step as isize + 1).filter(|_| step + 1 < length || after.is_some()) {
                next = Some(self.cell(place).await);
            }
            let own = boxes.place_in_own(place);
            cpu.load_range(CHANGES + (own * BLOCK) as u64, BLOCK as u64).await;
            let right = self.changes.borrow()[own];
            let row = eliminate(dimension, previous.as_ref().zip(handed.as_ref()), next.as_ref(), &right);
            cpu.compute(ELIMINATE_FLOPS * FLOP);
            cpu.store_range(ROWS + (own * 6 * BLOCK) as u64, 6 * BLOCK as u64).await;
            rows.push(row);
            (previous, handed) = (Some(self.cell(place).await), Some(row));
        }
        if let Some((coupling, right)) = handed.filter(|_| after.is_some()) {
            let numbers: [f32; 30] = std::array::from_fn(|index| if index < 25 { coupling[index / 5][index % 5] } else { right[index - 25] });
            self.shared.write_f32(self.lines.row(cpu.node(), dimension, line), numbers).await;
        }
        rows
    }

    /// Substitutes from a line's last cell in the box to its first.
    async fn backward(&self, dimension: usize, start: Place, line: usize, rows: &[Row], hands_on: bool, after: Option<usize>) {
        let (cpu, boxes) = (self.am.cpu(), &self.input.boxes);
        let mut solution: Option<Cell> = None;
        if let Some(after) = after {
            solution = Some(self.shared.read_f32(self.lines.solution(after, dimension, line)).await);
        }
        for (step, row) in rows.iter().enumerate().rev() {
            let mut place = start;
            place[dimension] += step;
            let own = boxes.place_in_own(place);
            cpu.load_range(ROWS + (own * 6 * BLOCK) as u64, 6 * BLOCK as u64).await;
            let found = substitute(row, solution.as_ref());
            cpu.compute(SUBSTITUTE_FLOPS * FLOP);
            cpu.store_range(CHANGES + (own * BLOCK) as u64, BLOCK as u64).await;
            self.changes.borrow_mut()[own] = found;
            solution = Some(found);
        }
        if let Some(solution) = solution.filter(|_| hands_on) {
            self.shared.write_f32(self.lines.solution(cpu.node(), dimension, line), solution).await;
        }
    }
}
