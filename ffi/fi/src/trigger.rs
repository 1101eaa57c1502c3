// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggered operations (`FI_TRIGGER`): messages, reads and writes that begin when a counter has reached a value. They begin in the order of those values, when an endpoint of the domain is polled
//! next: nothing runs here without a processor. Those of an endpoint that is closed are dropped.

use crate::abi::{Fid, Outcome, class, error};
use crate::counter::{CounterObject, CounterShared};
use crate::endpoint::of;
use crate::flags;
use crate::message::{Sending, send_out};
use crate::rma::{self, Moving};
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_tag::{Completion, Failure, Notes, Sink};
use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most operations that wait.
const DEFERRED_MAX: usize = 1 << 14;

/// `struct fi_triggered_context`, as far as it is of a threshold.
#[repr(C)]
pub(crate) struct TriggeredContext {
    pub event_type: c_int,
    pub counter: *mut Fid,
    pub threshold: usize,
}

/// What is to be done.
pub(crate) enum Work {
    Send(Sending),
    Move(Moving),
}

struct Deferred {
    counter: Arc<CounterShared>,
    threshold: u64,
    /// The endpoint's object (F1: open, or this is gone).
    fid: usize,
    work: Work,
}

// SAFETY: G1 of the layer below: memory of operations is used by whoever holds the endpoint.
unsafe impl Send for Deferred {}

/// Operations of a domain that wait.
#[derive(Default)]
pub(crate) struct Triggers {
    waiting: Mutex<Vec<Deferred>>,
    is_used: AtomicBool,
}

impl Triggers {
    fn lock(&self) -> MutexGuard<'_, Vec<Deferred>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins what is due.
    #[inline]
    pub(crate) fn look(&self) {
        // Relaxed: a hint; the list has a lock.
        if self.is_used.load(Ordering::Relaxed) {
            self.run();
        }
    }

    #[cold]
    fn run(&self) {
        // Held throughout: who closes an endpoint waits here for what is being begun on it.
        let mut waiting = self.lock();
        loop {
            let due = waiting.iter().enumerate().filter(|(_, d)| d.counter.now().0 >= d.threshold);
            let Some(at) = due.min_by_key(|(_, d)| d.threshold).map(|(at, _)| at) else { return };
            let deferred = waiting.remove(at);
            if let Err(code) = deferred.begin() {
                if code == error::EAGAIN {
                    waiting.insert(at, deferred);
                    return;
                }
                deferred.fail();
            }
        }
    }

    /// The object of an endpoint is closed.
    pub(crate) fn forget(&self, fid: *mut Fid) {
        self.lock().retain(|d| d.fid != fid.addr());
    }
}

impl Work {
    /// The program's name for it, and the flags; to be changed.
    fn parts(&mut self) -> (&mut *mut c_void, &mut Option<u64>) {
        match self {
            Self::Send(s) => (&mut s.context, &mut s.flags),
            Self::Move(m) => (&mut m.context, &mut m.flags),
        }
    }
}

impl Deferred {
    fn begin(&self) -> Outcome {
        let fid = core::ptr::with_exposed_provenance_mut(self.fid);
        // SAFETY: F1: the object is open; F2: its memory is the program's until it completes.
        unsafe {
            match &self.work {
                Work::Send(s) => send_out(fid, s),
                Work::Move(m) => rma::start(fid, m),
            }
        }
    }

    /// It could not begin.
    fn fail(mut self) {
        let notes = if matches!(self.work, Work::Send(_)) { Notes::MESSAGE | Notes::SEND } else { Notes::REMOTE_MEMORY | Notes::WRITE };
        let mut completion = Completion::new(self.work.parts().0.expose_provenance(), notes, false);
        completion.failure = Some(Failure::Unreachable);
        // SAFETY: F1.
        unsafe { of(core::ptr::with_exposed_provenance_mut(self.fid)) }.shared.report().done(&completion);
    }
}

/// Has an operation wait for what its context says.
///
/// # Safety
/// F1, F2, with a context of a triggered operation.
#[cold]
pub(crate) unsafe fn defer(fid: *mut Fid, mut work: Work) -> Outcome {
    let (context, flags) = work.parts();
    // SAFETY: the caller's.
    let t = unsafe { context.cast::<TriggeredContext>().as_ref() }.ok_or(error::EINVAL)?;
    // SAFETY: F1.
    let counter = unsafe { t.counter.as_ref() }.filter(|counter| counter.class == class::CNTR).ok_or(error::EINVAL)?;
    if t.event_type != 0 {
        return Err(error::ENOSYS);
    }
    // SAFETY: F1: its class says that it is a counter.
    let counter = Arc::clone(unsafe { &(*core::ptr::from_ref(counter).cast::<CounterObject>()).shared });
    *flags = flags.map(|flags| flags & !flags::TRIGGER);
    // SAFETY: F1.
    let triggers = &unsafe { of(fid) }.shared.domain.triggers;
    let mut waiting = triggers.lock();
    if waiting.len() >= DEFERRED_MAX {
        return Err(error::EAGAIN);
    }
    waiting.push(Deferred { counter, threshold: t.threshold as u64, fid: fid.expose_provenance(), work });
    drop(waiting);
    // Relaxed: as in `look`.
    triggers.is_used.store(true, Ordering::Relaxed);
    triggers.look();
    Ok(())
}
