// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane: one direction of a link, with the queue in front of it and the buffer behind. Only the
//! arithmetic of one lane; `moving.rs` moves packets between them.
//!
//! ```text
//!   queue that drops:  backlog (times and bytes only) --> flight --> next lane, or port
//!   queue that holds:  waiting --(free, and room in the buffer)--> flight: under way, or arrived and held
//! ```
//!
//! A queue that drops knows at once when each packet will have left, so a packet costs one event. A
//! queue that holds does not.
//!
//! Invariants
//! - L1: `flight` is in order of arrival; only its first packet moves on.
//! - L2: transmission takes bits / bandwidth exactly: the remainder of rounding to nanoseconds is
//!   carried over to the next packet of a busy period.

use super::Port;
use super::record::LinkStatistics;
use crate::topology::{LinkSpec, WhenFull};
use bellwire_faults::Faults;
use bellwire_time::Instant;
use std::collections::VecDeque;

/// A packet on the link, or arrived and held at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flying {
    pub arrive: u64,
    pub departed: u64,
    pub packet: u32,
    /// Bytes of the buffer that it takes until it moves on.
    pub credit: u32,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub spec: LinkSpec,
    pub faults: Faults,
    pub flight: VecDeque<Flying>,
    /// When those packets that have not left yet will, and their bytes.
    backlog: VecDeque<(u64, u32)>,
    backlog_bytes: u64,
    pub waiting: VecDeque<u32>,
    pub waiting_bytes: u64,
    buffer_bytes: u64,
    buffer_used: u64,
    pub free_at: u64,
    /// Bits (times 1e9) that the transmission so far was rounded down by, and the bandwidth at
    /// which that holds.
    rest: u64,
    rest_rate: u64,
    /// The first packet of the flight has arrived and waits for the next queue.
    pub held: bool,
    /// Lanes that hold a packet for this queue, in order.
    pub waiters: VecDeque<u32>,
    /// Ports whose packet found this queue full.
    pub blocked: Vec<Port>,
    /// The earliest event that the agenda has for this lane.
    pub scheduled: u64,
    /// Outages that strike the link now; since when; and when the last ended.
    down: u32,
    down_since: u64,
    restored: u64,
    pub statistics: LinkStatistics,
}

