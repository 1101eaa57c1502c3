// SPDX-License-Identifier: MIT OR Apache-2.0
//! A grid of cells shared out to processors in boxes, as near to cubes as their number allows.

/// A cell's place in the grid.
pub type Place = [usize; 3];

/// A grid and its boxes.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// Cells in each dimension.
    pub cells: Place,
    /// Boxes in each dimension.
    pub boxes: Place,
}

impl Boxes {
    /// A grid for so many processors.
    ///
    /// # Panics
    /// If the grid cannot be cut for them.
    pub fn new(nodes: usize, cells: Place) -> Self {
        Self::cut(nodes, cells).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A grid for so many processors; no dimension has more boxes than cells.
    ///
    /// # Errors
    /// If the grid cannot be cut so.
    pub fn cut(nodes: usize, cells: Place) -> Result<Self, String> {
        let mut boxes = [1; 3];
        let mut rest = nodes;
        for factor in 2..=nodes {
            while rest.is_multiple_of(factor) {
                // The longest side is cut.
                let side = (0..3).max_by(|&a, &b| (cells[a] * boxes[b]).cmp(&(cells[b] * boxes[a]))).unwrap_or(0);
                boxes[side] *= factor;
                rest /= factor;
            }
        }
        if boxes.iter().zip(cells).any(|(&boxes, cells)| boxes > cells) {
            return Err(format!("a grid of {cells:?} cells cannot be cut for {nodes} nodes"));
        }
        Ok(Self { cells, boxes })
    }

    /// A processor's place among the boxes.
    pub fn box_of(&self, node: usize) -> Place {
        [node % self.boxes[0], node / self.boxes[0] % self.boxes[1], node / self.boxes[0] / self.boxes[1]]
    }

    /// The processor of a box.
    pub fn node(&self, place: Place) -> usize {
        place[0] + self.boxes[0] * (place[1] + self.boxes[1] * place[2])
    }

    /// The cells of a box in one dimension.
    pub fn range(&self, place: usize, dimension: usize) -> core::ops::Range<usize> {
        let (cells, boxes) = (self.cells[dimension], self.boxes[dimension]);
        place * cells / boxes..(place + 1) * cells / boxes
    }

    /// The processor of a cell.
    pub fn owner(&self, cell: Place) -> usize {
        self.node(std::array::from_fn(|x| ((cell[x] + 1) * self.boxes[x] - 1) / self.cells[x]))
    }

    /// The number of a cell.
    pub fn index(&self, cell: Place) -> usize {
        cell[0] + self.cells[0] * (cell[1] + self.cells[1] * cell[2])
    }

    /// The cell of a number.
    pub fn cell(&self, index: usize) -> Place {
        [index % self.cells[0], index / self.cells[0] % self.cells[1], index / self.cells[0] / self.cells[1]]
    }

    /// A cell, and its neighbours in the grid.
    pub fn around(&self, cell: Place) -> impl Iterator<Item = Place> {
        let cells = self.cells;
        let sides = (0..6).filter_map(move |side| {
            let mut near = cell;
            near[side / 2] = near[side / 2].checked_add_signed(if side % 2 == 0 { -1 } else { 1 })?;
            (near[side / 2] < cells[side / 2]).then_some(near)
        });
        [cell].into_iter().chain(sides)
    }

    /// The cells of a processor, in order.
    pub fn own(&self, node: usize) -> impl Iterator<Item = Place> {
        let place = self.box_of(node);
        let [x, y, z] = [0, 1, 2].map(|dimension| self.range(place[dimension], dimension));
        z.flat_map(move |z| {
            let (x, y) = (x.clone(), y.clone());
            y.flat_map(move |y| x.clone().map(move |x| [x, y, z]))
        })
    }

    /// A cell's place among those of its processor.
    pub fn place_in_own(&self, cell: Place) -> usize {
        let place = self.box_of(self.owner(cell));
        let [x, y, z] = [0, 1, 2].map(|dimension| self.range(place[dimension], dimension));
        cell[0] - x.start + x.len() * (cell[1] - y.start + y.len() * (cell[2] - z.start))
    }

    /// Room for the cells of one processor, a multiple of `unit`.
    fn room(&self, unit: usize) -> usize {
        (0..3).map(|x| self.cells[x].div_ceil(self.boxes[x])).product::<usize>().next_multiple_of(unit)
    }

    /// A cell's place in an array in which each processor's cells lie together, from a multiple of
    /// `unit` on.
    pub fn place(&self, cell: Place, unit: usize) -> usize {
        self.owner(cell) * self.room(unit) + self.place_in_own(cell)
    }

    /// The length of such an array.
    pub fn places(&self, unit: usize) -> usize {
        self.boxes.iter().product::<usize>() * self.room(unit)
    }

    /// Whose cells lie at a place of such an array.
    pub fn home(&self, place: usize, unit: usize) -> usize {
        place / self.room(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_in_one_box() {
        for (nodes, cells) in [(16, [18, 18, 30]), (16, [24, 24, 24]), (6, [5, 7, 3]), (1, [2, 2, 2])] {
            let boxes = Boxes::new(nodes, cells);
            let mut seen = vec![false; boxes.places(8)];
            let mut count = 0;
            for node in 0..nodes {
                for (index, cell) in boxes.own(node).enumerate() {
                    assert_eq!((boxes.owner(cell), boxes.place_in_own(cell), boxes.cell(boxes.index(cell))), (node, index, cell));
                    assert_eq!(boxes.home(boxes.place(cell, 8), 8), node);
                    assert!(!std::mem::replace(&mut seen[boxes.place(cell, 8)], true), "places are different");
                    count += 1;
                }
            }
            assert_eq!(count, cells.iter().product::<usize>());
        }
    }
}
