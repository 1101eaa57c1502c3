// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggered operations (`FI_TRIGGER`): how a call has its operation wait.

use crate::abi::{Fid, Outcome, class, error};
use crate::counter::CounterObject;
use crate::object::of;
use crate::trigger::Deferred;
use bellwire_tag::{Completion, Failure, Gone};
use bellwire_via::Error;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// `struct fi_triggered_context`, as far as it is of a threshold.
#[repr(C)]
pub(crate) struct TriggeredContext {
    pub event_type: c_int,
    pub counter: *mut Fid,
    pub threshold: usize,
}

/// Has an operation wait for what its context says. `begin` is given the endpoint's object, which
/// is open; if it could not begin, the program is told of `failed`.
///
/// # Safety
/// F1, F2, with a context of a triggered operation; `begin` may run on any thread.
#[cold]
pub(crate) unsafe fn defer(fid: *mut Fid, context: *mut c_void, failed: Completion, begin: impl Fn(*mut Fid) -> Outcome + 'static) -> Outcome {
    // SAFETY: the caller's.
    let t = unsafe { context.cast::<TriggeredContext>().as_ref() }.ok_or(error::EINVAL)?;
    // SAFETY: F1.
    let counter = unsafe { t.counter.as_ref() }.filter(|counter| counter.class == class::CNTR).ok_or(error::EINVAL)?;
    if t.event_type != 0 {
        return Err(error::ENOSYS);
    }
    // SAFETY: F1: its class says that it is a counter.
    let counter = unsafe { &*core::ptr::from_ref(counter).cast::<CounterObject>() };
    let (kept, counter) = (Arc::clone(&counter.shared), Arc::clone(&counter.shared.counter));
    // SAFETY: F1.
    let ep = unsafe { of(fid) };
    let (at, shared) = (fid.expose_provenance(), Arc::clone(&ep.shared));
    let begin = Anywhere(begin);
    let begin = Box::new(move || begin.run(core::ptr::with_exposed_provenance_mut(at)));
    let fail =
        Box::new(move || shared.endpoint.complete(&Completion { failure: Some(Failure::Unreachable(Gone::Unreachable(Error::NotReachable))), ..failed }));
    ep.domain.triggers.add(Deferred { counter, _kept: kept, threshold: t.threshold as u64, fid: at, begin, fail })?;
    if ep.domain.is_automatic && !ep.domain.triggers.look_alone() { Err(error::ENOMEM) } else { Ok(()) }
}

/// A function that may run on any thread, although it has pointers.
struct Anywhere<F>(F);

// SAFETY: `defer` was promised so.
unsafe impl<F> Send for Anywhere<F> {}

impl<F: Fn(*mut Fid) -> Outcome> Anywhere<F> {
    fn run(&self, fid: *mut Fid) -> Outcome {
        (self.0)(fid)
    }
}
