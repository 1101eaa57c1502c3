// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains: memory regions, and what is opened on them.

use crate::abi::{Fid, Outcome, Table, TableRef, class, close_unused, control, error, give, none};
use crate::attributes::Info;
use crate::bound::{Counted, EpShared};
use crate::counter::CounterShared;
use crate::format::Format;
use crate::trigger::Triggers;
use crate::{atomic, av, counter, cq, flags, memory, opening, pollset, progress, scalable, shared};
use bellwire_tag::SharedRegions;
use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Who hears of a region that peers touch.
pub(crate) type Listeners = BTreeMap<usize, Vec<(Arc<CounterShared>, u64)>>;

/// Endpoints that are enabled, and counters that hear of regions: who waits for such a counter
/// polls all of the endpoints, for a peer may come by any.
#[derive(Default)]
pub(crate) struct Watchers {
    endpoints: Vec<Weak<EpShared>>,
    counters: Vec<Weak<CounterShared>>,
    /// Peers may reach memory, or have been able to: the endpoints serve them whatever the program
    /// does.
    serves: bool,
}

/// What the objects of a domain share.
pub(crate) struct DomainShared {
    pub regions: SharedRegions,
    listeners: Mutex<Listeners>,
    watchers: Mutex<Watchers>,
    pub triggers: Triggers,
    /// Keys are ours, and peers' addresses are those of the process (`FI_MR_BASIC`).
    pub is_basic: bool,
    /// Endpoints make progress by themselves (`FI_PROGRESS_AUTO`).
    pub is_automatic: bool,
    /// How addresses look.
    pub format: Format,
}

impl DomainShared {
    /// The domain of endpoints that have none.
    pub(crate) fn nobodys() -> Self {
        Self {
            regions: SharedRegions::default(),
            listeners: Mutex::default(),
            watchers: Mutex::default(),
            triggers: Triggers::default(),
            is_basic: false,
            is_automatic: false,
            format: Format::Name,
        }
    }

    pub(crate) fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A counter hears of a region.
    pub(crate) fn watch(&self, counter: &Arc<CounterShared>) {
        let mut watchers = self.watchers();
        watchers.endpoints.iter().filter_map(Weak::upgrade).for_each(|ep| counter.polled.add(&ep));
        watchers.counters.retain(|c| c.strong_count() != 0);
        watchers.counters.push(Arc::downgrade(counter));
    }

    /// An endpoint is enabled. `true`: it is to serve peers by itself.
    pub(crate) fn add(&self, ep: &Arc<EpShared>) -> bool {
        let mut watchers = self.watchers();
        watchers.counters.iter().filter_map(Weak::upgrade).for_each(|counter| counter.polled.add(ep));
        watchers.endpoints.push(Arc::downgrade(ep));
        watchers.serves
    }

    /// Peers may reach memory from now on. `false`: there is no thread to be had that serves them.
    pub(crate) fn serve(&self) -> bool {
        let mut watchers = self.watchers();
        core::mem::replace(&mut watchers.serves, true) || watchers.endpoints.iter().filter_map(Weak::upgrade).all(|ep| progress::start(&ep))
    }

    /// An endpoint ends.
    pub(crate) fn remove(&self, ep: &Arc<EpShared>) {
        let mut watchers = self.watchers();
        watchers.counters.iter().filter_map(Weak::upgrade).for_each(|counter| counter.polled.remove(ep));
        watchers.endpoints.retain(|e| !core::ptr::eq(e.as_ptr(), Arc::as_ptr(ep)));
    }

    /// A peer has read or written a region.
    pub(crate) fn touched(&self, listener: usize, which: Counted) {
        let flag = if matches!(which, Counted::RemoteWrite) { flags::REMOTE_WRITE } else { flags::REMOTE_READ };
        let listeners = self.listeners();
        for (counter, _) in listeners.get(&listener).into_iter().flatten().filter(|(_, of)| of & flag != 0) {
            counter.count(false);
        }
    }
}

/// `struct fid_domain`, and ours behind it.
#[repr(C)]
pub(crate) struct DomainObject {
    fid: Fid,
    ops: TableRef,
    mr: TableRef,
    pub shared: Arc<DomainShared>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), none as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<11> = Table::new([
    av::open as *const (),
    cq::open as *const (),
    opening::open as *const (),
    scalable::open as *const (),
    counter::open as *const (),
    pollset::open as *const (),
    shared::open_transmit as *const (),
    shared::open as *const (),
    atomic::query as *const (),
    none as *const (),
    opening::open2 as *const (),
]);
static MR: Table<3> = Table::new([memory::register as *const (), memory::register_vector as *const (), memory::register_with as *const ()]);

/// `fi_domain`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, info: *const Info, to: *mut *mut DomainObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F2.
        let attr = unsafe { info.as_ref() }.and_then(|info| unsafe { info.domain_attr.as_ref() });
        let shared = DomainShared {
            regions: SharedRegions::default(),
            listeners: Mutex::default(),
            watchers: Mutex::default(),
            triggers: Triggers::default(),
            is_basic: attr.is_some_and(|a| a.mr_mode == flags::MR_BASIC),
            is_automatic: attr.is_some_and(|a| a.data_progress == 1),
            // SAFETY: F2.
            format: Format::of_answer(unsafe { info.as_ref() }.map_or(0, |info| info.addr_format)),
        };
        let fid = Fid { class: class::DOMAIN, context, ops: TableRef::to(&FID) };
        give(DomainObject { fid, ops: TableRef::to(&OPS), mr: TableRef::to(&MR), shared: Arc::new(shared) }, to)
    })
}

/// `fi_domain2`.
pub(crate) unsafe extern "C" fn open2(fabric: *mut Fid, info: *const Info, to: *mut *mut DomainObject, flags: u64, context: *mut c_void) -> c_int {
    if flags != 0 {
        return -error::BAD_FLAGS;
    }
    // SAFETY: F1, F2.
    unsafe { open(fabric, info, to, context) }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |domain: &DomainObject| &domain.shared) })
}

/// # Safety
/// F1, of a domain.
pub(crate) unsafe fn domain_of<'a>(fid: *mut Fid) -> &'a Arc<DomainShared> {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<DomainObject>()).shared }
}

/// A domain by an identifier that may be another object's.
///
/// # Safety
/// F1.
pub(crate) unsafe fn checked<'a>(fid: *mut Fid) -> Outcome<&'a Arc<DomainShared>> {
    // SAFETY: the caller's.
    match unsafe { fid.as_ref() } {
        // SAFETY: its class says what it is.
        Some(f) if f.class == class::DOMAIN => Ok(unsafe { domain_of(fid) }),
        _ => Err(error::EINVAL),
    }
}
