// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between hosts. Each is a head of five words; only a data interrupt and stored bytes
//! have more, and the immediate data of a write, which is a fence, has four bytes. A peer may write
//! anything, so each is checked.
//!
//! ```text
//! word 0: kind (low half), value   word 1: messages of the peer that are handled   2..4: words
//! ```

use crate::message::DATA_MAX;

/// What both ends state when they connect: the version of these messages.
pub(crate) const VERSION: u64 = 0x7369_7363_6900_0003;
/// Messages of one peer that wait in the inbox: a peer that keeps the rules has fewer.
pub(crate) const LIMIT: u32 = 1024;
/// Words of a head.
pub(crate) const WORDS: usize = 5;
/// Bytes of immediate data.
const FENCE_BYTES: usize = 4;
/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = WORDS * 8;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Owner: whether the user is let in (value: 0 or an error code); size, address and memory
    /// handle of a segment.
    Answer = 1,
    /// Owner: the user is asked to leave.
    Unavailable = 2,
    /// Owner: nothing but the count.
    Count = 3,
    /// User: it has the segment mapped (value 1), or no longer (0).
    Mapped = 4,
    /// User: the owner is to count it as handled; all RDMA writes before it have arrived then.
    Fence = 5,
    /// User: an interrupt.
    Trigger = 6,
    /// User: a data interrupt.
    Data = 7,
    /// User: it leaves, and all that it has said has come. The owner ends the connection.
    Bye = 8,
    /// User: the flag of an interrupt is triggered; its offset.
    Flag = 9,
    /// User: bytes to store, which interrupt; their offset.
    Store = 10,
}

const KINDS: [Kind; 10] =
    [Kind::Answer, Kind::Unavailable, Kind::Count, Kind::Mapped, Kind::Fence, Kind::Trigger, Kind::Data, Kind::Bye, Kind::Flag, Kind::Store];

/// A message but for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub value: u32,
    pub handled: u32,
    pub words: [u64; 3],
}

impl Head {
    pub fn of(kind: Kind) -> Self {
        Self { kind, value: 0, handled: 0, words: [0; 3] }
    }

    /// Whether a user sends it; then it needs a credit, and is counted when it is handled.
    pub fn is_of_user(&self) -> bool {
        self.kind as u32 >= Kind::Mapped as u32
    }

    pub fn bytes(&self) -> [u8; HEAD_BYTES] {
        let [a, b, c] = self.words;
        let words = [u64::from(self.kind as u32) | u64::from(self.value) << 32, u64::from(self.handled), a, b, c];
        let mut bytes = [0; HEAD_BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From the first words of a message of so many bytes, as they lie in memory.
    pub fn parse(words: &[u64], length: usize) -> Option<Self> {
        if length == FENCE_BYTES {
            return Some(Self::of(Kind::Fence));
        }
        let [first, handled, rest @ ..] = words.first_chunk::<WORDS>()?.map(u64::from_le);
        let kind = *KINDS.get((first as u32).checked_sub(1)? as usize)?;
        let fits = match kind {
            Kind::Data | Kind::Store => (HEAD_BYTES + 1..=HEAD_BYTES + DATA_MAX).contains(&length),
            _ => length == HEAD_BYTES,
        };
        fits.then_some(Self { kind, value: (first >> 32) as u32, handled: u32::try_from(handled).ok()?, words: rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8; HEAD_BYTES]) -> Vec<u64> {
        bytes.chunks_exact(8).map(|part| u64::from_ne_bytes(part.try_into().unwrap())).collect()
    }

    #[test]
    fn there_and_back_and_nonsense() {
        for kind in KINDS {
            let head = Head { value: 77, handled: u32::MAX, words: [1, u64::MAX, 3], ..Head::of(kind) };
            let more = usize::from(matches!(kind, Kind::Data | Kind::Store));
            assert_eq!(Head::parse(&words(&head.bytes()), HEAD_BYTES + more), Some(head));
            for length in [0, HEAD_BYTES - 1, HEAD_BYTES + 1 - more, HEAD_BYTES + DATA_MAX + 1] {
                assert_eq!(Head::parse(&words(&head.bytes()), length), None, "{kind:?} {length}");
            }
        }
        let good = words(&Head::of(Kind::Fence).bytes());
        for (at, word) in [(0, 0), (0, 11), (0, u64::MAX), (1, 1 << 32)] {
            let mut bad = good.clone();
            bad[at] = word;
            assert_eq!(Head::parse(&bad, HEAD_BYTES), None);
        }
        assert_eq!(Head::parse(&good[..4], HEAD_BYTES), None);
    }
}
