// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several short requests to one peer in one message: what a message costs on both sides is then
//! shared by all of them.
//!
//! ```text
//!  record   kind 4 | bytes 12 | address 48, then, for a Put or Store, the bytes, filled up to a word
//! ```
//! Long Gets join too, if their length is a multiple of 64: kind 4, and the bytes by 64.
//!
//! No timer: the first request of a burst leaves at once, in a message of its own ([`LONE_MAX`]),
//! later ones join a pack. It leaves when it is full, before any other request to its peer (so
//! requests of a process to a peer keep their order), when the program waits or looks for anything,
//! and else when the NIC's helper thread sends it (`driven.rs`).

use bellwire_memory::bytes;

use super::header::{Head, Kind};

/// Most bytes that a request in a pack carries or asks for.
pub(super) const PACKED_BYTES_MAX: usize = bytes::SMALL_MAX;
/// Bytes of a full pack: more save little, and keep the peer idle longer.
pub(super) const PACK_BYTES_MAX: usize = 1024;
/// Requests that leave at once before later ones join. One: with more packets under way the
/// transport would keep the first pack waiting (P-JOIN-1).
pub(super) const LONE_MAX: u32 = 1;
/// Bytes by which the length of a long Get is told, and its kind.
const LONG_UNIT: usize = 64;
const LONG_GET: u64 = 4;
const ADDRESS_BITS: u32 = 48;
const BYTES_BITS: u32 = 12;
const _: () = assert!(PACKED_BYTES_MAX < 1 << BYTES_BITS);

/// A short request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub kind: Kind,
    pub address: u64,
    pub bytes: usize,
}

impl Record {
    /// Whether it fits a record.
    pub(super) fn is_short(&self) -> bool {
        (self.bytes <= PACKED_BYTES_MAX || self.is_long_get()) && self.address >> ADDRESS_BITS == 0
    }

    /// Whether it is a Get whose length is told by [`LONG_UNIT`].
    fn is_long_get(&self) -> bool {
        self.kind == Kind::Get && self.bytes > PACKED_BYTES_MAX && self.bytes.is_multiple_of(LONG_UNIT) && self.bytes / LONG_UNIT < 1 << BYTES_BITS
    }

    /// As the head of a message of its own.
    pub(super) fn head(&self) -> Head {
        Head::new(self.kind, [self.address, if self.kind == Kind::Get { self.bytes as u64 } else { 0 }, 0])
    }

    /// Bytes that follow it.
    fn payload_bytes(&self) -> usize {
        if self.kind == Kind::Get { 0 } else { self.bytes }
    }

    fn store(&self) -> u64 {
        let (kind, bytes) = if self.is_long_get() { (LONG_GET, self.bytes / LONG_UNIT) } else { (self.kind as u64, self.bytes) };
        kind | (bytes as u64) << 4 | self.address << (4 + BYTES_BITS)
    }

    fn parse(word: u64) -> Option<Self> {
        let (kind, unit) = match word & 15 {
            1 => (Kind::Get, 1),
            2 => (Kind::Put, 1),
            3 => (Kind::Store, 1),
            LONG_GET => (Kind::Get, LONG_UNIT),
            _ => return None,
        };
        Some(Self { kind, address: word >> (4 + BYTES_BITS), bytes: unit * ((word >> 4) as usize & ((1 << BYTES_BITS) - 1)) })
    }
}
const _: () = assert!(4 + BYTES_BITS + ADDRESS_BITS == 64 && Kind::Get as u8 == 1 && Kind::Put as u8 == 2 && Kind::Store as u8 == 3);

/// Requests that wait for company.
#[derive(Debug, Default)]
pub(super) struct Pack(Vec<u64>);

impl Pack {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request fits in.
    pub(super) fn has_room(&self, record: &Record) -> bool {
        8 * self.0.len() + 8 + record.payload_bytes().next_multiple_of(8) <= PACK_BYTES_MAX
    }

