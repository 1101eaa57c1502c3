// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single accesses: a load or a store where the place is mapped, a call into `bellwire-gas` where it is not.
//!
//! The short way is subtract, shift, compare, add: 6 to 8 instructions beyond the plain access, none of them locked (`scripts/global-words.sh` counts them). The count of stored bytes is one word for each pair of
//! processes, in the target's control area on a line that only this process writes.

use std::mem::MaybeUninit;

use bellwire_gas::{Atomic, Error, layout};
use bellwire_memory::atomic::{AtomicU64, Ordering, fence};
use bellwire_memory::bytes;

use crate::plain::{AtomicWord, Place, Plain};
use crate::pointer::{GlobalPtr, GlobalSlice};
use crate::spread::Local;
use crate::start::Global;

impl Global {
    /// Where a value is mapped here, if it is, and the number of its process.
    #[inline(always)]
    pub(crate) fn near<T: Plain>(&self, at: GlobalPtr<T>) -> Option<(Place, usize)> {
        let table = self.table();
        let distance = at.bits().wrapping_sub(layout::SYMMETRIC_BASE);
        let process = (distance >> layout::ADDRESS_BITS) as usize;
        // The longest word fits wherever one may begin.
        let behind = const { (size_of::<T>() as u64).saturating_sub(layout::WORD_MAX) };
        let is_near = distance < table.end[process] && (behind == 0 || behind < table.end[process] - distance);
        is_near.then(|| (Place { base: table.base[process], offset: at.bits() as usize }, process))
    }

    /// Where so many bytes are mapped here, if they are: windows have no holes.
    #[inline]
    pub(crate) fn near_bytes(&self, bits: u64, bytes: usize) -> Option<(*mut u8, usize)> {
        let table = self.table();
        let distance = bits.wrapping_sub(layout::SYMMETRIC_BASE);
        let process = (distance >> layout::ADDRESS_BITS) as usize;
        let end = table.end[process];
        (distance < end && bytes as u64 <= end - distance).then(|| (table.base[process].wrapping_add(bits as usize), process))
    }

    /// Counts bytes that have been stored at a process.
    #[inline(always)]
    fn count(&self, process: usize, bytes: usize) {
        // SAFETY: a word of the control area that this process alone writes (G1).
        let arrived = unsafe { AtomicU64::from_ptr(self.table().arrived[process]) };
        // Relaxed: our own word. Release: what has been stored is seen by who sees the count; pairs with `store_sync`.
        arrived.store(arrived.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Release);
    }

