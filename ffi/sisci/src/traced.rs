// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of a process that is traced: with the first arguments that are numbers or places, and the
//! error at the end.

use crate::calls::{Argument, Memory, Out};
use bellwire_trace::call::{SETS_UP, noted};
use core::ffi::c_void;

/// The same as `quick_calls!`, for calls that a traced process notes.
macro_rules! calls {
    ($($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $return:ty)? $body:block)*) => {
        crate::calls::quick_calls! { $(
            $(#[doc = $doc])*
            fn $name($($argument: $type),*) $(-> $return)? {
                crate::traced::call(stringify!($name), &[$(crate::traced::Said::say(&$argument)),*], || $body)
            }
        )* }
    };
}

/// What an argument is in a trace.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// A number or an address.
    Is(u64),
    /// The place of a 32-bit result, which for the last argument is the error.
    Result(Out<u32>),
    /// Nothing that is shown.
    Nothing,
}

/// An argument that can be shown.
pub(crate) trait Said {
    /// What it is.
    fn say(&self) -> Word;
}

impl Said for u32 {
    fn say(&self) -> Word {
        Word::Is((*self).into())
    }
}

impl Said for usize {
    fn say(&self) -> Word {
        Word::Is(*self as u64)
    }
}

impl Said for u64 {
    fn say(&self) -> Word {
        Word::Is(*self)
    }
}

/// Something to which a call has the place. One of 32 bits may be the error.
pub(crate) trait Placed: Sized {
    fn say(_place: Out<Self>) -> Word {
        Word::Nothing
    }
}

impl Placed for u32 {
    fn say(place: Out<Self>) -> Word {
        Word::Result(place)
    }
}

impl Placed for usize {}
impl Placed for u64 {}
impl<T, const N: usize> Placed for [T; N] {}

impl<T: Placed> Said for Out<T> {
    fn say(&self) -> Word {
        T::say(*self)
    }
}

impl Said for Memory {
    fn say(&self) -> Word {
        Word::Is(self.address() as u64)
    }
}

impl Said for Argument {
    fn say(&self) -> Word {
        Word::Nothing
    }
}

impl<F> Said for Option<F> {
    fn say(&self) -> Word {
        Word::Nothing
    }
}

impl Said for *mut c_void {
    fn say(&self) -> Word {
        Word::Is(self.addr() as u64)
    }
}

/// Makes a call, and notes it if this process is traced.
pub(crate) fn call<R>(name: &str, arguments: &[Word], body: impl FnOnce() -> R) -> R {
    let begins = || {
        let mut numbers = arguments.iter().filter_map(|argument| if let Word::Is(number) = argument { Some(*number) } else { None });
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    };
    let ends = |_: &R| {
        let error = match arguments.last() {
            Some(Word::Result(error)) => error.get().unwrap_or(0),
            _ => 0,
        };
        [error.into(), 0]
    };
    noted(SETS_UP, name, begins, body, ends)
}
