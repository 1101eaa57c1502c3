// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as they travel: handler numbers and their arguments. A peer writes all of it: a reader
//! of arguments checks their number.
//!
//! | handler | sent by | arguments | payload |
//! |---|---|---|---|
//! | `HELLO` | caller, first on a connection | version, tag (2), secret (2) | |
//! | `CALL` | caller | procedure, call (2), ms left; [bytes, data ..] | data, if not in the arguments |
//! | `CALL_NAMED` | caller | -, call (2), ms left, signature (2), bytes of the name | name, data |
//! | `OPEN` | caller | as `CALL_NAMED`, with the procedure or 0, and total bytes (2) | name, if there is no procedure |
//! | `PART` | caller | call (2), offset (2) | part of the data |
//! | `CANCEL` | caller | call (2) | |
//! | `RESULT` | called, as reply to any of the above | call (2), status, procedure + 1 or 0; [bytes, data ..] | data, if not in the arguments |
//! | `LATER` | called, as a request | call (2), status, procedure + 1, secret (2), offset (2), total (2) | part of the data, or all |
//!
//! A call is named by the caller: a place in its table and how often that was used. The procedure's
//! number is the server's; a caller that does not know it yet sends the name, and gets the number
//! with the result. The secret is made up by the caller for each connection.

/// Version of all this.
pub(crate) const VERSION: i32 = 1;

pub(crate) const HELLO: u8 = 1;
pub(crate) const CALL: u8 = 2;
pub(crate) const CALL_NAMED: u8 = 3;
pub(crate) const OPEN: u8 = 4;
pub(crate) const PART: u8 = 5;
pub(crate) const CANCEL: u8 = 6;
pub(crate) const RESULT: u8 = 10;
pub(crate) const LATER: u8 = 11;

/// Most bytes that travel within the arguments: those that fit into one line with them.
pub(crate) const INLINE_MAX: usize = 28;
/// Most bytes of a value in one message; beyond, in parts of so many.
pub(crate) const PART_BYTES: usize = 64_000;
/// Most arguments of a message here.
pub(crate) const ARGS: usize = 12;

/// How a call ended, as the server says.
pub(crate) mod status {
    pub(crate) const OK: u32 = 0;
    pub(crate) const FAILED: u32 = 1;
    pub(crate) const UNKNOWN_PROCEDURE: u32 = 2;
    pub(crate) const WRONG_TYPE: u32 = 3;
    pub(crate) const BAD_ARGUMENTS: u32 = 4;
    pub(crate) const OVERLOADED: u32 = 5;
    pub(crate) const DROPPED: u32 = 6;
    pub(crate) const INCOMPATIBLE: u32 = 7;
}

/// Names a call: a place in the caller's table, and which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId {
    pub index: u32,
    pub generation: u32,
}

/// A message's arguments, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args {
    words: [i32; ARGS],
    count: u8,
}

impl Args {
    #[inline]
    pub(crate) fn new<const N: usize>(words: [i32; N]) -> Self {
        let mut args = Self { words: [0; ARGS], count: N as u8 };
        args.words[..N].copy_from_slice(&words);
        args
    }

    /// Adds data of at most [`INLINE_MAX`] bytes to four arguments.
    #[inline]
    pub(crate) fn with_data(mut self, data: &[u8]) -> Self {
        debug_assert!(self.count == 4 && data.len() <= INLINE_MAX);
        if data.is_empty() {
            return self;
        }
        self.words[4] = data.len() as i32;
        for (word, chunk) in self.words[5..].iter_mut().zip(data.chunks(4)) {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = i32::from_le_bytes(bytes);
        }
        self.count = 5 + data.len().div_ceil(4) as u8;
        self
    }

    /// Adds where a part begins, and perhaps how many bytes there are in all.
    pub(crate) fn with_offset(mut self, offset: [i32; 2], total: Option<[i32; 2]>) -> Self {
        for word in offset.into_iter().chain(total.into_iter().flatten()) {
            self.words[usize::from(self.count)] = word;
            self.count += 1;
        }
        self
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[i32] {
        &self.words[..usize::from(self.count)]
    }
}

/// Data within the arguments behind the first four, if there is nothing wrong with it.
#[inline]
pub(crate) fn inline_data(args: &[i32], to: &mut [u8; INLINE_MAX]) -> Option<usize> {
    let Some((&length, words)) = args.get(4..)?.split_first() else { return Some(0) };
    let length = usize::try_from(length).ok().filter(|n| *n <= INLINE_MAX && n.div_ceil(4) == words.len())?;
    for (chunk, word) in to.chunks_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Some(length)
}

/// Two arguments out of 64 bits.
#[inline]
pub(crate) fn split(value: u64) -> [i32; 2] {
    [value as i32, (value >> 32) as i32]
}

/// And back.
#[inline]
pub(crate) fn join(low: i32, high: i32) -> u64 {
    u64::from(low as u32) | u64::from(high as u32) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn data_survives_as_arguments(data in prop::collection::vec(any::<u8>(), 0..=INLINE_MAX)) {
            let args = Args::new([1, 2, 3, 4]).with_data(&data);
            let mut back = [0; INLINE_MAX];
            let length = inline_data(args.as_slice(), &mut back).unwrap();
            prop_assert_eq!(&back[..length], &data[..]);
        }

        #[test]
        fn any_arguments_are_read_without_panic(args in prop::collection::vec(prop_oneof![0i32..40, any::<i32>()], 0..17)) {
            let _ = inline_data(&args, &mut [0; INLINE_MAX]);
        }

        #[test]
        fn words_survive(value: u64) {
            let [low, high] = split(value);
            prop_assert_eq!(join(low, high), value);
        }
    }
}
