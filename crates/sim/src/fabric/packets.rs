// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets in the fabric, in slots that are used again, with their buffers: in steady state
//! nothing is allocated.

use super::hash;
use core::net::SocketAddr;

/// Buffers kept for use again.
const BUFFERS_MAX: usize = 4096;
/// A buffer that has grown larger is not kept.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A packet under way.
#[derive(Debug)]
pub(super) struct Packet {
    pub bytes: Vec<u8>,
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Node that it comes from, and node that it goes to.
    pub source: u32,
    pub target: u32,
    /// Where its way goes on, and where that ends, in the fabric's list of ways.
    pub next: u32,
    pub end: u32,
    /// Of its bytes.
    pub hash: u64,
    /// Bits that are not what they were when it was sent: a second stroke may mend what the first
    /// did.
    pub damage: Vec<u64>,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(super) struct Packets {
    slots: Vec<Option<Packet>>,
    free: Vec<u32>,
    buffers: Vec<Vec<u8>>,
}

impl Packets {
    pub fn add(&mut self, packet: Packet) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(packet);
                id
            }
            None => {
                self.slots.push(Some(packet));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub fn get(&self, id: u32) -> &Packet {
        self.slots[id as usize].as_ref().expect("a packet that is queued exists")
    }

    pub fn get_mut(&mut self, id: u32) -> &mut Packet {
        self.slots[id as usize].as_mut().expect("a packet that is queued exists")
    }

    pub fn bytes(&self, id: u32) -> u64 {
        self.get(id).bytes.len() as u64
    }

    pub fn take(&mut self, id: u32) -> Packet {
        let packet = self.slots[id as usize].take().expect("a packet that is queued exists");
        self.free.push(id);
        packet
    }

    /// Another packet like this one.
    pub fn copy(&mut self, id: u32) -> u32 {
        let mut bytes = self.buffer();
        let Packet { bytes: original, from, to, source, target, next, end, hash, damage } = self.get(id);
        bytes.extend_from_slice(original);
        let packet = Packet { bytes, from: *from, to: *to, source: *source, target: *target, next: *next, end: *end, hash: *hash, damage: damage.clone() };
        self.add(packet)
    }

    pub fn corrupt(&mut self, id: u32, corruption: bellwire_faults::Corruption) {
        let packet = self.get_mut(id);
        for bit in corruption.places(packet.bytes.len()) {
            match packet.damage.iter().position(|b| *b == bit) {
                Some(at) => {
                    packet.damage.swap_remove(at);
                }
                None => packet.damage.push(bit),
            }
        }
        corruption.strike(&mut packet.bytes);
        packet.hash = hash::fold(packet.hash, corruption.seed ^ u64::from(corruption.bits));
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX && bytes.capacity() <= BUFFER_BYTES_MAX {
            bytes.clear();
            self.buffers.push(bytes);
        }
    }

    /// Packets that are there, under way and waiting at ports.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
