// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of this layer on a VI. Little-endian words, one for the kind, then what the kind
//! needs, then arguments.
//!
//! ```text
//!  word 0   bits 0-7 kind | 8-15 handler (Returned: status) | 16-23 number of arguments | 24-31 zero | 32-63 requests handled so far (from server to client)
//!  short    arguments, 4 bytes each
//!  medium   arguments, padded to 8 bytes, then the payload
//!  xfer     offset in the receiver's segment | length (bits 0-31), segments heard of | arguments
//!  get      offset in the receiver's segment | offset in the sender's segment | length | arguments
//!  segment  address | length | memory handle
//! ```
//! On a connection the *client*, which asked for it, sends requests and gets, the *server*
//! everything else; both tell of their segment. Closing: the server's endpoint ends. All of it is
//! written by a peer: `parse` checks lengths and kinds, and gives nothing for what cannot be.

use bellwire_via::inbox::LineWords;
use zerocopy::IntoBytes;

/// Most arguments of a message.
pub const ARGS_MAX: usize = 16;
/// Longest payload of a medium message, bytes.
pub const MEDIUM_BYTES_MAX: usize = 65_000;
/// Longest bulk message or get, bytes.
pub const BULK_BYTES_MAX: usize = 1 << 30;
/// Requests that a client may have out by default; at most [`CREDITS_MAX`].
pub const CREDITS_DEFAULT: u32 = 64;
/// Most requests that a client may have out.
pub const CREDITS_MAX: u32 = 256;
/// Segments that a peer is told of before it has sent anything since.
pub(crate) const SEGMENTS_AHEAD: u8 = 32;
/// Longest head of a message, before the payload.
pub(crate) const HEAD_BYTES_MAX: usize = 32 + 4 * ARGS_MAX;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Short = 1,
    Medium = 2,
    Xfer = 3,
    Get = 4,
    Segment = 5,
    ReplyShort = 9,
    ReplyMedium = 10,
    ReplyXfer = 11,
    Ack = 12,
    Returned = 13,
    Closing = 14,
}

impl Kind {
    #[inline]
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Short,
            2 => Self::Medium,
            3 => Self::Xfer,
            4 => Self::Get,
            5 => Self::Segment,
            9 => Self::ReplyShort,
            10 => Self::ReplyMedium,
            11 => Self::ReplyXfer,
            12 => Self::Ack,
            13 => Self::Returned,
            14 => Self::Closing,
            _ => return None,
        })
    }

    /// Words between word 0 and the arguments.
    #[inline]
    const fn words(self) -> usize {
        match self {
            Self::Xfer | Self::ReplyXfer => 2,
            Self::Get | Self::Segment => 3,
            _ => 0,
        }
    }
}

/// Everything of a message but its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub handler: u8,
    pub arg_count: u8,
    pub handled: u32,
    /// The kind's own words.
    pub words: [u64; 3],
    pub args: [i32; ARGS_MAX],
}

impl Head {
    pub(crate) fn new(kind: Kind, handler: u8, args: &[i32]) -> Self {
        let mut head = Self { kind, handler, arg_count: args.len() as u8, handled: 0, words: [0; 3], args: [0; ARGS_MAX] };
        head.args[..args.len()].copy_from_slice(args);
        head
    }

    pub(crate) fn args(&self) -> &[i32] {
        &self.args[..usize::from(self.arg_count)]
    }

    /// The head as bytes.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        HeadBytes::new().store_head(&self).to_vec()
    }
}

/// What a message says that needs no credit: it is stored when the count that it carries is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub kind: Kind,
    /// Returned: the status.
    pub handler: u8,
    /// The kind's own words.
    pub words: [u64; 3],
    pub args: &'a [i32],
}

impl Answer<'static> {
    /// One that only tells.
    pub(crate) fn of(kind: Kind, handler: u8) -> Self {
        Self { kind, handler, words: [0; 3], args: &[] }
    }
}

