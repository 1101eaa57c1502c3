// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays over all processes: block i is in process i modulo their number, at the same address in each.

use std::fmt;
use std::marker::PhantomData;

use bellwire_gas::{Error, layout};

use crate::plain::Plain;
use crate::pointer::{GlobalPtr, GlobalSlice, SpreadPtr};
use crate::start::Global;

/// Where blocks begin: multiples of this, as of the allocator.
const ALIGN_MAX: usize = 128;

/// `blocks` blocks of `each` elements. Made by all processes together, and dropped by all of them, in the same order: that is checked when the next one is made.
pub struct SpreadArray<'g, T: Plain> {
    global: &'g Global,
    made: u64,
    blocks: usize,
    each: usize,
    of: PhantomData<T>,
}

impl<T: Plain> fmt::Debug for SpreadArray<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpreadArray({} blocks of {} at {:#x})", self.blocks, self.each, layout::address_of(self.made))
    }
}

impl<'g, T: Plain> SpreadArray<'g, T> {
    /// Makes an array, every element `value`. Collective.
    ///
    /// # Errors
    /// [`Error::NoMemoryThere`] if there is not as much symmetric memory (`BELLWIRE_GAS_SYMMETRIC_MIB`); [`Error::Misfit`] if the processes have not made and dropped the same arrays in the same order; as
    /// for [`Global::barrier`].
    pub fn new(global: &'g Global, blocks: usize, each: usize, value: T) -> Result<Self, Error> {
        const { assert!(align_of::<T>() <= ALIGN_MAX, "an alignment of at most 128 bytes") };
        let block_bytes = each.checked_mul(size_of::<T>()).ok_or(Error::NoMemoryThere)?;
        let made = global.process.borrow_mut().spread_make(blocks as u64, block_bytes as u64)?;
        // Different addresses, lengths or types: the processes have gone different ways.
        let shape = [made, blocks as u64, each as u64, size_of::<T>() as u64];
        let shapes = global.all_gather(shape)?;
        let array = Self { global, made, blocks, each, of: PhantomData };
        if let Some(other) = shapes.iter().position(|other| *other != shape) {
            return Err(Error::Misfit(other as u32));
        }
        if made == 0 {
            return Err(Error::NoMemoryThere);
        }
        for row in 0..array.rows() {
            array.local(row).fill(value);
        }
        global.barrier()?;
        Ok(array)
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Elements of a block.
    pub fn block_len(&self) -> usize {
        self.each
    }

    /// This process's blocks: `row` r of process p is block r times the number of processes, plus p.
    pub fn rows(&self) -> usize {
        let (me, size) = (self.global.me as usize, self.global.size as usize);
        self.blocks.saturating_sub(me).div_ceil(size)
    }

    /// A block.
    ///
    /// # Panics
    /// If there is none of this index.
    #[inline]
    pub fn block(&self, index: usize) -> GlobalSlice<T> {
        assert!(index < self.blocks, "block {index} of {}", self.blocks);
        let size = self.global.size as usize;
        let address = layout::address_of(self.made) + (index / size * self.each * size_of::<T>()) as u64;
        GlobalSlice::new(GlobalPtr::from_bits(layout::pointer_of((index % size) as u32, address)), self.each)
    }

    /// An element of a block.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn at(&self, block: usize, index: usize) -> GlobalPtr<T> {
        self.block(block).at(index)
    }

    /// The first element of the first block, for arithmetic that walks over the processes first.
    pub fn spread(&self) -> SpreadPtr<T> {
        SpreadPtr::from_bits(self.made)
    }

    /// A block of this process's own.
    ///
    /// # Panics
    /// If it has no such row.
    #[inline]
    pub fn local(&self, row: usize) -> Local<'_, T> {
        assert!(row < self.rows(), "row {row} of {}", self.rows());
        let address = layout::address_of(self.made) as usize + row * self.each * size_of::<T>();
        Local::new(std::ptr::with_exposed_provenance_mut(address), self.each)
    }
}

impl<T: Plain> Drop for SpreadArray<'_, T> {
    fn drop(&mut self) {
        if self.made != 0 {
            self.global.process.borrow_mut().spread_end(self.made);
        }
    }
}