    /// Adds a request for which there is room.
    ///
    /// # Safety
    /// `from` is readable for what a Put or Store carries.
    #[inline]
    pub(super) unsafe fn push(&mut self, record: &Record, from: *const u8) {
        debug_assert!(record.is_short() && self.has_room(record));
        self.0.push(record.store().to_le());
        let (n, at) = (record.payload_bytes(), self.0.len());
        self.0.resize(at + n.div_ceil(8), 0);
        // SAFETY: just made; the caller's.
        unsafe { bytes::copy_small(self.0.as_mut_ptr().add(at).cast(), from, n) };
    }

    /// The bytes that travel.
    pub(super) fn payload(&self) -> (*const u8, usize) {
        (self.0.as_ptr().cast(), 8 * self.0.len())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The rest of a pack that a peer has sent, where it lies; the peer may be writing it.
#[derive(Debug)]
pub(super) struct Unpack {
    at: *const u8,
    left: usize,
}

impl Unpack {
    /// # Safety
    /// The payload stays readable for its length while this is used.
    pub(super) unsafe fn new((at, left): (*const u8, usize)) -> Self {
        Self { at, left }
    }
}

impl Iterator for Unpack {
    /// A request, and what it carries. `None`: the bytes are no request, and nothing behind them
    /// has a meaning.
    type Item = Option<(Record, (*const u8, usize))>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        if self.left < 8 {
            return Some(None);
        }
        let mut word = 0u64;
        // SAFETY: `new`: there are as many bytes. Copied once, then checked.
        unsafe { bytes::copy_small((&raw mut word).cast(), self.at, 8) };
        let Some(record) = Record::parse(u64::from_le(word)) else { return Some(None) };
        let n = record.payload_bytes();
        let Some(left) = self.left.checked_sub(8 + n.next_multiple_of(8)) else { return Some(None) };
        let payload = (self.at.wrapping_add(8), n);
        self.at = payload.0.wrapping_add(n.next_multiple_of(8));
        self.left = left;
        Some(Some((record, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let kind = prop_oneof![Just(Kind::Get), Just(Kind::Put), Just(Kind::Store)];
        let record = (kind, 0u64..1 << ADDRESS_BITS, 0..=PACKED_BYTES_MAX, 0..1usize << BYTES_BITS).prop_map(|(kind, address, bytes, units)| {
            // Some Gets are long.
            let bytes = if kind == Kind::Get && units % 2 == 0 { units * LONG_UNIT } else { bytes };
            Record { kind, address, bytes }
        });
        proptest::collection::vec(record, 0..40)
    }

    proptest! {
        #[test]
        fn requests_survive_in_a_pack(records in records()) {
            let mut pack = Pack::default();
            let from: [u8; PACKED_BYTES_MAX] = std::array::from_fn(|i| i as u8 + 1);
            // SAFETY: the array is as long as the longest.
            let packed = records.iter().take_while(|record| pack.has_room(record) && { unsafe { pack.push(record, from.as_ptr()) }; true }).count();
            prop_assert!(pack.payload().1 <= PACK_BYTES_MAX && (packed == records.len() || pack.payload().1 + 8 + PACKED_BYTES_MAX > PACK_BYTES_MAX));
            // SAFETY: the pack outlives it.
            let mut unpack = unsafe { Unpack::new(pack.payload()) };
            for record in &records[..packed] {
                let (found, (at, n)) = unpack.next().unwrap().unwrap();
                prop_assert_eq!(found, *record);
                prop_assert_eq!(n, if record.kind == Kind::Get { 0 } else { record.bytes });
                // SAFETY: within the pack.
                prop_assert_eq!(unsafe { std::slice::from_raw_parts(at, n) }, &from[..n]);
            }
            prop_assert!(unpack.next().is_none());
        }

        #[test]
        fn anything_is_unpacked_or_refused(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            // SAFETY: the vector outlives it.
            let mut unpack = unsafe { Unpack::new((data.as_ptr(), data.len())) };
            while let Some(Some((_, (at, n)))) = unpack.next() {
                prop_assert!(data.as_ptr_range().contains(&at) || n == 0);
                prop_assert!(at.addr() + n <= data.as_ptr_range().end.addr());
            }
        }
    }
}
