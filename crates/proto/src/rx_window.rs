// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving half of a session: it tells new packets from old ones, and keeps those that wait
//! for their predecessors, those that are ready, and those that are accepted.
//!
//! ```text
//!   accepted            passed            accepted + 1024
//!      | taken or ready   | a bit for each |
//! ```
//!
//! A packet *passes* when everything before it that it depends on has passed; it is then ready, in
//! the order in which packets passed. It is *accepted* when it has been fetched and not refused.
//! Everything before `passed` has passed; above, `received` and `went` have a bit for each packet.
//! In steady state no bit is ever set.

use crate::config::{Config, WINDOW_PACKETS_MAX};
use crate::delivery::{Buffer, Delivery};
use crate::ids::SessionId;
use crate::sequence::{PacketSet, before};
use std::collections::VecDeque;

const WINDOW: u32 = WINDOW_PACKETS_MAX as u32;

/// What the header of an arrived packet says about its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) psn: u32,
    pub(crate) stream_back: u16,
    pub(crate) ordered: bool,
    pub(crate) timestamp: u32,
    /// It has no frames: nothing to deliver.
    pub(crate) is_empty: bool,
}

/// A packet that is kept.
#[derive(Debug)]
struct Kept<B> {
    arrival: Arrival,
    skip: u16,
    buffer: B,
}

/// A packet that was refused and has not come again.
#[derive(Clone, Copy, Debug)]
struct Turned {
    psn: u32,
    timestamp: u32,
    consumed: u16,
}

/// The outcome of an arrived packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// In order, with no gap before or behind it.
    InOrder,
    /// Taken, with gaps somewhere: the sender should know at once.
    Gap,
    /// It had come before.
    Duplicate,
    /// An earlier transmission of a packet that was refused meanwhile.
    Stale,
    /// Beyond the window.
    OutOfWindow,
    /// No memory.
    NoMemory,
    /// It depends on what cannot be.
    Nonsense,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Rx<B> {
    accepted: u32,
    passed: u32,
    /// Beyond `passed`: arrived; passed.
    received: PacketSet,
    went: PacketSet,
    /// Beyond `accepted`: accepted out of order.
    taken: PacketSet,
    /// Arrived, not passed; by number. Empty until something must wait.
    waiting: Vec<Option<Kept<B>>>,
    waiting_count: u32,
    /// Packets for which some wait; how many wait for all before them.
    awaited: PacketSet,
    ordered_waiting: u32,
    ready: VecDeque<Kept<B>>,
    /// Fetched last, and may still be refused.
    undecided: Option<u32>,
    turned: Vec<Turned>,
    bytes: usize,
    pub(crate) delivered_total: u64,
}

impl<B: Buffer> Rx<B> {
    pub(crate) fn new(first: u32) -> Self {
        Self {
            accepted: first,
            passed: first,
            received: PacketSet::default(),
            went: PacketSet::default(),
            taken: PacketSet::default(),
            waiting: Vec::new(),
            waiting_count: 0,
            awaited: PacketSet::default(),
            ordered_waiting: 0,
            ready: VecDeque::new(),
            undecided: None,
            turned: Vec::new(),
            bytes: 0,
            delivered_total: 0,
        }
    }

    /// Bytes of packets kept here.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets kept here.
    pub(crate) fn kept(&self) -> usize {
        self.waiting_count as usize + self.ready.len()
    }

    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The first packet that is not accepted: the cumulative acknowledgement.
    #[inline]
    pub(crate) const fn accepted(&self) -> u32 {
        self.accepted
    }

    /// Whether the cumulative acknowledgement does not tell everything.
    #[inline]
    pub(crate) fn is_partial(&self) -> bool {
        self.accepted != self.passed || !self.received.is_empty()
    }

