// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of this layer on a VI. Little-endian words, one for the kind, then what the kind needs, then arguments.
//!
//! ```text
//!  word 0   bits 0-7 kind | 8-15 handler (Returned: status) | 16-23 number of arguments | 24-31 zero | 32-63 requests handled so far (from server to client)
//!  short    arguments, 4 bytes each
//!  medium   arguments, padded to 8 bytes, then the payload
//!  xfer     offset in the receiver's segment | length | arguments
//!  get      offset in the receiver's segment | offset in the sender's segment | length | arguments
//!  segment  address | length | memory handle
//! ```
//! On a connection the *client* (who asked for it) sends requests, gets and its segment; the *server* everything else. All of it is written by a peer: `parse` checks lengths and kinds, and
//! gives nothing for what cannot be.

/// Most arguments of a message.
pub const ARGS_MAX: usize = 16;
/// Longest payload of a medium message, bytes.
pub const MEDIUM_BYTES_MAX: usize = 65_000;
/// Longest head of a message: what precedes the payload.
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

    /// The head as bytes: how many. A medium's is padded, so that its payload is aligned.
    pub(crate) fn store(&self, to: &mut [u8; HEAD_BYTES_MAX]) -> usize {
        let word0 = word0(self.kind, self.handler, usize::from(self.arg_count), self.handled);
        to[..8].copy_from_slice(&word0.to_le_bytes());
        let mut at = 8;
        for word in &self.words[..self.kind.words()] {
            to[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        }
        for arg in &self.args[..usize::from(self.arg_count)] {
            to[at..at + 4].copy_from_slice(&arg.to_le_bytes());
            at += 4;
        }
        if matches!(self.kind, Kind::Medium | Kind::ReplyMedium) && !at.is_multiple_of(8) {
            to[at..at + 4].fill(0);
            at += 4;
        }
        at
    }
}

#[inline]
pub(crate) const fn word0(kind: Kind, handler: u8, arg_count: usize, handled: u32) -> u64 {
    kind as u64 | (handler as u64) << 8 | (arg_count as u64) << 16 | (handled as u64) << 32
}

/// Puts the head of a message of `length` bytes, whose first bytes are copied in `words`, into `head`; returns where the payload begins. `None`: it cannot be.
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
    for (pair, from) in head.args.chunks_mut(2).take(count.div_ceil(2)).zip(&words[1 + own..]) {
        let from = u64::from_le(*from);
        pair[0] = from as i32;
        pair[1] = (from >> 32) as i32;
    }
    Some(start)
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
            let mut bytes = [0; HEAD_BYTES_MAX];
            let n = head.store(&mut bytes);
            let mut out = Head::new(Kind::Ack, 0, &[]);
            prop_assert_eq!(parse(&words(&bytes), n, &mut out), Some(n));
            prop_assert_eq!((out.kind, out.handler, out.handled), (kind, handler, handled));
            prop_assert_eq!(&out.args[..usize::from(out.arg_count)], &args[..]);
            prop_assert_eq!(&out.words[..kind.words()], &own[..kind.words()]);
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
