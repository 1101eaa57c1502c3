// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stop-and-wait logical channels in place of the window, to be compared with it in simulation
//! (`Config::channels`): the protocol of the paper on virtual network transport protocols.
//!
//! A packet takes a free channel and holds it until it is known to have arrived, or refused; there
//! is no order between channels (streams have theirs, at the receiver). Each packet is acknowledged
//! at once, by a packet of its own. A packet that is not acknowledged in time leaves again, after a
//! randomised time that doubles; nothing is concluded from what overtakes it, and the number of
//! channels is the only limit. So the window's rules remain, with a fixed size (`congestion.rs`),
//! and only what is said here differs. Packets that arrive in one turn of the receiver share an
//! acknowledgement.

use crate::config::Config;
use crate::rtt::Rtt;
use crate::tx_window::losses::Timeout;
use crate::tx_window::{Slot, State, Tx};
use bellwire_time::Instant;

/// Doublings of the time at most, before its bound.
const DOUBLINGS_MAX: u8 = 20;

/// When a packet in flight leaves again: after the retransmission time, doubled with each try, plus
/// up to as much again by chance. The drawn time stays the same until the packet leaves again.
//= P-TIME-3
fn due(config: &Config, rtt: &Rtt, psn: u32, slot: &Slot) -> Instant {
    let time = rtt.rto(config).0.saturating_mul(1 << slot.tries.min(DOUBLINGS_MAX)).min(config.rto_max.0);
    let draw = (slot.sent ^ u64::from(psn) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    Instant(slot.sent.saturating_add(time).saturating_add((time >> 16) * draw))
}

impl Tx {
    /// Packets with a timer: those in flight; and the oldest of all, when the peer has it and does
    /// not accept it: it may have forgotten it after a refusal that did not arrive here.
    //= P-NACK-5
    fn timed(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let packets = (0..self.next.wrapping_sub(self.una)).map(|i| self.una.wrapping_add(i));
        let slots = packets.map(|psn| (psn, &self.slots[psn as usize & (self.slots.len() - 1)]));
        slots.filter(|(psn, slot)| slot.state == State::Flying || (*psn == self.una && slot.state == State::Arrived))
    }

    /// When the first channel sends again.
    pub(crate) fn channels_deadline(&self, config: &Config, rtt: &Rtt) -> Instant {
        self.timed().map(|(psn, slot)| due(config, rtt, psn, slot)).min().unwrap_or(Instant::NEVER)
    }

    /// Channels whose time has come send again.
    pub(crate) fn channels_timeout(&mut self, config: &Config, now: Instant, rtt: &Rtt) -> Timeout {
        let late: Vec<u32> = self.timed().filter(|(psn, slot)| due(config, rtt, *psn, slot) <= now).map(|(psn, _)| psn).collect();
        late.iter().for_each(|psn| self.lose(*psn, false));
        if late.is_empty() { Timeout::Nothing } else { Timeout::Channels(late.len() as u32) }
    }
}
