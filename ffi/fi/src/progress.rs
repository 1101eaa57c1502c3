// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: what a queue or counter polls when it is read, and the thread of endpoints that make
//! progress by themselves.
//!
//! The thread costs a program that polls a look each few milliseconds. When nobody has polled
//! between two looks, the thread sleeps until something comes, and serves that at once. Endpoints
//! that are to make progress by themselves have one, and those of a domain whose memory peers may
//! reach: the owner of a window may compute for as long as it likes.

use crate::bound::EpShared;
use crate::queue::Direct;
use bellwire_memory::processors;
use bellwire_memory::token::{Claim, Token};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Most steps of one endpoint in one poll.
const STEPS: u32 = 64;
/// Longest sleep: what another thread has completed without anything happening on the NIC is seen
/// then, at the latest.
const SLICE: Duration = Duration::from_millis(100);
/// How long nobody has polled before the thread does: at first, and of a program that goes on
/// polling.
const TICK: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_millis(4);
/// Longest sleep of the thread.
const LOOK: Duration = Duration::from_secs(10);

/// The endpoints that are polled for something.
pub(crate) struct Polled {
    endpoints: Token<Vec<Arc<EpShared>>>,
}

impl Default for Polled {
    fn default() -> Self {
        Self { endpoints: Token::new(Vec::new()) }
    }
}

impl Polled {
    pub(crate) fn add(&self, ep: &Arc<EpShared>) {
        let mut endpoints = self.endpoints.enter(Claim::Visit);
        if !endpoints.iter().any(|e| Arc::ptr_eq(e, ep)) {
            endpoints.push(Arc::clone(ep));
        }
    }

    pub(crate) fn remove(&self, ep: &Arc<EpShared>) {
        let mut endpoints = self.endpoints.enter(Claim::Visit);
        let at = endpoints.iter().position(|e| Arc::ptr_eq(e, ep));
        let removed = at.map(|at| endpoints.swap_remove(at));
        drop(endpoints);
        drop(removed);
    }

    /// Polls until there is nothing, or `until`.
    #[inline]
    pub(crate) fn poll(&self, mut until: impl FnMut() -> bool) {
        let endpoints = self.endpoints.enter(Claim::Bias);
        for ep in endpoints.iter() {
            for _ in 0..STEPS {
                if !ep.step() || until() {
                    break;
                }
            }
        }
    }

    /// One look at each endpoint, for who reads a queue into `direct`, until that is full.
    #[inline]
    pub(crate) fn poll_into(&self, direct: &mut Direct) {
        let endpoints = self.endpoints.enter(Claim::Bias);
        let mut gives_way = None;
        for ep in endpoints.iter() {
            if !ep.step_into(direct, STEPS) && ep.endpoint.should_give_way() {
                gives_way = Some(ep);
            }
            if direct.is_full() {
                return;
            }
        }
        if let Some(ep) = gives_way {
            // Not with the lock: others poll meanwhile.
            let ep = Arc::clone(ep);
            drop(endpoints);
            ep.give_way();
        }
    }

    /// Sleeps until something may have come, or `until`, or `end`; not for long.
    pub(crate) fn sleep(&self, end: Option<Instant>, until: impl Fn() -> bool) {
        // Not with the lock: others poll meanwhile.
        let only = {
            let endpoints = self.endpoints.enter(Claim::Bias);
            if let [only] = &endpoints[..] { Some(Arc::clone(only)) } else { None }
        };
        sleep(only, end, until);
    }

    pub(crate) fn each(&self, of: impl FnMut(&Arc<EpShared>)) {
        self.endpoints.enter(Claim::Visit).iter().for_each(of);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.endpoints.enter(Claim::Visit).is_empty()
    }

    /// Has who sleeps look again.
    pub(crate) fn wake(&self) {
        let endpoints = self.endpoints.enter(Claim::Visit);
        for ep in endpoints.iter() {
            ep.endpoint.wake();
        }
    }
}

/// Sleeps until something may have come for the only endpoint that there is, or `until`, or `end`;
/// not for long. Several endpoints are looked at again soon.
pub(crate) fn sleep(only: Option<Arc<EpShared>>, end: Option<Instant>, until: impl Fn() -> bool) {
    let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()).min(SLICE));
    match only {
        Some(ep) => ep.wait(left, until),
        None => std::thread::sleep(left.min(TICK)),
    }
}

/// Starts the thread of an endpoint, if it has none. It ends when the endpoint does. `false`: there
/// is no thread to be had.
pub(crate) fn start(ep: &Arc<EpShared>) -> bool {
    if !ep.count_polls() {
        return true;
    }
    let weak = Arc::downgrade(ep);
    std::thread::Builder::new().name("bellwire-fi".into()).spawn(move || run(&weak)).is_ok()
}

fn run(ep: &Weak<EpShared>) {
    // So the thread serves peers between two turns of a program that computes, not after them.
    processors::ask_short_turns();
    let (mut seen, mut tick) = (0, TICK);
    loop {
        let Some(ep) = ep.upgrade() else { return };
        if ep.is_closing() {
            return;
        }
        let polls = ep.polls();
        if polls != core::mem::replace(&mut seen, polls) {
            drop(ep);
            std::thread::sleep(tick);
            tick = (tick * 2).min(TICK_MAX);
            continue;
        }
        tick = TICK;
        ep.wait(LOOK, || ep.is_closing());
        if ep.polls() == seen {
            while ep.step_unseen() {}
        }
    }
}