impl Answer<'_> {
    #[inline]
    pub(crate) fn store<'b>(&self, handled: u32, to: &'b mut HeadBytes) -> &'b [u8] {
        let word0 = word0(self.kind, self.handler, self.args.len(), handled);
        to.store(word0, &self.words[..self.kind.words()], self.args, matches!(self.kind, Kind::Medium | Kind::ReplyMedium))
    }
}

/// Room for a head as bytes.
pub(crate) struct HeadBytes([u64; HEAD_WORDS_MAX]);

impl HeadBytes {
    #[inline]
    pub(crate) fn new() -> Self {
        Self([0; HEAD_WORDS_MAX])
    }

    /// A head, put together. A medium's is padded, so that its payload is aligned.
    #[inline]
    pub(crate) fn store(&mut self, word0: u64, own: &[u64], args: &[i32], is_padded: bool) -> &[u8] {
        debug_assert!(own.len() <= 3 && args.len() <= ARGS_MAX);
        self.0[0] = word0.to_le();
        for (to, word) in self.0[1..].iter_mut().zip(own) {
            *to = word.to_le();
        }
        let at = 1 + own.len();
        for (to, pair) in self.0[at..].iter_mut().zip(args.chunks(2)) {
            let high = pair.get(1).map_or(0, |a| u64::from(a.cast_unsigned()));
            *to = (u64::from(pair[0].cast_unsigned()) | high << 32).to_le();
        }
        let end = 8 * at + 4 * args.len();
        &self.bytes()[..if is_padded { end.next_multiple_of(8) } else { end }]
    }

