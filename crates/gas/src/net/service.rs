// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that answers peers while the program computes, and lets go what it has left waiting for company. While the program asks for things itself, which answers peers too, this thread only looks at
//! whether it still does.

use std::thread;
use std::time::Duration;

use bellwire_memory::atomic::Ordering;
use bellwire_memory::token::Claim;

use super::Shared;

/// How long the program may be silent before peers are answered for it.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// Looks at whether requests have waited for company since the last one, in a tick, while some have lately: in the last so many ticks.
const PACK_LOOKS: u32 = 5;
const PACK_TICKS: u32 = 20;
/// How often this thread looks at whether a program that waits, and answers meanwhile, still does; usually it is told.
const LONG_TICK: Duration = Duration::from_millis(100);
/// How long until what could not leave is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// What the thread knows of requests that wait for company.
#[derive(Default)]
struct Packs {
    /// The pack that it has sent last.
    sent: u32,
    /// Ticks to come in which it looks more often.
    ticks: u32,
}

impl Shared {
    /// Until the process leaves.
    pub(super) fn serve(&self) {
        let mut packs = Packs::default();
        // Acquire: pairs with the release in `stop`.
        while !self.is_ending.load(Ordering::Acquire) {
            // Relaxed: a hint; what is missed is seen at the next tick.
            let calls = self.calls.load(Ordering::Relaxed);
            self.tick(&mut packs);
            if self.is_silent(calls) {
                self.answer(calls);
            // Relaxed: as above.
            } else if self.calls.load(Ordering::Relaxed) == calls {
                // A long wait, in which the program answers; it says when that is over.
                thread::park_timeout(LONG_TICK);
            }
        }
    }

    /// A tick, in which requests that have waited for company for a part of it leave.
    fn tick(&self, packs: &mut Packs) {
        packs.ticks = packs.ticks.saturating_sub(1);
        let looks = if packs.ticks > 0 { PACK_LOOKS } else { 1 };
        for _ in 0..looks {
            // Relaxed: a hint, as above.
            let before = self.packing.load(Ordering::Relaxed);
            thread::sleep(TICK / looks);
            if before == 0 || before == packs.sent {
                continue;
            }
            packs.ticks = PACK_TICKS;
            // Relaxed: as above.
            if self.packing.load(Ordering::Relaxed) == before {
                let mut core = self.core.enter(Claim::Visit);
                self.nic.with(|engine| core.send_packs(engine, 0));
                packs.sent = before;
            }
        }
    }

    /// Whether the program has asked for nothing since.
    fn is_silent(&self, calls: u32) -> bool {
        // Relaxed: as above.
        self.calls.load(Ordering::Relaxed) == calls && !self.is_waiting()
    }

    /// Answers peers as long as the program is silent.
    fn answer(&self, calls: u32) {
        let (mut has_unsent, mut requests) = (false, 0);
        loop {
            // Acquire: pairs with the release in `stop`.
            let until = || self.is_ending.load(Ordering::Acquire) || !self.is_silent(calls);
            if until() {
                return;
            }
            let (inbox, patience) = (self.inbox, has_unsent.then_some(RETRY));
            match self.nic.inbox_wait_until(inbox, requests, patience, until) {
                Ok(()) | Err(bellwire_via::Error::Timeout) => {}
                Err(_) => return,
            }
            if until() {
                return;
            }
            let mut core = self.core.enter(Claim::Visit);
            while matches!(self.nic.poll_with(|engine| Ok(Some(core.step(engine)))), Ok(Some(true))) {}
            has_unsent = !core.unsent.is_empty() || !core.packing.is_empty();
            requests = self.nic.with(|engine| engine.connection_requests());
            // SeqCst: before the look at who waits; pairs with `sleep`, which announces, then looks at the count.
            self.served.fetch_add(1, Ordering::SeqCst);
            drop(core);
            if self.is_waiting() {
                self.wake();
            }
        }
    }
}
