// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handshakes that there are: by which keys, and how long their messages are.

use crate::x25519::KEY_BYTES;

/// Bytes of a tag within a message.
pub(crate) const TAG: usize = 16;

/// The handshake: what both ends need to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Pattern {
    /// A key that all share.
    Shared = 1,
    /// Keys of hosts.
    Hosts = 2,
    /// Both.
    Both = 3,
}

impl Pattern {
    /// By its number in a HELLO.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            1 => Self::Shared,
            2 => Self::Hosts,
            3 => Self::Both,
            _ => return None,
        })
    }

    /// Bytes of the first message with such a payload.
    pub const fn first_bytes(self, payload: usize) -> usize {
        let own = if matches!(self, Self::Shared) { 0 } else { KEY_BYTES + TAG };
        KEY_BYTES + own + payload + TAG
    }

    /// Bytes of the second.
    pub const fn second_bytes(self, payload: usize) -> usize {
        KEY_BYTES + payload + TAG
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Shared => "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
            Self::Hosts => "Noise_IK_25519_ChaChaPoly_SHA256",
            Self::Both => "Noise_IKpsk2_25519_ChaChaPoly_SHA256",
        }
    }

    pub(crate) const fn place_of_shared(self) -> u8 {
        if matches!(self, Self::Shared) { 0 } else { 2 }
    }
}
