// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pointers of 64 bits: a process in the upper 16, an address in the lower 48. They can themselves lie in global memory.
//!
//! Having one means nothing yet: it is looked at when it is used ([`crate::Global::read`] and the others), so any bits are allowed.

use std::fmt;
use std::marker::PhantomData;

use bellwire_gas::layout;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::plain::Plain;

macro_rules! pointer {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable)]
        #[repr(transparent)]
        pub struct $name<T: Plain> {
            bits: u64,
            // Neither owns nor borrows a `T`.
            of: PhantomData<fn() -> T>,
        }

        impl<T: Plain> $name<T> {
            /// No place.
            pub const NULL: Self = Self::from_bits(0);

            /// From its bits, whatever they are.
            pub const fn from_bits(bits: u64) -> Self {
                Self { bits, of: PhantomData }
            }

            /// Its bits.
            pub const fn bits(self) -> u64 {
                self.bits
            }

            /// The process that it points into.
            pub const fn process(self) -> u32 {
                layout::process_of(self.bits) as u32
            }

            /// The address there.
            pub const fn address(self) -> u64 {
                layout::address_of(self.bits)
            }

            /// Whether it is [`Self::NULL`].
            pub const fn is_null(self) -> bool {
                self.bits == 0
            }
        }

        impl<T: Plain> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T: Plain> Copy for $name<T> {}

        impl<T: Plain> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.bits == other.bits
            }
        }

        impl<T: Plain> Eq for $name<T> {}

        impl<T: Plain> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}, {:#x})", stringify!($name), self.process(), self.address())
            }
        }
    };
}

pointer!(
    /// Names a `T` in any process; arithmetic stays in that process.
    GlobalPtr
);
pointer!(
    /// Names a `T` in any process; arithmetic walks over the processes first ([`SpreadPtr::step`]).
    SpreadPtr
);

impl<T: Plain> GlobalPtr<T> {
    /// So many elements further in the same process. Whether something is there is asked when it is used.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self, elements: isize) -> Self {
        Self::from_bits(self.bits.wrapping_add_signed((elements as i64).wrapping_mul(size_of::<T>() as i64)))
    }

    /// To another type at the same place.
    pub const fn cast<U: Plain>(self) -> GlobalPtr<U> {
        GlobalPtr::from_bits(self.bits)
    }
}

impl<T: Plain> SpreadPtr<T> {
    /// So many steps further among `processes` processes: a step is the same address in the next process, and from the last process the next element in the first.
    #[must_use]
    #[inline]
    pub const fn step(self, steps: isize, processes: u32) -> Self {
        let place = (self.process() as i64).wrapping_add(steps as i64);
        let (row, process) = (place.div_euclid(processes as i64), place.rem_euclid(processes as i64));
        let bytes = row.wrapping_mul(size_of::<T>() as i64);
        Self::from_bits(layout::pointer_of(process as u32, self.address().wrapping_add_signed(bytes)))
    }

    /// The same place, with arithmetic inside its process.
    pub const fn global(self) -> GlobalPtr<T> {
        GlobalPtr::from_bits(self.bits)
    }
}

/// Elements next to each other in one process.
pub struct GlobalSlice<T: Plain> {
    begin: GlobalPtr<T>,
    length: usize,
}

impl<T: Plain> Clone for GlobalSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Plain> Copy for GlobalSlice<T> {}

impl<T: Plain> fmt::Debug for GlobalSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:?}", self.length, self.begin)
    }
}

impl<T: Plain> GlobalSlice<T> {
    pub(crate) const fn new(begin: GlobalPtr<T>, length: usize) -> Self {
        Self { begin, length }
    }

    /// Its elements.
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The first of them.
    pub const fn begin(self) -> GlobalPtr<T> {
        self.begin
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none of this index.
    #[inline]
    pub fn at(self, index: usize) -> GlobalPtr<T> {
        assert!(index < self.length, "element {index} of {}", self.length);
        self.begin.offset(index as isize)
    }

    /// `length` of them from `begin` on.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn part(self, begin: usize, length: usize) -> Self {
        assert!(begin.checked_add(length).is_some_and(|end| end <= self.length), "{length} elements from {begin} of {}", self.length);
        Self::new(self.begin.offset(begin as isize), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_pointer_walks_over_processes_first() {
        let first = SpreadPtr::<u32>::from_bits(layout::pointer_of(0, 4096));
        let places: Vec<_> = (0..7).map(|i| first.step(i, 3)).map(|p| (p.process(), p.address() - 4096)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 4), (1, 4), (2, 4), (0, 8)]);
        assert_eq!(first.step(7, 3).step(-7, 3), first);
        assert_eq!(first.step(5, 3).global().offset(1).address(), 4096 + 8);
    }

    #[test]
    fn parts_of_slices_stay_inside() {
        let slice = GlobalSlice::new(GlobalPtr::<u16>::from_bits(layout::pointer_of(2, 64)), 10);
        assert_eq!((slice.part(4, 6).at(5).address(), slice.len()), (64 + 18, 10));
        assert!(std::panic::catch_unwind(|| slice.part(5, 6)).is_err());
        assert!(std::panic::catch_unwind(|| slice.part(usize::MAX, 2)).is_err());
        assert!(std::panic::catch_unwind(|| slice.at(10)).is_err());
    }
}
