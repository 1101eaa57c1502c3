// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: five words, the arguments, then the payload at a multiple of eight.

use bellwire_am::{ARGS_MAX, MEDIUM_BYTES_MAX};

/// Words before the arguments.
pub(crate) const WORDS: usize = 5;
/// Bytes before the payload, at most.
pub(crate) const HEAD_BYTES_MAX: usize = 8 * WORDS + 4 * ARGS_MAX;
/// Bytes of the longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = HEAD_BYTES_MAX + MEDIUM_BYTES_MAX;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Short = 1,
    Medium = 2,
    Xfer = 3,
    Get = 4,
    ReplyShort = 5,
    ReplyMedium = 6,
    /// Also the answer to a get.
    ReplyXfer = 7,
    /// A request is handled and has no reply.
    Handled = 8,
    /// A request is not handled, for the reason in `status`.
    Refused = 9,
    /// The sender's segment: address, bytes, handle.
    Segment = 10,
    /// That has been heard.
    Heard = 11,
    /// v1: a piece of bulk data, of which more follows.
    Piece = 12,
    /// v1: the reply is too long for the VI of its request: its number, bytes, and kind.
    Held = 13,
    /// v1: asks for a part of such a reply: number, first byte, bytes.
    Fetch = 14,
    /// v1: that part.
    Part = 15,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        const ALL: [Kind; 15] = [
            Kind::Short,
            Kind::Medium,
            Kind::Xfer,
            Kind::Get,
            Kind::ReplyShort,
            Kind::ReplyMedium,
            Kind::ReplyXfer,
            Kind::Handled,
            Kind::Refused,
            Kind::Segment,
            Kind::Heard,
            Kind::Piece,
            Kind::Held,
            Kind::Fetch,
            Kind::Part,
        ];
        ALL.get(usize::from(bits).wrapping_sub(1)).copied()
    }

    pub(crate) fn is_request(self) -> bool {
        matches!(self, Self::Short | Self::Medium | Self::Xfer | Self::Get | Self::Piece | Self::Fetch)
    }

    /// Whether it may have a payload behind its head.
    fn has_payload(self) -> bool {
        matches!(self, Self::Medium | Self::ReplyMedium | Self::Xfer | Self::ReplyXfer | Self::Piece | Self::Part)
    }
}

/// A message without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub handler: u8,
    /// Why a request is refused; the kind of a held reply; of a piece whether it is the first one.
    pub status: u8,
    /// The place of the request in its sender's records, which the answer names again.
    pub slot: u16,
    /// How often the sender has told of its segment, in which the message may trust.
    pub told: u16,
    /// Bulk: offset, bytes, and of a get the offset where the data is to go; of v1's last piece the
    /// bytes of all; of data that was written how many segments its sender had heard of. A segment:
    /// address, bytes, handle.
    pub words: [u64; 3],
    /// The tag of a request.
    pub tag: u64,
    pub arg_count: u8,
    pub args: [i32; ARGS_MAX],
}

impl Head {
    /// `args`: at most [`ARGS_MAX`], which callers have checked.
    #[inline]
    pub(crate) fn new(kind: Kind, handler: u8, slot: u16, args: &[i32]) -> Self {
        let mut copy = [0; ARGS_MAX];
        copy[..args.len()].copy_from_slice(args);
        Self { kind, handler, status: 0, slot, told: 0, words: [0; 3], tag: 0, arg_count: args.len() as u8, args: copy }
    }

    #[inline]
    pub(crate) fn args(&self) -> &[i32] {
        &self.args[..usize::from(self.arg_count)]
    }

    /// Where the payload begins.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        Self::start_of(usize::from(self.arg_count))
    }

    /// The same, of a head with so many arguments.
    #[inline]
    pub(crate) fn start_of(arg_count: usize) -> usize {
        8 * WORDS + 4 * arg_count.next_multiple_of(2)
    }

    /// The words in front, and the arguments as words.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; HEAD_BYTES_MAX / 8] {
        let mut words = [0; HEAD_BYTES_MAX / 8];
        let ([s0, s1], [t0, t1]) = (self.slot.to_le_bytes(), self.told.to_le_bytes());
        let first = [self.kind as u8, self.handler, self.arg_count, self.status, s0, s1, t0, t1];
        (words[0], words[1]) = (u64::from_le_bytes(first), self.tag);
        words[2..WORDS].copy_from_slice(&self.words);
        for (word, pair) in words[WORDS..].iter_mut().zip(self.args.chunks(2)) {
            *word = u64::from(pair[0] as u32) | u64::from(pair[1] as u32) << 32;
        }
        words
    }

    /// Out of words that a peer has written; `length`: bytes of the message. `None`: it cannot be.
    #[inline]
    pub(crate) fn parse(words: &[u64; HEAD_BYTES_MAX / 8], length: usize) -> Option<Self> {
        let [kind, handler, arg_count, status, s0, s1, t0, t1] = words[0].to_le_bytes();
        let kind = Kind::from_bits(kind)?;
        if usize::from(arg_count) > ARGS_MAX {
            return None;
        }
        let mut args = [0; ARGS_MAX];
        for (pair, word) in args.chunks_mut(2).zip(&words[WORDS..]) {
            (pair[0], pair[1]) = (*word as i32, (*word >> 32) as i32);
        }
        args[usize::from(arg_count)..].fill(0);
        let (slot, told) = (u16::from_le_bytes([s0, s1]), u16::from_le_bytes([t0, t1]));
        let head = Self { kind, handler, status, slot, told, words: [words[2], words[3], words[4]], tag: words[1], arg_count, args };
        let fits = if kind.has_payload() { length >= head.start() } else { length == head.start() };
        fits.then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_as_words() {
        for count in 0..=ARGS_MAX {
            let args: Vec<i32> = (0..count as i32).map(|a| a - 3).collect();
            let mut head = Head::new(Kind::Get, 200, 0x1234, &args);
            (head.words, head.tag, head.status, head.told) = ([1, u64::MAX, 3], 77, 5, 0x4321);
            assert_eq!(Head::parse(&head.to_words(), head.start()), Some(head));
            assert_eq!(Head::parse(&head.to_words(), head.start() + 1), None, "bytes behind a head that has no payload");
        }
        let head = Head::new(Kind::ReplyMedium, 1, 0, &[1]);
        assert_eq!(Head::parse(&head.to_words(), head.start() + 9), Some(head));
        assert_eq!(Head::parse(&head.to_words(), head.start() - 1), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = Head::new(Kind::Short, 1, 0, &[]).to_words();
        for (byte, value) in [(0, 0), (0, 16), (2, 17)] {
            let mut words = good;
            let mut first = words[0].to_le_bytes();
            first[byte] = value;
            words[0] = u64::from_le_bytes(first);
            assert_eq!(Head::parse(&words, 40), None, "byte {byte} = {value}");
        }
    }
}
