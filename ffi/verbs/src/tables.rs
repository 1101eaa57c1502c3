// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of functions by which programs reach the data path: each context has one, and
//! programs look into it at each call. While this process is traced, other functions stand in it
//! (`traced.rs`); a process that another one begins to trace has them put there then.
//!
//! Invariant C1: a table is listed from when its context is made until it is closed, and is changed
//! with the list locked. Programs read it meanwhile, a word at a time: of two functions that do the
//! same one.

use crate::abi::{OP_POLL_CQ, OP_POST_RECV, OP_POST_SEND, OP_POST_SRQ_RECV};
use crate::{data, traced};
use bellwire_memory::atomic::{AtomicPtr, Ordering};
use bellwire_trace::{here, session};
use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A context's table.
pub(crate) type Table = [*const c_void; 32];

/// Addresses of the tables of contexts that are open.
static TABLES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<usize>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of the data path by their places: those of a traced process, or the usual ones.
fn calls(is_traced: bool) -> [(usize, *const c_void); 4] {
    if is_traced {
        [
            (OP_POLL_CQ, traced::poll_cq as *const c_void),
            (OP_POST_SRQ_RECV, traced::post_srq_recv as *const c_void),
            (OP_POST_SEND, traced::post_send as *const c_void),
            (OP_POST_RECV, traced::post_recv as *const c_void),
        ]
    } else {
        [
            (OP_POLL_CQ, data::poll_cq as *const c_void),
            (OP_POST_SRQ_RECV, data::post_srq_recv as *const c_void),
            (OP_POST_SEND, data::post_send as *const c_void),
            (OP_POST_RECV, data::post_recv as *const c_void),
        ]
    }
}

/// # Safety
/// C1: a table of an open context.
unsafe fn set(table: *mut Table, is_traced: bool) {
    for (place, call) in calls(is_traced) {
        // SAFETY: the caller's; an aligned word of the table.
        let word = unsafe { AtomicPtr::from_ptr(table.cast::<*mut c_void>().add(place)) };
        // Relaxed: nothing else comes with it.
        word.store(call.cast_mut(), Ordering::Relaxed);
    }
}

/// The process begins to be traced, or ends.
fn set_all(is_traced: bool) {
    for table in lock().iter() {
        // SAFETY: C1.
        unsafe { set(core::ptr::with_exposed_provenance_mut(*table), is_traced) };
    }
}

/// Fills in the functions of the data path of a context that has just been made, and lists it.
///
/// # Safety
/// C1: [`remove`] comes before the context goes.
pub(crate) unsafe fn add(table: *mut Table) {
    let mut tables = lock();
    // SAFETY: the caller's.
    unsafe { set(table, here::is_on()) };
    tables.push(table.expose_provenance());
    drop(tables);
    session::listen(set_all);
}

/// A context is about to go.
pub(crate) fn remove(table: *mut Table) {
    lock().retain(|listed| *listed != table.addr());
}
