// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of NICs, by data interrupts: making links, and mapping memory. And the content of
//! a door, the segment of an address that is waited at.
//!
//! Both come from other processes: each field is checked by its user.

use super::layout::VERSION;

/// The id of a NIC, drawn at random.
pub(super) type NicId = u128;

/// A NIC's end of a link to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub id: NicId,
    pub node: u32,
    /// Its data interrupt for these messages.
    pub control: u32,
    /// Its interrupt that wakes it; 0: words in memory do.
    pub bell: u32,
    /// The segment that the peer is to write.
    pub segment: u32,
    /// It is reached by barriers of this host, so that the peer's stores need none.
    pub barriers: bool,
    /// It would have peers map memory.
    pub mapped: bool,
}

/// A message. `to` is the id of the segment of the link that it is about, of the receiver's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Asks for a link at a door.
    Knock { key: u128, request: u64, offer: Offer },
    /// The link is there.
    Accept { request: u64, offer: Offer },
    /// Nobody waits at that door (any more), or there is no room.
    Refuse { request: u64, busy: bool },
    /// Asks to map an allocation.
    Want { to: u32, segment: u32, write: bool },
    /// The segment of an allocation; 0: it may not be mapped.
    Give { to: u32, segment: u32, id: u32, write: bool },
    /// An allocation is freed.
    Gone { to: u32, segment: u32 },
}

/// Bytes of every message.
pub(super) const BYTES: usize = 80;

struct Writer {
    bytes: [u8; BYTES],
    at: usize,
}

impl Writer {
    fn put(mut self, part: &[u8]) -> Self {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
        self
    }

    fn word(self, word: u32) -> Self {
        self.put(&word.to_le_bytes())
    }

    fn offer(self, o: &Offer) -> Self {
        self.put(&o.id.to_le_bytes()).word(o.node).word(o.control).word(o.bell).word(o.segment).word(u32::from(o.barriers) | u32::from(o.mapped) << 1)
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn offer(&mut self) -> Option<Offer> {
        let id = u128::from_le_bytes(self.take()?);
        let (node, control, bell, segment, flags) = (self.word()?, self.word()?, self.word()?, self.word()?, self.word()?);
        Some(Offer { id, node, control, bell, segment, barriers: flags & 1 != 0, mapped: flags & 2 != 0 })
    }
}

impl Message {
    pub fn store(&self) -> [u8; BYTES] {
        let w = Writer { bytes: [0; BYTES], at: 0 }.word(VERSION);
        let w = match self {
            Self::Knock { key, request, offer } => w.word(1).put(&request.to_le_bytes()).offer(offer).put(&key.to_le_bytes()),
            Self::Accept { request, offer } => w.word(2).put(&request.to_le_bytes()).offer(offer),
            Self::Refuse { request, busy } => w.word(3).put(&request.to_le_bytes()).word(u32::from(*busy)),
            Self::Want { to, segment, write } => w.word(4).word(*to).word(*segment).word(u32::from(*write)),
            Self::Give { to, segment, id, write } => w.word(5).word(*to).word(*segment).word(u32::from(*write)).word(*id),
            Self::Gone { to, segment } => w.word(6).word(*to).word(*segment),
        };
        w.bytes
    }

    /// `None`: no message of this version.
    pub fn load(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if bytes.len() != BYTES || r.word()? != VERSION {
            return None;
        }
        Some(match r.word()? {
            1 => {
                let (request, offer) = (r.long()?, r.offer()?);
                Self::Knock { key: u128::from_le_bytes(r.take()?), request, offer }
            }
            2 => Self::Accept { request: r.long()?, offer: r.offer()? },
            3 => Self::Refuse { request: r.long()?, busy: r.word()? != 0 },
            4 => Self::Want { to: r.word()?, segment: r.word()?, write: r.word()? != 0 },
            5 => {
                let (to, segment, write) = (r.word()?, r.word()?, r.word()? != 0);
                Self::Give { to, segment, write, id: r.word()? }
            }
            6 => Self::Gone { to: r.word()?, segment: r.word()? },
            _ => return None,
        })
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"BellDoor");
/// Bytes of a door.
pub(super) const DOOR_BYTES: usize = 64;

/// What a door says of the NIC that waits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    /// The address, hashed: doors are named by 31 bits of it alone.
    pub key: u128,
    pub id: NicId,
    /// Its data interrupt.
    pub control: u32,
    /// A segment that it has as long as it is there.
    pub hub: u32,
}

impl Door {
    pub fn store(&self) -> [u8; DOOR_BYTES] {
        let mut bytes = [0; DOOR_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.control.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.key.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.id.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.hub.to_le_bytes());
        bytes
    }

    /// `None`: a segment of somebody else's, or not written yet.
    pub fn load(bytes: &[u8; DOOR_BYTES]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.long()? != MAGIC || r.word()? != VERSION {
            return None;
        }
        let control = r.word()?;
        Some(Self { control, key: u128::from_le_bytes(r.take()?), id: u128::from_le_bytes(r.take()?), hub: r.word()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let offer = Offer { id: 7 << 100, node: 3, control: 4, bell: 5, segment: 6, barriers: true, mapped: false };
        for m in [
            Message::Knock { key: 9 << 90, request: 8, offer },
            Message::Accept { request: 8, offer },
            Message::Refuse { request: 8, busy: true },
            Message::Want { to: 1, segment: 2, write: true },
            Message::Give { to: 1, segment: 2, id: 3, write: false },
            Message::Gone { to: 1, segment: 2 },
        ] {
            assert_eq!(Message::load(&m.store()), Some(m));
            assert_eq!(Message::load(&m.store()[1..]), None);
        }
        let door = Door { key: 1 << 127, id: 2, control: 3, hub: 4 };
        assert_eq!(Door::load(&door.store()), Some(door));
        assert_eq!(Door::load(&[0; DOOR_BYTES]), None);
        let mut other = Message::Gone { to: 1, segment: 2 }.store();
        other[0] ^= 1;
        assert_eq!(Message::load(&other), None, "another version");
    }
}
