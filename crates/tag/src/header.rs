// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as bytes: little-endian words, then the payload.
//!
//! ```text
//!  word 0   kind 8 | flags 8 | words of the head 8 | 0 8 | messages handled of the other direction 32
//!  Eager    [tag] [data] [operation]                           payload: the message
//!  Announce length, operation, [tag] [data]                    a long message, which waits at its sender
//!                            payload: nothing, or where the message lies (`lent.rs`)
//!  Ask      its sender's operation 32 | ours 32, bytes wanted  the answer, when it is matched
//!  Data     operation, offset                                  payload: a part of what was asked for
//!  Done     operation 32 | outcome 32                          what a request came to
//!  Write    address, key, operation, [data]                    payload: for memory of the receiver
//!  Read     address, key, operation, bytes                     answered by Data, or Done
//!  Atomic   address, key, operation 32 | type 8 | what 8 | form 8 | 0 8, values      payload: operands, then what to compare with
//!  Credit                                                      word 0 is all that it says
//!  Word                                                        payload: for who uses the endpoint
//! ```
//! A head may be longer than its kind needs (zero words): long payloads begin on a cache line.

/// Words of the longest head.
pub(crate) const HEAD_WORDS_MAX: usize = 8;
/// Bytes of the longest head.
pub(crate) const HEAD_BYTES_MAX: usize = 8 * HEAD_WORDS_MAX;
/// Longest payload of one message, bytes: with the longest head, a frame of the shared-memory wire.
pub const EAGER_BYTES_MAX: usize = 16 * 1024 - HEAD_BYTES_MAX;
/// Payloads from here on begin on a cache line.
const LONG_BYTES_MIN: usize = 1024;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Eager = 1,
    Announce,
    Ask,
    Data,
    Done,
    Write,
    Read,
    Atomic,
    Credit,
    Word,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Eager,
            2 => Self::Announce,
            3 => Self::Ask,
            4 => Self::Data,
            5 => Self::Done,
            6 => Self::Write,
            7 => Self::Read,
            8 => Self::Atomic,
            9 => Self::Credit,
            10 => Self::Word,
            _ => return None,
        })
    }

    /// Words that the kind has in any case, the first one included.
    fn words(self) -> usize {
        match self {
            Self::Eager | Self::Credit | Self::Word => 1,
            Self::Done => 2,
            Self::Announce | Self::Ask | Self::Data => 3,
            Self::Write => 4,
            Self::Read | Self::Atomic => 5,
        }
    }
}

/// The message is tagged.
pub(crate) const TAGGED: u8 = 1;
/// It has data for the completion.
pub(crate) const DATA: u8 = 2;
/// It is to be answered by Done.
pub(crate) const REPLY: u8 = 4;
/// It is the last one of a long write.
pub(crate) const LAST: u8 = 8;
/// Its sender has no room for unexpected payloads.
pub(crate) const FULL: u8 = 16;
const FLAGS: u8 = 31;

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub flags: u8,
    /// The words that the kind has, after the first; then those that flags add.
    pub fixed: [u64; 4],
    pub tag: u64,
    pub data: u64,
    /// Eager with [`REPLY`].
    pub operation: u32,
}

/// A head as bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadBytes {
    words: [u64; HEAD_WORDS_MAX],
    count: usize,
}

impl HeadBytes {
    /// The bytes, saying that so many messages are handled and whether there is room.
    #[inline]
    pub(crate) fn finish(&mut self, handled: u32, full: bool) -> &[u8] {
        let first = u64::from_le(self.words[0]) & 0x00ff_ffff & !(u64::from(FULL) << 8);
        self.words[0] = (first | u64::from(full) << 12 | u64::from(handled) << 32).to_le();
        self.as_bytes()
    }

    /// The bytes as they were last finished.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: words are bytes; `count` of them are there.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), 8 * self.count) }
    }
}

/// An Eager head without wishes, as most messages have: what of it is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub flags: u8,
    pub tag: u64,
    pub data: u64,
}

