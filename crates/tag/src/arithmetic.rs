// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic of atomics: every operation on every type that it makes sense for. Who calls holds
//! the lock of the regions, which is what makes them atomic.

use crate::atomics::{DataType, Op};
use crate::long_double::LongDouble;
use core::cmp::Ordering;

/// A type of values.
trait Value: Copy + PartialEq {
    const BYTES: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn sum(self, v: Self) -> Self;
    fn difference(self, v: Self) -> Self;
    fn product(self, v: Self) -> Self;
    fn truth(self) -> bool;
    fn of(truth: bool) -> Self;
    /// `None`: there is no order.
    fn order(self, v: Self) -> Option<Ordering>;
    fn bits(op: Op, m: Self, v: Self, c: Self) -> Self;
}

/// How a number lies in memory.
macro_rules! as_bytes {
    ($t:ty) => {
        const BYTES: usize = size_of::<$t>();
        fn load(bytes: &[u8]) -> Self {
            let mut b = [0; size_of::<$t>()];
            b.copy_from_slice(bytes);
            Self::from_ne_bytes(b)
        }
        fn store(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_ne_bytes());
        }
    };
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Value for $t {
            as_bytes!($t);
            fn sum(self, v: Self) -> Self { self.wrapping_add(v) }
            fn difference(self, v: Self) -> Self { self.wrapping_sub(v) }
            fn product(self, v: Self) -> Self { self.wrapping_mul(v) }
            fn truth(self) -> bool { self != 0 }
            fn of(truth: bool) -> Self { truth.into() }
            fn order(self, v: Self) -> Option<Ordering> { Some(self.cmp(&v)) }
            fn bits(op: Op, m: Self, v: Self, c: Self) -> Self {
                match op {
                    Op::BitOr => m | v,
                    Op::BitAnd => m & v,
                    Op::BitXor => m ^ v,
                    _ => v & c | m & !c,
                }
            }
        }
    )*};
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Value for $t {
            as_bytes!($t);
            fn sum(self, v: Self) -> Self { self + v }
            fn difference(self, v: Self) -> Self { self - v }
            fn product(self, v: Self) -> Self { self * v }
            fn truth(self) -> bool { self != 0.0 }
            fn of(truth: bool) -> Self { if truth { 1.0 } else { 0.0 } }
            fn order(self, v: Self) -> Option<Ordering> { self.partial_cmp(&v) }
            fn bits(_: Op, m: Self, _: Self, _: Self) -> Self { m }
        }
    )*};
}
floats!(f32, f64);

/// Complex numbers: the real and the imaginary part.
impl<T: Value> Value for (T, T) {
    const BYTES: usize = 2 * T::BYTES;
    fn load(bytes: &[u8]) -> Self {
        (T::load(&bytes[..T::BYTES]), T::load(&bytes[T::BYTES..]))
    }
    fn store(self, bytes: &mut [u8]) {
        let (re, im) = bytes.split_at_mut(T::BYTES);
        self.0.store(re);
        self.1.store(im);
    }
    fn sum(self, v: Self) -> Self {
        (self.0.sum(v.0), self.1.sum(v.1))
    }
    fn difference(self, v: Self) -> Self {
        (self.0.difference(v.0), self.1.difference(v.1))
    }
    fn product(self, v: Self) -> Self {
        (self.0.product(v.0).difference(self.1.product(v.1)), self.0.product(v.1).sum(self.1.product(v.0)))
    }
    fn truth(self) -> bool {
        self.0.truth() || self.1.truth()
    }
    fn of(truth: bool) -> Self {
        (T::of(truth), T::of(false))
    }
    fn order(self, _: Self) -> Option<Ordering> {
        None
    }
    fn bits(_: Op, m: Self, _: Self, _: Self) -> Self {
        m
    }
}

impl Value for LongDouble {
    const BYTES: usize = 16;
    fn load(bytes: &[u8]) -> Self {
        Self::from_bytes(bytes)
    }
    fn store(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_bytes());
    }
    fn sum(self, v: Self) -> Self {
        self.plus(v)
    }
    fn difference(self, v: Self) -> Self {
        self.minus(v)
    }
    fn product(self, v: Self) -> Self {
        self.times(v)
    }
    fn truth(self) -> bool {
        self != Self::ZERO
    }
    fn of(truth: bool) -> Self {
        if truth { Self::ONE } else { Self::ZERO }
    }
    fn order(self, v: Self) -> Option<Ordering> {
        self.compared(v)
    }
    fn bits(_: Op, m: Self, _: Self, _: Self) -> Self {
        m
    }
}

/// What the cell holds afterwards.
fn apply<T: Value>(op: Op, m: T, v: T, c: T) -> T {
    let if_order = |fits: fn(Ordering) -> bool| if c.order(m).is_some_and(fits) { v } else { m };
    match op {
        Op::Min => {
            if v.order(m) == Some(Ordering::Less) {
                v
            } else {
                m
            }
        }
        Op::Max => {
            if v.order(m) == Some(Ordering::Greater) {
                v
            } else {
                m
            }
        }
        Op::Sum => m.sum(v),
        Op::Difference => m.difference(v),
        Op::Product => m.product(v),
        Op::LogicalOr => T::of(m.truth() || v.truth()),
        Op::LogicalAnd => T::of(m.truth() && v.truth()),
        Op::LogicalXor => T::of(m.truth() != v.truth()),
        Op::Read => m,
        Op::Write => v,
        Op::SwapIfEqual => {
            if c == m {
                v
            } else {
                m
            }
        }
        Op::SwapIfNotEqual => {
            if c == m {
                m
            } else {
                v
            }
        }
        Op::SwapIfLessOrEqual => if_order(Ordering::is_le),
        Op::SwapIfLess => if_order(Ordering::is_lt),
        Op::SwapIfGreaterOrEqual => if_order(Ordering::is_ge),
        Op::SwapIfGreater => if_order(Ordering::is_gt),
        Op::BitOr | Op::BitAnd | Op::BitXor | Op::SwapMasked => T::bits(op, m, v, c),
    }
}