    /// Takes a packet. `memory` bytes are left for all sessions.
    #[inline]
    pub(crate) fn receive(&mut self, config: &Config, arrival: Arrival, buffer: B, memory: usize) -> Received {
        let psn = arrival.psn;
        let mut skip = 0;
        if psn != self.passed || !self.turned.is_empty() {
            match self.examine(arrival) {
                Ok(n) => skip = n,
                Err(what) => return what,
            }
        } else if psn.wrapping_sub(self.accepted) >= WINDOW {
            return Received::OutOfWindow;
        }
        //= P-DATA-6
        if u32::from(arrival.stream_back) >= WINDOW {
            return Received::Nonsense;
        }
        let length = buffer.as_ref().len();
        let full = self.kept() >= config.kept_packets_max || self.bytes + length > config.kept_bytes_max || length > memory;
        // The first that is missing is taken all the same when nothing is ready: everything else
        // may wait for it.
        //= P-LIMIT-2
        if full && (psn != self.passed || self.has_ready()) {
            return Received::NoMemory;
        }
        let gapless = psn == self.passed && self.received.is_empty();
        self.bytes += length;
        let kept = Kept { arrival, skip, buffer };
        if self.may_pass(arrival) {
            self.pass(kept);
            if !self.received.is_empty() || !self.awaited.is_empty() {
                self.wake(psn);
            }
        } else {
            self.wait(kept);
        }
        if gapless { Received::InOrder } else { Received::Gap }
    }

    /// Handles a packet that is not simply the next one: the frames to skip, or why it is dropped.
    fn examine(&self, arrival: Arrival) -> Result<u16, Received> {
        let psn = arrival.psn;
        if before(psn, self.accepted) {
            return Err(Received::Duplicate);
        }
        if psn.wrapping_sub(self.accepted) >= WINDOW {
            return Err(Received::OutOfWindow);
        }
        //= P-DATA-5
        if before(psn, self.passed) || self.received.contains(psn) {
            return Err(Received::Duplicate);
        }
        let Some(turned) = self.turned.iter().find(|t| t.psn == psn) else { return Ok(0) };
        //= P-NACK-3
        if !before(turned.timestamp, arrival.timestamp) {
            return Err(Received::Stale);
        }
        Ok(turned.consumed)
    }

    /// Whether everything that it depends on has passed.
    #[inline]
    fn may_pass(&self, arrival: Arrival) -> bool {
        if arrival.psn == self.passed {
            return true;
        }
        //= P-DATA-4
        if arrival.ordered {
            return false;
        }
        if arrival.stream_back == 0 {
            return true;
        }
        let predecessor = arrival.psn.wrapping_sub(arrival.stream_back.into());
        before(predecessor, self.passed) || self.went.contains(predecessor)
    }

    /// It is ready, or, when there is nothing in it, accepted.
    #[inline]
    fn pass(&mut self, kept: Kept<B>) {
        let psn = kept.arrival.psn;
        if psn == self.passed {
            self.passed = psn.wrapping_add(1);
            if !self.went.is_empty() {
                while self.went.remove(self.passed) {
                    self.received.remove(self.passed);
                    self.passed = self.passed.wrapping_add(1);
                }
            }
        } else {
            self.went.insert(psn);
            self.received.insert(psn);
        }
        if kept.arrival.is_empty {
            self.bytes -= kept.buffer.as_ref().len();
            self.accept(psn);
        } else {
            self.ready.push_back(kept);
        }
    }

    /// It waits for a predecessor.
    #[cold]
    fn wait(&mut self, kept: Kept<B>) {
        if self.waiting.is_empty() {
            self.waiting.resize_with(WINDOW_PACKETS_MAX, || None);
        }
        let Arrival { psn, stream_back, ordered, .. } = kept.arrival;
        self.received.insert(psn);
        if ordered {
            self.ordered_waiting += 1;
        } else {
            self.awaited.insert(psn.wrapping_sub(stream_back.into()));
        }
        self.waiting_count += 1;
        let place = &mut self.waiting[psn as usize % WINDOW_PACKETS_MAX];
        debug_assert!(place.is_none());
        *place = Some(kept);
    }

