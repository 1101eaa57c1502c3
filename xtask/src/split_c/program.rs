// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs as data: arrays, phases, statements; and random ones.

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Bytes, whether it has a sign, and how it is written.
    Integer(u32, bool, &'static str),
    /// Bits of the values that are used (quarters of integers, all exact), and how it is written.
    Real(u32, &'static str),
    Bool,
}

pub const TYPES: [Type; 15] = [
    Type::Integer(1, true, "char"),
    Type::Integer(1, true, "signed char"),
    Type::Integer(1, false, "unsigned char"),
    Type::Integer(2, true, "short"),
    Type::Integer(2, false, "unsigned short"),
    Type::Integer(4, true, "int"),
    Type::Integer(4, false, "unsigned"),
    Type::Integer(8, true, "long"),
    Type::Integer(8, false, "unsigned long"),
    Type::Integer(8, true, "long long"),
    Type::Integer(8, false, "unsigned long long"),
    Type::Real(20, "float"),
    Type::Real(48, "double"),
    Type::Real(56, "long double"),
    Type::Bool,
];

/// Members of the one struct, by their place in [`TYPES`].
pub const MEMBERS: [usize; 9] = [0, 4, 5, 7, 11, 13, 12, 14, 2];

/// What an array's elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Scalar(usize),
    Struct,
}

impl Element {
    /// Types of its scalars, in order.
    pub fn types(self) -> Vec<usize> {
        match self {
            Self::Scalar(of) => vec![of],
            Self::Struct => MEMBERS.to_vec(),
        }
    }
}

/// Where an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A spread array of run-time bounds, whose blocks are of so many elements.
    Spread,
    /// A static of each process.
    Static,
    /// An automatic variable of each process.
    Local,
}

impl Place {
    /// How names of arrays begin.
    pub fn letter(self) -> char {
        match self {
            Self::Spread => 'A',
            Self::Static => 'S',
            Self::Local => 'L',
        }
    }
}

#[derive(Clone, Debug)]
pub struct Array {
    pub place: Place,
    pub element: Element,
    pub length: usize,
}

/// A scalar of an array, or a whole element.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    pub array: usize,
    pub index: usize,
    /// Of a struct; `None`: all of the element.
    pub member: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Get,
    Write,
    Put,
    Store,
}

/// What a scalar is made from: a local scalar times a factor, the process's number times another,
/// and a constant.
#[derive(Clone, Copy, Debug)]
pub struct Expression {
    pub from: Option<Spot>,
    pub factors: [u64; 3],
}

#[derive(Clone, Debug)]
pub enum Statement {
    /// `local = global` or `local := global`, of process `(MYPROC + shift) %
    /// PROCS`; in `form` of several ways to write the global place.
    In { get: bool, to: Spot, from: Spot, shift: usize, form: u32 },
    /// `global = expression` and so on.
    Out { operation: Operation, to: Spot, value: Expression, shift: usize, form: u32 },
    /// `global = local` and so on, of whole elements.
    Copy { operation: Operation, to: Spot, from: Spot, shift: usize, form: u32 },
    /// `bulk_..` of several elements.
    Bulk { operation: Operation, local: Spot, global: Spot, count: usize, shift: usize, form: u32 },
}

#[derive(Clone, Debug)]
pub struct Phase {
    pub statements: Vec<Statement>,
    /// Each process waits for the bytes that are stored into it; else all wait together.
    pub waits_alone: bool,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub arrays: Vec<Array>,
    pub phases: Vec<Phase>,
}

/// Randomness (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Which elements a phase reads and writes, by array and index: whole elements, so that members of
/// a struct do not meet in one word.
#[derive(Default)]
struct Uses {
    read: std::collections::BTreeSet<(usize, usize)>,
    written: std::collections::BTreeSet<(usize, usize)>,
}

impl Uses {
    fn may_read(&self, spot: Spot, count: usize) -> bool {
        (spot.index..spot.index + count).all(|i| !self.written.contains(&(spot.array, i)))
    }

    fn may_write(&self, spot: Spot, count: usize) -> bool {
        self.may_read(spot, count) && (spot.index..spot.index + count).all(|i| !self.read.contains(&(spot.array, i)))
    }

