// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints, as queues and counters poll them.
//!
//! Locks are taken in this order: the list of endpoints of a queue, the endpoint. An endpoint that
//! is to make progress by itself does so by its NIC's helper thread: with automatic progress, with
//! a queue that has a descriptor, and in a domain whose memory peers may reach, for the owner of a
//! window may compute for as long as it likes.

use crate::trigger::Triggers;
use bellwire_memory::atomic::AtomicU64;
use bellwire_memory::token::{Claim, Held, Token};
use bellwire_tag::{Completion, Endpoint, Notes};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most steps of one endpoint in one poll.
pub(crate) const STEPS: u32 = 64;
/// Longest sleep: a completion that another thread has brought about without anything happening on
/// the NIC is seen then, at the latest.
const SLICE: Duration = Duration::from_millis(100);
/// Longest sleep where several endpoints are waited for.
const SHORT_SLICE: Duration = Duration::from_millis(1);
/// How long closing waits for other threads to let go of an endpoint.
const PATIENCE: Duration = Duration::from_secs(5);

/// An endpoint.
pub(crate) struct EpShared {
    pub endpoint: Endpoint,
    /// The operations of its domain that wait for counters.
    triggers: Arc<Triggers>,
    /// Other objects of it, with operation flags of their own.
    pub aliases: AtomicU64,
    /// Bytes before each message in the program's buffers.
    prefix: usize,
}

impl EpShared {
    pub(crate) fn new(endpoint: Endpoint, triggers: &Arc<Triggers>, prefix: usize) -> Self {
        Self { endpoint, triggers: Arc::clone(triggers), aliases: AtomicU64::new(0), prefix }
    }

    /// Begins the operations whose counters have come far enough.
    #[inline]
    pub(crate) fn trigger(&self) {
        self.triggers.look();
    }

    /// Bytes by which a completion's length is more than the message: the prefix of one that was
    /// received.
    #[inline]
    pub(crate) fn prefix_of(&self, c: &Completion) -> usize {
        if self.prefix != 0 && c.failure.is_none() && c.notes.contains(Notes::RECEIVE) { self.prefix } else { 0 }
    }

    /// One look. `false`: there was nothing.
    #[inline]
    pub(crate) fn step(&self) -> bool {
        let has_moved = self.endpoint.poll().unwrap_or(false);
        self.trigger();
        has_moved
    }

    /// Ends it for the program; other threads let go of it.
    pub(crate) fn close(&self) {
        self.endpoint.close();
        self.endpoint.wake();
    }

    /// Waits until no other thread has this endpoint.
    pub(crate) fn end(self: &Arc<Self>) {
        let end = Instant::now() + PATIENCE;
        while Arc::strong_count(self) != 1 && Instant::now() < end {
            self.endpoint.wake();
            std::thread::yield_now();
        }
    }
}

/// Something of an endpoint that is polled: at least the endpoint.
pub(crate) trait Source {
    fn ep(&self) -> &Arc<EpShared>;
}

impl Source for Arc<EpShared> {
    fn ep(&self) -> &Arc<EpShared> {
        self
    }
}

/// The endpoints that are polled for something, with what else is known of each.
pub(crate) struct Polled<S = Arc<EpShared>> {
    sources: Token<Vec<S>>,
}

impl<S> Default for Polled<S> {
    fn default() -> Self {
        Self { sources: Token::new(Vec::new()) }
    }
}

impl Polled {
    /// Adds an endpoint, once.
    pub(crate) fn add(&self, ep: &Arc<EpShared>) {
        let mut sources = self.sources.enter(Claim::Visit);
        if !sources.iter().any(|e| Arc::ptr_eq(e, ep)) {
            sources.push(Arc::clone(ep));
        }
    }
}

impl<S: Source> Polled<S> {
    pub(crate) fn lock(&self) -> Held<'_, Vec<S>> {
        self.sources.enter(Claim::Bias)
    }

    /// Adds something of an endpoint.
    pub(crate) fn push(&self, source: S) {
        self.sources.enter(Claim::Visit).push(source);
    }

    /// Removes what there is of an endpoint.
    pub(crate) fn remove(&self, ep: &Arc<EpShared>) -> Vec<S> {
        let mut sources = self.sources.enter(Claim::Visit);
        let (gone, kept) = core::mem::take(&mut *sources).into_iter().partition(|s| Arc::ptr_eq(s.ep(), ep));
        *sources = kept;
        gone
    }

    /// Polls until there is nothing, or `until`.
    #[inline]
    pub(crate) fn poll(&self, mut until: impl FnMut() -> bool) {
        for source in self.lock().iter() {
            for _ in 0..STEPS {
                if !source.ep().step() || until() {
                    break;
                }
            }
        }
    }

    /// Sleeps until something may have come, or `until`, or `end`; not for long.
    pub(crate) fn sleep(&self, end: Option<Instant>, until: impl Fn() -> bool) {
        // Not with the lock: others poll meanwhile.
        let only = if let [only] = &self.lock()[..] { Some(Arc::clone(only.ep())) } else { None };
        sleep(only, end, until);
    }

    pub(crate) fn each(&self, mut of: impl FnMut(&Arc<EpShared>)) {
        self.sources.enter(Claim::Visit).iter().for_each(|s| of(s.ep()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.enter(Claim::Visit).is_empty()
    }

    /// Has a sleeper look again.
    pub(crate) fn wake(&self) {
        self.each(|ep| ep.endpoint.wake());
    }
}

/// Sleeps until something may have come for the only endpoint that there is, or `until`, or `end`;
/// not for long. Several endpoints are looked at again soon.
pub(crate) fn sleep(only: Option<Arc<EpShared>>, end: Option<Instant>, until: impl Fn() -> bool) {
    let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()).min(SLICE));
    match only {
        Some(ep) => _ = ep.endpoint.wait(Some(left), until),
        None => std::thread::sleep(left.min(SHORT_SLICE)),
    }
}
