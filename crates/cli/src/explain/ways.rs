// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways that requests go, and the classes of their sizes.

/// The way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The process did it in the peer's memory, which it has mapped.
    Mapped,
    /// Its bytes were copied out of the peer's process.
    Attached,
    /// A message of one cache line, or of one packet.
    Line,
    /// A longer message, copied into a ring or into packets.
    Copied,
    /// It could not leave when it was posted.
    Waited,
    /// No event says it.
    Unknown,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Mapped, Self::Attached, Self::Line, Self::Copied, Self::Waited, Self::Unknown];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped memory",
            Self::Attached => "cross-memory attach",
            Self::Line => "one line",
            Self::Copied => "copied",
            Self::Waited => "waited first",
            Self::Unknown => "not seen",
        }
    }
}

/// The sizes of a class: up to so many bytes.
pub fn size_class(bytes: u64) -> u64 {
    [64, 1 << 10, 8 << 10, 64 << 10, 1 << 20].into_iter().find(|most| bytes <= *most).unwrap_or(u64::MAX)
}
