// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: little-endian words, then a payload.
//!
//! ```text
//!  word 0   kind 8 | flags 8 | what 16 | messages taken of the other direction 32
//!  Get      address, bytes                                   answered by Data
//!  Put      address                                          payload: the bytes
//!  Store    address                                          payload: the bytes, which are counted there
//!  Atomic   address, operand, expected    what: operation    answered by Data
//!  Probe    address, bytes                                   answered by Data, a word: 0, or why not
//!  Round    call, round                   what: last part    payload: a part of what a collective call carries
//!  Flush                                                     asks for word 0 of an answer, no more
//!  Leave    status, collective calls made                    its sender leaves the job
//!  Call     address, function, argument                      answered by Data, its result
//!  Pack                                                      payload: several short Gets, Puts and Stores (`pack.rs`)
//!  Data                                                      payload: what the oldest Gets, Atomics or Probes have asked for, one or several of them
//!  Refused  address, bytes                what: of what, why  a Get, Put, Store or Atomic that cannot be
//!  Taken                                                     word 0 is all that it says
//! ```
//! Those before Data need a credit; the others are bounded by what has been asked for.

/// Words of the longest head.
pub(super) const HEAD_WORDS_MAX: usize = 4;
/// Bytes of the head of a message that carries bytes to an address.
pub(super) const BULK_HEAD_BYTES: usize = 16;
/// The sender waits until this is taken: to be said at once.
pub(super) const TELL: u8 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Get = 1,
    Put,
    Store,
    Atomic,
    Probe,
    Round,
    Flush,
    Leave,
    Call,
    Pack,
    Data,
    Refused,
    Taken,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Get,
            2 => Self::Put,
            3 => Self::Store,
            4 => Self::Atomic,
            5 => Self::Probe,
            6 => Self::Round,
            7 => Self::Flush,
            8 => Self::Leave,
            9 => Self::Call,
            10 => Self::Pack,
            11 => Self::Data,
            12 => Self::Refused,
            13 => Self::Taken,
            _ => return None,
        })
    }

    /// Words of its head, the first included.
    const fn words(self) -> usize {
        match self {
            Self::Flush | Self::Pack | Self::Data | Self::Taken => 1,
            Self::Put | Self::Store => 2,
            Self::Get | Self::Probe | Self::Round | Self::Leave | Self::Refused => 3,
            Self::Atomic | Self::Call => 4,
        }
    }

    /// Whether bytes may follow the head.
    const fn has_payload(self) -> bool {
        matches!(self, Self::Put | Self::Store | Self::Round | Self::Pack | Self::Data)
    }

    /// Whether it is one of those that the other side counts.
    pub(super) const fn needs_credit(self) -> bool {
        !matches!(self, Self::Data | Self::Refused | Self::Taken)
    }
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: Kind,
    pub flags: u8,
    pub what: u16,
    /// The words after the first.
    pub words: [u64; HEAD_WORDS_MAX - 1],
}

impl Head {
    pub(super) const fn new(kind: Kind, words: [u64; HEAD_WORDS_MAX - 1]) -> Self {
        Self { kind, flags: 0, what: 0, words }
    }

    /// Bytes.
    pub(super) const fn len(&self) -> usize {
        8 * self.kind.words()
    }

    /// As words, as they travel, saying that so many messages are taken.
    #[inline]
    pub(super) fn store(&self, taken: u32) -> [u64; HEAD_WORDS_MAX] {
        let first = self.kind as u64 | u64::from(self.flags) << 8 | u64::from(self.what) << 16 | u64::from(taken) << 32;
        [first.to_le(), self.words[0].to_le(), self.words[1].to_le(), self.words[2].to_le()]
    }

    /// From the first words of a message of `length` bytes: the head, how many messages its sender
    /// has taken, and bytes of the payload behind [`len`](Self::len). `None`: the message is not
    /// valid.
    #[inline]
    pub(super) fn parse(words: &[u64], length: usize) -> Option<(Self, u32, usize)> {
        let first = u64::from_le(*words.first()?);
        let kind = Kind::from_bits(first as u8)?;
        let mut head = Self { kind, flags: (first >> 8) as u8, what: (first >> 16) as u16, words: [0; HEAD_WORDS_MAX - 1] };
        let payload = length.checked_sub(head.len())?;
        if head.flags & !TELL != 0 || words.len() < kind.words() || (payload != 0 && !kind.has_payload()) {
            return None;
        }
        for (to, from) in head.words.iter_mut().zip(&words[1..kind.words()]) {
            *to = u64::from_le(*from);
        }
        Some((head, (first >> 32) as u32, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_survive_as_words(kind in 1u8..=13, flags in 0u8..=TELL, what: u16, words: [u64; 3], taken: u32, payload in 0usize..100) {
            let kind = Kind::from_bits(kind).unwrap();
            let mut head = Head { kind, flags, what, words };
            let stored = head.store(taken);
            head.words[kind.words() - 1..].fill(0);
            let payload = if kind.has_payload() { payload } else { 0 };
            prop_assert_eq!(Head::parse(&stored, head.len() + payload), Some((head, taken, payload)));
            prop_assert_eq!(Head::parse(&stored[..kind.words() - 1], head.len() + payload), None);
            prop_assert_eq!(Head::parse(&stored, head.len() - 1), None);
        }

        #[test]
        fn anything_is_parsed_or_refused(words in proptest::collection::vec(any::<u64>(), 0..5), length in 0usize..60) {
            if let Some((head, _, payload)) = Head::parse(&words, length) {
                prop_assert_eq!(head.len() + payload, length);
            }
        }
    }
}
