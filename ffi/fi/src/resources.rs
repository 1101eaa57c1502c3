// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the objects of a domain share: memory regions, operations that wait for counters, and
//! which endpoints are polled for which counters.

use crate::abi::{Fid, Outcome, TableRef, class, error};
use crate::counter::CounterShared;
use crate::format::Format;
use crate::polled::EpShared;
use crate::trigger::Triggers;
use bellwire_tag::SharedRegions;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Endpoints that are enabled, and counters that hear of regions: a program that waits for such a
/// counter polls all of the endpoints, for a peer may come by any.
#[derive(Default)]
struct Watchers {
    endpoints: Vec<Weak<EpShared>>,
    counters: Vec<Weak<CounterShared>>,
    /// Peers may reach memory, or have been able to: the endpoints serve them whatever the program
    /// does.
    serves: bool,
}

/// What the objects of a domain share.
#[derive(Default)]
pub(crate) struct DomainShared {
    pub regions: SharedRegions,
    watchers: Mutex<Watchers>,
    pub triggers: Arc<Triggers>,
    /// Keys are ours, and peers' addresses are those of the process (`FI_MR_BASIC`).
    pub is_basic: bool,
    /// Endpoints make progress by themselves (`FI_PROGRESS_AUTO`).
    pub is_automatic: bool,
    /// How addresses look.
    pub format: Format,
}

impl DomainShared {
    pub(crate) fn new(is_basic: bool, is_automatic: bool, format: Format) -> Self {
        Self { is_basic, is_automatic, format, ..Self::default() }
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

    /// Peers may reach memory from now on.
    pub(crate) fn serve(&self) {
        let mut watchers = self.watchers();
        if !core::mem::replace(&mut watchers.serves, true) {
            watchers.endpoints.iter().filter_map(Weak::upgrade).for_each(|ep| ep.endpoint.stand_in());
        }
    }

    /// An endpoint ends.
    pub(crate) fn remove(&self, ep: &Arc<EpShared>) {
        let mut watchers = self.watchers();
        watchers.counters.iter().filter_map(Weak::upgrade).for_each(|counter| _ = counter.polled.remove(ep));
        watchers.endpoints.retain(|e| !core::ptr::eq(e.as_ptr(), Arc::as_ptr(ep)));
    }
}

/// `struct fid_domain`, and ours behind it.
#[repr(C)]
pub(crate) struct DomainObject {
    pub fid: Fid,
    pub ops: TableRef,
    pub mr: TableRef,
    pub shared: Arc<DomainShared>,
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
