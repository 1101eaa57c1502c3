// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a process that is traced.
//!
//! Each call asks whether there is a process, since one before `gas_start` has none. A traced
//! process is kept here in place of there, so its calls take the way of those that come too early,
//! and a process that is not traced asks nothing more.

use std::ptr::addr_of_mut;

use bellwire_gas::{Error, Process};
use bellwire_trace::call::{OFTEN, noted};

use crate::fail_before_start;

/// This process, if it is traced. Written once, at `gas_start`; used by one thread (C2).
pub(crate) static mut PROCESS: Option<Process> = None;

/// This process in global memory, which is traced.
#[cold]
#[inline(never)]
pub(crate) fn process() -> &'static mut Process {
    // SAFETY: C2: one thread, and no call is inside another.
    unsafe { &mut *addr_of_mut!(PROCESS) }.as_mut().unwrap_or_else(|| fail_before_start())
}

/// What a trace says of a call that has ended.
pub(crate) trait Outcome {
    /// 0, or -1 for one that failed.
    fn word(&self) -> i64 {
        0
    }
}

impl Outcome for () {}
impl Outcome for u64 {}

impl Outcome for bool {
    fn word(&self) -> i64 {
        (*self).into()
    }
}

impl<T> Outcome for Result<T, Error> {
    fn word(&self) -> i64 {
        if self.is_ok() { 0 } else { -1 }
    }
}

/// Makes a call and notes it.
#[cold]
#[inline(never)]
pub(crate) fn call<R: Outcome>(name: &str, words: [u64; 2], body: impl FnOnce(&mut Process) -> R) -> R {
    noted(OFTEN, name, || words, || body(process()), |outcome| [outcome.word().cast_unsigned(), 0])
}