    /// `psn` has passed: so may those that waited for it, and those that wait for them. They all
    /// have higher numbers, so one look upward is enough.
    fn wake(&mut self, psn: u32) {
        let awaited = self.awaited.remove(psn);
        if self.waiting_count == 0 || (!awaited && self.ordered_waiting == 0) {
            return;
        }
        let end = self.accepted.wrapping_add(WINDOW);
        let mut from = psn.wrapping_add(1);
        while self.waiting_count > 0
            && let Some(at) = self.received.first(from, end.wrapping_sub(from))
        {
            from = at.wrapping_add(1);
            let place = &mut self.waiting[at as usize % WINDOW_PACKETS_MAX];
            let Some(arrival) = place.as_ref().map(|k| k.arrival) else { continue };
            if !self.may_pass(arrival) {
                continue;
            }
            let Some(kept) = self.waiting[at as usize % WINDOW_PACKETS_MAX].take() else { continue };
            self.waiting_count -= 1;
            self.ordered_waiting -= u32::from(arrival.ordered);
            self.awaited.remove(at);
            // `pass` sets it again unless it is the next.
            self.received.remove(at);
            self.pass(kept);
        }
    }

    /// The next ready packet; it counts as accepted unless it is refused next.
    #[inline]
    pub(crate) fn deliver(&mut self, session: SessionId) -> Option<Delivery<B>> {
        self.decide();
        let Kept { arrival, skip, buffer } = self.ready.pop_front()?;
        self.bytes -= buffer.as_ref().len();
        self.undecided = Some(arrival.psn);
        self.delivered_total += 1;
        Some(Delivery { session, psn: arrival.psn, timestamp: arrival.timestamp, skip, buffer })
    }

    /// Accepts for good the packet that was fetched last; returns whether there was one.
    #[inline]
    pub(crate) fn decide(&mut self) {
        if let Some(psn) = self.undecided.take() {
            self.accept(psn);
        }
    }

    #[inline]
    fn accept(&mut self, psn: u32) {
        if !self.turned.is_empty() {
            self.turned.retain(|t| t.psn != psn);
        }
        if psn == self.accepted {
            self.accepted = psn.wrapping_add(1);
            if !self.taken.is_empty() {
                while self.taken.remove(self.accepted) {
                    self.accepted = self.accepted.wrapping_add(1);
                }
            }
        } else {
            self.taken.insert(psn);
        }
    }

    /// Takes back that `psn`, fetched last, was delivered: it must come again, and what was ready
    /// waits for it if it has to. False: it is too late.
    pub(crate) fn refuse(&mut self, psn: u32, timestamp: u32, consumed: u16) -> bool {
        if self.undecided != Some(psn) {
            return false;
        }
        self.undecided = None;
        self.delivered_total -= 1;
        match self.turned.iter_mut().find(|t| t.psn == psn) {
            Some(t) => (t.timestamp, t.consumed) = (timestamp, consumed),
            None => self.turned.push(Turned { psn, timestamp, consumed }),
        }
        // From here on every packet from `accepted` has its bits.
        let mut at = self.accepted;
        while at != self.passed {
            self.received.insert(at);
            self.went.insert(at);
            at = at.wrapping_add(1);
        }
        self.received.remove(psn);
        self.went.remove(psn);
        self.passed = self.accepted;
        let ready = core::mem::take(&mut self.ready);
        ready.iter().for_each(|k| {
            self.went.remove(k.arrival.psn);
        });
        self.advance();
        // In the order in which they had passed; packets that depend on the refused one wait.
        for kept in ready {
            self.received.remove(kept.arrival.psn);
            if self.may_pass(kept.arrival) { self.pass(kept) } else { self.wait(kept) }
        }
        true
    }

    fn advance(&mut self) {
        while self.went.remove(self.passed) {
            self.received.remove(self.passed);
            self.passed = self.passed.wrapping_add(1);
        }
    }

    /// Bit `i`: packet `accepted + base + i` has arrived.
    pub(crate) fn arrived(&self, base: u32) -> u64 {
        let from = self.accepted.wrapping_add(base);
        let below = self.passed.wrapping_sub(self.accepted);
        let sure = if below <= base {
            0
        } else if below - base >= 64 {
            u64::MAX
        } else {
            (1 << (below - base)) - 1
        };
        sure | self.received.word_at(from)
    }

    /// Everything is dropped.
    pub(crate) fn clear(&mut self) {
        let accepted = self.accepted;
        *self = Self::new(accepted);
    }
}
