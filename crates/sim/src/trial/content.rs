// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages describe themselves, so that a receiver can tell whether it should have got one.

use crate::memory::Memory;
use bellwire_faults::Random;

/// Bytes of the words at a message's beginning.
pub(super) const HEADER: usize = 48;
/// Memory that nobody has written.
pub(super) const BLANK: u8 = 0xee;
/// Marks the content of RDMA writes.
pub(super) const WRITE: u64 = 1 << 62;
/// Marks what reads find.
pub(super) const LIBRARY: u64 = 1 << 63;

/// The beginning of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub channel: u32,
    pub side: u32,
    /// Of the sender.
    pub connection: u64,
    pub number: u64,
    pub length: u64,
    /// Slot and bytes of the RDMA write before it.
    pub written: Option<(usize, usize)>,
}

/// Byte `at` of what has this key and number.
pub(super) struct Pattern([u8; 8]);

impl Pattern {
    pub fn new(key: u64, number: u64) -> Self {
        Self(Random::mix(key, number).to_le_bytes())
    }

    pub fn byte(&self, at: usize) -> u8 {
        self.0[at & 7].wrapping_add((at >> 3) as u8)
    }

    pub fn put(&self, memory: &Memory, at: usize, from: usize, to: usize) {
        (from..to).for_each(|i| memory.set_byte(at + i, self.byte(i)));
    }

    /// The first byte that is another one.
    pub fn differs(&self, memory: &Memory, at: usize, from: usize, to: usize) -> Option<usize> {
        (from..to).find(|i| memory.byte(at + i) != self.byte(*i))
    }
}

impl Header {
    pub fn put(&self, memory: &Memory, at: usize) {
        let written = self.written.map_or(0, |(slot, bytes)| (slot as u64 + 1) | ((bytes as u64) << 32));
        let words = [u64::from(self.channel) | u64::from(self.side) << 32, self.connection, self.number, self.length, written, !self.connection];
        for (i, word) in words.into_iter().enumerate() {
            memory.write(at + 8 * i, &word.to_le_bytes());
        }
        Pattern::new(self.connection, self.number).put(memory, at, HEADER, self.length as usize);
    }

    /// Reads a message and checks it against itself.
    pub fn check(memory: &Memory, at: usize, length: usize) -> Result<Self, String> {
        if length < HEADER {
            return Err(format!("a message of {length} bytes, which nobody has sent"));
        }
        let word = |i: usize| {
            let mut bytes = [0; 8];
            memory.read(at + 8 * i, &mut bytes);
            u64::from_le_bytes(bytes)
        };
        let written = (word(4) as u32).checked_sub(1).map(|slot| (slot as usize, (word(4) >> 32) as usize));
        let header = Self { channel: word(0) as u32, side: (word(0) >> 32) as u32, connection: word(1), number: word(2), length: word(3), written };
        if word(5) != !header.connection || header.length != length as u64 {
            return Err(format!("a message of {length} bytes whose header is damaged: {header:?}"));
        }
        match Pattern::new(header.connection, header.number).differs(memory, at, HEADER, length) {
            Some(byte) => Err(format!("byte {byte} of {length} is wrong in {header:?}")),
            None => Ok(header),
        }
    }
}
