// SPDX-License-Identifier: MIT OR Apache-2.0
//! What poll sets and wait sets look at: queues and counters, whether they have news.

use crate::polled::EpShared;
use std::sync::{Arc, Weak};

/// What of a counter was last told: its value, and its errors. Queues need none.
pub(crate) type Seen = (u64, u64);

/// A queue or a counter.
pub(crate) trait News: Send + Sync {
    /// Polls.
    fn poll(&self);

    /// Whether there is something, without a poll; a counter that has changed since `seen`.
    fn has_news(&self, seen: &mut Seen) -> bool;

    /// Adds the endpoints that are polled for it.
    fn endpoints(&self, add: &mut dyn FnMut(&Arc<EpShared>));
}

/// A queue or a counter of a set. An object that is closed has no news.
pub(crate) struct Watched {
    of: Weak<dyn News>,
    seen: Seen,
}

impl Watched {
    pub(crate) fn new(of: &Arc<impl News + 'static>) -> Self {
        let of: Weak<dyn News> = Arc::downgrade(of) as Weak<dyn News>;
        Self { of, seen: (0, 0) }
    }

    /// Whether there is something, after a poll. A counter that has changed is told once.
    pub(crate) fn poll(&mut self) -> bool {
        self.of.upgrade().is_some_and(|of| {
            of.poll();
            of.has_news(&mut self.seen)
        })
    }

    /// Whether there is something, without a poll.
    pub(crate) fn is_ready(&self) -> bool {
        let mut seen = self.seen;
        self.of.upgrade().is_some_and(|of| of.has_news(&mut seen))
    }

    /// Whether it is still there.
    pub(crate) fn is_open(&self) -> bool {
        self.of.strong_count() != 0
    }

    /// Adds the endpoints that are polled for it.
    pub(crate) fn endpoints(&self, to: &mut Vec<Arc<EpShared>>) {
        if let Some(of) = self.of.upgrade() {
            of.endpoints(&mut |ep| {
                if !to.iter().any(|known| Arc::ptr_eq(known, ep)) {
                    to.push(Arc::clone(ep));
                }
            });
        }
    }
}
