// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which types can lie in global memory, and what collective calls compute with.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data: any bytes are a value, and every byte of a value is defined. All integers and reals, arrays of them, and structs that derive zerocopy's `FromBytes`, `IntoBytes` and `Immutable`.
///
/// A reference is none: it means nothing in another process.
///
/// ```compile_fail
/// fn lies_in_global_memory<T: bellwire_global::Plain>() {}
/// lies_in_global_memory::<&u32>();
/// ```
///
/// Nor is what not all bits are values of:
///
/// ```compile_fail
/// fn lies_in_global_memory<T: bellwire_global::Plain>() {}
/// lies_in_global_memory::<bool>();
/// ```
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> Plain for T {}

/// A word at any address.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Word<W>(W);

/// Where a value is mapped: so far behind a base. In two parts, which an access takes as they are.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub base: *mut u8,
    pub offset: usize,
}

impl Place {
    /// Loads a value: a word really and once, as other processes may change it; anything else by a copy.
    ///
    /// # Safety
    /// The place is mapped for the size of `T`; T1.
    #[inline(always)]
    pub(crate) unsafe fn load<T: Plain>(self) -> T {
        let at = self.base.wrapping_add(self.offset);
        // SAFETY: the caller's; any bits are a `T`, and the word has as many. Memory that is shared with other processes is none of Rust's own: volatile accesses to it may race.
        unsafe {
            match size_of::<T>() {
                1 => std::mem::transmute_copy(&at.cast::<Word<u8>>().read_volatile()),
                2 => std::mem::transmute_copy(&at.cast::<Word<u16>>().read_volatile()),
                4 => std::mem::transmute_copy(&at.cast::<Word<u32>>().read_volatile()),
                8 => std::mem::transmute_copy(&at.cast::<Word<u64>>().read_volatile()),
                _ => at.cast::<T>().read_unaligned(),
            }
        }
    }

    /// Stores a value: a word really and once, anything else by a copy.
    ///
    /// # Safety
    /// As for [`Place::load`].
    #[inline(always)]
    pub(crate) unsafe fn store<T: Plain>(self, value: T) {
        // SAFETY: the caller's; every bit of a `T` is defined, and the word has as many. As in `load`.
        unsafe {
            match size_of::<T>() {
                1 => store_1(self, std::mem::transmute_copy(&value)),
                2 => store_2(self, std::mem::transmute_copy(&value)),
                4 => store_4(self, std::mem::transmute_copy(&value)),
                8 => store_8(self, std::mem::transmute_copy(&value)),
                _ => self.base.wrapping_add(self.offset).cast::<T>().write_unaligned(value),
            }
        }
    }
}

/// Stores by one instruction, at any address. A volatile write of a packed word would be a copy out of memory to the compiler: it writes the value to the stack first, which doubles the stores.
macro_rules! stores {
    ($($name:ident($word:ty, $class:ident, $text:literal))*) => {$(
        /// # Safety
        /// As for [`Place::load`].
        #[inline(always)]
        unsafe fn $name(place: Place, value: $word) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's: one store, which the compiler takes for an access to any memory.
            unsafe {
                std::arch::asm!($text, base = in(reg) place.base, offset = in(reg) place.offset, value = in($class) value, options(nostack, preserves_flags));
            }
            #[cfg(not(target_arch = "x86_64"))]
            // SAFETY: the caller's.
            unsafe {
                place.base.wrapping_add(place.offset).cast::<Word<$word>>().write_volatile(Word(value));
            }
        }
    )*};
}
stores! {
    store_1(u8, reg_byte, "mov byte ptr [{base} + {offset}], {value}")
    store_2(u16, reg, "mov word ptr [{base} + {offset}], {value:x}")
    store_4(u32, reg, "mov dword ptr [{base} + {offset}], {value:e}")
    store_8(u64, reg, "mov qword ptr [{base} + {offset}], {value}")
}

/// A word on which there are atomic operations.
pub trait AtomicWord: Plain {
    /// As 64 bits.
    fn to_bits(self) -> u64;
    /// Of the lower bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! atomic_word {
    ($($type:ty as $unsigned:ty),*) => {$(
        impl AtomicWord for $type {
            fn to_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn from_bits(bits: u64) -> Self {
                bits as $unsigned as $type
            }
        }
    )*};
}
atomic_word!(i32 as u32, u32 as u32, i64 as u64, u64 as u64);

/// A scalar of the language: what reductions and scans compute.
pub trait Scalar: Plain + PartialOrd {}

/// A scalar with sums and products. Those of integers wrap, as every process computes the same.
pub trait Number: Scalar {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
}

/// A scalar that is a set of bits.
pub trait Bits: Scalar {
    /// In both.
    fn both(self, other: Self) -> Self;
    /// In one at least.
    fn either(self, other: Self) -> Self;
    /// In one of them alone.
    fn one_of(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Scalar for $type {}
        impl Number for $type {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
        impl Bits for $type {
            fn both(self, other: Self) -> Self {
                self & other
            }
            fn either(self, other: Self) -> Self {
                self | other
            }
            fn one_of(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, u128, i128);

macro_rules! reals {
    ($($type:ty),*) => {$(
        impl Scalar for $type {}
        impl Number for $type {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}
reals!(f32, f64);
