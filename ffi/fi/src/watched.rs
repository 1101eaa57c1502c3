// SPDX-License-Identifier: MIT OR Apache-2.0
//! What poll sets and wait sets look at: queues and counters, whether they have news.

use crate::bound::EpShared;
use crate::counter::CounterShared;
use crate::eq::EqShared;
use crate::progress::Polled;
use crate::queue::CqShared;
use std::sync::{Arc, Weak};

/// What is looked at. What is closed has no news.
pub(crate) enum Watched {
    Queue(Weak<CqShared>),
    /// And its value, and its errors, as they were last told.
    Counter(Weak<CounterShared>, (u64, u64)),
    Events(Weak<EqShared>),
}

/// Runs something with what is watched, if it is still there.
macro_rules! with {
    ($of:expr, $queue:ident => $for_queue:expr, $counter:ident, $seen:ident => $for_counter:expr, $events:ident => $for_events:expr) => {
        match $of {
            Watched::Queue(queue) => queue.upgrade().map(|$queue| $for_queue),
            Watched::Counter(counter, $seen) => counter.upgrade().map(|$counter| $for_counter),
            Watched::Events(events) => events.upgrade().map(|$events| $for_events),
        }
    };
}

impl Watched {
    pub(crate) fn counter(counter: &Arc<CounterShared>) -> Self {
        Self::Counter(Arc::downgrade(counter), (0, 0))
    }

    /// Whether there is something, after a poll. A counter that has changed is told once.
    pub(crate) fn poll(&mut self) -> bool {
        let has_news = with!(self, queue => queue.has_entry(), counter, seen => {
            let now = counter.look();
            core::mem::replace(seen, now) != now
        }, events => events.has_event());
        has_news.unwrap_or(false)
    }

    /// Whether there is something, without a poll.
    pub(crate) fn is_ready(&self) -> bool {
        with!(self, queue => queue.has_news(), counter, seen => counter.now() != *seen, events => !events.is_empty()).unwrap_or(false)
    }

    /// Whether it is still there.
    pub(crate) fn is_open(&self) -> bool {
        with!(self, _queue => (), _counter, _seen => (), _events => ()).is_some()
    }

    /// Adds the endpoints that are polled for it.
    pub(crate) fn endpoints(&self, to: &mut Vec<Arc<EpShared>>) {
        let mut add = |polled: &Polled| {
            polled.each(|ep| {
                if !to.iter().any(|known| Arc::ptr_eq(known, ep)) {
                    to.push(Arc::clone(ep));
                }
            });
        };
        let _ = with!(self, queue => add(&queue.polled), counter, _seen => add(&counter.polled), events => add(&events.polled));
    }
}
