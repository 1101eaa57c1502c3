// SPDX-License-Identifier: MIT OR Apache-2.0
//! How operations have ended: completions that wait for their reader, and counters.
//!
//! An endpoint has two queues, of its sends and of its receives, or one for both. They lie under
//! the endpoint's own lock: an operation that ends puts its completion there, and the reader takes
//! it from there ([`Endpoint::read`](crate::Endpoint::read)).

use crate::completion::{Completion, Notes};
use bellwire_memory::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use bellwire_memory::event::Bell;
use std::collections::VecDeque;
use std::sync::Arc;

/// One of an endpoint's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Ends of sends, reads, writes and atomics of the program.
    Sends,
    /// Ends of receives, and what peers did with data for the program.
    Receives,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Sends.
    Send,
    /// Receives.
    Receive,
    /// Reads, and atomics that fetch.
    Read,
    /// Writes, and atomics that do not fetch.
    Write,
    /// Reads by peers.
    RemoteRead,
    /// Writes by peers.
    RemoteWrite,
}

/// Counts ends of operations, of any number of endpoints.
#[derive(Debug, Default)]
pub struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
}

impl Counter {
    /// Counts one.
    #[inline]
    pub fn count(&self, has_failed: bool) {
        let which = if has_failed { &self.errors } else { &self.value };
        // Release: a reader of the count sees what was received; pairs with the Acquire in `value`
        // and `errors`.
        which.fetch_add(1, Ordering::Release);
    }

    /// Operations that succeeded.
    pub fn value(&self) -> u64 {
        // Acquire: pairs with `count`.
        self.value.load(Ordering::Acquire)
    }

    /// Operations that failed.
    pub fn errors(&self) -> u64 {
        // Acquire: pairs with `count`.
        self.errors.load(Ordering::Acquire)
    }

    /// Changes both counts: adds to them, or sets them.
    pub fn change(&self, value: impl FnOnce(&AtomicU64, &AtomicU64)) {
        value(&self.value, &self.errors);
    }
}

/// Makes a descriptor readable when a completion arrives in an armed queue.
#[derive(Debug)]
pub struct Waker {
    bell: Bell,
    has_rung: AtomicBool,
}

impl Waker {
    /// A silent one.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn create() -> Result<Self, bellwire_memory::MemoryError> {
        Ok(Self { bell: Bell::create()?, has_rung: AtomicBool::new(false) })
    }

    /// The descriptor is readable after a ring.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        // Release: pairs with the Acquire in `silence`: a ring that is not seen there comes later,
        // and is not cleared.
        self.has_rung.store(true, Ordering::Release);
        let _ = self.bell.ring();
    }

    /// Makes it unreadable, before the queue is looked at.
    pub fn silence(&self) {
        // Acquire: pairs with the Release in `ring`.
        if self.has_rung.swap(false, Ordering::Acquire) {
            let _ = self.bell.clear();
        }
    }
}

/// Tells whether an endpoint's queue is empty, without the endpoint's lock.
#[derive(Debug, Default)]
pub struct Outlet {
    waiting: AtomicUsize,
    waker: Option<Arc<Waker>>,
}

impl Outlet {
    /// Of a queue that rings `waker` when it is armed.
    pub fn new(waker: Option<Arc<Waker>>) -> Self {
        Self { waiting: AtomicUsize::new(0), waker }
    }

    /// Whether no completion waits. Another thread may change that at any time.
    pub fn is_empty(&self) -> bool {
        // Relaxed: only says whether to look, and the look takes the endpoint's lock.
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// Where completions go. Those without a queue are dropped.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// The queues, by [`Queue`]. The same one twice: both kinds are read from the first.
    pub queues: [Option<Arc<Outlet>>; 2],
    /// The counters, by [`Counted`].
    pub counters: [Option<Arc<Counter>>; 6],
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Completion>,
    outlet: Option<Arc<Outlet>>,
    /// The next entry is to ring.
    is_armed: bool,
}

impl Waiting {
    fn note(&self) {
        if let Some(outlet) = &self.outlet {
            // Relaxed: as in `is_empty`.
            outlet.waiting.store(self.entries.len(), Ordering::Relaxed);
        }
    }
}

/// The queues and counters of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    queues: [Waiting; 2],
    /// Which queue receives are told in.
    of_receives: usize,
    counters: [Option<Arc<Counter>>; 6],
    has_counters: bool,
    /// How many have ended in all.
    pub ended: u64,
}

impl Ends {
    pub(crate) fn bind(&mut self, b: Bindings) {
        let is_one = matches!(&b.queues, [Some(sends), Some(receives)] if Arc::ptr_eq(sends, receives));
        self.of_receives = usize::from(!is_one);
        for (queue, outlet) in self.queues.iter_mut().zip(b.queues) {
            queue.outlet = outlet;
        }
        self.has_counters = b.counters.iter().any(Option::is_some);
        self.counters = b.counters;
    }

