// SPDX-License-Identifier: MIT OR Apache-2.0
//! libbellwire_job: `bellwire_job.h` on [`bellwire_job::Job`]. Thin: check, translate, call; what the functions do is said in the header.
//!
//! It is a library of its own, for a process is in its job once, and both Active Messages and global memory, and the program itself, ask for its place: a copy in each of their
//! libraries would be several parties on one connection.
//!
//! Invariant C1, on which every `unsafe` block about an argument relies: a pointer argument that is not NULL points to an object of the type that the header names, readable or writable
//! as the header says, for the duration of the call.

#![allow(non_camel_case_types)]

mod code;
mod exchange;

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

use bellwire_job::Job;

use crate::code::{Failure, call};

thread_local! {
    /// What the thread's last failure was about.
    static REASON: RefCell<CString> = RefCell::new(CString::default());
}

/// The membership, and how many callers have it.
struct Membership {
    job: Job,
    id: &'static CStr,
    users: usize,
}

static MEMBERSHIP: Mutex<Option<Membership>> = Mutex::new(None);

/// A handle to the job, if it is joined. A clone, so that nobody waits for who is in a barrier.
fn joined() -> Result<Job, Failure> {
    let membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
    membership.as_ref().map(|membership| membership.job.clone()).ok_or(Failure::NOT_JOINED)
}

/// A number of the job, or -1.
fn number(question: impl FnOnce(&Job) -> u32) -> c_int {
    let membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
    membership.as_ref().and_then(|membership| c_int::try_from(question(&membership.job)).ok()).unwrap_or(-1)
}

/// `bw_job_join`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_join() -> c_int {
    call(|| {
        let mut membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(membership) = membership.as_mut() {
            membership.users += 1;
            return Ok(());
        }
        let job = Job::join()?;
        // Kept for ever: the header promises it, and it is one for each time that a process joins.
        let id: &'static CStr = Box::leak(CString::new(job.id()).unwrap_or_default().into_boxed_c_str());
        *membership = Some(Membership { job, id, users: 1 });
        Ok(())
    })
}

/// `bw_job_leave`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_leave() -> c_int {
    call(|| {
        let mut membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
        let users = membership.as_mut().ok_or(Failure::NOT_JOINED)?;
        users.users -= 1;
        if users.users == 0 {
            *membership = None;
        }
        Ok(())
    })
}

/// `bw_job_rank`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_rank() -> c_int {
    number(Job::rank)
}

/// `bw_job_size`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_size() -> c_int {
    number(Job::size)
}

/// `bw_job_local_rank`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_local_rank() -> c_int {
    number(Job::local_rank)
}

/// `bw_job_local_size`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_local_size() -> c_int {
    number(Job::local_size)
}

/// `bw_job_id`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_id() -> *const c_char {
    let membership = MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner);
    membership.as_ref().map_or(std::ptr::null(), |membership| membership.id.as_ptr())
}

/// `bw_job_launcher`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_launcher() -> *const c_char {
    let Ok(job) = joined() else { return std::ptr::null() };
    match job.launcher() {
        bellwire_job::Launcher::Alone => c"alone",
        bellwire_job::Launcher::Pmi => c"pmi",
        bellwire_job::Launcher::Pmix => c"pmix",
    }
    .as_ptr()
}

/// `bw_job_exit`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_exit(status: c_int) -> ! {
    match joined() {
        Ok(job) => job.exit(status),
        Err(_) => bellwire_job::end_process(status),
    }
}

/// `bw_job_error`
#[unsafe(no_mangle)]
pub extern "C" fn bw_job_error() -> *const c_char {
    // A thread that is ending has none any more.
    REASON.try_with(|reason| reason.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
