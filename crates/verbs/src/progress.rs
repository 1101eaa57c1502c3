// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: a program that polls a completion queue or waits for an event moves everything. The
//! NIC's helper thread (`Machine`) does when the program has not polled for a millisecond, and at
//! once while a completion queue is armed. So a peer's writes, reads and atomics are done while the
//! program computes, and descriptors become readable. While nothing comes the helper sleeps.

use crate::core::Core;
use crate::patience::LINGER;
use crate::types::Stamp;
use crate::types::{Completion, Error};
use bellwire_via::nic::{Machine, Ring};
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, Instant};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

pub(crate) type HostWire = bellwire_via::wire::host::HostWire;

/// Most steps in one poll.
const STEPS: u32 = 32;
/// Looks at what has come before a queue pair ends, at most: its peers may send without end.
const LOOKS_BEFORE_END: u32 = 64;
/// Until something is tried again that waits to leave: nobody says when it can, ns.
const SLICE: u64 = 1_000_000;

/// Nanoseconds of the monotonic clock.
pub fn clock() -> u64 {
    bellwire_via::nic::clock().0
}

/// Both clocks, for a completion.
pub(crate) fn stamp() -> Stamp {
    let t = clock_gettime(ClockId::Realtime);
    Stamp { monotonic: clock(), real: (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64) }
}

impl Core {
    /// Looks until there is nothing, or `until`. Returns whether anything was there. Answers that
    /// are owed leave only if there was nothing: a program that has just got a message mostly sends
    /// one, maybe after it has polled another queue, and that takes the answer along.
    #[inline]
    pub(crate) fn look<W: Wire>(&mut self, engine: &mut Engine<W>, mut until: impl FnMut(&Self) -> bool) -> bool {
        if !self.timers.is_empty() {
            self.time();
            self.timeouts(engine);
        }
        let mut moved = false;
        for _ in 0..STEPS {
            if !self.step(engine, !moved) {
                break;
            }
            moved = true;
            if until(self) {
                break;
            }
        }
        if self.acceptor.is_asked(engine) {
            self.accept_now(engine);
            moved = true;
        }
        moved
    }

    /// Before a queue pair ends or fails: requests that have come are done and answered, and
    /// answers end requests, as on a device, which would have seen to them already.
    #[cold]
    pub(crate) fn hear_out<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.carefully(|core| {
            for _ in 0..LOOKS_BEFORE_END {
                if !core.look(engine, |_| false) {
                    break;
                }
            }
        });
    }

    /// Looks while the program does not ask for it: what it has registered may be unmapped (R3,
    /// memory.rs). The short ways rely on it that it is not.
    fn carefully<R>(&mut self, look: impl FnOnce(&mut Self) -> R) -> R {
        if !*self.copies_by_kernel.get_or_insert_with(crate::memory::has_on_demand) {
            // Nothing better is to be had here.
            return look(self);
        }
        let before = (self.regions.is_careful, self.long_ways);
        (self.regions.is_careful, self.long_ways) = (true, true);
        let result = look(self);
        (self.regions.is_careful, self.long_ways) = before;
        result
    }

    #[cold]
    #[inline(never)]
    fn accept_now<W: Wire>(&mut self, engine: &mut Engine<W>) {
        engine.set_now(Instant(self.time()));
        self.accept(engine);
    }

    /// Takes up to `most` entries of a completion queue and returns how many.
    #[inline(always)]
    pub(crate) fn take_entries(&mut self, cq: u32, most: usize, take: &mut impl FnMut(&Completion)) -> Result<usize, Error> {
        if self.strict.is_some() {
            self.saw_polls(cq, most);
        }
        let entries = &mut self.cq(cq)?.entries;
        let n = entries.len().min(most);
        for _ in 0..n {
            if let Some(c) = entries.take_front() {
                take(c);
            }
        }
        Ok(n)
    }

    /// Whether a completion queue is there and not empty.
    #[inline(always)]
    pub(crate) fn has_some(&self, cq: u32) -> bool {
        self.cqs.get(bellwire_via::handle::Handle::from_raw(cq)).is_some_and(|q| !q.entries.is_empty())
    }

    /// Looks for a poll of a completion queue that is empty.
    #[inline(always)]
    pub(crate) fn look_for<W: Wire>(&mut self, engine: &mut Engine<W>, cq: u32) {
        let moved = self.look(engine, |core| core.has_entries(cq));
        self.looked_in_vain = (!moved).then_some(cq);
    }

    /// Whether a poll of an empty completion queue may leave it at that: a look that a poll of
    /// another queue has just made found nothing for any. Programs that poll one queue for sends
    /// and one for receives by turns look once for both so. It is so for one poll only.
    #[inline(always)]
    pub(crate) fn need_not_look(&mut self, cq: u32) -> bool {
        match self.looked_in_vain {
            Some(other) if other != cq && self.strict.is_none() && self.cqs.get(bellwire_via::handle::Handle::from_raw(cq)).is_some() => {
                self.looked_in_vain = None;
                true
            }
            _ => false,
        }
    }

    /// Whether a look for that completion queue is over: it has entries, or does not exist.
    #[inline]
    pub(crate) fn has_entries(&self, cq: u32) -> bool {
        self.cqs.get(bellwire_via::handle::Handle::from_raw(cq)).is_none_or(|q| !q.entries.is_empty())
    }
}

impl<W: Wire> Machine<W> for Core {
    fn begin_trace(&mut self) {
        self.observed.begin(&self.qps);
        if let Some(snap) = bellwire_trace::here::captures() {
            self.be_captured(snap);
        }
    }

    fn end_trace(&mut self) {
        self.captured = None;
        self.is_witnessed = self.strict.is_some();
    }

    fn trace(&mut self) {
        self.observed.look(&self.qps);
        if let Some(captured) = &mut self.captured {
            captured.look(&self.qps);
        }
    }

    fn step(&mut self, engine: &mut Engine<W>, now: Instant) -> bool {
        self.now = now.0;
        // The helper alone reads these: its program need not look at sockets.
        let moved = self.groups.is_some() && self.take_group_datagrams();
        if self.is_down() && self.timers.first().is_none_or(|(at, _)| *at > now.0) {
            // Packets that come stay in the inbox; only the engine moves.
            return engine.progress() || moved;
        }
        self.lingers = self.patience.lasts(self.posts, now.0);
        if self.armed.expects_event {
            self.expect_no_longer();
        }
        self.armed.is_helper = true;
        let armed = self.armed.count;
        let moved = self.carefully(|core| core.look(engine, |_| false)) || moved;
        self.armed.is_helper = false;
        self.lingers = false;
        if self.armed.count < armed {
            self.armed.told_unasked();
        }
        self.patience.note(self.posts, !self.owing.is_empty(), now.0);
        moved
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || !self.owing.is_empty()
    }

    fn is_armed(&self) -> bool {
        self.armed.need_helper()
    }

    fn take_rings(&mut self, rings: &mut Vec<Arc<dyn Ring>>) {
        self.take_unrung(rings);
    }

    fn next_timeout(&self, now: Instant) -> Instant {
        let timer = self.timers.first().map_or(u64::MAX, |(at, _)| *at);
        let unsent = if self.unsent.is_empty() { u64::MAX } else { now.0 + SLICE };
        let owing = if self.owing.is_empty() { u64::MAX } else { self.patience.until().unwrap_or(now.0 + LINGER) };
        Instant(timer.min(unsent).min(owing))
    }

    fn close(&mut self, engine: &mut Engine<W>) {
        self.report_rest();
        Self::close(self, engine);
    }
}
