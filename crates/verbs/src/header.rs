// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a packet, in front of its bytes.
//!
//! ```text
//!  word 0   kind u8 | flags u8 | taken u16 | to: queue pair u24 | life u8
//!  word 1   from: queue pair u24 | echo u8 | number u32   (datagrams: key, not number)
//!  word 2   answered u32 | immediate u32
//!  word 3   address u64               write, read, atomic
//!           code u32 | timer u32      refusal
//!           value u64                 answer to an atomic
//!  word 4   remote key u32 | length u32   write, read; atomic: length is 0 to add, 1 to compare
//!  word 5, 6   operand, compared value    atomic
//!           first byte, bytes, handle, address of it  grant (immediate: key; flags: rights)
//!  last     offset u32 | total u32    packets of long messages (PART)
//! ```
//!
//! `taken` is how many messages of the connection the sender has taken; `answered` says that all
//! requests of the other queue pair below that number are done. Both count modulo their size. A
//! request that was refused is sent anew, with what had left behind it. Every other such try has
//! the flag AGAIN, as refusals of it have: those of the try before are behind the first one, which
//! was answered by this try, and say nothing more. Requests of an extended reliable connection
//! (XRC) have the shared receive queue that they are for in `answered`: its sending side is never
//! asked for anything. `life` is how often the sender's queue pair has begun anew, `echo` the same
//! of the other one, as its requests have said: an answer to an earlier life is ignored, though its
//! number fits.

use bellwire_via::frame::INLINE_BYTES_MAX;

/// Words that a head has at most.
pub(crate) const WORDS_MAX: usize = 8;
/// Bytes of the program in one packet.
pub(crate) const PACKET_BYTES: usize = 16_320;

/// Part of a longer message.
pub(crate) const PART: u8 = 1;
/// The last one of it.
pub(crate) const LAST: u8 = 2;
/// Immediate data.
pub(crate) const IMMEDIATE: u8 = 4;
/// Wakes who waits for solicited messages.
pub(crate) const SOLICITED: u8 = 8;
/// A message that is to be refused as if no receive were there: its sender tries what becomes of
/// that.
pub(crate) const UNREADY: u8 = 16;
/// Of every other try: a refusal says to which one it belongs.
pub(crate) const AGAIN: u8 = 32;
/// The receiver's key that stands in the place of immediate data is to be made invalid.
pub(crate) const INVALIDATE: u8 = 64;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Credit = 1,
    Send,
    Write,
    Read,
    Atomic,
    Datagram,
    /// Says `answered`, nothing else.
    Ack,
    /// The request of that number was not taken.
    Refusal,
    /// Bytes that were read.
    ReadData,
    /// What an atomic found.
    AtomicData,
    /// Where memory lies that the sender of requests may reach itself.
    Grant,
    /// A message of connection management, on a link of its own.
    Cm,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        use Kind::{Ack, Atomic, AtomicData, Cm, Credit, Datagram, Grant, Read, ReadData, Refusal, Send, Write};
        [Credit, Send, Write, Read, Atomic, Datagram, Ack, Refusal, ReadData, AtomicData, Grant, Cm].into_iter().find(|k| *k as u8 == bits)
    }

    /// Bytes of the program in a packet of a long message that is `packet` bytes long.
    #[inline]
    pub(crate) fn part_bytes(self, packet: usize) -> usize {
        (packet - 8 * (self.words() + 1)).min(PACKET_BYTES)
    }

    /// Words before the last one.
    fn words(self) -> usize {
        match self {
            Self::Credit => 1,
            Self::Send | Self::Datagram | Self::Ack | Self::ReadData | Self::Cm => 3,
            Self::Refusal | Self::AtomicData => 4,
            Self::Write | Self::Read => 5,
            Self::Atomic | Self::Grant => 7,
        }
    }
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    /// No receive is posted: again after a while.
    NotReady = 1,
    /// Nobody is there who takes requests: again later.
    Nobody,
    Access,
    Invalid,
    Operation,
}

impl Code {
    pub(crate) fn from_bits(bits: u32) -> Option<Self> {
        [Self::NotReady, Self::Nobody, Self::Access, Self::Invalid, Self::Operation].into_iter().find(|c| *c as u32 == bits)
    }
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub flags: u8,
    pub to: u32,
    pub from: u32,
    pub life: u8,
    pub echo: u8,
    pub number: u32,
    pub answered: u32,
    pub immediate: u32,
    /// Words 3 to 6.
    pub words: [u64; 4],
    pub offset: u32,
    pub total: u32,
}

