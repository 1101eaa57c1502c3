// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a poll in vain lets others run when it is its turn to (`crowd.rs` says when): it gives its processor away, or it sleeps on the bell for a moment.
//!
//! `sched_yield` is right among peers that wait for each other's messages: each is back within microseconds. Beside a program that computes it gives a whole turn away, milliseconds (and Linux since 6.18
//! takes as much of the share of who yields), while a sleeper that is rung gets the processor soon: it has used less of it than its share. So after an absence that long polls in vain
//! sleep, a millisecond at most, for a poll must not block; and now and then giving away is tried again.
//!
//! Nobody may hold a lock of a layer above meanwhile: [`Nic::give_way`](super::Nic::give_way).

use super::wait::{Look, Place, Target};
use super::{Shared, clock};
use crate::engine::Engine;
use crate::inbox::InboxHandle;
use crate::time::{Duration, Instant};
use crate::wire::host::HostWire;
use bellwire_memory::atomic::Ordering;
use bellwire_memory::processors;
use bellwire_memory::token::Claim;

/// Longest sleep.
const NAP: Duration = Duration::from_millis(1);

/// What a poll looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Poller {
    /// Completions.
    Completions,
    /// What comes for an inbox; it takes frames from the wire itself.
    Frames,
}

impl Poller {
    /// A whole turn of the engine.
    pub(super) fn turn(self, engine: &mut Engine<HostWire>) {
        match self {
            Self::Completions => engine.progress(),
            Self::Frames => engine.turn_besides_frames(),
        };
    }

    fn target(self) -> Target {
        match self {
            Self::Completions => Target::Anything,
            Self::Frames => Target::Inbox,
        }
    }
}

/// Lets others run. The crowd has said that it is time. `inbox` is the one that is polled.
#[cold]
#[inline(never)]
pub(super) fn give_way(shared: &Shared, poller: Poller, inbox: Option<InboxHandle>) {
    let naps = {
        let mut core = shared.token.enter(Claim::Bias);
        if core.needs_settling() {
            core.settle(shared);
        }
        core.engine.wire().set_away(true);
        // Relaxed: as in `Shared::besides`.
        shared.gives_way.store(false, Ordering::Relaxed);
        core.crowd.naps()
    };
    let began = clock();
    let somebody_ran = if naps {
        nap(shared, poller, inbox, began);
        true
    } else {
        let before = processors::times_displaced();
        std::thread::yield_now();
        processors::times_displaced() != before
    };
    let now = clock();
    let mut core = shared.token.enter(Claim::Bias);
    core.engine.wire().set_away(false);
    core.crowd.gave_way(somebody_ran, if somebody_ran { now.since(began).0 } else { 0 });
    if core.crowd.was_away_for_long() {
        // Beside such an absence a whole turn is little, and the one that is due by the number of polls may be many absences away.
        core.engine.set_now(now);
        poller.turn(&mut core.engine);
        if core.needs_settling() {
            core.settle(shared);
        }
    }
    core.note_attention();
}

/// Sleeps until something comes, for [`NAP`] at most.
fn nap(shared: &Shared, poller: Poller, inbox: Option<InboxHandle>, began: Instant) {
    let deadline = began + NAP;
    let seen = shared.token.enter(Claim::Bias).engine.completions();
    // No bell left to sleep on.
    let Ok(mut place) = Place::register(shared, poller.target(), began, began) else { return std::thread::yield_now() };
    let mut look = |engine: &mut Engine<HostWire>| {
        let has_come = inbox.is_some_and(|inbox| engine.has_come(inbox)) || engine.completions() != seen;
        Ok(has_come.then_some(()))
    };
    loop {
        match place.look(deadline, &mut look) {
            Ok(Look::Found(())) | Err(_) => return,
            Ok(Look::Again) => place.now = clock(),
            Ok(Look::Sleep { until, leads }) => place.sleep(until, leads),
        }
    }
}
