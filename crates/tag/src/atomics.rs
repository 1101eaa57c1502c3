// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics by their numbers: types of values, operations, and which fits which. What they do is in
//! `arithmetic.rs`.

/// Types of values, by the number that travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "named by what they are")]
pub enum DataType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// Two of a type: real and imaginary part.
    ComplexF32,
    ComplexF64,
    I128,
    U128,
    /// As this machine's C compilers have it; on machines without the arithmetic for it there is
    /// none.
    LongDouble,
    ComplexLongDouble,
}

/// Operations, by the number that travels. In a memory cell `m`, with an operand `v` and something
/// to compare with, `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// The smaller of `m` and `v`.
    Min,
    /// The larger.
    Max,
    /// `m + v`; integers wrap.
    Sum,
    /// `m * v`; integers wrap.
    Product,
    /// Whether either is not 0.
    LogicalOr,
    /// Whether both are not 0.
    LogicalAnd,
    /// Bit by bit.
    BitOr,
    /// Bit by bit.
    BitAnd,
    /// Whether one and only one is not 0.
    LogicalXor,
    /// Bit by bit.
    BitXor,
    /// `m`, which stays.
    Read,
    /// `v`.
    Write,
    /// `v` if `c == m`.
    SwapIfEqual,
    /// `v` if `c != m`.
    SwapIfNotEqual,
    /// `v` if `c <= m`.
    SwapIfLessOrEqual,
    /// `v` if `c < m`.
    SwapIfLess,
    /// `v` if `c >= m`.
    SwapIfGreaterOrEqual,
    /// `v` if `c > m`.
    SwapIfGreater,
    /// The bits of `v` where `c` has ones, else those of `m`.
    SwapMasked,
    /// `m - v`; integers wrap.
    Difference,
}

/// What an atomic gives back, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Nothing back.
    Plain,
    /// The value before.
    Fetch,
    /// The value before; and there is something to compare with.
    Compare,
}

pub(crate) const TYPES: [DataType; 16] = {
    use DataType::*;
    [I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, ComplexF32, ComplexF64, I128, U128, LongDouble, ComplexLongDouble]
};

pub(crate) const OPS: [Op; 20] = {
    use Op::*;
    [
        Min,
        Max,
        Sum,
        Product,
        LogicalOr,
        LogicalAnd,
        BitOr,
        BitAnd,
        LogicalXor,
        BitXor,
        Read,
        Write,
        SwapIfEqual,
        SwapIfNotEqual,
        SwapIfLessOrEqual,
        SwapIfLess,
        SwapIfGreaterOrEqual,
        SwapIfGreater,
        SwapMasked,
        Difference,
    ]
};

impl DataType {
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        TYPES.get(usize::from(bits)).copied()
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::ComplexF32 => 8,
            Self::ComplexF64 | Self::I128 | Self::U128 | Self::LongDouble => 16,
            Self::ComplexLongDouble => 32,
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Self::ComplexF32 | Self::ComplexF64 | Self::ComplexLongDouble)
    }

    /// Whether this machine can calculate with it.
    fn is_here(self) -> bool {
        crate::long_double::IS_HERE || !matches!(self, Self::LongDouble | Self::ComplexLongDouble)
    }

    fn is_integer(self) -> bool {
        !self.is_complex() && !matches!(self, Self::F32 | Self::F64 | Self::LongDouble)
    }
}

impl Op {
    /// From the number that travels, which is libfabric's.
    pub fn from_bits(bits: u8) -> Option<Self> {
        OPS.get(usize::from(bits)).copied()
    }

    fn compares(self) -> bool {
        matches!(
            self,
            Self::SwapIfEqual
                | Self::SwapIfNotEqual
                | Self::SwapIfLessOrEqual
                | Self::SwapIfLess
                | Self::SwapIfGreaterOrEqual
                | Self::SwapIfGreater
                | Self::SwapMasked
        )
    }

    /// Whether the operation is for values of a type, in a form.
    pub fn allows(self, of: DataType, form: Form) -> bool {
        let fits = match self {
            Self::BitOr | Self::BitAnd | Self::BitXor | Self::SwapMasked => of.is_integer(),
            Self::Min | Self::Max | Self::SwapIfLessOrEqual | Self::SwapIfLess | Self::SwapIfGreaterOrEqual | Self::SwapIfGreater => !of.is_complex(),
            _ => true,
        };
        fits && of.is_here() && self.compares() == (form == Form::Compare) && !(self == Self::Read && form == Form::Plain)
    }
}

impl Form {
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        [Self::Plain, Self::Fetch, Self::Compare].get(usize::from(bits)).copied()
    }
}
