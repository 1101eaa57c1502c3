// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stop-and-wait channels of "Virtual Network Transport Protocols for Myrinet" themselves,
//! beside the transport's window: without I/O, told the time.
//!
//! Each NIC has a table of NICs by channels. A channel has one packet under way, and one timer. A
//! packet is acknowledged, or refused (NACK), by a packet of its own; a refused one, and one whose
//! timer has run out, is sent again after a randomised back-off that doubles. When a packet has
//! been sent too often without success it returns to its sender, and its channel is unbound: the
//! next packet on it belongs to a new generation, from which the receiver begins anew.
//!
//! A header has 8 bytes:
//! ```text
//!  0 kind (1 DATA, 2 ACK, 3 NACK)   1 channel   2-3 generation   4-5 number   6-7 stamp
//! ```
//! The number of the paper is one bit: its network keeps packets in order, and so one bit tells a
//! packet from the one before it. On a network that delays packets past their successors a bit
//! takes an old copy for a new packet; [`Numbers::Word`] has 16 bits there, of which the
//! alternating bit is the lowest. The stamp says which transmission of a packet an answer is for:
//! the latest NACK counts.
//!
//! A [`Build`] may lack parts of the protocol, so that it can be seen what each costs. With
//! protection the tag of the receiver follows the header of a data packet.
//!
//! Invariants
//! - S1: a channel that is bound holds one packet until it is acknowledged or returned.
//! - S2: a receiver's column hands over a packet once for each generation and number.

mod world;

pub use world::ChannelWorld;

use bellwire_faults::Random;
use bellwire_time::{Duration, Instant};
use std::collections::VecDeque;

/// Bytes of every header.
pub const HEADER_BYTES: usize = 8;

const DATA: u8 = 1;
const ACK: u8 = 2;
const NACK: u8 = 3;

/// The number that tells a packet from the one before it on its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// The paper's alternating bit, for networks that keep packets in order.
    Bit,
    /// 16 bits, for networks that do not.
    Word,
}

/// The parts of the protocol that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// A data packet has its receiver's tag, and one with another tag is dropped.
    pub protection: bool,
    /// Packets are numbered, kept, and acknowledged or refused.
    pub reliability: bool,
    /// Packets that are not acknowledged are sent again.
    pub timers: bool,
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What of the protocol there is.
    pub build: Build,
    /// With protection: the tag of all that may talk to each other.
    pub tag: u64,
    /// Channels to each other NIC, up to 256.
    pub channels: usize,
    /// See [`Numbers`].
    pub numbers: Numbers,
    /// A packet is sent again after this at first ..
    pub timeout: Duration,
    /// .. and after this at most: doubled each time, and drawn between half and all of it.
    pub timeout_max: Duration,
    /// Transmissions without an acknowledgement after which it returns to its sender.
    pub tries_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        let build = Build { protection: false, reliability: true, timers: true };
        Self { build, tag: 0, channels: 8, numbers: Numbers::Word, timeout: Duration::from_millis(1), timeout_max: Duration::from_millis(50), tries_max: 100 }
    }
}

/// What happened to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets sent, each the first time.
    pub sent: u64,
    /// Sent again by a timer, and after a refusal.
    pub again: u64,
    /// Acknowledgements and refusals sent.
    pub answers: u64,
    /// Duplicates that came and were acknowledged again.
    pub duplicates: u64,
    /// Answers to other transmissions or generations, which count for nothing.
    pub stale: u64,
    /// Packets that returned to their sender.
    pub returned: u64,
    /// Packets with another tag, which were dropped.
    pub foreign: u64,
}

#[derive(Debug)]
struct Bound {
    payload: Vec<u8>,
    tries: u32,
    at: Instant,
}

impl Bound {
    /// Which transmission the latest one was, as far as the header has room.
    fn stamp(&self) -> u16 {
        self.tries as u16
    }
}

/// A sending channel: its state stays when it is unbound.
#[derive(Debug, Default)]
struct Sender {
    generation: u16,
    number: u16,
    bound: Option<Bound>,
}

