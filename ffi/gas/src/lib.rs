// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbellwire_gas: `bellwire_gas.h` on [`bellwire_gas::Process`]. Thin: translate, call, and end
//! the job where an access cannot be made: the program has no place to handle it.
//!
//! Invariants
//! - C1: a pointer argument is valid for the bytes that the header names, for the duration of the
//!   call, and a global pointer to what is
//!   changed names memory that the program lets be changed (G3 of `bellwire-gas`): the same of C as
//!   of Split-C.
//! - C2: one thread of the process calls, after `gas_start`, which is called once before `main`.

/// Makes a call on the process; of a traced one it is noted, by a name and two words. A macro, so
/// that a process that is not traced puts nothing together for that.
macro_rules! call {
    ($name:expr, $words:expr, |$process:ident| $body:expr) => {
        match $crate::untraced() {
            Some($process) => $body,
            None => $crate::traced::call($name, $words, move |$process: &mut bellwire_gas::Process| $body),
        }
    };
}

mod access;
mod collective;
mod traced;

use std::ffi::c_int;
use std::ptr::addr_of_mut;

use bellwire_gas::{Error, Function, PeerEntry, Process, set_functions};
use bellwire_trace::here;

/// `gas_place`
#[repr(C)]
#[derive(Debug)]
pub struct Place {
    process: c_int,
    processes: c_int,
    self_: u64,
}

/// This process, from `gas_start` on, unless it is traced (`traced.rs`). Written once there; used
/// by one thread (C2).
static mut PROCESS: Option<Process> = None;
/// The status with which the job is being ended here, so that leaving is said once.
static mut IS_LEAVING: bool = false;

/// This process in global memory, unless it is traced.
fn untraced() -> Option<&'static mut Process> {
    // SAFETY: C2: one thread, and no call is inside another.
    unsafe { &mut *addr_of_mut!(PROCESS) }.as_mut()
}

/// This process in global memory.
fn process() -> &'static mut Process {
    untraced().unwrap_or_else(|| traced::process())
}

#[cold]
fn fail_before_start() -> ! {
    eprintln!("bellwire: global memory is used before it is there: the program was not linked by splitcc, or its start was left out");
    std::process::exit(1)
}

/// Tells, and ends the job.
#[cold]
fn fail(what: &str) -> ! {
    let process = process();
    eprintln!("bellwire: process {}: {what}", process.process());
    end(1)
}

/// Ends the job with a status.
fn end(status: c_int) -> ! {
    // SAFETY: C2.
    unsafe { IS_LEAVING = true };
    process().exit(status & 255)
}

/// What a call came to that others take part in, or the job's end.
fn or_end<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| give_up(&error))
}

/// A call cannot end. If another process has left with success, that is the end of the job, as
/// `exit` anywhere is; with a failure, it has said why.
#[cold]
fn give_up(error: &Error) -> ! {
    match error {
        Error::Left(left) if left.status == 0 => std::process::exit(0),
        Error::Left(left) => end(left.status),
        error => fail(&error.to_string()),
    }
}

extern "C" fn at_exit() {
    // SAFETY: C2.
    if !unsafe { IS_LEAVING } {
        process().leave(0);
    }
}

/// `gas_start`
///
/// # Safety
/// As the header says: `peers` has an entry for every process number, `here` is an object, and
/// `data` to `end` are the program's statics; one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_start(peers: *mut PeerEntry, here: *mut Place, data: *mut u8, end: *mut u8) {
    // SAFETY: the caller's promise.
    let started = match unsafe { Process::start((data.expose_provenance() as u64, end.expose_provenance() as u64)) } {
        Ok(process) => process,
        Err(error) => stop(&error),
    };
    let (process, processes) = (started.process(), started.processes());
    for number in 0..processes {
        // SAFETY: the table has a place for every process number.
        unsafe { peers.add(number as usize).write(started.entry(number)) };
    }
    // SAFETY: the caller's object, and this library's own; one thread (C2).
    unsafe {
        here.write(Place { process: process.cast_signed(), processes: processes.cast_signed(), self_: u64::from(process) << 48 });
        *if here::is_on() { addr_of_mut!(traced::PROCESS) } else { addr_of_mut!(PROCESS) } = Some(started);
        libc::atexit(at_exit);
    }
}

/// `gas_functions`
///
/// # Safety
/// As the header says: a table of functions from `begin` to `end`, which stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gas_functions(begin: *const Function, end: *const Function) {
    let count = end.addr().saturating_sub(begin.addr()) / size_of::<Function>();
    if count > 0 {
        // SAFETY: the caller's promise: a table that stays, of functions for places that peers
        // name.
        unsafe { set_functions(std::slice::from_raw_parts(begin, count)) };
    }
}

#[cold]
fn stop(error: &Error) -> ! {
    eprintln!("bellwire: no global memory: {error}");
    std::process::exit(1)
}

/// `gas_exit`
#[unsafe(no_mangle)]
pub extern "C" fn gas_exit(status: c_int) -> ! {
    end(status)
}
