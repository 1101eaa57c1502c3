// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of completions.

use crate::abi::{Fid, Table, TableRef, class, close_unused, control, deadline, error, give, none, wait};
use crate::bound::EpShared;
use crate::progress::Polled;
use crate::waitset::{self, WaitShared};
use crate::watched::Watched;
use bellwire_memory::atomic::{AtomicU64, Ordering};
use core::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

/// `struct fi_cntr_attr`, as far as it is looked at.
#[repr(C)]
pub(crate) struct CounterAttr {
    pub events: c_int,
    pub wait_obj: c_int,
    pub wait_set: *mut Fid,
    pub flags: u64,
}

/// What a counter counts.
#[derive(Default)]
pub(crate) struct CounterShared {
    value: AtomicU64,
    errors: AtomicU64,
    pub polled: Polled,
}

impl CounterShared {
    /// Counts a completion.
    pub(crate) fn count(&self, failed: bool) {
        let which = if failed { &self.errors } else { &self.value };
        // Release: who reads the count sees what was received; pairs with the Acquire in `read`.
        which.fetch_add(1, Ordering::Release);
    }

    /// Value and errors, after a poll.
    pub(crate) fn look(&self) -> (u64, u64) {
        self.polled.poll(|| false);
        self.now()
    }

    /// Value and errors.
    pub(crate) fn now(&self) -> (u64, u64) {
        (self.read(), self.errors())
    }

    fn read(&self) -> u64 {
        // Acquire: pairs with `count`.
        self.value.load(Ordering::Acquire)
    }

    fn errors(&self) -> u64 {
        // Acquire: pairs with `count`.
        self.errors.load(Ordering::Acquire)
    }
}

/// `struct fid_cntr`, and ours behind it.
#[repr(C)]
pub(crate) struct CounterObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<CounterShared>,
    /// The set that it is waited for by.
    _set: Option<Arc<WaitShared>>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> =
    Table::new([read as *const (), readerr as *const (), add as *const (), set as *const (), wait_for as *const (), adderr as *const (), seterr as *const ()]);

/// `fi_cntr_open`.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *const CounterAttr, to: *mut *mut CounterObject, context: *mut c_void) -> c_int {
    control(|| {
        let mut set = None;
        // SAFETY: F2.
        if let Some(attr) = unsafe { attr.as_ref() } {
            // None, unspecified, by yielding; there is no descriptor to sleep on.
            if attr.events != 0 || !matches!(attr.wait_obj, wait::NONE | wait::UNSPEC | wait::SET | wait::YIELD) {
                return Err(error::ENOSYS);
            }
            if attr.flags != 0 {
                return Err(error::BAD_FLAGS);
            }
            // SAFETY: F1.
            set = unsafe { waitset::named(attr.wait_obj, attr.wait_set) }?;
        }
        let fid = Fid { class: class::CNTR, context, ops: TableRef::to(&FID) };
        let shared = Arc::default();
        set.iter().for_each(|set| set.add(Watched::counter(&shared)));
        give(CounterObject { fid, ops: TableRef::to(&OPS), shared, _set: set }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |counter: &CounterObject| &counter.shared) })
}

unsafe extern "C" fn control_call(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -error::ENOSYS
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a CounterShared {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<CounterObject>()).shared }
}

unsafe extern "C" fn read(fid: *mut Fid) -> u64 {
    // SAFETY: F1.
    let counter = unsafe { of(fid) };
    counter.polled.poll(|| false);
    counter.read()
}

unsafe extern "C" fn readerr(fid: *mut Fid) -> u64 {
    // SAFETY: F1.
    let counter = unsafe { of(fid) };
    counter.polled.poll(|| false);
    counter.errors()
}

unsafe extern "C" fn add(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.value.fetch_add(value, Ordering::Release);
    0
}

unsafe extern "C" fn set(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.value.store(value, Ordering::Release);
    0
}

unsafe extern "C" fn adderr(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.errors.fetch_add(value, Ordering::Release);
    0
}

unsafe extern "C" fn seterr(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.errors.store(value, Ordering::Release);
    0
}

unsafe extern "C" fn wait_for(fid: *mut Fid, threshold: u64, timeout: c_int) -> c_int {
    control(|| {
        // SAFETY: F1.
        let counter = unsafe { of(fid) };
        let end = deadline(timeout);
        let errors = counter.errors();
        loop {
            counter.polled.poll(|| counter.read() >= threshold);
            if counter.read() >= threshold {
                return Ok(());
            }
            if counter.errors() != errors {
                return Err(error::AVAILABLE);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(libc::ETIMEDOUT);
            }
            counter.polled.sleep(end, || counter.read() >= threshold);
        }
    })
}

impl CounterObject {
    /// An endpoint counts here from now on: so it is what a reader polls.
    pub(crate) fn bind(&self, ep: &Arc<EpShared>) {
        self.shared.polled.add(ep);
    }
}
