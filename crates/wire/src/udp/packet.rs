// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two datagrams by which NICs find each other (docs/PROTOCOL.md, "Finding a NIC"). Their first
//! byte is no packet of the transport.
//!
//! ```text
//!  FIND   0 kind 0xf1   1 version   2-7 zero    8-15 nonce   16-31 name   32-63 zero     as long as no answer is
//!  FOUND  0 kind 0xf2   1 version   2-3 port (0: nobody waits there)   4-7 user id   8-15 nonce   16-31 name
//! ```

/// Bytes of FIND and FOUND.
pub(crate) const FIND_BYTES: usize = 64;
pub(crate) const FOUND_BYTES: usize = 32;
/// What a process that waits answers to its directory: version, zero, port.
pub(crate) const WAITS_BYTES: usize = 4;

const FIND: u8 = 0xf1;
const FOUND: u8 = 0xf2;
const VERSION: u8 = 2;
const WAITS_VERSION: u8 = 1;

/// Whether a datagram is none of the transport's.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(FIND | FOUND)))
}

/// Who waits under this name?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Find {
    pub nonce: u64,
    pub name: u128,
}

/// The port of the process that does, and its user on that host; port 0 if none, and user 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub nonce: u64,
    pub name: u128,
    pub user: u32,
    pub port: u16,
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

fn zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}

impl Find {
    pub(crate) fn store(self) -> [u8; FIND_BYTES] {
        let mut b = [0; FIND_BYTES];
        (b[0], b[1]) = (FIND, VERSION);
        b[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        b[16..32].copy_from_slice(&self.name.to_le_bytes());
        b
    }

    pub(crate) fn load(b: &[u8]) -> Option<Self> {
        let fine = b.len() == FIND_BYTES && b[0] == FIND && b[1] == VERSION && zero(&b[2..8]) && zero(&b[32..]);
        fine.then(|| Self { nonce: u64::from_le_bytes(word(b, 8)), name: u128::from_le_bytes(word(b, 16)) })
    }
}

impl Found {
    pub(crate) fn store(self) -> [u8; FOUND_BYTES] {
        let mut b = [0; FOUND_BYTES];
        (b[0], b[1]) = (FOUND, VERSION);
        b[2..4].copy_from_slice(&self.port.to_le_bytes());
        b[4..8].copy_from_slice(&self.user.to_le_bytes());
        b[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        b[16..32].copy_from_slice(&self.name.to_le_bytes());
        b
    }

    pub(crate) fn load(b: &[u8]) -> Option<Self> {
        let fine = b.len() == FOUND_BYTES && b[0] == FOUND && b[1] == VERSION && (!zero(&b[2..4]) || zero(&b[4..8]));
        fine.then(|| Self {
            nonce: u64::from_le_bytes(word(b, 8)),
            name: u128::from_le_bytes(word(b, 16)),
            user: u32::from_le_bytes(word(b, 4)),
            port: u16::from_le_bytes(word(b, 2)),
        })
    }
}

/// What a process that waits tells its directory.
pub(crate) fn store_port(port: u16) -> [u8; WAITS_BYTES] {
    let [low, high] = port.to_le_bytes();
    [WAITS_VERSION, 0, low, high]
}

/// The port told; `None` for nonsense.
pub(crate) fn load_port(b: &[u8]) -> Option<u16> {
    match *b {
        [WAITS_VERSION, 0, low, high] => Some(u16::from_le_bytes([low, high])).filter(|port| *port != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_survive_and_nothing_else_does() {
        let find = Find { nonce: 0x0102_0304_0506_0708, name: u128::MAX / 3 };
        let found = Found { nonce: 7, name: 9, user: 1000, port: 4711 };
        assert_eq!((Find::load(&find.store()), Found::load(&found.store())), (Some(find), Some(found)));
        assert!(is_ours(&find.store()) && is_ours(&found.store()) && !is_ours(&[0x10]) && !is_ours(&[]));
        assert!(Find::load(&found.store()).is_none() && Found::load(&find.store()).is_none());
        for reserved in [1, 2, 7, 40, 63] {
            let mut b = find.store();
            b[reserved] ^= 0x80;
            assert_eq!(Find::load(&b), None, "byte {reserved}");
        }
        let nobody = Found { user: 0, port: 0, ..found };
        assert_eq!(Found::load(&nobody.store()), Some(nobody));
        for (answer, wrong) in [(found, 1), (nobody, 4), (nobody, 7)] {
            let mut b = answer.store();
            b[wrong] ^= 1;
            assert_eq!(Found::load(&b), None, "byte {wrong}");
        }
        assert_eq!(load_port(&store_port(7118)), Some(7118));
        assert!(load_port(&store_port(0)).is_none() && load_port(&[]).is_none() && load_port(&[3, 0, 1, 1]).is_none());
        const { assert!(FOUND_BYTES <= FIND_BYTES, "an answer is no longer than its question") }
    }
}
