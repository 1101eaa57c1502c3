// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives that several endpoints of a process share: a message for any of them goes to the oldest
//! that it fits.
//!
//! Who posts a receive then has each endpoint look
//! ([`Endpoint::serve_shared`](crate::Endpoint::serve_shared)) whether a message of its own waits
//! for it. A message that arrives looks here with its endpoint's lock held, and waits there if
//! nothing fits: so either it sees the receive, or who has posted that sees the message. Locks are
//! taken in the order endpoint, shared receives.
//!
//! Messages of one peer to one endpoint are matched in the order sent: an endpoint whose messages
//! wait serves those first, if anything was posted since it last looked.

use crate::posted::Want;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Receives that are posted; those without a tag, and tagged ones.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    pub queues: [VecDeque<Want>; 2],
    /// How many have been posted in all.
    pub count: u64,
}

/// Receives that several endpoints share.
#[derive(Clone, Debug, Default)]
pub struct SharedReceives(Arc<Mutex<Posted>>);

impl SharedReceives {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a receive; sources are by the numbers that all the endpoints' programs give them. It
    /// holds one message ([`ReceiveFlags::MULTI`](crate::ReceiveFlags::MULTI) means nothing here).
    pub fn post(&self, want: &Want) {
        let mut posted = self.lock();
        posted.count += 1;
        posted.queues[usize::from(want.tagged)].push_back(*want);
    }

    /// Takes a receive back that has not been matched, and who posted it hears no more of it.
    /// `false`: there is none of that name.
    pub fn cancel(&self, context: usize) -> bool {
        let mut posted = self.lock();
        posted.queues.iter_mut().any(|queue| queue.iter().position(|want| want.context == context).is_some_and(|at| queue.remove(at).is_some()))
    }
}

/// What an endpoint knows of the receives that it shares.
#[derive(Debug)]
pub(crate) struct Sharing {
    pub receives: SharedReceives,
    /// Receives posted when its own messages were last looked through.
    pub seen: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Gather;
    use crate::posted::ReceiveFlags;

    #[test]
    fn what_is_taken_back_is_gone() {
        let shared = SharedReceives::default();
        for tagged in [false, true] {
            let flags = ReceiveFlags::empty();
            shared.post(&Want { tagged, source: None, tag: 1, ignore: 0, to: Gather::NONE, context: 5 + usize::from(tagged), flags });
        }
        assert!(shared.cancel(6) && !shared.cancel(6) && shared.cancel(5) && !shared.cancel(5));
    }
}
