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

use crate::core::Core;
use crate::gather::Place;
use crate::matching::{Envelope, Pattern};
use crate::receive::{Matched, Receive, ReceiveFlags, Want};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Receives that are posted; those without a tag, and tagged ones.
#[derive(Debug, Default)]
struct Posted {
    queues: [VecDeque<Want>; 2],
    /// How many have been posted in all.
    count: u64,
}

/// Receives that several endpoints share.
#[derive(Clone, Debug, Default)]
pub struct SharedReceives(Arc<Mutex<Posted>>);

impl SharedReceives {
    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a receive; sources are by the numbers that all the endpoints' programs give them. It
    /// holds one message ([`ReceiveFlags::MULTI`] means nothing here).
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
    receives: SharedReceives,
    /// Receives posted when its own messages were last looked through.
    seen: u64,
}

impl Core {
    pub(crate) fn share(&mut self, receives: SharedReceives) {
        self.sharing = Some(Sharing { receives, seen: 0 });
    }

    /// Takes the oldest shared receive that a message fits.
    fn take_shared(&self, e: Envelope, tagged: bool) -> Option<Receive> {
        let mut posted = self.sharing.as_ref()?.receives.lock();
        let queue = &mut posted.queues[usize::from(tagged)];
        let fits = |want: &Want| {
            let source = want.source.map(|address| self.resolve_source(address));
            // Somebody whom the endpoint does not know has sent nothing.
            let pattern = Pattern { source: source.flatten(), tag: want.tag, ignore: want.ignore };
            source != Some(None) && pattern.fits(e)
        };
        let want = queue.remove(queue.iter().position(fits)?)?;
        Some(Receive { context: want.context, to: Place::of(&want.to), flags: want.flags - ReceiveFlags::MULTI, multi: None, used: 0 })
    }

    /// The shared receive that a message which has just come goes to.
    pub(crate) fn match_shared<W: Wire>(&mut self, engine: &mut Engine<W>, e: Envelope, tagged: bool, length: usize) -> Option<Matched> {
        self.serve_shared(engine);
        let mut receive = self.take_shared(e, tagged)?;
        Some(self.take_part(&mut receive, tagged, length).0)
    }

    /// Gives the shared receives those messages that have waited for them.
    pub(crate) fn serve_shared<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let Some(sharing) = &mut self.sharing else { return };
        let count = sharing.receives.lock().count;
        if core::mem::replace(&mut sharing.seen, count) == count {
            return;
        }
        for tagged in [false, true] {
            let mut from = 0;
            loop {
                // Out of its place, so that the rest of the endpoint can be looked at beside it.
                let mut queue = core::mem::take(&mut self.queues[usize::from(tagged)]);
                let found = queue.take_message_for(from, |e| self.take_shared(e, tagged));
                self.queues[usize::from(tagged)] = queue;
                let Some((at, e, message, mut receive)) = found else { break };
                from = at;
                let (matched, _) = self.take_part(&mut receive, tagged, message.len());
                self.give(engine, matched, e, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Gather;

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