impl Lane {
    pub fn new(spec: LinkSpec, faults: Faults) -> Self {
        // The link is never stopped by its buffer while the next queue takes what comes.
        let on_the_way = u128::from(spec.latency.0) * u128::from(spec.bits_per_second) / 8_000_000_000;
        let on_the_way = u64::try_from(on_the_way).unwrap_or(u64::MAX);
        let endless = spec.queue_bytes == 0 || spec.bits_per_second == 0 && spec.latency.0 > 0;
        Self {
            spec,
            faults,
            flight: VecDeque::new(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            buffer_bytes: if endless { u64::MAX } else { spec.queue_bytes.saturating_add(on_the_way) },
            buffer_used: 0,
            free_at: 0,
            rest: 0,
            rest_rate: 0,
            held: false,
            waiters: VecDeque::new(),
            blocked: Vec::new(),
            scheduled: u64::MAX,
            down: 0,
            down_since: 0,
            restored: 0,
            statistics: LinkStatistics::default(),
        }
    }

    pub fn holds(&self) -> bool {
        self.spec.when_full == WhenFull::Hold
    }

    /// Whether the queue has no room for a packet now.
    pub fn is_full(&mut self, now: u64, bytes: u64) -> bool {
        let queued = if self.holds() {
            self.waiting_bytes
        } else {
            while let Some(&(departs, left)) = self.backlog.front()
                && departs <= now
            {
                self.backlog.pop_front();
                self.backlog_bytes -= u64::from(left);
            }
            self.backlog_bytes
        };
        self.spec.queue_bytes != 0 && queued > 0 && queued + bytes > self.spec.queue_bytes
    }

    /// Takes the link for a packet as soon as it is free; gives the time when the packet's last bit
    /// has left.
    pub fn occupy(&mut self, now: u64, bytes: u64) -> u64 {
        let begin = self.free_at.max(now);
        let mut rate = self.spec.bits_per_second;
        if let Some(squeezed) = self.faults.bits_per_second(Instant(begin)) {
            rate = if rate == 0 { squeezed } else { rate.min(squeezed) };
        }
        if begin > self.free_at || rate != self.rest_rate {
            self.rest = 0;
            self.rest_rate = rate;
        }
        let bits = bytes * 8_000_000_000 + self.rest;
        let (time, rest) = (bits.checked_div(rate).unwrap_or(0), bits.checked_rem(rate).unwrap_or(0));
        (self.free_at, self.rest) = (begin.saturating_add(time), rest);
        self.free_at
    }

    /// Counts a packet that leaves at `departed`, later than `now`, as queued until then.
    pub fn enter_backlog(&mut self, now: u64, departed: u64, bytes: u64) {
        if departed > now && bytes > 0 {
            self.backlog.push_back((departed, bytes as u32));
            self.backlog_bytes += bytes;
            self.statistics.queue_bytes_peak = self.statistics.queue_bytes_peak.max(self.backlog_bytes);
        }
    }

    /// Whether the buffer at the link's end has room.
    pub fn has_credit(&self, bytes: u64) -> bool {
        self.buffer_used == 0 || self.buffer_used.saturating_add(bytes) <= self.buffer_bytes
    }

    /// Takes room in the buffer; how much is remembered with the packet.
    pub fn take_credit(&mut self, bytes: u64) -> u32 {
        if !self.holds() {
            return 0;
        }
        self.buffer_used += bytes;
        bytes as u32
    }

    pub fn give_credit(&mut self, credit: u32) {
        self.buffer_used -= u64::from(credit);
    }

    /// When something happens on this lane next.
    pub fn next_event(&self, now: u64) -> u64 {
        let arrival = self.flight.front().filter(|_| !self.held).map_or(u64::MAX, |f| f.arrive);
        let departure = if self.waiting.is_empty() || self.free_at <= now { u64::MAX } else { self.free_at };
        arrival.min(departure)
    }

    pub fn go_down(&mut self, now: u64) {
        if self.down == 0 {
            self.down_since = now;
        }
        self.down += 1;
    }

    /// Ends one outage; nothing if there is none, for a hand may have been quicker than the plan.
    pub fn come_up(&mut self, now: u64) {
        if self.down == 0 {
            return;
        }
        self.down -= 1;
        if self.down == 0 {
            self.restored = now;
        }
    }

    pub const fn is_down(&self) -> bool {
        self.down > 0
    }

    /// Ends all outages of the link at once.
    pub fn repair(&mut self, now: u64) {
        if self.is_down() {
            (self.down, self.restored) = (0, now);
        }
    }

    /// Whether the link was down at some time while this packet was on it.
    pub fn was_down_for(&self, packet: &Flying) -> bool {
        self.down_since <= packet.arrive && (self.down > 0 || self.restored > packet.departed)
    }

    /// Takes back all that has not left yet; gives the packets, in order.
    pub fn purge(&mut self, now: u64) -> Vec<u32> {
        let left = self.flight.iter().position(|f| f.departed > now).unwrap_or(self.flight.len());
        let taken = self.flight.split_off(left);
        let mut packets = Vec::with_capacity(taken.len() + self.waiting.len());
        for flying in taken {
            self.give_credit(flying.credit);
            packets.push(flying.packet);
        }
        packets.extend(self.waiting.drain(..));
        self.waiting_bytes = 0;
        self.backlog.clear();
        self.backlog_bytes = 0;
        self.blocked.clear();
        (self.free_at, self.rest) = (self.free_at.min(now), 0);
        let latest = self.flight.back().map_or(0, |f| f.arrive.saturating_sub(self.spec.latency.0));
        self.faults.take_back_to(Instant(latest));
        packets
    }
}
