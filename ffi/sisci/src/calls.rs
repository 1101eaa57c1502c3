// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all calls have in common.

use bellwire_memory::bytes::SharedBytes;
use bellwire_sisci::{Action, Error};
use core::ffi::{CStr, c_void};
use std::time::Duration;

/// Defines calls under the three names that programs know: the plain one, and those of the original
/// library for programs with one thread and with several. All are safe for several. They do not ask
/// whether they are traced: calls of nanoseconds.
macro_rules! quick_calls {
    ($($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $return:ty)? $body:block)*) => { $(
        $(#[doc = $doc])*
        #[allow(non_snake_case, clippy::too_many_arguments)]
        fn $name($($argument: $type),*) $(-> $return)? $body
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            extern "C" fn plain($($argument: $type),*) $(-> $return)? { $name($($argument),*) }
            #[unsafe(export_name = concat!("_SISCI_PUBLIC_FUNC_ST_", stringify!($name)))]
            extern "C" fn single($($argument: $type),*) $(-> $return)? { $name($($argument),*) }
            #[unsafe(export_name = concat!("_SISCI_PUBLIC_FUNC_MT_", stringify!($name)))]
            extern "C" fn multi($($argument: $type),*) $(-> $return)? { $name($($argument),*) }
        };
    )* };
}

pub(crate) use quick_calls;

/// A handle: a number that C takes for a pointer.
pub(crate) type Handle = usize;
pub(crate) type Flags = u32;

/// Where a result goes; may be NULL. Comes from a C caller only (C1).
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T: Copy> Out<T> {
    /// Writes it, or says that there is no place for it.
    pub fn set(self, value: T) -> Result<(), Error> {
        if !self.is_usable() {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: C1: not NULL, so it may be written.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Reads what the program has put there.
    pub fn get(self) -> Result<T, Error> {
        if !self.is_usable() {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: C1: not NULL, so the program has put a value there.
        Ok(unsafe { self.0.read() })
    }

    /// Whether a value can be put there: asked before anything is made.
    pub fn need(self) -> Result<(), Error> {
        if self.is_usable() { Ok(()) } else { Err(Error::IllegalParameter) }
    }

    fn is_usable(self) -> bool {
        !self.0.is_null() && self.0.is_aligned()
    }
}

impl<T: Copy, const N: usize> Out<[T; N]> {
    /// Reads an element of an array that the program says is long enough.
    pub fn element(self, index: usize) -> Result<T, Error> {
        if !self.is_usable() || index >= N {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: C1: not NULL, and the program says that it has more elements than `index`.
        Ok(unsafe { self.0.cast::<T>().add(index).read() })
    }
}

/// Where the error goes. If it is NULL the call is done all the same; its result tells what it can.
pub(crate) type ErrorOut = Out<u32>;

/// Reports how a call ended, and gives its result.
pub(crate) fn end<T>(error: ErrorOut, otherwise: T, result: Result<T, Error>) -> T {
    let (value, code) = match result {
        Ok(value) => (value, 0),
        Err(error) => (otherwise, error.code()),
    };
    let _ = error.set(code);
    value
}

/// Checks flags: `known` may be given, those of hardware are not supported, others are an error.
pub(crate) fn check(flags: Flags, known: Flags, missing: Flags, hardware: Flags) -> Result<(), Error> {
    if flags & hardware != 0 {
        return Err(Error::NotSupported);
    }
    if flags & missing != 0 {
        return Err(Error::FlagNotImplemented);
    }
    if flags & !known != 0 { Err(Error::IllegalFlag) } else { Ok(()) }
}

/// Checks an adapter's number.
pub(crate) fn adapter(number: u32) -> Result<(), Error> {
    match number {
        0 => Ok(()),
        1..16 => Err(Error::NoSuchAdapter),
        _ => Err(Error::IllegalAdapter),
    }
}

/// Milliseconds; all ones is for ever.
pub(crate) fn timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds != u32::MAX).then(|| Duration::from_millis(milliseconds.into()))
}

/// Memory of the program.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Memory(pub *mut c_void);

impl Memory {
    pub fn address(self) -> usize {
        self.0.addr()
    }

    /// A string of the program's.
    pub fn text<'a>(self) -> Result<&'a str, Error> {
        if self.0.is_null() {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: C1: the program ends it with 0, and keeps it for the call.
        unsafe { CStr::from_ptr(self.0.cast()) }.to_str().map_err(|_| Error::IllegalParameter)
    }

    /// `len` bytes of it.
    pub fn bytes<'a>(self, len: usize) -> Result<SharedBytes<'a>, Error> {
        if self.0.is_null() || self.address().checked_add(len).is_none() {
            return Err(Error::IllegalParameter);
        }
        // SAFETY: C1: the program keeps it for the call, or for the transfer.
        Ok(unsafe { SharedBytes::new(self.0.cast(), len) })
    }
}

/// The program's argument of a callback.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Argument(pub *mut c_void);

// SAFETY: the library hands it back to the program, on a thread that the program knows of.
unsafe impl Send for Argument {}

impl Argument {
    /// Taken whole by closures, so that they can be sent.
    pub fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// What a callback has returned; anything but Cancel goes on.
pub(crate) fn action(returned: u32) -> Action {
    if returned == 1 { Action::Cancel } else { Action::Continue }
}

/// Whether a callback is to be used: the flag and the function belong together.
pub(crate) fn callback<F>(flags: Flags, function: Option<F>) -> Result<Option<F>, Error> {
    match (flags & USE_CALLBACK != 0, function) {
        (true, None) => Err(Error::IllegalParameter),
        (true, some) => Ok(some),
        (false, _) => Ok(None),
    }
}

pub(crate) const USE_CALLBACK: Flags = 0x1;