impl Plain {
    const FLAGS: u8 = TAGGED | DATA;

    /// As words, and how many: the first says that so many messages are handled, and whether there
    /// is room.
    #[inline(always)]
    pub(crate) fn words(&self, handled: u32, full: bool) -> ([u64; 3], usize) {
        let count = 1 + usize::from(self.flags & TAGGED != 0) + usize::from(self.flags & DATA != 0);
        let flags = u64::from(self.flags) | u64::from(full) << 4;
        let first = Kind::Eager as u64 | flags << 8 | (count as u64) << 16 | u64::from(handled) << 32;
        let (second, third) = if self.flags & TAGGED != 0 { (self.tag, self.data) } else { (self.data, 0) };
        ([first.to_le(), second.to_le(), third.to_le()], count)
    }

    /// From the first words of a message of `length` bytes: the head, how many messages its sender
    /// has handled, and its words. `None`: it is not plain, or none at all; [`Head::parse`] knows.
    #[inline(always)]
    pub(crate) fn parse(words: &[u64; 7], length: usize) -> Option<(Self, u32, usize)> {
        let first = u64::from_le(words[0]);
        if first as u32 & !(u32::from(Self::FLAGS) << 8 | 0xff << 16) != Kind::Eager as u32 {
            return None;
        }
        let (flags, count) = ((first >> 8) as u8, (first >> 16) as u8 as usize);
        let is_tagged = flags & TAGGED != 0;
        let needed = 1 + usize::from(is_tagged) + usize::from(flags & DATA != 0);
        if count != needed || 8 * count > length {
            return None;
        }
        let (tag, data) = if is_tagged { (words[1], words[2]) } else { (0, words[1]) };
        Some((Self { flags, tag: u64::from_le(tag), data: u64::from_le(data) }, (first >> 32) as u32, count))
    }
}

impl Head {
    pub(crate) fn new(kind: Kind, flags: u8, fixed: [u64; 4]) -> Self {
        Self { kind, flags, fixed, tag: 0, data: 0, operation: 0 }
    }

    /// As bytes, before a payload of so many.
    #[inline]
    pub(crate) fn store(&self, payload: usize) -> HeadBytes {
        let mut bytes = HeadBytes { words: [0; HEAD_WORDS_MAX], count: self.kind.words() };
        for i in 1..bytes.count {
            bytes.words[i] = self.fixed[i - 1].to_le();
        }
        let mut more = |word: u64| {
            bytes.words[bytes.count] = word.to_le();
            bytes.count += 1;
        };
        if self.flags & TAGGED != 0 {
            more(self.tag);
        }
        if self.flags & DATA != 0 {
            more(self.data);
        }
        if self.kind == Kind::Eager && self.flags & REPLY != 0 {
            more(u64::from(self.operation));
        }
        if payload >= LONG_BYTES_MIN {
            bytes.count = HEAD_WORDS_MAX;
        }
        bytes.words[0] = (self.kind as u64 | u64::from(self.flags) << 8 | (bytes.count as u64) << 16).to_le();
        bytes
    }

