// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues.
//!
//! A queue with a descriptor (`FI_WAIT_FD`) has its endpoints make progress by themselves, so that
//! it becomes readable while the program sleeps; `fi_trywait` silences it, and says whether one may
//! sleep.

use crate::abi::{Fid, Outcome, Table, TableRef, class, close_unused, control, deadline, error, give, none, sized, tell_wait, wait};
use crate::queue::{CqShared, Entry, entry, failure_code};
use crate::reasons;
use crate::traced::{self, setup};
use crate::waitset::{self, WaitShared};
use crate::watched::Watched;
use bellwire_tag::{Failure, Waker};
use bellwire_trace::here;
use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

/// `struct fi_cq_attr`, as far as it is looked at.
#[repr(C)]
pub(crate) struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut Fid,
}

/// `struct fi_cq_err_entry`, as old as any.
#[repr(C)]
pub(crate) struct ErrorEntry {
    pub entry: Entry,
    pub excess: usize,
    pub error: c_int,
    pub provider_error: c_int,
    pub error_data: *mut c_void,
    pub error_data_size: usize,
}

/// `struct fid_cq`, and ours behind it.
#[repr(C)]
pub(crate) struct CqObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<CqShared>,
    /// The set that it is waited for by.
    _set: Option<Arc<WaitShared>>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> = Table::new([
    read as *const (),
    readfrom as *const (),
    readerr as *const (),
    sread as *const (),
    sreadfrom as *const (),
    signal as *const (),
    strerror as *const (),
]);
/// The calls of a traced program, which come to the usual ones.
static TRACED: Table<7> = Table::new([
    traced_read as *const (),
    traced_readfrom as *const (),
    readerr as *const (),
    traced_sread as *const (),
    traced_sreadfrom as *const (),
    signal as *const (),
    strerror as *const (),
]);

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *mut CqAttr, to: *mut *mut CqObject, context: *mut c_void) -> c_int {
    setup("fi_cq_open", [0; 2], || {
        // SAFETY: F2.
        let (format, kind, set) = match unsafe { attr.as_mut() } {
            None => (1, wait::NONE, None),
            Some(attr) => {
                // FI_AFFINITY is a wish that needs nothing done.
                if attr.flags & !(1 << 29) != 0 {
                    return Err(error::BAD_FLAGS);
                }
                if !(0..=4).contains(&attr.format)
                    || !matches!(attr.wait_obj, wait::NONE | wait::UNSPEC | wait::SET | wait::FD | wait::YIELD)
                    || !matches!(attr.wait_cond, 0 | 1)
                {
                    return Err(error::ENOSYS);
                }
                if attr.format == 0 {
                    attr.format = 1;
                }
                if attr.size == 0 {
                    attr.size = crate::limits::QUEUE_SIZE;
                }
                // SAFETY: F1.
                (attr.format, attr.wait_obj, unsafe { waitset::named(attr.wait_obj, attr.wait_set) }?)
            }
        };
        let shared = Arc::new(CqShared::new(format as usize, kind)?);
        set.iter().for_each(|set| set.add(Watched::new(&shared)));
        let fid = Fid { class: class::CQ, context, ops: TableRef::to(&FID) };
        give(CqObject { fid, ops: TableRef::to(if here::is_on() { &TRACED } else { &OPS }), shared, _set: set }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |cq: &CqObject| &cq.shared) })
}

/// # Safety
/// F1.
#[inline]
unsafe fn of<'a>(fid: *mut Fid) -> &'a CqShared {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<CqObject>()).shared }
}

/// `FI_GETWAIT`, `FI_GETWAITOBJ`.
unsafe extern "C" fn control_call(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F1.
        let cq = unsafe { of(fid) };
        // SAFETY: F2.
        unsafe { tell_wait(command, argument, cq.wait, cq.waker().map(Waker::bell)) }
    })
}

unsafe extern "C" fn read(fid: *mut Fid, to: *mut c_void, count: usize) -> isize {
    // SAFETY: F1, F2.
    sized(|| unsafe { read_now(fid, to, count, core::ptr::null_mut()) })
}

