// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: three little-endian words, then bulk data.
//!
//! ```text
//!  word 0    kind 8 | what 16, from bit 16 | bytes 32
//!  word 1    address
//!  word 2    a word: the bytes of a Put or Store, or what the kind says
//!
//!  Get       a word is asked for             answered by Got, in whose word it is
//!  GetBulk   bytes are asked for             answered by GotBulk, with the bytes behind
//!  Put       a word                          answered by Done
//!  PutBulk   bytes behind                    answered by Done
//!  Store     a word                          an Ack answers several
//!  StoreBulk bytes behind                    an Ack answers several
//!  Flush     asks for the acknowledgement of the stores before it    answered by Done
//!  Done      word: stores that it acknowledges
//!  Ack       word: stores that it acknowledges
//!  Refused   what: why and of which access   a Get, Put or Store that cannot be
//! ```

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 24;
const WORDS: usize = HEAD_BYTES / 8;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Get = 1,
    GetBulk,
    Put,
    PutBulk,
    Store,
    StoreBulk,
    Flush,
    Got,
    GotBulk,
    Done,
    Ack,
    Refused,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Get,
            2 => Self::GetBulk,
            3 => Self::Put,
            4 => Self::PutBulk,
            5 => Self::Store,
            6 => Self::StoreBulk,
            7 => Self::Flush,
            8 => Self::Got,
            9 => Self::GotBulk,
            10 => Self::Done,
            11 => Self::Ack,
            12 => Self::Refused,
            _ => return None,
        })
    }

    /// Whether it asks for something; else it answers.
    pub(crate) const fn is_request(self) -> bool {
        (self as u8) < Self::Got as u8
    }

    /// Whether bytes follow the head.
    const fn has_data(self) -> bool {
        matches!(self, Self::PutBulk | Self::StoreBulk | Self::GotBulk)
    }

    /// Whether `bytes` are those of a word.
    const fn is_word(self) -> bool {
        matches!(self, Self::Get | Self::Put | Self::Store | Self::Got)
    }
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub what: u16,
    pub bytes: u32,
    pub address: u64,
    pub word: u64,
}

impl Head {
    pub(crate) const fn new(kind: Kind, bytes: usize, address: u64, word: u64) -> Self {
        Self { kind, what: 0, bytes: bytes as u32, address, word }
    }

    #[inline]
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let first = self.kind as u64 | u64::from(self.what) << 16 | u64::from(self.bytes) << 32;
        [first.to_le(), self.address.to_le(), self.word.to_le()]
    }

    /// Out of a message of `length` bytes, whose first words a peer made up. `None`: it cannot be.
    #[inline]
    pub(crate) fn parse(words: [u64; WORDS], length: usize) -> Option<Self> {
        let [first, address, word] = words.map(u64::from_le);
        let kind = Kind::from_bits(first as u8)?;
        let head = Self { kind, what: (first >> 16) as u16, bytes: (first >> 32) as u32, address, word };
        let data = length.checked_sub(HEAD_BYTES)?;
        let is_long = if kind.has_data() { data == head.bytes as usize } else { data == 0 };
        let is_word = !kind.is_word() || head.bytes <= 8;
        (is_long && is_word && (first >> 8) as u8 == 0).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_as_words_and_others_are_refused() {
        for bits in 1..=12 {
            let kind = Kind::from_bits(bits).unwrap();
            let bytes = if kind.is_word() { 8 } else { 70 };
            let head = Head { what: 0x201, ..Head::new(kind, bytes, 1 << 60 | 9, 7 << 50) };
            let length = HEAD_BYTES + if kind.has_data() { bytes } else { 0 };
            assert_eq!(Head::parse(head.to_words(), length), Some(head));
            assert_eq!(Head::parse(head.to_words(), length + 1), None);
            assert_eq!(Head::parse(head.to_words(), length - 1), None);
        }
        assert_eq!(Head::parse([0, 0, 0], HEAD_BYTES), None);
        assert_eq!(Head::parse([13, 0, 0], HEAD_BYTES), None);
        assert_eq!(Head::parse([Head::new(Kind::Get, 9, 0, 0).to_words()[0], 0, 0], HEAD_BYTES), None);
        assert_eq!(Head::parse([1 | 1 << 8, 0, 0], HEAD_BYTES), None);
    }
}