    fn note(&mut self, reads: Option<Spot>, writes: Spot, count: usize) {
        self.read.extend(reads.into_iter().flat_map(|spot| (spot.index..spot.index + count).map(move |i| (spot.array, i))));
        self.written.extend((writes.index..writes.index + count).map(|i| (writes.array, i)));
    }
}

impl Program {
    pub fn random(seed: u64) -> Self {
        let random = &mut Random(seed);
        let mut arrays = Vec::new();
        // Three types for a program, and structs: each with an array of each kind.
        let mut elements: Vec<Element> = (0..3).map(|i| Element::Scalar((seed as usize * 3 + i + random.below(2) * 5) % TYPES.len())).collect();
        elements.push(Element::Struct);
        for element in elements {
            for place in [Place::Spread, Place::Static, Place::Local] {
                arrays.push(Array { place, element, length: 3 + random.below(9) });
            }
        }
        let phases = (0..4 + random.below(5)).map(|_| phase(random, &arrays)).collect();
        Self { arrays, phases }
    }
}

fn phase(random: &mut Random, arrays: &[Array]) -> Phase {
    let mut uses = Uses::default();
    let mut statements = Vec::new();
    for _ in 0..5 + random.below(20) {
        let tried = statement(random, arrays, &mut uses);
        statements.extend(tried);
    }
    Phase { statements, waits_alone: random.below(2) == 0 }
}

fn spot(random: &mut Random, arrays: &[Array], is_local: bool, element: Option<Element>) -> Spot {
    let fits = |a: &&usize| (arrays[**a].place == Place::Local) == is_local && element.is_none_or(|element| arrays[**a].element == element);
    let all: Vec<usize> = (0..arrays.len()).collect();
    let fitting: Vec<usize> = all.iter().filter(fits).copied().collect();
    let array = fitting[random.below(fitting.len())];
    Spot { array, index: random.below(arrays[array].length), member: None }
}

fn member_of(random: &mut Random, arrays: &[Array], spot: Spot) -> Option<usize> {
    (arrays[spot.array].element == Element::Struct).then(|| random.below(MEMBERS.len()))
}

fn statement(random: &mut Random, arrays: &[Array], uses: &mut Uses) -> Option<Statement> {
    let operation = [Operation::Read, Operation::Get, Operation::Write, Operation::Put, Operation::Store][random.below(5)];
    let (shift, form) = (random.below(5), random.next() as u32 % 4);
    let mut global = spot(random, arrays, false, None);
    let mut local = spot(random, arrays, true, Some(arrays[global.array].element));
    let is_in = matches!(operation, Operation::Read | Operation::Get);
    match random.below(4) {
        0 => {
            let room = (arrays[global.array].length - global.index).min(arrays[local.array].length - local.index);
            let count = 1 + random.below(room);
            let (from, to) = if is_in { (global, local) } else { (local, global) };
            if !uses.may_read(from, count) || !uses.may_write(to, count) {
                return None;
            }
            uses.note(Some(from), to, count);
            Some(Statement::Bulk { operation, local, global, count, shift, form })
        }
        1 if !is_in => {
            if !uses.may_read(local, 1) || !uses.may_write(global, 1) {
                return None;
            }
            uses.note(Some(local), global, 1);
            Some(Statement::Copy { operation, to: global, from: local, shift, form })
        }
        kind => {
            // A scalar: of a struct one member, the same on both sides of a move.
            if kind > 1 || !is_in {
                global.member = member_of(random, arrays, global);
                local.member = global.member;
            }
            if is_in {
                if !uses.may_read(global, 1) || !uses.may_write(local, 1) {
                    return None;
                }
                uses.note(Some(global), local, 1);
                return Some(Statement::In { get: operation == Operation::Get, to: local, from: global, shift, form });
            }
            let factors = [random.next() | 1, random.next(), random.next()];
            let mut from = (random.below(3) > 0).then(|| spot(random, arrays, true, None));
            if let Some(from) = &mut from {
                from.member = member_of(random, arrays, *from);
            }
            if from.is_some_and(|from| !uses.may_read(from, 1)) || !uses.may_write(global, 1) {
                return None;
            }
            uses.note(from, global, 1);
            Some(Statement::Out { operation, to: global, value: Expression { from, factors }, shift, form })
        }
    }
}