unsafe extern "C" fn readfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: F1, F2.
    sized(|| unsafe { read_now(fid, to, count, sources) })
}

/// # Safety
/// F1, F2.
#[inline]
unsafe fn read_now(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
    // SAFETY: the caller's.
    match unsafe { of(fid).poll(to, count, sources) }? {
        0 => Err(error::EAGAIN),
        n => Ok(n),
    }
}

unsafe extern "C" fn readerr(fid: *mut Fid, to: *mut ErrorEntry, _flags: u64) -> isize {
    sized(|| {
        // SAFETY: F2.
        let to = unsafe { to.as_mut() }.ok_or(error::EINVAL)?;
        // SAFETY: F1.
        let c = unsafe { of(fid) }.take_failure().ok_or(error::EAGAIN)?;
        let code = c.failure.map_or(0, failure_code);
        let reason = c.failure.and_then(Failure::gone).map_or(0, reasons::number);
        (to.entry, to.excess, to.error, to.provider_error) = (entry(&c), c.excess, code, if reason != 0 { reason } else { code });
        // A room for data of ours stays empty; without one, there is nothing to point to.
        to.error_data_size = 0;
        Ok(1)
    })
}

unsafe extern "C" fn sread(fid: *mut Fid, to: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) -> isize {
    // SAFETY: F1, F2.
    unsafe { sreadfrom(fid, to, count, core::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64, _cond: *const c_void, timeout: c_int) -> isize {
    sized(|| {
        // SAFETY: F1.
        let cq = unsafe { of(fid) };
        if cq.wait == wait::NONE {
            return Err(error::ENOSYS);
        }
        let end = deadline(timeout);
        loop {
            // SAFETY: F2.
            let n = unsafe { cq.poll(to, count, sources) }?;
            if n != 0 {
                return Ok(n);
            }
            if cq.take_signal() || end.is_some_and(|end| Instant::now() >= end) {
                return Err(error::EAGAIN);
            }
            cq.polled.sleep(end, || cq.has_news());
        }
    })
}

/// # Safety
/// F1, F2: so many entries were written.
unsafe fn noted(fid: *mut Fid, read: isize, to: *const c_void) -> isize {
    // SAFETY: the caller's.
    unsafe { traced::completions(fid, read, to, of(fid).entry_bytes()) };
    read
}

unsafe extern "C" fn traced_read(fid: *mut Fid, to: *mut c_void, count: usize) -> isize {
    // SAFETY: F1, F2.
    unsafe { noted(fid, read(fid, to, count), to) }
}

unsafe extern "C" fn traced_readfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: F1, F2.
    unsafe { noted(fid, readfrom(fid, to, count, sources), to) }
}

unsafe extern "C" fn traced_sread(fid: *mut Fid, to: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) -> isize {
    // SAFETY: F1, F2.
    unsafe { noted(fid, sread(fid, to, count, cond, timeout), to) }
}

unsafe extern "C" fn traced_sreadfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64, cond: *const c_void, timeout: c_int) -> isize {
    // SAFETY: F1, F2.
    unsafe { noted(fid, sreadfrom(fid, to, count, sources, cond, timeout), to) }
}

/// Ends a wait, of now or of the next time.
unsafe extern "C" fn signal(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        unsafe { of(fid) }.signal();
        Ok(())
    })
}

unsafe extern "C" fn strerror(_: *mut Fid, number: c_int, _: *const c_void, buffer: *mut c_char, length: usize) -> *const c_char {
    let text: &core::ffi::CStr = match number {
        error::TRUNCATED => c"the message is longer than the receive",
        error::ECANCELED => c"canceled",
        error::ECONNRESET => c"the connection to the peer is lost",
        error::EHOSTUNREACH => c"the peer cannot be reached",
        error::EACCES => c"the peer has no such memory, or does not permit this",
        error::ENOMSG => c"no message",
        _ => reasons::text(number).unwrap_or(c"not supported by the peer"),
    };
    // SAFETY: F2.
    unsafe { reasons::tell(text, buffer, length) }
}