fn run<T: Value>(op: Op, cells: &mut [u8], operands: &[u8], compare: &[u8]) {
    for (i, cell) in cells.chunks_exact_mut(T::BYTES).enumerate() {
        let at = |from: &[u8]| from.get(i * T::BYTES..(i + 1) * T::BYTES).map(T::load);
        let m = T::load(cell);
        apply(op, m, at(operands).unwrap_or(m), at(compare).unwrap_or(m)).store(cell);
    }
}

/// Carries an operation out on cells: a copy of the memory, or what will be one.
pub(crate) fn carry_out(of: DataType, op: Op, cells: &mut [u8], operands: &[u8], compare: &[u8]) {
    let run = match of {
        DataType::I8 => run::<i8>,
        DataType::U8 => run::<u8>,
        DataType::I16 => run::<i16>,
        DataType::U16 => run::<u16>,
        DataType::I32 => run::<i32>,
        DataType::U32 => run::<u32>,
        DataType::I64 => run::<i64>,
        DataType::U64 => run::<u64>,
        DataType::F32 => run::<f32>,
        DataType::F64 => run::<f64>,
        DataType::ComplexF32 => run::<(f32, f32)>,
        DataType::ComplexF64 => run::<(f64, f64)>,
        DataType::I128 => run::<i128>,
        DataType::U128 => run::<u128>,
        DataType::LongDouble => run::<LongDouble>,
        DataType::ComplexLongDouble => run::<(LongDouble, LongDouble)>,
    };
    run(op, cells, operands, compare);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomics::{Form, OPS, TYPES};

    fn i16s(of: &[i16]) -> Vec<u8> {
        of.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    #[test]
    fn integers() {
        let (m, v, c) = ([5i16, -3, 0, i16::MAX], [3i16, 7, 0, 1], [5i16, -4, 1, i16::MAX]);
        for (op, expected) in [
            (Op::Min, [3, -3, 0, 1]),
            (Op::Max, [5, 7, 0, i16::MAX]),
            (Op::Sum, [8, 4, 0, i16::MIN]),
            (Op::Difference, [2, -10, 0, i16::MAX - 1]),
            (Op::Product, [15, -21, 0, i16::MAX]),
            (Op::LogicalOr, [1, 1, 0, 1]),
            (Op::LogicalAnd, [1, 1, 0, 1]),
            (Op::LogicalXor, [0, 0, 0, 0]),
            (Op::BitOr, [7, -1, 0, i16::MAX]),
            (Op::BitAnd, [1, 5, 0, 1]),
            (Op::BitXor, [6, -6, 0, i16::MAX - 1]),
            (Op::Read, m),
            (Op::Write, v),
            (Op::SwapIfEqual, [3, -3, 0, 1]),
            (Op::SwapIfNotEqual, [5, 7, 0, i16::MAX]),
            (Op::SwapIfLessOrEqual, [3, 7, 0, 1]),
            (Op::SwapIfLess, [5, 7, 0, i16::MAX]),
            (Op::SwapIfGreaterOrEqual, [3, -3, 0, 1]),
            (Op::SwapIfGreater, [5, -3, 0, i16::MAX]),
            (Op::SwapMasked, [1, 5, 0, 1]),
        ] {
            let mut cells = i16s(&m);
            carry_out(DataType::I16, op, &mut cells, &i16s(&v), &i16s(&c));
            assert_eq!(cells, i16s(&expected), "{op:?}");
        }
    }

    #[test]
    fn every_type_has_its_size_and_its_order() {
        for (bits, of) in TYPES.iter().enumerate() {
            assert_eq!((DataType::from_bits(bits as u8), *of as usize), (Some(*of), bits));
            let n = of.bytes();
            // All ones in a signed or float type are not the largest value; 1 and 2 as small
            // integers, or as tiny floats, have the order of numbers.
            let (one, two) = ([&[1][..], &vec![0; n - 1]].concat(), [&[2][..], &vec![0; n - 1]].concat());
            for op in OPS {
                let mut cells = one.clone();
                carry_out(*of, op, &mut cells, &two, &one);
                if op == Op::Write || op == Op::SwapIfEqual || op == Op::Max && op.allows(*of, Form::Plain) {
                    assert_eq!(cells, two, "{op:?} {of:?}");
                }
                assert_eq!(cells.len(), n);
            }
        }
        assert!(DataType::from_bits(16).is_none() && Op::from_bits(20).is_none() && Form::from_bits(3).is_none());
    }

    #[test]
    fn complex_numbers_multiply() {
        let bytes = |of: [f64; 2]| of.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
        let mut cells = bytes([1.0, 2.0]);
        carry_out(DataType::ComplexF64, Op::Product, &mut cells, &bytes([3.0, -1.0]), &[]);
        assert_eq!(cells, bytes([5.0, 5.0]));
        assert!(!Op::Min.allows(DataType::ComplexF64, Form::Plain) && !Op::BitOr.allows(DataType::F32, Form::Fetch));
        assert!(!Op::Read.allows(DataType::I8, Form::Plain) && Op::SwapMasked.allows(DataType::U128, Form::Compare));
    }
}
