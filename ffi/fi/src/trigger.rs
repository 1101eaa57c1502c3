// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that begin when a counter has reached a value. They begin in the order of those
//! values, when an endpoint of the domain is polled next. With automatic progress a thread looks
//! each millisecond while any wait. Those of an endpoint that is closed are dropped.

use crate::abi::{Outcome, error};
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::own_thread;
use bellwire_tag::Counter;
use core::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most operations that wait.
const DEFERRED_MAX: usize = 1 << 14;
/// Between two looks of the thread.
const TICK: Duration = Duration::from_millis(1);

/// An operation that waits.
pub(crate) struct Deferred {
    pub counter: Arc<Counter>,
    /// The program's counter is not closed meanwhile.
    pub _kept: Arc<dyn Any + Send + Sync>,
    pub threshold: u64,
    /// The address of the endpoint's object (F1: it is open, or this is dropped).
    pub fid: usize,
    /// Begins it.
    pub begin: Box<dyn Fn() -> Outcome + Send>,
    /// Tells the program that it could not begin.
    pub fail: Box<dyn Fn() + Send>,
}

/// Operations of a domain that wait.
#[derive(Default)]
pub(crate) struct Triggers {
    waiting: Mutex<Vec<Deferred>>,
    is_used: AtomicBool,
    has_thread: AtomicBool,
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
        // Held throughout: a thread that closes an endpoint waits here for what is being begun on
        // it.
        let mut waiting = self.lock();
        loop {
            let due = waiting.iter().enumerate().filter(|(_, d)| d.counter.value() >= d.threshold);
            let Some(at) = due.min_by_key(|(_, d)| d.threshold).map(|(at, _)| at) else { return };
            let deferred = waiting.remove(at);
            match (deferred.begin)() {
                Ok(()) => {}
                Err(error::EAGAIN) => return waiting.insert(at, deferred),
                Err(_) => (deferred.fail)(),
            }
        }
    }

    /// Has an operation wait.
    pub(crate) fn add(&self, deferred: Deferred) -> Outcome {
        let mut waiting = self.lock();
        if waiting.len() >= DEFERRED_MAX {
            return Err(error::EAGAIN);
        }
        waiting.push(deferred);
        drop(waiting);
        // Relaxed: as in `look`.
        self.is_used.store(true, Ordering::Relaxed);
        self.look();
        Ok(())
    }

    /// A thread looks from now on until nothing waits, unless one does already. `false`: there is
    /// none to be had.
    pub(crate) fn look_alone(self: &Arc<Self>) -> bool {
        // Relaxed: of several callers one is the first; the list has a lock.
        if self.has_thread.swap(true, Ordering::Relaxed) {
            return true;
        }
        let triggers = Arc::clone(self);
        let look = move || {
            while !triggers.may_rest() {
                std::thread::sleep(TICK);
                triggers.run();
            }
        };
        own_thread::spawn(c"bellwire-fi", look).is_ok()
    }

    /// Whether nothing waits: then the thread ends.
    fn may_rest(&self) -> bool {
        let waiting = self.lock();
        if waiting.is_empty() {
            // Relaxed: under the lock, which the next one that adds takes before it asks.
            self.has_thread.store(false, Ordering::Relaxed);
        }
        waiting.is_empty()
    }

    /// The object of an endpoint is closed.
    pub(crate) fn forget(&self, fid: usize) {
        self.lock().retain(|d| d.fid != fid);
    }
}
