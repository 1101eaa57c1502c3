// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint that shares its receives with others: messages that arrive, or have waited, take
//! them.

use crate::core::Core;
use crate::gather::Place;
use crate::matching::{Envelope, Pattern};
use crate::posted::{Matched, Receive, ReceiveFlags, Want};
use crate::shared::{SharedReceives, Sharing};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

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