impl Head {
    pub(crate) const fn new(kind: Kind, to: u32, from: u32) -> Self {
        Self { kind, flags: 0, to, from, life: 0, echo: 0, number: 0, answered: 0, immediate: 0, words: [0; 4], offset: 0, total: 0 }
    }

    /// Bytes of it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        8 * (self.kind.words() + usize::from(self.flags & PART != 0))
    }

    /// Writes it; so many of the words are valid.
    #[inline]
    pub(crate) fn store(&self, taken: u32, to: &mut [u64; WORDS_MAX]) -> usize {
        let n = self.kind.words();
        to[0] = self.kind as u64 | u64::from(self.flags) << 8 | u64::from(taken & 0xffff) << 16 | u64::from(self.to) << 32 | u64::from(self.life) << 56;
        to[1] = u64::from(self.from) | u64::from(self.echo) << 24 | u64::from(self.number) << 32;
        to[2] = u64::from(self.answered) | u64::from(self.immediate) << 32;
        to[3..7].copy_from_slice(&self.words);
        if self.flags & PART != 0 {
            to[n] = u64::from(self.offset) | u64::from(self.total) << 32;
            return n + 1;
        }
        n
    }

    /// Out of the first words of a message of `length` bytes: the head, what the sender has taken,
    /// and where the payload begins. `None`: it is no packet.
    #[inline]
    pub(crate) fn parse(words: &[u64], length: usize) -> Option<(Self, u16, usize)> {
        let w = |i: usize| words.get(i).copied().unwrap_or(0);
        let kind = Kind::from_bits(w(0) as u8)?;
        let mut head = Self::new(kind, (w(0) >> 32) as u32 & 0xff_ffff, w(1) as u32 & 0xff_ffff);
        head.flags = (w(0) >> 8) as u8;
        (head.life, head.echo) = ((w(0) >> 56) as u8, (w(1) >> 24) as u8);
        let n = kind.words();
        let start = head.len();
        if length < start {
            return None;
        }
        if n > 1 {
            head.number = (w(1) >> 32) as u32;
            (head.answered, head.immediate) = (w(2) as u32, (w(2) >> 32) as u32);
            for (i, word) in head.words.iter_mut().enumerate().take(n - 3) {
                *word = w(i + 3);
            }
        }
        if head.flags & PART != 0 {
            (head.offset, head.total) = (w(n) as u32, (w(n) >> 32) as u32);
        }
        Some((head, (w(0) >> 16) as u16, start))
    }

    /// Remote key and length.
    pub(crate) fn key_and_length(&self) -> (u32, u32) {
        (self.words[1] as u32, (self.words[1] >> 32) as u32)
    }
}

/// Words of a [`Plain`] head.
pub(crate) const PLAIN_WORDS: usize = 3;
/// Most bytes of the first of two pieces that take the short way together.
pub(crate) const LEAD_BYTES_MAX: usize = 64;

/// The ends of a message: all usual sends between two queue pairs have them in their heads, as
/// they lie in the first two words: kind, no unusual flag, both queue pairs, both lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends(u64, u32);

impl Ends {
    /// Those of no message.
    pub(crate) const NONE: Self = Self(u64::MAX, 0);
    /// In the first word, what differs from message to message.
    const VARIES: u64 = 0xffff_0000 | ((IMMEDIATE | SOLICITED) as u64) << 8;

    #[inline(always)]
    pub(crate) fn new((to, life): (u32, u8), (from, echo): (u32, u8)) -> Self {
        Self(Kind::Send as u64 | u64::from(to) << 32 | u64::from(life) << 56, from | u32::from(echo) << 24)
    }

    /// The queue pair that it is to.
    #[inline(always)]
    pub(crate) fn to(self) -> u32 {
        (self.0 >> 32) as u32 & 0xff_ffff
    }

    /// The queue pair that it is from.
    #[inline(always)]
    pub(crate) fn from(self) -> u32 {
        self.1 & 0xff_ffff
    }
}

/// The head of a send that goes as one packet and is nothing special: what of it is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub ends: Ends,
    pub has_immediate: bool,
    pub is_solicited: bool,
    pub number: u32,
    pub answered: u32,
    pub immediate: u32,
}

