// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program does, one process after the other. Values are what a sum is made of: an integer's
//! bits, extended as C does; four times a real.

use super::program::{Array, Element, Expression, MEMBERS, Operation, Program, Spot, Statement, TYPES, Type};

/// A value of a type, out of any 64 bits. As the program's `make_..` do.
pub fn make(of: usize, bits: u64) -> i64 {
    match TYPES[of] {
        Type::Integer(1, true, _) => i64::from(bits as i8),
        Type::Integer(1, false, _) => i64::from(bits as u8),
        Type::Integer(2, true, _) => i64::from(bits as i16),
        Type::Integer(2, false, _) => i64::from(bits as u16),
        Type::Integer(4, true, _) => i64::from(bits as i32),
        Type::Integer(4, false, _) => i64::from(bits as u32),
        Type::Integer(..) => bits.cast_signed(),
        Type::Real(width, _) => bits.cast_signed() % (1 << width),
        Type::Bool => (bits & 1).cast_signed(),
    }
}

/// Scalars of an element.
fn width(array: &Array) -> usize {
    array.element.types().len()
}

/// Memory of one process: by array, scalar after scalar.
type Memory = Vec<Vec<i64>>;

struct Machine<'a> {
    program: &'a Program,
    processes: Vec<Memory>,
}

impl Machine<'_> {
    fn range(&self, spot: Spot, count: usize) -> std::ops::Range<usize> {
        let width = width(&self.program.arrays[spot.array]);
        match spot.member {
            Some(member) => spot.index * width + member..spot.index * width + member + 1,
            None => spot.index * width..(spot.index + count) * width,
        }
    }

    fn other(&self, me: usize, shift: usize) -> usize {
        (me + shift) % self.processes.len()
    }

    fn copy(&mut self, from: (usize, Spot), to: (usize, Spot), count: usize) {
        let values = self.processes[from.0][from.1.array][self.range(from.1, count)].to_vec();
        let range = self.range(to.1, count);
        self.processes[to.0][to.1.array][range].copy_from_slice(&values);
    }

    fn value(&self, me: usize, value: &Expression) -> u64 {
        let from = value.from.map_or(0, |spot| self.processes[me][spot.array][self.range(spot, 1).start]);
        let [a, b, c] = value.factors;
        from.cast_unsigned().wrapping_mul(a).wrapping_add((me as u64).wrapping_mul(b)).wrapping_add(c)
    }

    fn run(&mut self, me: usize, statement: &Statement) {
        match statement {
            Statement::In { to, from, shift, .. } => self.copy((self.other(me, *shift), *from), (me, *to), 1),
            Statement::Copy { to, from, shift, .. } => self.copy((me, *from), (self.other(me, *shift), *to), 1),
            Statement::Bulk { operation, local, global, count, shift, .. } => {
                let there = self.other(me, *shift);
                if matches!(operation, Operation::Read | Operation::Get) {
                    self.copy((there, *global), (me, *local), *count);
                } else {
                    self.copy((me, *local), (there, *global), *count);
                }
            }
            Statement::Out { to, value, shift, .. } => {
                let (there, bits) = (self.other(me, *shift), self.value(me, value));
                let of = type_of(&self.program.arrays, *to);
                let at = self.range(*to, 1).start;
                self.processes[there][to.array][at] = make(of, bits);
            }
        }
    }
}

/// The type of a scalar.
pub fn type_of(arrays: &[Array], spot: Spot) -> usize {
    match (arrays[spot.array].element, spot.member) {
        (Element::Scalar(of), _) => of,
        (Element::Struct, member) => MEMBERS[member.unwrap_or(0)],
    }
}

/// What scalar number `at` of an array is at first. As the program's `begin` does.
fn begin(of: usize, process: usize, array: usize, at: usize) -> i64 {
    make(of, (process as u64 * 7919 + array as u64 * 104_729 + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What the program prints on so many processes, sorted.
pub fn output(program: &Program, processes: usize) -> String {
    let fill = |process| {
        let of = |(number, array): (usize, &Array)| {
            let types = array.element.types();
            (0..array.length * types.len()).map(|at| begin(types[at % types.len()], process, number, at)).collect()
        };
        program.arrays.iter().enumerate().map(of).collect()
    };
    let mut machine = Machine { program, processes: (0..processes).map(fill).collect() };
    let mut lines = Vec::new();
    for (number, phase) in program.phases.iter().enumerate() {
        // What is read in a phase is not written in it, so the processes may take their turns.
        for me in 0..processes {
            phase.statements.iter().for_each(|statement| machine.run(me, statement));
        }
        for (process, memory) in machine.processes.iter().enumerate() {
            for (array, values) in memory.iter().enumerate() {
                let sum = values.iter().fold(14_695_981_039_346_656_037u64, |sum, value| (sum ^ value.cast_unsigned()).wrapping_mul(1_099_511_628_211));
                let place = program.arrays[array].place.letter();
                lines.push(format!("{process:02} {number:02} {place}{array:02} {sum:016x}\n"));
            }
        }
    }
    lines.sort_unstable();
    lines.concat()
}