    /// The elements as this process's own, if it shares their memory: for many accesses to one block, each a plain load or store without a look into the table. `None`: they are on another host, and every
    /// access is a message.
    pub fn shared<T: Plain>(&self, slice: GlobalSlice<T>) -> Option<Local<'_, T>> {
        let (at, _) = self.near_bytes(slice.begin().bits(), slice.len().checked_mul(size_of::<T>())?)?;
        at.cast::<T>().is_aligned().then(|| Local::new(at.cast(), slice.len()))
    }

    /// Reads a value: it is there when this returns.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], [`Error::NoMemoryThere`]; of other hosts [`Error::Trouble`], [`Error::Left`].
    #[inline(always)]
    pub fn read<T: Plain>(&self, from: GlobalPtr<T>) -> Result<T, Error> {
        match self.near(from) {
            Some((at, _)) => {
                // SAFETY: mapped (G1); T1.
                let value = unsafe { at.load() };
                // Acquire: what is read next was not read before.
                fence(Ordering::Acquire);
                Ok(value)
            }
            None => self.read_far(from),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_far<T: Plain>(&self, from: GlobalPtr<T>) -> Result<T, Error> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: room for a `T`; when all its bytes have come, any are one.
        unsafe {
            self.process.borrow().read(value.as_mut_ptr().cast(), from.bits(), size_of::<T>())?;
            Ok(value.assume_init())
        }
    }

    /// Writes a value: it is at the place when this returns.
    ///
    /// # Errors
    /// As for [`Global::read`].
    #[inline(always)]
    pub fn write<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        match self.near(to) {
            Some((at, _)) => {
                // Release: what was written before is seen before.
                fence(Ordering::Release);
                // SAFETY: mapped (G1); T1.
                unsafe { at.store(value) };
                Ok(())
            }
            None => self.write_far(to, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_far<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        // SAFETY: a value of ours, every byte defined.
        unsafe { self.process.borrow().write(to.bits(), (&raw const value).cast(), size_of::<T>()) }
    }

    /// Puts a value: it is at the place after [`Global::sync`], or a barrier.
    ///
    /// # Errors
    /// As for [`Global::read`]; those of other hosts may also come later.
    #[inline(always)]
    pub fn put<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        match self.near(to) {
            Some((at, _)) => {
                // SAFETY: mapped (G1); T1. `sync` and barriers order it.
                unsafe { at.store(value) };
                Ok(())
            }
            None => self.put_far(to, value),
        }
    }

    /// Begins to bring bytes from where they are not mapped.
    ///
    /// # Safety
    /// The destination may be written until [`Global::sync`], with any bytes.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn get_far(&self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.process.borrow().get(to, from, bytes) }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn put_far<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        // SAFETY: a value of ours, every byte defined.
        unsafe { self.process.borrow().put(to.bits(), (&raw const value).cast(), size_of::<T>()) }
    }

    /// Stores a value one way: the target counts its bytes when it is there.
    ///
    /// # Errors
    /// As for [`Global::put`].
    #[inline(always)]
    pub fn store<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        match self.near(to) {
            Some((at, process)) => {
                // SAFETY: mapped (G1); T1. The count orders it.
                unsafe { at.store(value) };
                self.count(process, size_of::<T>());
                Ok(())
            }
            None => self.store_far(to, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn store_far<T: Plain>(&self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        // SAFETY: a value of ours, every byte defined.
        unsafe { self.process.borrow().store(to.bits(), (&raw const value).cast(), size_of::<T>()) }
    }

    /// Reads a slice.
    ///
    /// # Errors
    /// As for [`Global::read`]. A part may have been read.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn read_slice<T: Plain>(&self, to: &mut [T], from: GlobalSlice<T>) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        if let Some((there, _)) = self.near_bytes(from.begin().bits(), size_of_val(to)) {
            // SAFETY: mapped (G1); the slice is the caller's; T1. Who has made a slice of its own memory may copy onto it.
            unsafe { bytes::copy_any(to.as_mut_ptr().cast(), there, size_of_val(to)) };
            // Acquire: as in `read`.
            fence(Ordering::Acquire);
            return Ok(());
        }
        // SAFETY: the slice's own bytes; any are values.
        unsafe { self.process.borrow().read(to.as_mut_ptr().cast(), from.begin().bits(), size_of_val(to)) }
    }

    /// Writes a slice.
    ///
    /// # Errors
    /// As for [`Global::read`]. A part may have been written.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn write_slice<T: Plain>(&self, to: GlobalSlice<T>, from: &[T]) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        if self.copied_near(to, from).is_some() {
            return Ok(());
        }
        // SAFETY: the slice's own bytes, every one defined.
        unsafe { self.process.borrow().write(to.begin().bits(), from.as_ptr().cast(), size_of_val(from)) }
    }

    /// Copies to where it is mapped, if it is; whose memory it is.
    #[inline]
    pub(crate) fn copied_near<T: Plain>(&self, to: GlobalSlice<T>, from: &[T]) -> Option<usize> {
        let (there, process) = self.near_bytes(to.begin().bits(), size_of_val(from))?;
        // Release: as in `write`.
        fence(Ordering::Release);
        // SAFETY: mapped (G1); the slice is the caller's; T1.
        unsafe { bytes::copy_any(there, from.as_ptr().cast(), size_of_val(from)) };
        Some(process)
    }

    /// Puts a slice, which is the caller's again at once.
    ///
    /// # Errors
    /// As for [`Global::put`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn put_slice<T: Plain>(&self, to: GlobalSlice<T>, from: &[T]) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        if self.copied_near(to, from).is_some() {
            return Ok(());
        }
        // SAFETY: the slice's own bytes, every one defined; G3 by T1, since only symmetric memory
        // can be named.
        unsafe { self.process.borrow().put(to.begin().bits(), from.as_ptr().cast(), size_of_val(from)) }
    }

    /// Stores a slice one way; it is the caller's again at once.
    ///
    /// # Errors
    /// As for [`Global::put`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn store_slice<T: Plain>(&self, to: GlobalSlice<T>, from: &[T]) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        if let Some(process) = self.copied_near(to, from) {
            self.count(process, size_of_val(from));
            return Ok(());
        }
        // SAFETY: the slice's own bytes, every one defined; G3 by T1, since only symmetric memory
        // can be named.
        unsafe { self.process.borrow().store(to.begin().bits(), from.as_ptr().cast(), size_of_val(from)) }
    }

    /// Waits for this process's own puts.
    ///
    /// # Errors
    /// [`Error::Trouble`], [`Error::Left`].
    pub fn sync(&self) -> Result<(), Error> {
        self.process.borrow().sync()
    }

    /// Whether they are complete.
    ///
    /// # Errors
    /// As for [`Global::sync`].
    pub fn is_sync(&self) -> Result<bool, Error> {
        self.process.borrow().is_sync()
    }

    fn atomic<T: AtomicWord>(&self, at: GlobalPtr<T>, operation: Atomic, operand: T, expected: T) -> Result<T, Error> {
        // SAFETY: G3: this process has joined, so only symmetric memory can be named, which is
        // T1's.
        unsafe { self.process.borrow().atomic(at.bits(), operation, size_of::<T>(), operand.to_bits(), expected.to_bits()) }.map(T::from_bits)
    }

    /// Adds, wrapping, at one go; what was there.
    ///
    /// # Errors
    /// As for [`Global::read`]; [`Error::NoMemoryThere`] also if it is not aligned.
    pub fn fetch_add<T: AtomicWord>(&self, at: GlobalPtr<T>, value: T) -> Result<T, Error> {
        self.atomic(at, Atomic::Add, value, value)
    }

    /// Exchanges at one go; what was there.
    ///
    /// # Errors
    /// As for [`Global::fetch_add`].
    pub fn swap<T: AtomicWord>(&self, at: GlobalPtr<T>, value: T) -> Result<T, Error> {
        self.atomic(at, Atomic::Swap, value, value)
    }

    /// Writes `value` if `expected` is there, at one go; what was there.
    ///
    /// # Errors
    /// As for [`Global::fetch_add`].
    pub fn compare_swap<T: AtomicWord>(&self, at: GlobalPtr<T>, expected: T, value: T) -> Result<T, Error> {
        self.atomic(at, Atomic::CompareSwap, value, expected)
    }
}
