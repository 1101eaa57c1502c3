// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all processes do together: each calls the same, in the same order. Reductions go in the order of the processes, so that sums of reals are the same everywhere and each time.

use bellwire_gas::Error;

use crate::plain::{Bits, Number, Plain, Scalar};
use crate::start::Global;

/// Bytes of a value that travels in one exchange.
const EXCHANGE_BYTES_MAX: usize = 128;

impl Global {
    /// Waits for all processes. What they have put and stored before is in place then.
    ///
    /// # Errors
    /// [`Error::Left`]: one has left instead; [`Error::Trouble`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.process.borrow().barrier()
    }

    /// Waits until so many values of type `T` have been stored here, and takes them off the count.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn store_sync<T: Plain>(&self, values: usize) -> Result<(), Error> {
        self.process.borrow_mut().store_sync((values * size_of::<T>()) as u64)
    }

    /// Bytes stored here and not taken off the count.
    pub fn stored_bytes(&self) -> u64 {
        self.process.borrow().store_count()
    }

    /// Sets the count to 0.
    pub fn reset_store_sync(&self) {
        self.process.borrow_mut().reset_store_sync();
    }

    /// Waits until all stores of all processes have arrived; the counts are 0 then. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn all_store_sync(&self) -> Result<(), Error> {
        self.process.borrow_mut().all_store_sync()
    }

    /// The value of process `root`, for all. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`]; [`Error::NoSuchProcess`].
    pub fn broadcast<T: Plain>(&self, mut value: T, root: u32) -> Result<T, Error> {
        self.process.borrow_mut().broadcast(value.as_mut_bytes(), root)?;
        Ok(value)
    }

    /// The slice of process `root`, for all; as long in all processes. Collective.
    ///
    /// # Errors
    /// As for [`Global::broadcast`].
    pub fn broadcast_slice<T: Plain>(&self, values: &mut [T], root: u32) -> Result<(), Error> {
        // SAFETY: the slice's own bytes: every one is defined, and any are values.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) };
        self.process.borrow_mut().broadcast(bytes, root)
    }

    /// Everybody's value, in the order of the processes, for all. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>, Error> {
        const { assert!(size_of::<T>() <= EXCHANGE_BYTES_MAX, "a value of at most 128 bytes; gather longer ones by a spread array") };
        let mut all = vec![value; self.size as usize];
        // SAFETY: the vector's own bytes: every one is defined, and any are values.
        let bytes = unsafe { std::slice::from_raw_parts_mut(all.as_mut_ptr().cast::<u8>(), size_of_val(all.as_slice())) };
        self.process.borrow_mut().exchange(value.as_bytes(), bytes)?;
        Ok(all)
    }

    /// Everybody's value, in the order of the processes, for process `root`; the others get nothing. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`]; [`Error::NoSuchProcess`].
    pub fn gather<T: Plain>(&self, value: T, root: u32) -> Result<Option<Vec<T>>, Error> {
        if root >= self.size {
            return Err(Error::NoSuchProcess(u64::from(root)));
        }
        let all = self.all_gather(value)?;
        Ok((self.me == root).then_some(all))
    }

    /// What `combine` makes of everybody's value, in the order of the processes, for all. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn reduce<T: Plain>(&self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Error> {
        let all = self.all_gather(value)?;
        Ok(all.into_iter().reduce(combine).unwrap_or(value))
    }

    /// What `combine` makes of the values of all processes up to this one. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn scan<T: Plain>(&self, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Error> {
        let all = self.all_gather(value)?;
        Ok(all.into_iter().take(self.me as usize + 1).reduce(combine).unwrap_or(value))
    }

    /// The sum of everybody's value. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn sum<T: Number>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, T::plus)
    }

    /// The product of everybody's value. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn product<T: Number>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, T::times)
    }

    /// The greatest of everybody's value. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn max<T: Scalar>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, |a, b| if b > a { b } else { a })
    }

    /// The least of everybody's value. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn min<T: Scalar>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, |a, b| if b < a { b } else { a })
    }

    /// The bits that all values have. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn and<T: Bits>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, T::both)
    }

    /// The bits that any value has. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn or<T: Bits>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, T::either)
    }

    /// The bits that an odd number of values has. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn xor<T: Bits>(&self, value: T) -> Result<T, Error> {
        self.reduce(value, T::one_of)
    }

    /// The sum of the values of all processes up to this one. Collective.
    ///
    /// # Errors
    /// As for [`Global::barrier`].
    pub fn scan_sum<T: Number>(&self, value: T) -> Result<T, Error> {
        self.scan(value, T::plus)
    }
}
