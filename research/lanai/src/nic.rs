// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated NIC in virtual time: a processor whose firmware does one thing after the other.
//!
//! ```text
//!   again and again: look at each active VI in turn: at its receives, then at its sends; do its
//!                    oldest send, if it has one;
//!                    an emulated doorbell: look at its word after each, and take its token;
//!                    take one packet off the network
//! ```
//!
//! A send reads its descriptor and its data by DMA; then the packet leaves; then its status goes to
//! the host's memory, and an entry into the completion queue. A receive fetches its descriptor,
//! writes the data and the status, then the entry.
//!
//! Invariant N1: descriptors and buffers are readable, and those of receives writable, from the
//! post until the completion: the promise of those who post.

use crate::costs::{Costs, Doorbell, Queue};
use bellwire_vipl_abi::Descriptor;
use std::collections::VecDeque;

/// Nanoseconds of virtual time.
pub type Time = u64;

/// Idle firmware without a VI looks again after this.
const IDLE: Time = 1_000;
/// Bytes of the least message, as of the paper's Table 1.
pub const LEAST_BYTES: usize = 4;
/// A look at a VI takes so long at least, so that an idle NIC's virtual time goes on.
pub const POLL_MIN: Time = 50;

/// A posted descriptor, by its address, and when the NIC could know of it.
#[derive(Debug, Clone, Copy)]
pub struct Posted {
    /// The descriptor.
    pub address: usize,
    /// From this time on it is in the NIC's queue.
    pub at: Time,
}

/// A completed descriptor: when the host can see that, and whether it went well.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// The descriptor.
    pub address: usize,
    /// From this time on its status is in memory.
    pub at: Time,
    /// Whether it went well.
    pub is_well: bool,
}

/// A VI.
#[derive(Debug, Default)]
pub struct Vi {
    /// The VI at the other NIC.
    pub peer: Option<usize>,
    /// What its owner offers to the peer.
    pub offer: usize,
    /// Its connection has ended.
    pub has_ended: bool,
    /// The completion queues of sends and of receives.
    pub queues: [Option<usize>; 2],
    /// Posted descriptors: sends, then receives.
    pub posted: [VecDeque<Posted>; 2],
    /// Completed descriptors: sends, then receives.
    pub done: [VecDeque<Done>; 2],
}

/// A packet on its way to a VI.
#[derive(Debug)]
pub struct Packet {
    /// When its last byte is there.
    pub at: Time,
    /// The VI.
    pub vi: usize,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// A token in the word of an emulated doorbell.
#[derive(Debug, Clone, Copy)]
struct Token {
    vi: usize,
    is_receive: bool,
    posted: Posted,
}

/// What a NIC has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent, and received.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
    /// Messages without a receive, which ended their connection.
    pub refused: u64,
}

/// A NIC.
#[derive(Debug, Default)]
pub struct Nic {
    /// Its firmware has done all until here.
    pub at: Time,
    /// VIs, by number.
    pub vis: Vec<Vi>,
    /// Completion queues: the VI, and from when on the host can see that.
    pub queues: Vec<VecDeque<(Time, usize)>>,
    /// Packets from the network.
    pub arrivals: VecDeque<Packet>,
    /// What it has counted.
    pub counts: Counts,
    /// Which VI is looked at, and whether its receives have been.
    turn: usize,
    has_looked: bool,
    token: Option<Token>,
    /// When the word of the doorbell has become free.
    free: Time,
}

fn read(posted: Posted) -> Descriptor {
    // SAFETY: N1.
    unsafe { std::ptr::with_exposed_provenance::<Descriptor>(posted.address).read() }
}

impl Nic {
    /// All is as if nothing had been sent yet; nothing is on its way.
    pub fn restart(&mut self) {
        (self.at, self.turn, self.has_looked, self.token, self.free, self.counts) = (0, 0, false, None, 0, Counts::default());
        self.vis.iter_mut().flat_map(|vi| &mut vi.posted).flatten().for_each(|posted| posted.at = 0);
    }

    /// Whether nothing waits but receives.
    pub fn is_quiet(&self) -> bool {
        let vis = self.vis.iter().all(|vi| vi.posted[0].is_empty() && vi.done.iter().all(VecDeque::is_empty));
        vis && self.arrivals.is_empty() && self.token.is_none() && self.queues.iter().all(VecDeque::is_empty)
    }

    /// Whether a token can be written at this time.
    pub fn is_free(&self, costs: &Costs, now: Time) -> bool {
        costs.doorbell == Doorbell::Direct || (self.token.is_none() && self.free <= now)
    }

    /// The host has written a token.
    pub fn ring(&mut self, costs: &Costs, vi: usize, is_receive: bool, posted: Posted) {
        match costs.doorbell {
            Doorbell::Direct => self.vis[vi].posted[usize::from(is_receive)].push_back(posted),
            Doorbell::Emulated => self.token = Some(Token { vi, is_receive, posted }),
        }
    }