/// A block of this process's own memory, or of another's that it shares ([`Global::shared`]). Others may read and write it at any time, so it is used by values and copies.
#[derive(Clone, Copy)]
pub struct Local<'a, T: Plain> {
    begin: *mut T,
    length: usize,
    of: PhantomData<&'a T>,
}

impl<T: Plain> fmt::Debug for Local<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({} at {:?})", self.length, self.begin)
    }
}

impl<'a, T: Plain> Local<'a, T> {
    /// Of memory that is mapped for `'a`, aligned.
    pub(crate) fn new(begin: *mut T, length: usize) -> Self {
        Self { begin, length, of: PhantomData }
    }

    /// Its elements.
    #[inline]
    pub fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    #[inline(always)]
    fn place(self, index: usize) -> *mut T {
        assert!(index < self.length, "element {index} of {}", self.length);
        // SAFETY: inside the block.
        unsafe { self.begin.add(index) }
    }

    /// An element's value.
    ///
    /// # Panics
    /// If there is none of this index.
    #[inline(always)]
    pub fn get(self, index: usize) -> T {
        let at = self.place(index);
        // SAFETY: mapped (G1), aligned as a `T`; T1. Barriers and counts order it.
        unsafe { at.read_volatile() }
    }

    /// Sets an element.
    ///
    /// # Panics
    /// If there is none of this index.
    #[inline(always)]
    pub fn set(self, index: usize, value: T) {
        let at = self.place(index);
        // SAFETY: mapped (G1), aligned as a `T`; T1. Barriers and counts order it.
        unsafe { at.write_volatile(value) }
    }

    /// All of them in order, each loaded when it is asked for.
    #[inline(always)]
    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + 'a {
        // SAFETY: inside the block, so mapped (G1) and aligned as a `T`; T1. Barriers and counts
        // order it.
        (0..self.length).map(move |index| unsafe { self.begin.add(index).read_volatile() })
    }

    /// Sets all of them in order, each to what is said of its index.
    #[inline(always)]
    pub fn set_each(self, mut value: impl FnMut(usize) -> T) {
        for index in 0..self.length {
            // SAFETY: inside the block, so mapped (G1) and aligned as a `T`; T1. Barriers and
            // counts order it.
            unsafe { self.begin.add(index).write_volatile(value(index)) };
        }
    }

    /// Sets all of them to a value.
    pub fn fill(self, value: T) {
        self.set_each(|_| value);
    }

    /// Copies them out.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_to(self, to: &mut [T]) {
        assert_eq!(to.len(), self.length, "slices of different lengths");
        // SAFETY: the block is mapped (G1), the slice is the caller's; T1.
        unsafe { bellwire_memory::bytes::copy(to.as_mut_ptr().cast(), self.begin.cast(), size_of_val(to)) }
    }

    /// Copies them in.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(self, from: &[T]) {
        assert_eq!(from.len(), self.length, "slices of different lengths");
        // SAFETY: the block is mapped (G1), the slice is the caller's; T1.
        unsafe { bellwire_memory::bytes::copy(self.begin.cast(), from.as_ptr().cast(), size_of_val(from)) }
    }

    /// A part of the block.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn part(self, begin: usize, length: usize) -> Self {
        assert!(begin.checked_add(length).is_some_and(|end| end <= self.length), "{length} elements from {begin} of {}", self.length);
        // SAFETY: inside the block.
        Self { begin: unsafe { self.begin.add(begin) }, length, of: PhantomData }
    }

    /// The block as a slice, at the full speed of local memory.
    ///
    /// # Safety
    /// As long as it is there, no process writes to the block: between two barriers, say, in a phase in which it is read only.
    pub unsafe fn as_slice(self) -> &'a [T] {
        // SAFETY: mapped (G1), any bytes are values; the caller's promise.
        unsafe { std::slice::from_raw_parts(self.begin, self.length) }
    }

    /// The block as a slice to change.
    ///
    /// # Safety
    /// As long as it is there, nobody else uses the block: no other process, and no other view of this one.
    pub unsafe fn as_mut_slice(self) -> &'a mut [T] {
        // SAFETY: mapped (G1), any bytes are values; the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.begin, self.length) }
    }
}
