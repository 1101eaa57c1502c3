// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets leave the sending window: which may, when, and the state kept for each. New ones leave
//! in order, one that finds the path idle by a shorter way, and lost ones again.

use super::{State, Tx};
use crate::config::Config;
use crate::packet::header::{ACK_NOW, ORDERED, RETRANSMITTED};
use bellwire_seal::Association;
use bellwire_time::{Duration, Instant};

/// What all packets that leave now carry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) flags: u8,
    pub(crate) ack: u32,
    pub(crate) timestamp: u32,
    pub(crate) echo: u32,
    pub(crate) echo_delay: u16,
}

/// Packets that leave: a place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) packets: u32,
    pub(crate) segment: usize,
    pub(crate) again: bool,
}

/// How much may be in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) packets: u32,
    pub(crate) bytes: u32,
    /// Larger packets than this leave alone: they must be fragmented.
    pub(crate) datagram: usize,
    /// Packets of that size in a whole run.
    pub(crate) run: u32,
    /// Until when, and with how many bytes, frames wait for more to share their packet.
    pub(crate) now: Instant,
    pub(crate) join_delay: Duration,
    pub(crate) join_bytes: usize,
}

impl Tx {
    /// Whether a frame of a whole datagram would find room.
    pub(crate) fn has_room(&self, config: &Config, datagram: usize) -> bool {
        (self.outstanding() as usize) < config.window_packets && (self.ring.place(datagram).is_some() || self.ring.capacity() < config.ring_bytes)
    }

    /// Whether there is something that [`Tx::leave`] would give.
    #[inline]
    pub(crate) fn can_leave(&self, allowance: Allowance) -> bool {
        let open = self.forced > 0 || if self.lost.is_empty() { self.may_begin(allowance) } else { self.is_open(allowance, 0) };
        open && (self.next != self.end || !self.lost.is_empty())
    }

    /// Whether something may have been lost: then nothing waits, since what overtakes a lost packet
    /// tells of it.
    #[inline]
    pub(crate) fn is_troubled(&self) -> bool {
        let gap = !self.arrived.is_empty() && self.losses.highest.wrapping_sub(self.una) >= self.arrived.count();
        gap || !self.lost.is_empty() || self.losses.is_asking()
    }

    /// Whether a run of new packets may begin. While packets are in flight, one that the windows
    /// would cut short, or that its sender is about to go on with, waits until a whole one may
    /// leave, or a quarter of all that ever may: each run costs a system call and a way through the
    /// network layers on either side, however short it is. What is in flight has been asked to be
    /// acknowledged at once.
    //= P-CONG-6
    #[inline]
    pub(crate) fn may_begin(&self, allowance: Allowance) -> bool {
        if self.flying == 0 {
            return true;
        }
        if !self.is_open(allowance, 0) || self.losses.by_channels || self.is_troubled() {
            return self.is_open(allowance, 0);
        }
        if self.is_joining(&allowance) {
            return false;
        }
        let datagram = (allowance.datagram as u32).max(1);
        let all = allowance.packets.min(allowance.bytes / datagram);
        let free = (allowance.packets - self.flying).min((allowance.bytes - self.flying_bytes) / datagram);
        let waiting = self.end.wrapping_sub(self.next);
        let leaves = waiting.min(free);
        leaves >= allowance.run || leaves >= all / 4 || (free >= waiting && !self.more)
    }

    //= P-CONG-5
    /// A packet may leave when nothing is in flight, however small the windows are.
    #[inline]
    pub(crate) fn is_open(&self, allowance: Allowance, length: u32) -> bool {
        self.flying == 0 || (self.flying < allowance.packets && self.flying_bytes.saturating_add(length) <= allowance.bytes)
    }

