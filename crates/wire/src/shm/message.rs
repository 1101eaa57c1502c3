// SPDX-License-Identifier: MIT OR Apache-2.0
//! What two NICs of a host say over their UNIX socket: to become a link, and to hand each other
//! memory.
//!
//! ```text
//!  connector                       acceptor
//!  Knock { id }              -->
//!                            <--   Here { id, linked }
//!                            or  Barred                   the acceptor does not allow that user
//!  Existing                  -->                          both have a link: it is used
//!  Offer { .. } + fds        -->
//!                            <--   Offer { .. } + fds     the socket now belongs to the link
//!  Want { segment, write }   <->   Give { segment, granted } + fd       Gone { segment }
//! ```
//! 32 bytes each: 0 kind, 1 flags, 2-3 version, 4-7 segment, 8-23 NIC id, 24-31 address of the
//! block to try cross-memory attach with (Offer only, 0: do not try). Reserved bytes are zero and
//! checked.

use super::layout::VERSION;
use super::link::NicId;

/// Bytes of every message.
pub(super) const BYTES: usize = 32;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Who is there?
    Knock { id: NicId },
    /// Me; and whether I have a link with you.
    Here { id: NicId, linked: bool },
    /// Let us use the link there is.
    Existing,
    /// My half of a link. With it: link region, payload bytes, catalogue, bell, and a pidfd if
    /// there is one.
    Offer { id: NicId, mapped: bool, barriers: bool, probe: u64 },
    /// May I map that allocation of yours?
    Want { segment: u32, write: bool },
    /// Yes, with a descriptor; or no.
    Give { segment: u32, granted: bool, write: bool },
    /// That allocation of mine is freed: unmap it.
    Gone { segment: u32 },
    /// Your user is not allowed here.
    Barred,
}

impl Message {
    pub(super) fn store(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        b[2..4].copy_from_slice(&(VERSION as u16).to_le_bytes());
        if let Self::Offer { probe, .. } = *self {
            b[24..32].copy_from_slice(&probe.to_le_bytes());
        }
        let (kind, flags, segment, id) = match *self {
            Self::Knock { id } => (1, 0, 0, Some(id)),
            Self::Here { id, linked } => (2, u8::from(linked), 0, Some(id)),
            Self::Existing => (3, 0, 0, None),
            Self::Offer { id, mapped, barriers, .. } => (4, u8::from(mapped) | u8::from(barriers) << 1, 0, Some(id)),
            Self::Want { segment, write } => (5, u8::from(write), segment, None),
            Self::Give { segment, granted, write } => (6, u8::from(granted) | u8::from(write) << 1, segment, None),
            Self::Gone { segment } => (7, 0, segment, None),
            Self::Barred => (8, 0, 0, None),
        };
        (b[0], b[1]) = (kind, flags);
        b[4..8].copy_from_slice(&segment.to_le_bytes());
        if let Some(id) = id {
            b[8..24].copy_from_slice(&id);
        }
        b
    }

    pub(super) fn load(b: &[u8]) -> Option<Self> {
        let b: &[u8; BYTES] = b.try_into().ok()?;
        if b[2..4] != (VERSION as u16).to_le_bytes() || (b[0] != 4 && b[24..] != [0; 8]) {
            return None;
        }
        let segment = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
        let mut id = [0; 16];
        id.copy_from_slice(&b[8..24]);
        let flags = b[1];
        let (one, two) = (flags & 1 != 0, flags & 2 != 0);
        let allowed = match b[0] {
            2 | 5 => 1,
            4 | 6 => 3,
            _ => 0,
        };
        if flags & !allowed != 0 {
            return None;
        }
        Some(match b[0] {
            1 => Self::Knock { id },
            2 => Self::Here { id, linked: one },
            3 => Self::Existing,
            4 => Self::Offer { id, mapped: one, barriers: two, probe: u64::from_le_bytes([b[24], b[25], b[26], b[27], b[28], b[29], b[30], b[31]]) },
            5 => Self::Want { segment, write: one },
            6 => Self::Give { segment, granted: one, write: two },
            7 => Self::Gone { segment },
            8 => Self::Barred,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_trips() {
        let id = [7; 16];
        for m in [
            Message::Knock { id },
            Message::Here { id, linked: true },
            Message::Existing,
            Message::Offer { id, mapped: false, barriers: true, probe: 0x7fff_1234_5678 },
            Message::Want { segment: 9, write: true },
            Message::Give { segment: u32::MAX, granted: true, write: false },
            Message::Gone { segment: 3 },
            Message::Barred,
        ] {
            assert_eq!(Message::load(&m.store()), Some(m));
            assert_eq!(Message::load(&m.store()[..31]), None);
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Message::load(&bytes);
        }
    }
}
