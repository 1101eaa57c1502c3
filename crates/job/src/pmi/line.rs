// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of PMI-1: cut out of a stream, split into words, with limits. For both ends of the wire.

use std::fmt;

/// The longest line that either end takes, with its newline, bytes.
pub const LINE_MAX_BYTES: usize = 96 * 1024;
/// Words of a line.
pub const WORDS_MAX: usize = 64;

/// Why bytes are no line of PMI-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// No newline within [`LINE_MAX_BYTES`].
    TooLong,
    /// Something that is not printable ASCII.
    NotText,
    /// A word without `=`, or without a name before it.
    NotAPair,
    /// More than [`WORDS_MAX`] words.
    TooManyWords,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a line longer than 96 KiB",
            Self::NotText => "something else than printable ASCII",
            Self::NotAPair => "a word that is not key=value",
            Self::TooManyWords => "a line of more than 64 words",
        })
    }
}

/// The words of one line. The first of equal keys counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    /// Splits a line, given without its newline.
    ///
    /// # Errors
    /// Its error.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() >= LINE_MAX_BYTES {
            return Err(Malformed::TooLong);
        }
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.bytes().all(|byte| matches!(byte, b' '..=b'~'))).ok_or(Malformed::NotText)?;
        let mut words = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if words.len() == WORDS_MAX {
                return Err(Malformed::TooManyWords);
            }
            words.push(word.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or(Malformed::NotAPair)?);
        }
        Ok(Self { words })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// The value of a key, as a number.
    pub fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        self.get(key)?.parse().ok()
    }

    /// What the line is: the value of `cmd`, or "" without one.
    pub fn command(&self) -> &'a str {
        self.get("cmd").unwrap_or("")
    }
}

/// Cuts a stream into lines, keeping at most one that is not complete.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// The bytes already searched for a newline.
    searched: usize,
}

impl LineBuffer {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line, without its newline; `None` until there is one.
    ///
    /// # Errors
    /// [`Malformed::TooLong`]; the stream is of no use then.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at) else {
            self.searched = self.bytes.len();
            return if self.bytes.len() >= LINE_MAX_BYTES { Err(Malformed::TooLong) } else { Ok(None) };
        };
        if end >= LINE_MAX_BYTES {
            return Err(Malformed::TooLong);
        }
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        self.searched = 0;
        line.pop();
        Ok(Some(line))
    }

    /// Whether nothing is waiting for its end.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words() {
        let line = Line::parse(b"cmd=get_result rc=0  msg=success value=(vector,(0,1,4)) key=a key=b ").unwrap();
        assert_eq!(
            (line.command(), line.number::<i32>("rc"), line.get("value"), line.get("key")),
            ("get_result", Some(0), Some("(vector,(0,1,4))"), Some("a"))
        );
        assert_eq!((line.get("none"), line.number::<u32>("msg")), (None, None));
        assert_eq!(Line::parse(b"value=a=b").unwrap().get("value"), Some("a=b"));
        assert_eq!(Line::parse(b"").unwrap().command(), "");
    }

    #[test]
    fn what_is_no_line() {
        assert_eq!(Line::parse(b"cmd"), Err(Malformed::NotAPair));
        assert_eq!(Line::parse(b"=x"), Err(Malformed::NotAPair));
        assert_eq!(Line::parse(b"cmd=\xff"), Err(Malformed::NotText));
        assert_eq!(Line::parse(b"cmd=a\tb"), Err(Malformed::NotText));
        assert_eq!(Line::parse("a=b ".repeat(WORDS_MAX + 1).as_bytes()), Err(Malformed::TooManyWords));
        assert_eq!(Line::parse(&vec![b'a'; LINE_MAX_BYTES]), Err(Malformed::TooLong));
    }

    #[test]
    fn a_line_has_a_limit() {
        let mut buffer = LineBuffer::default();
        buffer.push(&vec![b'a'; LINE_MAX_BYTES - 1]);
        assert_eq!(buffer.next_line(), Ok(None));
        buffer.push(b"\n");
        assert_eq!(buffer.next_line().unwrap().unwrap().len(), LINE_MAX_BYTES - 1);
        buffer.push(&vec![b'a'; LINE_MAX_BYTES]);
        assert_eq!(buffer.next_line(), Err(Malformed::TooLong));
    }

    proptest! {
        #[test]
        fn the_stream_may_be_cut_anywhere(lines in proptest::collection::vec("[ -~]{0,40}", 0..8), cut in 1usize..20) {
            let stream: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut buffer = LineBuffer::default();
            let mut seen = Vec::new();
            for piece in stream.as_bytes().chunks(cut) {
                buffer.push(piece);
                while let Some(line) = buffer.next_line().unwrap() {
                    seen.push(String::from_utf8(line).unwrap());
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(seen, lines);
        }

        #[test]
        fn what_is_written_is_read(words in proptest::collection::vec(("[a-z_]{1,8}", "[!-~]{0,12}"), 0..WORDS_MAX)) {
            let text = words.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
            let line = Line::parse(text.as_bytes()).unwrap();
            for (key, _) in &words {
                prop_assert_eq!(line.get(key), words.iter().find(|word| word.0 == *key).map(|word| word.1.as_str()));
            }
        }

        #[test]
        fn anything_is_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Line::parse(&bytes);
        }
    }
}