    /// From the first words of a message of `length` bytes: the head, how many messages its sender
    /// has handled, and where the payload begins. `None`: it is none.
    #[inline]
    pub(crate) fn parse(words: &[u64], length: usize) -> Option<(Self, u32, usize)> {
        let first = u64::from_le(*words.first()?);
        let (kind, flags, count) = (Kind::from_bits(first as u8)?, (first >> 8) as u8, (first >> 16) as u8 as usize);
        let has_operation = kind == Kind::Eager && flags & REPLY != 0;
        let needed = kind.words() + usize::from(flags & TAGGED != 0) + usize::from(flags & DATA != 0) + usize::from(has_operation);
        if flags & !FLAGS != 0 || (first >> 24) as u8 != 0 || count < needed || count > words.len().min(HEAD_WORDS_MAX) || 8 * count > length {
            return None;
        }
        let mut head = Self::new(kind, flags, [0; 4]);
        for (to, from) in head.fixed.iter_mut().zip(&words[1..kind.words()]) {
            *to = u64::from_le(*from);
        }
        let mut at = kind.words();
        let mut next = || {
            at += 1;
            u64::from_le(words[at - 1])
        };
        if flags & TAGGED != 0 {
            head.tag = next();
        }
        if flags & DATA != 0 {
            head.data = next();
        }
        if has_operation {
            head.operation = u32::try_from(next()).ok()?;
        }
        Some((head, (first >> 32) as u32, 8 * count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_survive_as_bytes(kind in 1u8..=9, flags in 0u8..16, fixed: [u64; 4], tag: u64, data: u64, operation: u32, handled: u32, payload in 0usize..3000) {
            let kind = Kind::from_bits(kind).unwrap();
            // No kind has more words than fit.
            prop_assume!(kind.words() + 3 <= HEAD_WORDS_MAX);
            let mut head = Head { kind, flags, fixed, tag, data, operation };
            let mut bytes = head.store(payload);
            let words: Vec<u64> = bytes.finish(handled, true).chunks(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap())).collect();
            let (parsed, said, start) = Head::parse(&words, bytes.as_bytes().len() + payload).unwrap();
            head.fixed[kind.words() - 1..].fill(0);
            if flags & TAGGED == 0 { head.tag = 0 }
            if flags & DATA == 0 { head.data = 0 }
            if kind != Kind::Eager || flags & REPLY == 0 { head.operation = 0 }
            head.flags |= FULL;
            prop_assert_eq!((parsed, said, start), (head, handled, bytes.as_bytes().len()));
            prop_assert!(payload < LONG_BYTES_MIN || start == HEAD_BYTES_MAX);
        }

        #[test]
        fn plain_heads_are_heads(flags in 0u8..4, tag: u64, data: u64, handled: u32, full: bool, payload in 0usize..32) {
            let plain = Plain { flags, tag: if flags & TAGGED == 0 { 0 } else { tag }, data: if flags & DATA == 0 { 0 } else { data } };
            let (words, count) = plain.words(handled, full);
            let (head, said, start) = Head::parse(&words, 8 * count + payload).unwrap();
            let mut same = Head::new(Kind::Eager, flags | if full { FULL } else { 0 }, [0; 4]);
            (same.tag, same.data) = (plain.tag, plain.data);
            prop_assert_eq!((head, said, start), (same, handled, 8 * count));
            let mut line = [0; 7];
            line[..3].copy_from_slice(&words);
            prop_assert_eq!(Plain::parse(&line, 8 * count + payload), (!full).then_some((plain, handled, count)));
            prop_assert_eq!(Plain::parse(&line, 8 * count - 1), None);
        }

        #[test]
        fn what_is_plain_is_a_head(words: [u64; 7], kind in 0u8..3, flags in 0u8..32, count in 0u8..6, length in 0usize..57) {
            let mut words = words;
            words[0] = words[0] & !0xffff_ffff | u64::from(kind) | u64::from(flags) << 8 | u64::from(count) << 16;
            if let Some((plain, handled, count)) = Plain::parse(&words, length) {
                let (head, said, start) = Head::parse(&words, length).unwrap();
                prop_assert_eq!((head.kind, head.flags, said, start), (Kind::Eager, plain.flags, handled, 8 * count));
                prop_assert_eq!(if plain.flags & TAGGED != 0 { head.tag } else { 0 }, plain.tag);
                prop_assert!(plain.flags & DATA == 0 || head.data == plain.data);
            }
        }

        #[test]
        fn anything_is_parsed_or_refused(words in proptest::collection::vec(any::<u64>(), 0..9), length in 0usize..100) {
            if let Some((_, _, start)) = Head::parse(&words, length) {
                prop_assert!(start <= length && start <= 8 * words.len());
            }
        }
    }
}