/// A receiving channel.
#[derive(Debug, Default)]
struct Receiver {
    /// The generation and the number taken last; `None`: nothing yet.
    taken: Option<(u16, u16)>,
}

#[derive(Debug, Default)]
struct Row {
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
}

/// One packet to be sent: to which NIC, its bytes.
pub type Packet = (u32, Vec<u8>);

/// A NIC's table of channels.
#[derive(Debug)]
pub struct Channels {
    config: Config,
    rows: Vec<Row>,
    out: VecDeque<Packet>,
    returned: VecDeque<(u32, Vec<u8>)>,
    random: Random,
    statistics: Statistics,
}

fn header(kind: u8, channel: usize, generation: u16, number: u16, stamp: u16) -> [u8; HEADER_BYTES] {
    let mut h = [kind, channel as u8, 0, 0, 0, 0, 0, 0];
    h[2..4].copy_from_slice(&generation.to_le_bytes());
    h[4..6].copy_from_slice(&number.to_le_bytes());
    h[6..8].copy_from_slice(&stamp.to_le_bytes());
    h
}

/// Whether a 16-bit number is after another one, which is not far away.
fn is_after(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) > 0
}

impl Channels {
    /// A table for so many NICs.
    pub fn new(config: Config, nics: usize, seed: u64) -> Self {
        let channels = config.channels.clamp(1, 256);
        let row = || Row { senders: (0..channels).map(|_| Sender::default()).collect(), receivers: (0..256).map(|_| Receiver::default()).collect() };
        Self {
            config,
            rows: (0..nics).map(|_| row()).collect(),
            out: VecDeque::new(),
            returned: VecDeque::new(),
            random: Random::new(seed, 7),
            statistics: Statistics::default(),
        }
    }

    /// The counters.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Packets to a NIC that are not acknowledged: those of an endpoint to be unloaded are counted
    /// so by destination.
    pub fn unacknowledged(&self, nic: u32) -> usize {
        self.rows.get(nic as usize).map_or(0, |r| r.senders.iter().filter(|s| s.bound.is_some()).count())
    }

    /// Binds a channel to a packet and sends it. `false`: all channels to that NIC are bound.
    pub fn send(&mut self, now: Instant, to: u32, payload: &[u8]) -> bool {
        let Some(row) = self.rows.get_mut(to as usize) else { return false };
        if !self.config.build.reliability {
            self.statistics.sent += 1;
            let packet = self.data((0, 0, 0, 0), payload);
            self.out.push_back((to, packet));
            return true;
        }
        let Some(channel) = row.senders.iter().position(|s| s.bound.is_none()) else { return false };
        let s = &mut row.senders[channel];
        s.number = match self.config.numbers {
            Numbers::Bit => s.number ^ 1,
            Numbers::Word => s.number.wrapping_add(1),
        };
        s.bound = Some(Bound { payload: payload.to_vec(), tries: 0, at: now });
        self.statistics.sent += 1;
        self.transmit(now, to, channel);
        true
    }

    /// A data packet: channel, generation, number and stamp, then the payload.
    fn data(&self, (channel, generation, number, stamp): (usize, u16, u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEADER_BYTES + size_of::<u64>() + payload.len());
        packet.extend_from_slice(&header(DATA, channel, generation, number, stamp));
        if self.config.build.protection {
            packet.extend_from_slice(&self.config.tag.to_le_bytes());
        }
        packet.extend_from_slice(payload);
        packet
    }

    fn transmit(&mut self, now: Instant, to: u32, channel: usize) {
        let s = &mut self.rows[to as usize].senders[channel];
        let Some(b) = &mut s.bound else { return };
        if self.config.build.timers {
            let doubled = self.config.timeout.0.saturating_mul(1 << b.tries.min(20)).min(self.config.timeout_max.0).max(2);
            b.at = now + Duration(doubled / 2 + self.random.below(doubled / 2));
        } else {
            b.at = Instant::NEVER;
        }
        b.tries += 1;
        let (head, s) = ((channel, s.generation, s.number, b.stamp()), &self.rows[to as usize].senders[channel]);
        let packet = s.bound.as_ref().map(|b| self.data(head, &b.payload));
        self.out.extend(packet.map(|packet| (to, packet)));
    }

