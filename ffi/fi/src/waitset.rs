// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wait sets: one sleep for several queues and counters, which are opened with the set as what they
//! are waited for by.

use crate::abi::{Fid, Outcome, Table, TableRef, class, close_unused, control, deadline, error, give, none, wait};
use crate::polled;
use crate::watched::Watched;
use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a set is to its members, which keep it.
#[derive(Default)]
pub(crate) struct WaitShared(Mutex<Vec<Watched>>);

/// `struct fi_wait_attr`.
#[repr(C)]
pub(crate) struct WaitAttr {
    pub wait_obj: c_int,
    pub flags: u64,
}

/// `struct fid_wait`, and ours behind it.
#[repr(C)]
pub(crate) struct WaitObject {
    fid: Fid,
    ops: TableRef,
    shared: Arc<WaitShared>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<1> = Table::new([wait_for as *const ()]);

impl WaitShared {
    fn members(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, watched: Watched) {
        let mut members = self.members();
        members.retain(Watched::is_open);
        members.push(watched);
    }
}

/// The set that an attribute names, if it is to be waited for by one.
///
/// # Safety
/// F1.
pub(crate) unsafe fn named(kind: c_int, set: *mut Fid) -> Outcome<Option<Arc<WaitShared>>> {
    if kind != wait::SET {
        return if set.is_null() { Ok(None) } else { Err(error::EINVAL) };
    }
    // SAFETY: F1: its class says that it is a wait set.
    unsafe {
        match set.as_ref().map(|fid| fid.class) {
            Some(class::WAIT) => Ok(Some(Arc::clone(&(*set.cast::<WaitObject>()).shared))),
            _ => Err(error::EINVAL),
        }
    }
}

/// `fi_wait_open`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, attr: *const WaitAttr, to: *mut *mut WaitObject) -> c_int {
    control(|| {
        // SAFETY: F2.
        if let Some(attr) = unsafe { attr.as_ref() } {
            // There is no descriptor for several endpoints: queues have one each.
            if !matches!(attr.wait_obj, wait::UNSPEC | wait::YIELD) {
                return Err(error::ENOSYS);
            }
            if attr.flags != 0 {
                return Err(error::BAD_FLAGS);
            }
        }
        let fid = Fid { class: class::WAIT, context: core::ptr::null_mut(), ops: TableRef::to(&FID) };
        give(WaitObject { fid, ops: TableRef::to(&OPS), shared: Arc::default() }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |set: &WaitObject| &set.shared) })
}

unsafe extern "C" fn wait_for(fid: *mut Fid, timeout: c_int) -> c_int {
    control(|| {
        // SAFETY: F1.
        let set = unsafe { &(*fid.cast::<WaitObject>()).shared };
        let end = deadline(timeout);
        loop {
            let mut members = set.members();
            // All of them, so that each makes progress.
            let ready = members.iter_mut().map(Watched::poll).filter(|is_ready| *is_ready).count();
            if ready != 0 {
                return Ok(());
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(libc::ETIMEDOUT);
            }
            let mut endpoints = Vec::new();
            members.iter().for_each(|member| member.endpoints(&mut endpoints));
            drop(members);
            let only = if endpoints.len() == 1 { endpoints.pop() } else { None };
            polled::sleep(only, end, || set.members().iter().any(Watched::is_ready));
        }
    })
}
