// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: of a NIC, of one end of a session, of a packet's place in a session.

use core::fmt;

/// A NIC's name on every network: 16 random bytes that stay the same as long as the NIC is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId(pub [u8; 16]);

/// One end of a session: the place in its NIC's table, the generation of that place, and 32 random
/// bits. Peers carry it in each packet as the receiver's id.
///
/// An id is never given twice by one [`Transport`](crate::Transport), except that the generation
/// (16 bits) and the random half coincide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) u64);

impl SessionId {
    /// Place 0..65536, generation, random half.
    pub(crate) const fn new(slot: u16, generation: u16, random: u32) -> Self {
        Self(slot as u64 | (generation as u64) << 16 | (random as u64) << 32)
    }

    /// The id of no session.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// The place in the table of sessions, below
    /// [`Config::sessions_max`](crate::Config::sessions_max): an index for the caller's own tables.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// How often the place was given away, modulo 65536.
    pub const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The id as it stands in packets.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}.{}", self.slot(), self.generation())
    }
}

/// How sessions are found by peer: a session with oneself has two ends.
pub(crate) type PeerKey = (NicId, bool);
