// SPDX-License-Identifier: MIT OR Apache-2.0
//! The randomness of a NIC: 32 bytes that nobody else knows, and a ChaCha20 stream of them for each
//! purpose. Numbers that a stream gave away say nothing about the numbers that follow, nor about
//! another stream. Equal seeds give equal streams, so a run can be repeated.

use chacha20::ChaCha20Rng;
use core::fmt;
use rand_core::{Rng, SeedableRng};

/// The numbers of a purpose.
pub type Stream = ChaCha20Rng;

/// The seed of a NIC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

/// The use of a number. Each purpose has a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The key of cookies: never shown.
    CookieKey = 1,
    /// Session ids, handshake nonces, first packet numbers: shown to peers.
    Handshakes = 2,
    /// Nonces of questions to directories: shown to the directory that is asked.
    Questions = 3,
    /// Pauses between tries.
    Pauses = 4,
    /// The place at which a search for a free name begins.
    Names = 5,
    /// The ephemeral keys of handshakes: never shown.
    Ephemeral = 6,
    /// Salts and nonces of datagrams outside of sessions: shown.
    Datagrams = 7,
    /// The key by which addresses share limits: never shown.
    LimitKey = 8,
}

impl Seed {
    /// Bytes that strangers must not guess: the operating system's.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The stream of a purpose.
    pub fn stream(&self, purpose: Purpose) -> Stream {
        let mut stream = ChaCha20Rng::from_seed(self.0);
        stream.set_stream(purpose as u64);
        stream
    }

    /// The first number of a purpose's stream.
    pub fn number(&self, purpose: Purpose) -> u64 {
        self.stream(purpose).next_u64()
    }
}

/// A seed that anybody can guess, for runs that are to be repeated.
impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}

/// Says nothing of the bytes.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_replayed_and_have_nothing_in_common() {
        //= P-HAND-12
        let numbers = |seed: u64, purpose| {
            let mut stream = Seed::from(seed).stream(purpose);
            (0..100).map(|_| stream.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7, Purpose::Questions), numbers(7, Purpose::Questions));
        assert_ne!(numbers(7, Purpose::Questions), numbers(8, Purpose::Questions));
        let shown = numbers(7, Purpose::Questions);
        assert!(numbers(7, Purpose::CookieKey).iter().all(|n| !shown.contains(n)));
        assert_eq!(format!("{:?}", Seed::new([1; 32])), "Seed(..)");
    }
}
