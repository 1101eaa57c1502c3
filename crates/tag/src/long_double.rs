// SPDX-License-Identifier: MIT OR Apache-2.0
//! C's `long double`, which Rust has not: on x86-64 the 80-bit number of its floating-point unit,
//! in 16 bytes of which the last six say nothing. On other machines there is none: its operations
//! are not offered there, and what stands for them here only keeps the bytes.
//!
//! Invariant L1: an instruction sequence here reads and writes ten bytes at addresses of arrays
//! that live across it, and leaves the unit's stack as deep as it was.

use core::cmp::Ordering;

/// Whether there is the arithmetic for it.
pub(crate) const IS_HERE: bool = cfg!(target_arch = "x86_64");

/// A number as it lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongDouble([u8; 16]);

/// Two numbers become one.
macro_rules! operation {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        pub(crate) fn $name(self, v: Self) -> Self {
            let mut result = [0u8; 16];
            // SAFETY: L1.
            unsafe {
                core::arch::asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    a = in(reg) self.0.as_ptr(), b = in(reg) v.0.as_ptr(), result = in(reg) result.as_mut_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            Self(result)
        }

        #[cfg(not(target_arch = "x86_64"))]
        pub(crate) fn $name(self, _: Self) -> Self {
            self
        }
    };
}

impl LongDouble {
    pub(crate) const ZERO: Self = Self([0; 16]);
    /// The exponent's bias, and the whole part, which is written out.
    pub(crate) const ONE: Self = Self([0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0]);

    /// Out of 16 bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut b = [0; 16];
        b.copy_from_slice(bytes);
        Self(b)
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    operation!(
        /// Their sum.
        plus, "faddp st(1), st"
    );
    operation!(
        /// This less the other.
        minus, "fsubp st(1), st"
    );
    operation!(
        /// Their product.
        times, "fmulp st(1), st"
    );

    /// `None`: one of them is no number.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn compared(self, v: Self) -> Option<Ordering> {
        let (unordered, less, equal): (u8, u8, u8);
        // SAFETY: L1.
        unsafe {
            core::arch::asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fucomip st, st(1)",
                "fstp st(0)",
                "setp {unordered}",
                "setc {less}",
                "setz {equal}",
                a = in(reg) self.0.as_ptr(), b = in(reg) v.0.as_ptr(),
                unordered = out(reg_byte) unordered, less = out(reg_byte) less, equal = out(reg_byte) equal,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        match (unordered != 0, less != 0, equal != 0) {
            (true, ..) => None,
            (_, true, _) => Some(Ordering::Less),
            (_, _, true) => Some(Ordering::Equal),
            _ => Some(Ordering::Greater),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn compared(self, _: Self) -> Option<Ordering> {
        None
    }
}

impl PartialEq for LongDouble {
    fn eq(&self, v: &Self) -> bool {
        self.compared(*v) == Some(Ordering::Equal)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A whole number.
    fn of(n: i64) -> LongDouble {
        let mut result = [0u8; 16];
        // SAFETY: L1, and eight bytes of a number.
        unsafe {
            core::arch::asm!("fild qword ptr [{n}]", "fstp tbyte ptr [{result}]", n = in(reg) &raw const n, result = in(reg) result.as_mut_ptr(), out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _, out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _, options(nostack));
        }
        LongDouble(result)
    }

    #[test]
    fn calculates() {
        assert_eq!(of(1).0, LongDouble::ONE.0);
        assert_eq!((of(5).plus(of(3)), of(5).minus(of(3)), of(5).times(of(-3))), (of(8), of(2), of(-15)));
        // More digits than a double has.
        let large = (1i64 << 62) + 1;
        assert_eq!(of(large).minus(of(1 << 62)), of(1));
        assert!(of(large) != of(1 << 62));
    }

    #[test]
    fn compares() {
        let none = LongDouble([0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f, 0, 0, 0, 0, 0, 0]);
        for (a, b, order) in [(3, 5, Ordering::Less), (5, 3, Ordering::Greater), (-5, -5, Ordering::Equal), (-1, 0, Ordering::Less)] {
            assert_eq!(of(a).compared(of(b)), Some(order), "{a} {b}");
        }
        assert_eq!((none.compared(of(1)), none == none, of(0) == LongDouble::ZERO), (None, false, true));
        // The last bytes say nothing.
        let mut padded = of(7);
        padded.0[10..].fill(9);
        assert_eq!(padded, of(7));
    }

    #[test]
    fn leaves_the_stack_as_it_was() {
        for _ in 0..1000 {
            let _ = (of(1).plus(of(2)), of(1).compared(of(2)));
        }
        assert_eq!(of(1).plus(of(2)), of(3));
    }
}
