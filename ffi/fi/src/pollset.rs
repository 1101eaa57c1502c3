// SPDX-License-Identifier: MIT OR Apache-2.0
//! Poll sets: several queues and counters looked at in one call.

use crate::abi::{Fid, Outcome, Table, TableRef, class, control, error, give, none, sized};
use crate::counter::CounterObject;
use crate::cq::CqObject;
use crate::watched::Watched;
use core::any::Any;
use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Member {
    fid: *mut Fid,
    watched: Watched,
    /// It is not closed while it is in the set.
    _kept: Arc<dyn Any>,
}

/// `struct fid_poll`, and ours behind it.
#[repr(C)]
pub(crate) struct PollObject {
    fid: Fid,
    ops: TableRef,
    members: Mutex<Vec<Member>>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<3> = Table::new([poll as *const (), add as *const (), remove as *const ()]);

/// `fi_poll_open`. Its attribute is flags, of which there are none.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *const u64, to: *mut *mut PollObject) -> c_int {
    control(|| {
        // SAFETY: F2.
        if unsafe { attr.as_ref() }.is_some_and(|flags| *flags != 0) {
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
unsafe fn of<'a>(fid: *mut Fid) -> MutexGuard<'a, Vec<Member>> {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<PollObject>()).members }.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an object has for us to watch, and to keep.
///
/// # Safety
/// F1.
unsafe fn watched(fid: *mut Fid) -> Outcome<(Watched, Arc<dyn Any>)> {
    // SAFETY: F1: its class says what it is.
    unsafe {
        match fid.as_ref().map(|f| f.class) {
            Some(class::CQ) => {
                let cq = Arc::clone(&(*fid.cast::<CqObject>()).shared);
                Ok((Watched::new(&cq), cq))
            }
            Some(class::CNTR) => {
                let counter = Arc::clone(&(*fid.cast::<CounterObject>()).shared);
                Ok((Watched::new(&counter), counter))
            }
            _ => Err(error::EINVAL),
        }
    }
}

unsafe extern "C" fn add(fid: *mut Fid, object: *mut Fid, flags: u64) -> c_int {
    control(|| {
        if flags != 0 {
            return Err(error::BAD_FLAGS);
        }
        // SAFETY: F1.
        let (mut members, (watched, kept)) = unsafe { (of(fid), watched(object)?) };
        if members.iter().all(|m| m.fid != object) {
            members.push(Member { fid: object, watched, _kept: kept });
        }
        Ok(())
    })
}

unsafe extern "C" fn remove(fid: *mut Fid, object: *mut Fid, flags: u64) -> c_int {
    control(|| {
        if flags != 0 {
            return Err(error::BAD_FLAGS);
        }
        // SAFETY: F1.
        let mut members = unsafe { of(fid) };
        let at = members.iter().position(|m| m.fid == object).ok_or(error::EINVAL)?;
        members.swap_remove(at);
        Ok(())
    })
}

/// Writes the contexts of those that have something, as many as there is room for.
unsafe extern "C" fn poll(fid: *mut Fid, contexts: *mut *mut c_void, count: c_int) -> c_int {
    let n = sized(|| {
        let room = usize::try_from(count).map_err(|_| error::EINVAL)?;
        if contexts.is_null() && room != 0 {
            return Err(error::EINVAL);
        }
        let mut n = 0;
        // SAFETY: F1.
        for member in unsafe { of(fid) }.iter_mut() {
            if n == room {
                break;
            }
            if member.watched.poll() {
                // SAFETY: F1: what is in a set has not been closed; F2: `count` places.
                unsafe { *contexts.add(n) = (*member.fid).context };
                n += 1;
            }
        }
        Ok(n)
    });
    n as c_int
}
