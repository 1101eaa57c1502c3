// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a poll that finds nothing lets others run when it is its turn to; `crowd.rs` says when.
//!
//! Nobody may hold a lock of a layer above meanwhile, since an absence can take milliseconds:
//! layers that poll an inbox call [`Nic::give_way`](super::Nic::give_way) when they have let go of
//! theirs. (Sleeping on the bell in place of `sched_yield` was measured: decision 9.)

use super::clock;
use super::state::Shared;
use crate::engine::Engine;
use crate::wire::host::HostWire;
use bellwire_memory::atomic::Ordering;
use bellwire_memory::processors;
use bellwire_memory::token::Claim;
use std::cell::Cell;

/// After an absence so long, nanoseconds, a whole turn is little beside it, and the one that is due
/// by the number of polls may be many absences away.
const LONG_ABSENCE_NS: u64 = 500_000;

/// What a poll looks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Poller {
    /// Completions.
    Completions,
    /// Messages for an inbox; the poller takes frames from the wire itself.
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
}

/// Lets others run. The crowd has said that it is time.
#[cold]
#[inline(never)]
pub(super) fn give_way(shared: &Shared, poller: Poller) {
    let here = processors::current();
    {
        let mut core = shared.token.enter(Claim::Bias);
        if core.needs_settling() {
            core.settle(shared);
        }
        core.engine.wire().set_away(Some(here));
        // Relaxed: as in `Shared::besides`.
        shared.gives_way.store(false, Ordering::Relaxed);
    }
    let (before, began) = (processors::times_displaced(), clock());
    std::thread::yield_now();
    let somebody_ran = processors::times_displaced() != before;
    let now = if somebody_ran { clock() } else { began };
    let absence = now.since(began).0;
    let mut core = shared.token.enter(Claim::Bias);
    let shares = core.engine.wire().shares(here).filter(|_| somebody_ran);
    core.engine.wire().set_away(None);
    core.crowd.gave_way(somebody_ran, absence);
    let parts = core.crowd.parts(shares, absence);
    if absence >= LONG_ABSENCE_NS {
        core.engine.set_now(now);
        poller.turn(&mut core.engine);
        if core.needs_settling() {
            core.settle(shared);
        }
    }
    core.note_attention();
    drop(core);
    if parts {
        processors::leave(here);
    }
}

thread_local! {
    /// Whether this thread has asked for short turns.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Whether to sleep in place of giving way; the caller then does. A thread that does so for the
/// first time asks for short turns, or it would wake to find that others keep their long ones.
pub(super) fn should_nap(shared: &Shared) -> bool {
    let mut core = shared.token.enter(Claim::Bias);
    if !core.crowd.naps() {
        return false;
    }
    core.crowd.napped();
    // Relaxed: as in `Shared::besides`.
    shared.gives_way.store(false, Ordering::Relaxed);
    drop(core);
    if !ASKED.replace(true) {
        processors::ask_short_turns();
    }
    true
}