    /// The next packets that may leave: one that is lost, or a run of new ones, equal in size but
    /// for the last.
    pub(crate) fn leave(&mut self, config: &Config, now: Instant, allowance: Allowance, stamp: &Stamp, seal: Option<&Association>) -> Option<Run> {
        if let Some(run) = self.leave_again(now, allowance, stamp, seal) {
            return Some(run);
        }
        if self.forced == 0 && !self.may_begin(allowance) {
            return None;
        }
        let (mut run, mut full): (Option<Run>, bool) = (None, false);
        let in_flight = self.flying;
        while self.next != self.end {
            let psn = self.next;
            let slot = *self.slot(psn);
            let (start, length) = (slot.start as usize, slot.length as usize);
            if self.forced == 0 && !self.is_open(allowance, slot.length) {
                break;
            }
            match &mut run {
                None => run = Some(Run { start, length, packets: 1, segment: length, again: false }),
                Some(r) => {
                    let continues =
                        r.segment <= allowance.datagram && start == r.start + r.length && length <= r.segment && r.length == r.packets as usize * r.segment;
                    full = r.packets as usize >= config.run_packets_max || r.length + length > config.run_bytes_max;
                    if !continues || full {
                        break;
                    }
                    r.length += length;
                    r.packets += 1;
                }
            }
            self.next = psn.wrapping_add(1);
            self.depart(psn, now, stamp, false);
            self.sent_total += 1;
        }
        let run = run?;
        self.joining.left(now, in_flight, self.next == self.end, full);
        // A sender stopped by its window should not wait for a delayed acknowledgement.
        //= P-DATA-7
        let full = self.outstanding() as usize >= config.window_packets;
        if full || (self.next != self.end && !self.may_begin(allowance)) || self.flying * 2 > allowance.packets {
            let last = self.next.wrapping_sub(1);
            let start = self.slot(last).start as usize;
            self.header(start).header.flags |= ACK_NOW;
        }
        Some(run)
    }

    /// Room for a frame of `need` bytes that is to leave at once, in a packet of its own; where the
    /// frame begins.
    #[inline]
    pub(crate) fn write_alone(&mut self, config: &Config, allowance: &Allowance, need: usize, stream: u32) -> Option<usize> {
        if !self.is_idle() || self.overhead + need > allowance.datagram || !self.is_open(*allowance, (self.overhead + need) as u32) {
            return None;
        }
        self.begin(config, need, Self::lane(stream))
    }

    /// The packet that was written by [`write_alone`](Self::write_alone) leaves.
    #[inline]
    pub(crate) fn depart_alone(&mut self, config: &Config, now: Instant, allowance: &Allowance, stamp: &Stamp) {
        let psn = self.next;
        self.next = psn.wrapping_add(1);
        debug_assert!(self.next == self.end);
        self.depart(psn, now, stamp, false);
        self.sent_total += 1;
        self.joining.left(now, self.flying - 1, true, false);
        //= P-DATA-7
        if self.outstanding() as usize >= config.window_packets || self.flying * 2 > allowance.packets {
            let start = self.slot(psn).start as usize;
            self.header(start).header.flags |= ACK_NOW;
        }
    }

    pub(crate) fn leave_again(&mut self, now: Instant, allowance: Allowance, stamp: &Stamp, seal: Option<&Association>) -> Option<Run> {
        if self.lost.is_empty() {
            return None;
        }
        let psn = self.lost.first(self.una, self.next.wrapping_sub(self.una))?;
        let length = self.slot(psn).length;
        if self.forced == 0 && !self.is_open(allowance, length) {
            return None;
        }
        self.lost.remove(psn);
        // Before its header changes, by which it is known.
        self.unseal(psn, seal);
        self.depart(psn, now, stamp, true);
        self.again_total += 1;
        let slot = *self.slot(psn);
        Some(Run { start: slot.start as usize, length: slot.length as usize, packets: 1, segment: slot.length as usize, again: true })
    }

    /// The packet is in flight from now on; its header is completed.
    #[inline]
    pub(crate) fn depart(&mut self, psn: u32, now: Instant, stamp: &Stamp, again: bool) {
        self.forced = self.forced.saturating_sub(1);
        if self.flying == 0 {
            self.losses.restart(now);
        }
        self.flying += 1;
        let slot = self.slot(psn);
        debug_assert!(slot.state == State::Written || slot.state == State::Lost);
        slot.state = State::Flying;
        slot.sent = now.0;
        slot.tries = slot.tries.saturating_add(u8::from(again));
        let (start, length) = (slot.start as usize, slot.length);
        self.flying_bytes += length;
        let header = self.header(start);
        let own = header.header.flags & ORDERED | if again { RETRANSMITTED | ACK_NOW } else { 0 };
        header.header.flags = own | stamp.flags;
        header.ack = stamp.ack.into();
        header.timestamp = stamp.timestamp.into();
        header.echo = stamp.echo.into();
        header.echo_delay = stamp.echo_delay.into();
    }
}