    /// Does the next thing. A packet that leaves is for the other NIC.
    pub fn step(&mut self, costs: &Costs) -> Option<Packet> {
        if let Some(token) = self.token.filter(|token| token.posted.at <= self.at) {
            self.at += costs.nic.take;
            (self.token, self.free) = (None, self.at);
            self.vis[token.vi].posted[usize::from(token.is_receive)].push_back(Posted { at: self.at, ..token.posted });
            return None;
        }
        let is_active = |vi: &Vi| vi.peer.is_some() && !vi.has_ended;
        if let Some(vi) = (self.turn..self.vis.len()).find(|vi| is_active(&self.vis[*vi])) {
            let start = self.at;
            self.at += costs.nic.poll.max(POLL_MIN) / 2;
            self.has_looked = !self.has_looked;
            if self.has_looked {
                return None;
            }
            self.turn = vi + 1;
            let is_due = self.vis[vi].posted[0].front().is_some_and(|posted| posted.at <= start);
            return if is_due { self.send(costs, vi) } else { None };
        }
        if self.turn == 0 {
            self.at += IDLE;
        }
        self.turn = 0;
        if self.arrivals.front().is_some_and(|packet| packet.at <= self.at)
            && let Some(packet) = self.arrivals.pop_front()
        {
            self.receive(costs, &packet);
        }
        None
    }

    fn send(&mut self, costs: &Costs, vi: usize) -> Option<Packet> {
        let (peer, posted) = (self.vis[vi].peer?, self.vis[vi].posted[0].pop_front()?);
        let bytes = gathered(&read(posted));
        self.at += work(costs, bytes.len());
        let packet = Packet { at: self.at, vi: peer, bytes };
        self.counts.sent += 1;
        self.complete(costs, vi, false, posted.address, true);
        Some(packet)
    }

    fn receive(&mut self, costs: &Costs, packet: &Packet) {
        let is_well = self.vis[packet.vi].posted[1].front().is_some_and(|posted| posted.at <= self.at && room(&read(*posted)) >= packet.bytes.len());
        self.at += work(costs, packet.bytes.len());
        let Some(posted) = self.vis[packet.vi].posted[1].pop_front().filter(|_| is_well) else {
            self.counts.refused += 1;
            self.vis[packet.vi].has_ended = true;
            return;
        };
        scatter(posted, &packet.bytes);
        self.counts.received += 1;
        self.complete(costs, packet.vi, true, posted.address, true);
    }

    /// Completes a descriptor before time runs.
    pub fn finish(&mut self, vi: usize, is_receive: bool, address: usize) {
        let of = &mut self.vis[vi];
        of.done[usize::from(is_receive)].push_back(Done { address, at: 0, is_well: true });
        if let Some(queue) = of.queues[usize::from(is_receive)] {
            self.queues[queue].push_back((0, vi));
        }
    }

    /// The status is written, then the completion queue.
    fn complete(&mut self, costs: &Costs, vi: usize, is_receive: bool, address: usize, is_well: bool) {
        self.at += costs.nic.dma;
        let of = &mut self.vis[vi];
        of.done[usize::from(is_receive)].push_back(Done { address, at: self.at, is_well });
        if let Some(queue) = of.queues[usize::from(is_receive)] {
            if costs.queue == Queue::Host {
                self.at += costs.nic.dma;
            }
            self.queues[queue].push_back((self.at, vi));
        }
    }
}

/// The least time from a send's first step to its packet's arrival: as far one side may be ahead of
/// the other.
pub fn ahead(costs: &Costs) -> Time {
    work(costs, 0)
}

/// The time of a send until the packet leaves, or of a receive until the data is in memory:
/// descriptor and data by DMA.
fn work(costs: &Costs, bytes: usize) -> Time {
    2 * costs.nic.dma + costs.nic.firmware + if bytes > LEAST_BYTES { costs.nic.data } else { 0 }
}

fn room(descriptor: &Descriptor) -> usize {
    descriptor.segments.iter().take(usize::from(descriptor.segment_count)).map(|segment| segment.length as usize).sum()
}

/// The bytes that a send's segments name.
pub fn gathered(descriptor: &Descriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in descriptor.segments.iter().take(usize::from(descriptor.segment_count)) {
        // SAFETY: N1: registered memory, as the post has checked.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(segment.address as usize), segment.length as usize) });
    }
    bytes
}

/// Writes a message into what a receive names, and its length into the descriptor.
pub fn scatter(posted: Posted, bytes: &[u8]) {
    let (descriptor, mut rest) = (read(posted), bytes);
    for segment in descriptor.segments.iter().take(usize::from(descriptor.segment_count)) {
        let (first, behind) = rest.split_at(rest.len().min(segment.length as usize));
        // SAFETY: N1: registered memory, as the post has checked, of at least so many bytes.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(segment.address as usize).copy_from_nonoverlapping(first.as_ptr(), first.len()) };
        rest = behind;
    }
    // SAFETY: N1.
    unsafe { (*std::ptr::with_exposed_provenance_mut::<Descriptor>(posted.address)).length = bytes.len() as u32 };
}