    /// The next packet to be sent.
    pub fn poll_transmit(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// A packet that returned to its sender; whether it was delivered is not known.
    pub fn poll_returned(&mut self) -> Option<(u32, Vec<u8>)> {
        self.returned.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn next_timeout(&self) -> Instant {
        self.rows.iter().flat_map(|r| &r.senders).filter_map(|s| s.bound.as_ref()).map(|b| b.at).fold(Instant::NEVER, Instant::min)
    }

    /// Sends again what is due, or returns it.
    pub fn handle_timeout(&mut self, now: Instant) {
        for to in 0..self.rows.len() {
            for channel in 0..self.rows[to].senders.len() {
                let s = &mut self.rows[to].senders[channel];
                let Some(b) = s.bound.as_ref().filter(|b| b.at <= now) else { continue };
                if b.tries < self.config.tries_max {
                    self.statistics.again += 1;
                    self.transmit(now, to as u32, channel);
                } else if let Some(b) = s.bound.take() {
                    // Unbound: the receiver may have taken it or not, and old copies may be under
                    // way. A new generation makes both the same.
                    s.generation = s.generation.wrapping_add(1);
                    self.statistics.returned += 1;
                    self.returned.push_back((to as u32, b.payload));
                }
            }
        }
    }

    /// A packet of another NIC. `take` is given what is new, and says whether there is room.
    pub fn handle_packet(&mut self, from: u32, packet: &[u8], take: impl FnOnce(&[u8]) -> bool) {
        let Some((&[kind, channel, g0, g1, n0, n1, s0, s1], payload)) = packet.split_first_chunk::<HEADER_BYTES>() else { return };
        let (generation, number, stamp) = (u16::from_le_bytes([g0, g1]), u16::from_le_bytes([n0, n1]), u16::from_le_bytes([s0, s1]));
        if from as usize >= self.rows.len() {
            return;
        }
        match kind {
            DATA => {
                let payload = match payload.split_first_chunk::<8>() {
                    _ if !self.config.build.protection => payload,
                    Some((tag, payload)) if u64::from_le_bytes(*tag) == self.config.tag => payload,
                    _ => return self.statistics.foreign += 1,
                };
                if self.config.build.reliability {
                    self.take_in(from, usize::from(channel), (generation, number, stamp), payload, take);
                } else {
                    take(payload);
                }
            }
            ACK | NACK if payload.is_empty() => self.answered(from, usize::from(channel), (generation, number, stamp), kind == ACK),
            _ => {}
        }
    }

    fn take_in(&mut self, from: u32, channel: usize, (generation, number, stamp): (u16, u16, u16), payload: &[u8], take: impl FnOnce(&[u8]) -> bool) {
        let r = &mut self.rows[from as usize].receivers[channel];
        let is_new = match (r.taken, self.config.numbers) {
            (None, _) => true,
            (Some((g, _)), _) if g != generation => is_after(generation, g),
            (Some((_, n)), Numbers::Bit) => n != number,
            (Some((_, n)), Numbers::Word) => is_after(number, n),
        };
        let kind = match is_new {
            true if take(payload) => {
                r.taken = Some((generation, number));
                ACK
            }
            true => NACK,
            false if r.taken == Some((generation, number)) => {
                self.statistics.duplicates += 1;
                ACK
            }
            // Older than what was taken: its sender no longer waits for an answer.
            false => return self.statistics.stale += 1,
        };
        self.statistics.answers += 1;
        self.out.push_back((from, header(kind, channel, generation, number, stamp).to_vec()));
    }

    fn answered(&mut self, from: u32, channel: usize, (generation, number, stamp): (u16, u16, u16), accepted: bool) {
        let Some(s) = self.rows[from as usize].senders.get_mut(channel) else { return };
        let is_ours = s.generation == generation && s.number == number;
        let Some(b) = s.bound.as_ref().filter(|_| is_ours) else { return self.statistics.stale += 1 };
        if accepted {
            s.bound = None;
        } else if b.stamp() != stamp {
            self.statistics.stale += 1;
        }
        // A refused packet goes again by its timer, whose time is that of the back-off.
    }
}
