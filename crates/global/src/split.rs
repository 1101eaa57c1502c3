// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets and puts in two halves (split phase): begun in a phase, complete when it is over. The way of `std::thread::scope`: what is brought is borrowed until the call around it has returned, so no forgotten
//! guard can leave a destination to somebody who reads too early.

use std::cell::Cell;
use std::marker::PhantomData;

use bellwire_gas::Error;
use bellwire_memory::atomic::{Ordering, fence};
use bellwire_memory::bytes::copy_any;

use crate::plain::Plain;
use crate::pointer::{GlobalPtr, GlobalSlice};
use crate::start::Global;

/// Accesses that are complete together. See [`Global::split`].
#[derive(Debug)]
pub struct Phase<'scope, 'env: 'scope> {
    global: &'env Global,
    /// Whether stores of ours are to come before what is read next, which takes a fence. Gets out of shared memory are loads: their phase ends with nothing but the compiler's order.
    has_stored: Cell<bool>,
    /// Whether messages are to be waited for.
    has_sent: Cell<bool>,
    // Invariant: no destination's lifetime can be taken for a shorter one.
    scope: PhantomData<&'scope mut &'scope ()>,
}

/// Completes when it is dropped, however that comes.
struct Completes<'g>(&'g Global);

impl Drop for Completes<'_> {
    fn drop(&mut self) {
        // Only when unwinding: after an error nothing is brought any more either.
        let _ = self.0.sync();
    }
}

impl Global {
    /// Runs `body`, whose gets and puts may all be under way at once, and waits for all of them.
    ///
    /// ```no_run
    /// # fn sum(global: &bellwire_global::Global, a: bellwire_global::GlobalPtr<u64>, b: bellwire_global::GlobalPtr<u64>) -> Result<u64, bellwire_global::Error> {
    /// let (mut x, mut y) = (0, 0);
    /// global.split(|phase| {
    ///     phase.get(&mut x, a)?;
    ///     phase.get(&mut y, b)
    /// })?;
    /// Ok(x + y)
    /// # }
    /// ```
    ///
    /// A destination cannot be read before:
    ///
    /// ```compile_fail
    /// # fn sum(global: &bellwire_global::Global, a: bellwire_global::GlobalPtr<u64>) -> Result<u64, bellwire_global::Error> {
    /// let mut x = 0;
    /// global.split(|phase| {
    ///     phase.get(&mut x, a)?;
    ///     println!("{x}");
    ///     Ok(())
    /// })?;
    /// # Ok(x)
    /// # }
    /// ```
    ///
    /// nor be the destination of two gets, nor end before the phase does:
    ///
    /// ```compile_fail
    /// # fn sum(global: &bellwire_global::Global, a: bellwire_global::GlobalPtr<u64>) -> Result<(), bellwire_global::Error> {
    /// global.split(|phase| {
    ///     let mut x = 0;
    ///     phase.get(&mut x, a)
    /// })
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # fn sum(global: &bellwire_global::Global, a: bellwire_global::GlobalPtr<u64>) -> Result<u64, bellwire_global::Error> {
    /// let mut x = 0;
    /// global.split(|phase| {
    ///     phase.get(&mut x, a)?;
    ///     phase.get(&mut x, a)
    /// })?;
    /// # Ok(x)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body`; [`Error::Trouble`], [`Error::Left`]. Destinations then hold what they held or what has come.
    #[inline]
    pub fn split<'env, R>(&'env self, body: impl for<'scope> FnOnce(&'scope Phase<'scope, 'env>) -> Result<R, Error>) -> Result<R, Error> {
        let completes = Completes(self);
        let phase = Phase { global: self, has_stored: Cell::new(false), has_sent: Cell::new(false), scope: PhantomData };
        let result = body(&phase);
        std::mem::forget(completes);
        // In any case: T2.
        if phase.has_sent.get() {
            return self.answered(result);
        }
        if phase.has_stored.get() {
            // SeqCst: as in `Process::sync`: puts before whatever this process reads next.
            fence(Ordering::SeqCst);
        }
        // Acquire: what is read next was not read before.
        fence(Ordering::Acquire);
        result
    }

    /// Waits for messages. Apart, as an error is long, and the way without one would carry it along.
    #[cold]
    #[inline(never)]
    fn answered<R>(&self, result: Result<R, Error>) -> Result<R, Error> {
        let synced = self.sync();
        result.and_then(|value| synced.map(|()| value))
    }
}

impl<'scope> Phase<'scope, '_> {
    /// Brings a value, which is there when the phase is over.
    ///
    /// # Errors
    /// As for [`Global::put`].
    #[inline(always)]
    pub fn get<T: Plain>(&'scope self, to: &'scope mut T, from: GlobalPtr<T>) -> Result<(), Error> {
        match self.global.near(from) {
            Some((at, _)) => {
                // SAFETY: mapped (G1); T1. The phase's end orders it.
                *to = unsafe { at.load() };
                Ok(())
            }
            None => {
                self.has_sent.set(true);
                // SAFETY: the destination is borrowed for `'scope`, and any bytes are a value of it: T2.
                unsafe { self.global.get_far((&raw mut *to).cast(), from.bits(), size_of::<T>()) }
            }
        }
    }

    /// Brings a slice.
    ///
    /// # Errors
    /// As for [`Global::put`].
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn get_slice<T: Plain>(&'scope self, to: &'scope mut [T], from: GlobalSlice<T>) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        let bytes = size_of_val(to);
        if let Some((there, _)) = self.global.near_bytes(from.begin().bits(), bytes) {
            // SAFETY: mapped (G1); the destination is borrowed; T1. Who has made a slice of its own memory may copy onto it.
            unsafe { copy_any(to.as_mut_ptr().cast(), there, bytes) };
            return Ok(());
        }
        self.has_sent.set(true);
        // SAFETY: the destination is valid until the phase is over (T2).
        unsafe { self.global.get_far(to.as_mut_ptr().cast(), from.begin().bits(), bytes) }
    }

    /// As [`Global::put`], complete when the phase is over.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn put<T: Plain>(&'scope self, to: GlobalPtr<T>, value: T) -> Result<(), Error> {
        match self.global.near(to) {
            Some((at, _)) => {
                self.has_stored.set(true);
                // SAFETY: mapped (G1); T1. The phase's end orders it.
                unsafe { at.store(value) };
                Ok(())
            }
            None => {
                self.has_sent.set(true);
                self.global.put_far(to, value)
            }
        }
    }

    /// As [`Global::put_slice`], complete when the phase is over.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn put_slice<T: Plain>(&'scope self, to: GlobalSlice<T>, from: &[T]) -> Result<(), Error> {
        assert_eq!(to.len(), from.len(), "slices of different lengths");
        if self.global.copied_near(to, from).is_some() {
            self.has_stored.set(true);
            return Ok(());
        }
        self.has_sent.set(true);
        self.global.put_slice(to, from)
    }
}
