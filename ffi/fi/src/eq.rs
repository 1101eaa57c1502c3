// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queues: what control operations came to, and what programs write there themselves.

use crate::abi::{Fid, Table, TableRef, class, control, error, give, none, sized};
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `struct fi_eq_attr`.
#[repr(C)]
pub(crate) struct EqAttr {
    size: usize,
    flags: u64,
    wait_obj: c_int,
    signaling_vector: c_int,
    wait_set: *mut c_void,
}

/// `struct fi_eq_err_entry`.
#[repr(C)]
pub(crate) struct EqErrorEntry {
    fid: *mut Fid,
    context: *mut c_void,
    data: u64,
    error: c_int,
    provider_error: c_int,
    error_data: *mut c_void,
    error_data_size: usize,
}

/// `FI_AV_COMPLETE`.
pub(crate) const AV_COMPLETE: u32 = 5;

/// An event, and its entry as bytes; or an error.
enum Event {
    Plain(u32, Vec<u8>),
    Failed { fid: usize, context: usize, data: u64, code: c_int },
}

/// Most events that wait: programs may write any number.
const EVENTS_MAX: usize = 1 << 16;

#[derive(Default)]
pub(crate) struct EqShared {
    events: Mutex<VecDeque<Event>>,
    came: Condvar,
}

impl EqShared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) -> bool {
        let mut events = self.lock();
        let fits = events.len() < EVENTS_MAX;
        if fits {
            events.push_back(event);
            self.came.notify_all();
        }
        fits
    }

    /// An operation of an object is done: `data` says how much of it.
    pub(crate) fn tell(&self, kind: u32, fid: *mut Fid, context: *mut c_void, data: u64) {
        // `struct fi_eq_entry`.
        let words = [fid.expose_provenance() as u64, context.expose_provenance() as u64, data];
        self.push(Event::Plain(kind, words.iter().flat_map(|w| w.to_ne_bytes()).collect()));
    }

    /// A part of it has failed.
    pub(crate) fn tell_failure(&self, fid: *mut Fid, context: *mut c_void, data: u64, code: c_int) {
        self.push(Event::Failed { fid: fid.expose_provenance(), context: context.expose_provenance(), data, code });
    }
}

/// `struct fid_eq`, and ours behind it.
#[repr(C)]
pub(crate) struct EqObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<EqShared>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<5> = Table::new([read as *const (), readerr as *const (), write as *const (), sread as *const (), strerror as *const ()]);

/// `fi_eq_open`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, attr: *const EqAttr, to: *mut *mut EqObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F2.
        if let Some(attr) = unsafe { attr.as_ref() } {
            if !matches!(attr.wait_obj, 0 | 1 | 5) || !attr.wait_set.is_null() {
                return Err(error::ENOSYS);
            }
            // FI_WRITE: the program writes too. FI_AFFINITY needs nothing done.
            if attr.flags & !(crate::flags::WRITE | 1 << 29) != 0 {
                return Err(error::BAD_FLAGS);
            }
        }
        let fid = Fid { class: class::EQ, context, ops: TableRef::to(&FID) };
        give(EqObject { fid, ops: TableRef::to(&OPS), shared: Arc::default() }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        if Arc::strong_count(unsafe { &(*fid.cast::<EqObject>()).shared }) != 1 {
            return Err(error::EBUSY);
        }
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<EqObject>(fid) };
        Ok(())
    })
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a EqShared {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<EqObject>()).shared }
}

/// Takes, or with FI_PEEK shows, the first event.
///
/// # Safety
/// F2.
unsafe fn take(events: &mut VecDeque<Event>, kind: *mut u32, to: *mut c_void, length: usize, flags: u64) -> crate::abi::Outcome<usize> {
    let n = match events.front() {
        None => return Err(error::EAGAIN),
        Some(Event::Failed { .. }) => return Err(error::AVAILABLE),
        Some(Event::Plain(of, bytes)) => {
            if bytes.len() > length || (to.is_null() && !bytes.is_empty()) {
                return Err(error::TOO_SMALL);
            }
            // SAFETY: the caller's.
            unsafe {
                if !kind.is_null() {
                    *kind = *of;
                }
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
            }
            bytes.len()
        }
    };
    if flags & crate::flags::PEEK == 0 {
        events.pop_front();
    }
    Ok(n)
}

unsafe extern "C" fn read(fid: *mut Fid, kind: *mut u32, to: *mut c_void, length: usize, flags: u64) -> isize {
    // SAFETY: F1, F2.
    sized(|| unsafe { take(&mut of(fid).lock(), kind, to, length, flags) })
}

unsafe extern "C" fn sread(fid: *mut Fid, kind: *mut u32, to: *mut c_void, length: usize, timeout: c_int, flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let eq = unsafe { of(fid) };
        let end = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut events = eq.lock();
        loop {
            // SAFETY: F2.
            match unsafe { take(&mut events, kind, to, length, flags) } {
                Err(error::EAGAIN) => {}
                outcome => return outcome,
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(error::EAGAIN);
            }
            events = match left {
                None => eq.came.wait(events).unwrap_or_else(PoisonError::into_inner),
                Some(left) => eq.came.wait_timeout(events, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    })
}

unsafe extern "C" fn readerr(fid: *mut Fid, to: *mut EqErrorEntry, flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let mut events = unsafe { of(fid) }.lock();
        let Some(Event::Failed { fid, context, data, code }) = events.front() else { return Err(error::EAGAIN) };
        // SAFETY: F2.
        let to = unsafe { to.as_mut() }.ok_or(error::EINVAL)?;
        (to.fid, to.context) = (core::ptr::with_exposed_provenance_mut(*fid), core::ptr::with_exposed_provenance_mut(*context));
        (to.data, to.error, to.provider_error, to.error_data_size) = (*data, *code, *code, 0);
        if flags & crate::flags::PEEK == 0 {
            events.pop_front();
        }
        Ok(size_of::<EqErrorEntry>())
    })
}

unsafe extern "C" fn write(fid: *mut Fid, kind: u32, from: *const c_void, length: usize, _flags: u64) -> isize {
    sized(|| {
        if from.is_null() && length != 0 {
            return Err(error::EINVAL);
        }
        // SAFETY: F2.
        let bytes = if length == 0 { Vec::new() } else { unsafe { core::slice::from_raw_parts(from.cast::<u8>(), length) }.to_vec() };
        // SAFETY: F1.
        if unsafe { of(fid) }.push(Event::Plain(kind, bytes)) { Ok(length) } else { Err(error::EAGAIN) }
    })
}

unsafe extern "C" fn strerror(fid: *mut Fid, number: c_int, data: *const c_void, buffer: *mut c_char, length: usize) -> *const c_char {
    let _ = (fid, number, data, buffer, length);
    c"an address or a region that cannot be".as_ptr()
}
