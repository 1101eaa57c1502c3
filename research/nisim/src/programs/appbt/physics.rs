// SPDX-License-Identifier: MIT OR Apache-2.0
//! The equations of appbt: five quantities carried along and diffused in three dimensions, in
//! single precision, implicit in one dimension after the other. All of it is plain arithmetic, the
//! same for a sequential and a parallel run.

/// The quantities of a cell: density, three momenta, energy.
pub type Cell = [f32; 5];
/// What a line hands on from cell to cell: the eliminated coupling to the next cell, and the right
/// side.
pub type Row = ([Cell; 5], Cell);

const TIME: f32 = 0.02;
const DIFFUSION: f32 = 0.4;

/// Floating-point operations of a cell's right side; of its elimination in a line; of its
/// substitution.
pub const RIGHT_SIDE_FLOPS: u64 = 110;
/// See [`RIGHT_SIDE_FLOPS`].
pub const ELIMINATE_FLOPS: u64 = 620;
/// See [`RIGHT_SIDE_FLOPS`].
pub const SUBSTITUTE_FLOPS: u64 = 50;

/// How fast a cell is carried along a dimension.
fn speed(cell: &Cell, dimension: usize) -> f32 {
    cell[1 + dimension] / cell[0]
}

/// The right side of a cell from its neighbours, two in each dimension; at the border of space, the
/// cell itself stands for the neighbour.
pub fn right_side(cell: &Cell, around: &[[Cell; 2]; 3]) -> Cell {
    std::array::from_fn(|m| {
        let mut sum = 0.0;
        for (dimension, [before, after]) in around.iter().enumerate() {
            let flux = |cell: &Cell| speed(cell, dimension) * cell[m];
            sum += DIFFUSION * (before[m] - 2.0 * cell[m] + after[m]) - 0.5 * (flux(after) - flux(before));
        }
        TIME * sum
    })
}

/// How the flux along a dimension changes with the quantities, times a factor, and with a diagonal
/// added.
fn jacobian(cell: &Cell, dimension: usize, factor: f32, diagonal: f32) -> [Cell; 5] {
    let speed = speed(cell, dimension);
    std::array::from_fn(|m| {
        std::array::from_fn(|j| {
            let own = if m == j { factor * speed + diagonal } else { 0.0 };
            let by_density = if j == 0 { -factor * cell[m] * speed / cell[0] } else { 0.0 };
            let by_momentum = if j == 1 + dimension { factor * cell[m] / cell[0] } else { 0.0 };
            own + by_density + by_momentum
        })
    })
}

/// Eliminates a cell of a line: `before` is the cell before it with what that one hands on, `after`
/// the cell behind it.
pub fn eliminate(dimension: usize, before: Option<(&Cell, &Row)>, after: Option<&Cell>, right: &Cell) -> Row {
    let mut matrix = [[0.0; 5]; 5];
    (0..5).for_each(|m| matrix[m][m] = 1.0 + 2.0 * TIME * DIFFUSION);
    let mut right = *right;
    if let Some((cell, (coupling, handed))) = before {
        let lower = jacobian(cell, dimension, -0.5 * TIME, -TIME * DIFFUSION);
        for m in 0..5 {
            for j in 0..5 {
                matrix[m][j] -= (0..5).map(|k| lower[m][k] * coupling[k][j]).sum::<f32>();
            }
            right[m] -= (0..5).map(|k| lower[m][k] * handed[k]).sum::<f32>();
        }
    }
    let mut upper = after.map_or([[0.0; 5]; 5], |cell| jacobian(cell, dimension, 0.5 * TIME, -TIME * DIFFUSION));
    solve(&mut matrix, &mut upper, &mut right);
    (upper, right)
}

/// Gauss without pivots: the diagonal dominates.
fn solve(matrix: &mut [Cell; 5], many: &mut [Cell; 5], one: &mut Cell) {
    for pivot in 0..5 {
        let inverse = 1.0 / matrix[pivot][pivot];
        (matrix[pivot], many[pivot]) = (matrix[pivot].map(|x| x * inverse), many[pivot].map(|x| x * inverse));
        one[pivot] *= inverse;
        let (row, right, single) = (matrix[pivot], many[pivot], one[pivot]);
        for m in (0..5).filter(|&m| m != pivot) {
            let factor = matrix[m][pivot];
            (0..5).for_each(|j| matrix[m][j] -= factor * row[j]);
            (0..5).for_each(|j| many[m][j] -= factor * right[j]);
            one[m] -= factor * single;
        }
    }
}

/// A cell's solution from what was handed on and the solution of the cell behind it.
pub fn substitute(row: &Row, after: Option<&Cell>) -> Cell {
    let (coupling, right) = row;
    std::array::from_fn(|m| right[m] - after.map_or(0.0, |after| (0..5).map(|k| coupling[m][k] * after[k]).sum::<f32>()))
}