    fn at(&self, queue: Queue) -> usize {
        if queue == Queue::Sends { 0 } else { self.of_receives }
    }

    /// An operation has ended.
    #[inline]
    pub(crate) fn end(&mut self, c: &Completion) {
        self.count(c);
        if c.is_told() {
            self.push(c);
        }
    }

    #[inline]
    fn push(&mut self, c: &Completion) {
        let queue = &mut self.queues[if c.is_of_receives() { self.of_receives } else { 0 }];
        self.ended += 1;
        let Some(outlet) = &queue.outlet else { return };
        queue.entries.push_back(*c);
        // Relaxed: as in `is_empty`.
        outlet.waiting.store(queue.entries.len(), Ordering::Relaxed);
        if core::mem::take(&mut queue.is_armed) {
            outlet.waker.iter().for_each(|waker| waker.ring());
        }
    }

    /// Counts an operation's end. Accesses of peers are counted when they happen
    /// ([`touched`](Self::touched)).
    #[inline]
    fn count(&mut self, c: &Completion) {
        if self.has_counters {
            self.count_slowly(c);
        }
    }

    #[cold]
    fn count_slowly(&mut self, c: &Completion) {
        self.ended += 1;
        let kinds = [(Notes::SEND, Counted::Send), (Notes::RECEIVE, Counted::Receive), (Notes::READ, Counted::Read), (Notes::WRITE, Counted::Write)];
        let counted = kinds.into_iter().find(|(of, _)| c.notes.contains(*of)).map(|(_, counted)| counted);
        if let Some(counter) = counted.and_then(|counted| self.counters[counted as usize].as_ref()) {
            counter.count(c.failure.is_some());
        }
    }

    /// A peer has read or written a region.
    pub(crate) fn touched(&mut self, how: Counted) {
        self.ended += 1;
        if let Some(counter) = &self.counters[how as usize] {
            counter.count(false);
        }
    }

    /// A receive has ended well while `queue` is read. `true`: it is for the reader, and nothing
    /// waits before it; else it is put where it belongs.
    #[inline(always)]
    pub(crate) fn is_for_reader(&mut self, queue: Queue, has_room: bool, c: &Completion) -> bool {
        self.count(c);
        if !c.is_told() {
            return false;
        }
        let at = self.at(queue);
        if has_room && at == self.of_receives && self.queues[at].entries.is_empty() {
            return true;
        }
        self.push(c);
        false
    }

    /// Whether a completion waits.
    #[inline(always)]
    pub(crate) fn has(&self, queue: Queue) -> bool {
        !self.queues[self.at(queue)].entries.is_empty()
    }

    /// How many completions wait.
    #[inline]
    pub(crate) fn waiting(&self, queue: Queue) -> usize {
        self.queues[self.at(queue)].entries.len()
    }

    /// Takes up to `room` completions, until one is a failure.
    #[inline]
    pub(crate) fn take(&mut self, queue: Queue, room: usize, mut put: impl FnMut(&Completion)) -> usize {
        let at = self.at(queue);
        let queue = &mut self.queues[at];
        let mut taken = 0;
        while taken < room
            && let Some(c) = queue.entries.front().filter(|c| c.failure.is_none())
        {
            put(c);
            queue.entries.pop_front();
            taken += 1;
        }
        if taken != 0 {
            queue.note();
        }
        taken
    }

    /// Whether the first completion is a failure.
    #[inline]
    pub(crate) fn has_failure(&self, queue: Queue) -> bool {
        self.queues[self.at(queue)].entries.front().is_some_and(|c| c.failure.is_some())
    }

    /// Takes the first completion if it is a failure.
    pub(crate) fn take_failure(&mut self, queue: Queue) -> Option<Completion> {
        let at = self.at(queue);
        let queue = &mut self.queues[at];
        queue.entries.front().filter(|c| c.failure.is_some())?;
        let failure = queue.entries.pop_front();
        queue.note();
        failure
    }

    /// Takes all that waits.
    pub(crate) fn take_all(&mut self, queue: Queue) -> VecDeque<Completion> {
        let at = self.at(queue);
        let all = core::mem::take(&mut self.queues[at].entries);
        self.queues[at].note();
        all
    }

    /// The next completion is to ring.
    pub(crate) fn arm(&mut self, queue: Queue) {
        let at = self.at(queue);
        self.queues[at].is_armed = true;
    }

    /// Whether somebody sleeps on a queue.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.queues[0].is_armed | self.queues[1].is_armed
    }
}