impl Plain {
    /// As words; the first says how many messages the sender has taken.
    #[inline(always)]
    pub(crate) fn words(&self, taken: u16) -> [u64; PLAIN_WORDS] {
        let flags = if self.has_immediate { IMMEDIATE } else { 0 } | if self.is_solicited { SOLICITED } else { 0 };
        [
            self.ends.0 | u64::from(flags) << 8 | u64::from(taken) << 16,
            u64::from(self.ends.1) | u64::from(self.number) << 32,
            u64::from(self.answered) | u64::from(self.immediate) << 32,
        ]
    }

    /// Out of the first words of a message, of whatever kind: the head if its ends are those of a
    /// usual send, and what the sender has taken.
    #[inline(always)]
    pub(crate) fn of(w: [u64; PLAIN_WORDS]) -> (Self, u16) {
        let flags = (w[0] >> 8) as u8;
        let head = Self {
            ends: Ends(w[0] & !Ends::VARIES, w[1] as u32),
            has_immediate: flags & IMMEDIATE != 0,
            is_solicited: flags & SOLICITED != 0,
            number: (w[1] >> 32) as u32,
            answered: w[2] as u32,
            immediate: (w[2] >> 32) as u32,
        };
        (head, (w[0] >> 16) as u16)
    }
}

const _: () = assert!(8 * 7 <= INLINE_BYTES_MAX, "an atomic fits into a line");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive() {
        for kind in [Kind::Send, Kind::Write, Kind::Read, Kind::Atomic, Kind::Refusal, Kind::ReadData, Kind::AtomicData, Kind::Ack, Kind::Grant, Kind::Cm] {
            for flags in [0, PART | LAST, IMMEDIATE | SOLICITED] {
                let mut words = [0; 4];
                words[..kind.words() - 3].fill(0x1234_5678_9abc_def0);
                let (offset, total) = if flags & PART != 0 { (5, 7) } else { (0, 0) };
                let head = Head { kind, flags, to: 0xabcdef, from: 0x123456, life: 200, echo: 201, number: 3, answered: 4, immediate: 9, words, offset, total };
                let mut out = [0; WORDS_MAX];
                let n = head.store(0x1_0007, &mut out);
                assert_eq!(8 * n, head.len());
                assert_eq!(Head::parse(&out, 8 * n), Some((head, 7, 8 * n)));
                assert_eq!(Head::parse(&out, 8 * n - 1), None);
            }
        }
        assert_eq!(Head::parse(&[0], 8), None);
        assert_eq!(Head::parse(&[99], 8), None);
    }

    #[test]
    fn plain_heads_are_heads() {
        let ends = Ends::new((0xabcdef, 200), (0x123456, 201));
        assert_eq!((ends.to(), ends.from()), (0xabcdef, 0x123456));
        for (has_immediate, is_solicited, flags) in [(false, false, 0), (true, false, IMMEDIATE), (true, true, IMMEDIATE | SOLICITED)] {
            let plain = Plain { ends, has_immediate, is_solicited, number: 3, answered: 4, immediate: 9 };
            let head = Head { flags, life: 200, echo: 201, number: 3, answered: 4, immediate: 9, ..Head::new(Kind::Send, 0xabcdef, 0x123456) };
            let mut words = [0; WORDS_MAX];
            assert_eq!(head.store(0x1_0007, &mut words), PLAIN_WORDS);
            let line = plain.words(7);
            assert_eq!(line, words[..PLAIN_WORDS]);
            assert_eq!(Plain::of(line), (plain, 7));
        }
    }

    #[test]
    fn other_messages_have_other_ends() {
        let ends = Ends::new((0xabcdef, 200), (0x123456, 201));
        let line = Plain { ends, has_immediate: true, is_solicited: true, number: 3, answered: 4, immediate: 9 }.words(0xffff);
        // Each bit of the two words that is not the message's own makes it another one.
        for bit in 0..96 {
            let mut other = line;
            other[bit / 64] ^= 1 << (bit % 64);
            let varies = (16..32).contains(&bit) || bit == 8 + 2 || bit == 8 + 3;
            assert_eq!(Plain::of(other).0.ends == ends, varies, "bit {bit}");
        }
        for words in [[0; PLAIN_WORDS], [u64::MAX; PLAIN_WORDS]] {
            assert_ne!(Plain::of(words).0.ends, Ends::NONE);
        }
    }
}
