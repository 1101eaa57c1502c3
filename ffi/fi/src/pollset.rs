// SPDX-License-Identifier: MIT OR Apache-2.0
//! Poll sets: which of several queues and counters have something new.

use crate::abi::{Fid, Outcome, Table, TableRef, class, control, error, give, none};
use crate::counter::CounterObject;
use crate::cq::CqObject;
use core::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A queue or a counter; of a counter, what was told of it last.
struct Member {
    fid: *mut Fid,
    told: (u64, u64),
}

// SAFETY: an object that any thread may use (F1), which is closed after it was taken out.
unsafe impl Send for Member {}

/// `struct fid_poll`, and ours behind it.
#[repr(C)]
pub(crate) struct PollObject {
    fid: Fid,
    ops: TableRef,
    members: Mutex<Vec<Member>>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<3> = Table::new([poll as *const (), add as *const (), remove as *const ()]);

#[repr(C)]
pub(crate) struct PollAttr {
    flags: u64,
}

/// `fi_poll_open`.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *const PollAttr, to: *mut *mut PollObject) -> c_int {
    control(|| {
        // SAFETY: F2.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.flags != 0) {
            return Err(error::BAD_FLAGS);
        }
        let fid = Fid { class: class::POLL, context: core::ptr::null_mut(), ops: TableRef::to(&FID) };
        give(PollObject { fid, ops: TableRef::to(&OPS), members: Mutex::default() }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<PollObject>(fid) };
        Ok(())
    })
}

/// # Safety
/// F1.
unsafe fn members<'a>(fid: *mut Fid) -> MutexGuard<'a, Vec<Member>> {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<PollObject>()).members }.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    /// Whether there is something new.
    fn has_news(&mut self) -> bool {
        // SAFETY: F1: members are alive, and their class says what they are.
        match unsafe { (*self.fid).class } {
            // SAFETY: as above.
            class::CQ => unsafe { &(*self.fid.cast::<CqObject>()).shared }.has_entry(),
            _ => {
                // SAFETY: as above.
                let now = unsafe { &(*self.fid.cast::<CounterObject>()).shared }.look();
                core::mem::replace(&mut self.told, now) != now
            }
        }
    }
}

unsafe extern "C" fn poll(fid: *mut Fid, to: *mut *mut c_void, count: c_int) -> c_int {
    let mut found = 0;
    let outcome = control(|| {
        // SAFETY: F1.
        for member in unsafe { members(fid) }.iter_mut() {
            if found == count {
                break;
            }
            if member.has_news() {
                // SAFETY: F2: room for `count`; F1.
                unsafe { *to.add(found as usize) = (*member.fid).context };
                found += 1;
            }
        }
        Ok(())
    });
    if outcome == 0 { found } else { outcome }
}

unsafe extern "C" fn add(fid: *mut Fid, which: *mut Fid, flags: u64) -> c_int {
    control(|| {
        check(which, flags)?;
        // SAFETY: F1.
        unsafe { members(fid) }.push(Member { fid: which, told: (0, 0) });
        Ok(())
    })
}

unsafe extern "C" fn remove(fid: *mut Fid, which: *mut Fid, flags: u64) -> c_int {
    control(|| {
        check(which, flags)?;
        // SAFETY: F1.
        let mut members = unsafe { members(fid) };
        let at = members.iter().position(|m| m.fid == which).ok_or(error::EINVAL)?;
        members.remove(at);
        Ok(())
    })
}

fn check(which: *mut Fid, flags: u64) -> Outcome {
    if flags != 0 {
        return Err(error::BAD_FLAGS);
    }
    // SAFETY: F1.
    match unsafe { which.as_ref() }.map(|f| f.class) {
        Some(class::CQ | class::CNTR) => Ok(()),
        _ => Err(error::EINVAL),
    }
}