    pub(crate) fn store_head(&mut self, head: &Head) -> &[u8] {
        let count = usize::from(head.arg_count);
        let word0 = word0(head.kind, head.handler, count, head.handled);
        self.store(word0, &head.words[..head.kind.words()], &head.args[..count], matches!(head.kind, Kind::Medium | Kind::ReplyMedium))
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[inline]
pub(crate) const fn word0(kind: Kind, handler: u8, arg_count: usize, handled: u32) -> u64 {
    kind as u64 | (handler as u64) << 8 | (arg_count as u64) << 16 | (handled as u64) << 32
}

/// The second word of bulk data, of so many bytes, which is in the last of `heard` segments that
/// the receiver has told of. It may have another one by the time that the message comes.
#[inline]
pub(crate) const fn bulk_word(length: usize, heard: u32) -> u64 {
    length as u64 | (heard as u64) << 32
}

/// Bytes and segments out of that word.
#[inline]
pub(crate) const fn of_bulk_word(word: u64) -> (u64, u32) {
    (word & 0xffff_ffff, (word >> 32) as u32)
}

/// [`parse`] for most messages, short ones in a line: no jumps by kind, no loop that depends on the
/// number of arguments. `false`: it is another one, or cannot be.
#[inline(always)]
pub(crate) fn parse_short_line(line: &LineWords, length: usize, head: &mut Head) -> bool {
    let word0 = u64::from_le(line[0]);
    let (kind, count) = (word0 as u8, (word0 >> 16) as u8);
    let is_reply = kind == Kind::ReplyShort as u8;
    if (kind != Kind::Short as u8 && !is_reply) || (word0 >> 24) as u8 != 0 || length != 8 + 4 * usize::from(count) || length > size_of::<LineWords>() {
        return false;
    }
    head.kind = if is_reply { Kind::ReplyShort } else { Kind::Short };
    (head.handler, head.arg_count, head.handled) = ((word0 >> 8) as u8, count, (word0 >> 32) as u32);
    load_args(&mut head.args[..12], &line[1..]);
    true
}

/// Puts the head of a message of `length` bytes, whose first bytes are copied in `words`, into
/// `head`; returns where the payload begins. `None`: it cannot be.
#[inline]
pub(crate) fn parse(words: &[u64], length: usize, head: &mut Head) -> Option<usize> {
    let word0 = u64::from_le(*words.first()?);
    let kind = Kind::from_bits(word0 as u8)?;
    let count = usize::from((word0 >> 16) as u8);
    if length < 8 || count > ARGS_MAX || (word0 >> 24) & 0xff != 0 {
        return None;
    }
    let own = kind.words();
    let end = 8 + 8 * own + 4 * count;
    let start = match kind {
        Kind::Medium | Kind::ReplyMedium => end.next_multiple_of(8),
        _ => end,
    };
    let fits =
        if start == end && !matches!(kind, Kind::Medium | Kind::ReplyMedium) { length == end } else { length >= start && length - start <= MEDIUM_BYTES_MAX };
    if !fits || end > 8 * words.len() {
        return None;
    }
    (head.kind, head.handler, head.arg_count, head.handled) = (kind, (word0 >> 8) as u8, count as u8, (word0 >> 32) as u32);
    for (to, from) in head.words.iter_mut().zip(&words[1..=own]) {
        *to = u64::from_le(*from);
    }
    load_args(&mut head.args[..count.next_multiple_of(2)], &words[1 + own..]);
    Some(start)
}

#[inline]
fn load_args(args: &mut [i32], words: &[u64]) {
    for (pair, from) in args.chunks_exact_mut(2).zip(words) {
        let from = u64::from_le(*from);
        pair[0] = from as i32;
        pair[1] = (from >> 32) as i32;
    }
}

/// Words that hold any head.
pub(crate) const HEAD_WORDS_MAX: usize = HEAD_BYTES_MAX / 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.chunks(8).map(|c| c.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))).collect()
    }

    proptest! {
        #[test]
        fn heads_round_trip(kind in prop::sample::select(vec![1u8, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14]), handler: u8, handled: u32, args in prop::collection::vec(any::<i32>(), 0..=16), own: [u64; 3]) {
            let kind = Kind::from_bits(kind).unwrap();
            let mut head = Head::new(kind, handler, &args);
            (head.handled, head.words) = (handled, own);
            let bytes = head.to_bytes();
            let n = bytes.len();
            let mut out = Head::new(Kind::Ack, 0, &[]);
            prop_assert_eq!(parse(&words(&bytes), n, &mut out), Some(n));
            prop_assert_eq!((out.kind, out.handler, out.handled), (kind, handler, handled));
            prop_assert_eq!(&out.args[..usize::from(out.arg_count)], &args[..]);
            prop_assert_eq!(&out.words[..kind.words()], &own[..kind.words()]);
        }

        #[test]
        fn both_ways_to_parse_agree(word0: u64, rest: [u64; 6], kind in 0u8..16, count in 0u8..14, length in 0usize..=56, fits: bool) {
            let word0 = (word0 & !0x00ff_00ff) | u64::from(kind) | u64::from(count) << 16;
            let word0 = if fits { word0 & !0xff00_0000 } else { word0 };
            let length = if fits { (8 + 4 * usize::from(count)).min(56) } else { length };
            let line = [word0, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]];
            let (mut a, mut b) = (Head::new(Kind::Ack, 0, &[]), Head::new(Kind::Ack, 0, &[]));
            let is_short = parse_short_line(&line, length, &mut a);
            let start = parse(&line, length, &mut b);
            prop_assert_eq!(is_short, start.is_some() && matches!(b.kind, Kind::Short | Kind::ReplyShort));
            if is_short {
                prop_assert_eq!((a.kind, a.handler, a.handled, start), (b.kind, b.handler, b.handled, Some(length)));
                prop_assert_eq!(a.args(), b.args());
            }
        }

        #[test]
        fn bulk_words_round_trip(length in 0..=BULK_BYTES_MAX, heard: u32) {
            prop_assert_eq!(of_bulk_word(bulk_word(length, heard)), (length as u64, heard));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Head::new(Kind::Ack, 0, &[]);
            let w = words(&bytes);
            if let Some(start) = parse(&w[..w.len().min(HEAD_WORDS_MAX)], bytes.len(), &mut out) {
                prop_assert!(start <= bytes.len() && usize::from(out.arg_count) <= ARGS_MAX);
            }
        }
    }
}
