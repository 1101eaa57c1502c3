// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of completions.

use crate::abi::{Fid, Table, TableRef, class, close_unused, control, deadline, error, give, none, wait};
use crate::polled::{EpShared, Polled};
use crate::traced::setup;
use crate::waitset::{self, WaitShared};
use crate::watched::{News, Seen, Watched};
use bellwire_memory::atomic::Ordering;
use bellwire_tag::Counter;
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

/// A counter, and the endpoints that count there.
#[derive(Default)]
pub(crate) struct CounterShared {
    pub counter: Arc<Counter>,
    pub polled: Polled,
}

impl News for CounterShared {
    fn poll(&self) {
        self.polled.poll(|| false);
    }

    fn has_news(&self, seen: &mut Seen) -> bool {
        let now = (self.counter.value(), self.counter.errors());
        core::mem::replace(seen, now) != now
    }

    fn endpoints(&self, add: &mut dyn FnMut(&Arc<EpShared>)) {
        self.polled.each(add);
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
    setup("fi_cntr_open", [0; 2], || {
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
        let shared = Arc::<CounterShared>::default();
        set.iter().for_each(|set| set.add(Watched::new(&shared)));
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
    counter.counter.value()
}

unsafe extern "C" fn readerr(fid: *mut Fid) -> u64 {
    // SAFETY: F1.
    let counter = unsafe { of(fid) };
    counter.polled.poll(|| false);
    counter.counter.errors()
}

unsafe extern "C" fn add(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.counter.change(|count, _| _ = count.fetch_add(value, Ordering::Release));
    0
}

unsafe extern "C" fn set(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.counter.change(|count, _| count.store(value, Ordering::Release));
    0
}

unsafe extern "C" fn adderr(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.counter.change(|_, errors| _ = errors.fetch_add(value, Ordering::Release));
    0
}

unsafe extern "C" fn seterr(fid: *mut Fid, value: u64) -> c_int {
    // SAFETY: F1. Release: as `count`.
    unsafe { of(fid) }.counter.change(|_, errors| errors.store(value, Ordering::Release));
    0
}

unsafe extern "C" fn wait_for(fid: *mut Fid, threshold: u64, timeout: c_int) -> c_int {
    control(|| {
        // SAFETY: F1.
        let of = unsafe { of(fid) };
        let (counter, polled) = (&of.counter, &of.polled);
        let end = deadline(timeout);
        let errors = counter.errors();
        loop {
            polled.poll(|| counter.value() >= threshold);
            if counter.value() >= threshold {
                return Ok(());
            }
            if counter.errors() != errors {
                return Err(error::AVAILABLE);
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(libc::ETIMEDOUT);
            }
            polled.sleep(end, || counter.value() >= threshold);
        }
    })
}
