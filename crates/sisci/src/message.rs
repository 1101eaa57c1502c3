// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between processes of a host over the sockets of segments and interrupts, and the
//! abstract names of those sockets. Each message that arrives is checked here.

use crate::error::Error;
use core::ops::Range;

const MAGIC: u32 = u32::from_le_bytes(*b"SSCI");
const VERSION: u32 = 3;
/// Bytes of the longest message but data interrupts.
pub const MESSAGE_MAX: usize = 32;

/// Bytes that a data interrupt may have.
pub const DATA_MAX: usize = 4096;

/// What a caller wants of the object whose name it has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wish {
    /// Connect to the segment.
    Connect = 1,
    /// Be a second owner of the shared segment.
    Attach = 2,
    /// Trigger the interrupt.
    Interrupt = 3,
    /// Send data interrupts.
    DataInterrupt = 4,
    /// Know whether somebody is there.
    Probe = 5,
}

/// The first message of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What it wants.
    pub wish: Wish,
    /// Its node.
    pub node: u32,
}

impl Hello {
    /// As it is sent.
    pub fn bytes(self) -> [u8; 16] {
        words([MAGIC, VERSION, self.wish as u32, self.node])
    }

    /// From a caller's bytes.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] for nonsense; [`Error::InconsistentVersions`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let [magic, version, wish, node] = unwords(bytes).ok_or(Error::IllegalParameter)?;
        if magic != MAGIC {
            return Err(Error::IllegalParameter);
        }
        if version != VERSION {
            return Err(Error::InconsistentVersions);
        }
        let all = [Wish::Connect, Wish::Attach, Wish::Interrupt, Wish::DataInterrupt, Wish::Probe];
        let wish = all.into_iter().find(|w| *w as u32 == wish).ok_or(Error::IllegalParameter)?;
        Ok(Self { wish, node })
    }
}

/// The owner's answer; memory comes with it where that was the wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the caller is let in.
    pub result: Result<(), Error>,
    /// Bytes of the segment.
    pub size: u64,
}

impl Answer {
    /// As it is sent.
    pub fn bytes(self) -> [u8; 20] {
        words([MAGIC, VERSION, self.result.err().map_or(0, Error::code), self.size as u32, (self.size >> 32) as u32])
    }

    /// From an owner's bytes.
    ///
    /// # Errors
    /// [`Error::InconsistentVersions`] for anything but an answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let [magic, version, code, low, high] = unwords(bytes).ok_or(Error::InconsistentVersions)?;
        if magic != MAGIC || version != VERSION {
            return Err(Error::InconsistentVersions);
        }
        let result = if code == 0 { Ok(()) } else { Err(Error::ALL.iter().copied().find(|e| e.code() == code).unwrap_or(Error::ConnectionRefused)) };
        Ok(Self { result, size: u64::from(high) << 32 | u64::from(low) })
    }
}

/// A message on a connection that stands: one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Notice {
    /// The user leaves in order.
    Bye = 1,
    /// The owner has made the segment unavailable, and asks its users to leave.
    Unavailable = 2,
    /// The owner ends the connection.
    Gone = 3,
    /// The user has mapped the segment.
    Mapped = 4,
    /// It has no map of it any more.
    Unmapped = 5,
}

impl Notice {
    /// From a peer's bytes; `None` for nonsense.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [1] => Some(Self::Bye),
            [2] => Some(Self::Unavailable),
            [3] => Some(Self::Gone),
            [4] => Some(Self::Mapped),
            [5] => Some(Self::Unmapped),
            _ => None,
        }
    }
}

/// What a user has stored through a map whose stores interrupt: a message on a connection that
/// stands, of 17 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A trigger of the flag at this offset, which the owner is to count.
    Flag(u64),
    /// Bytes of this range, which are there already.
    Bytes(Range<u64>),
}

impl Stored {
    /// As it is sent.
    pub fn bytes(&self) -> [u8; 17] {
        let (kind, words) = match self {
            Self::Flag(offset) => (6, [*offset, 0]),
            Self::Bytes(range) => (7, [range.start, range.end]),
        };
        let mut bytes = [kind; 17];
        for (part, word) in bytes[1..].chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From a user's bytes; `None` for nonsense.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, words) = bytes.split_first().filter(|_| bytes.len() == 17)?;
        let word = |at: usize| words[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default();
        match kind {
            6 => Some(Self::Flag(word(0))),
            7 => Some(Self::Bytes(word(0)..word(8))),
            _ => None,
        }
    }
}

fn words<const W: usize, const B: usize>(words: [u32; W]) -> [u8; B] {
    let mut bytes = [0; B];
    for (part, word) in bytes.chunks_exact_mut(4).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn unwords<const W: usize>(bytes: &[u8]) -> Option<[u32; W]> {
    if bytes.len() != W * 4 {
        return None;
    }
    let mut words = [0; W];
    for (word, part) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(part.try_into().ok()?);
    }
    Some(words)
}

/// The name of a segment's socket.
pub fn segment_name(node: u32, id: u32) -> String {
    format!("bellwire/sisci/{node}/segment/{id}")
}

/// The name of an interrupt's socket. Slot 0 is for its only owner, the others for owners that
/// share the number.
pub fn interrupt_name(node: u32, number: u32, slot: u32) -> String {
    format!("bellwire/sisci/{node}/interrupt/{number}/{slot}")
}

/// The name of a data interrupt's socket.
pub fn data_interrupt_name(node: u32, number: u32) -> String {
    format!("bellwire/sisci/{node}/data-interrupt/{number}")
}

/// The name by which one sees that a process of a node runs.
pub fn node_name(node: u32, slot: u32) -> String {
    format!("bellwire/sisci/{node}/process/{slot}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_and_nonsense() {
        let hello = Hello { wish: Wish::Attach, node: 70_000 };
        assert_eq!(Hello::parse(&hello.bytes()), Ok(hello));
        for answer in [Answer { result: Ok(()), size: 1 << 40 }, Answer { result: Err(Error::Access), size: 0 }] {
            assert_eq!(Answer::parse(&answer.bytes()), Ok(answer));
        }
        let mut other = hello.bytes();
        other[4] = 9;
        assert_eq!(Hello::parse(&other), Err(Error::InconsistentVersions));
        other = hello.bytes();
        other[8] = 77;
        for nonsense in [&other[..], &[], &[0; 16], &[1; 17]] {
            assert_eq!(Hello::parse(nonsense), Err(Error::IllegalParameter));
            assert!(Answer::parse(nonsense).is_err());
        }
        for stored in [Stored::Flag(1 << 40), Stored::Bytes(5..u64::MAX)] {
            assert_eq!(Stored::parse(&stored.bytes()), Some(stored.clone()));
            assert_eq!(Stored::parse(&stored.bytes()[..16]), None);
        }
        assert_eq!((Stored::parse(&[8; 17]), Stored::parse(&[])), (None, None));
        assert_eq!((Notice::parse(&[3]), Notice::parse(&[6]), Notice::parse(&[1, 1])), (Some(Notice::Gone), None, None));
    }
}
