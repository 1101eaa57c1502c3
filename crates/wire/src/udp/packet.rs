// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two datagrams by which NICs find each other (docs/PROTOCOL.md, "Finding a NIC"). Their first
//! byte is no packet of the transport.
//!
//! ```text
//!  FIND   0 kind 0xf1   1 version   2-7 zero    8-15 nonce   16-31 name   32-63 zero     as long as no answer is
//!  FOUND  0 kind 0xf2   1 version   2-3 port (0: nobody waits there)   4-7 user id   8-15 nonce   16-31 name
//! ```
//!
//! With keys both are the content of a sealed datagram (`bellwire-seal`), with zeros behind the
//! question so that no answer is longer:
//!
//! ```text
//!  sealed FIND    0xf3   1 version   2-7 zero   8-35 random   36- sealed: FIND, 16 zeros, tag
//!  sealed FOUND   0xf4   1 version   2-7 zero   8-35 random   36- sealed: FOUND, tag
//!  NO_KEY         0xf5   1 version   2 reason   3-7 zero   8-35 bytes 8-35 of the question
//! ```
//!
//! NO_KEY says why a question is not answered: 1 it is not sealed, and has to be; 2 no key here; 3
//! another key. An asker with a key takes it for a hint, for anybody who saw the question can send
//! it.

use crate::LinkFailure;
use bellwire_proto::Stream;
use bellwire_proto::seal::{DATAGRAM_OVERHEAD, Keys, Purpose};
use std::net::IpAddr;

/// Bytes of FIND and FOUND.
pub(crate) const FIND_BYTES: usize = 64;
pub(crate) const FOUND_BYTES: usize = 32;
/// What a process that waits answers to its directory: version, zero, port.
pub(crate) const WAITS_BYTES: usize = 4;

const FIND: u8 = 0xf1;
const FOUND: u8 = 0xf2;
const SEALED_FIND: u8 = 0xf3;
const SEALED_FOUND: u8 = 0xf4;
const NO_KEY: u8 = 0xf5;
const VERSION: u8 = 2;
/// That of release 0.1.0: without keys, and without the user in an answer.
const OLD: u8 = 1;
const WAITS_VERSION: u8 = 1;
/// Bytes of a sealed datagram that anybody can read, before its random ones.
const CLEAR: usize = 8;
const RANDOM: usize = 28;
/// Zeros behind a question that is sealed.
const PADDING: usize = 16;
/// Bytes of the sealed ones and of their refusal.
pub(super) const SEALED_FIND_BYTES: usize = CLEAR + DATAGRAM_OVERHEAD + FIND_BYTES + PADDING;
const NO_KEY_BYTES: usize = CLEAR + RANDOM;
/// The longest datagram of ours.
pub(super) const LONGEST: usize = SEALED_FIND_BYTES;

/// Why a directory does not answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum NoKey {
    /// It answers sealed questions only.
    Wanted = 1,
    /// It has no key.
    Missing = 2,
    /// It has another one.
    Other = 3,
}

impl NoKey {
    pub(super) const fn failure(self) -> LinkFailure {
        match self {
            Self::Wanted => LinkFailure::KeyWanted,
            Self::Missing => LinkFailure::KeyMissing,
            Self::Other => LinkFailure::KeyOther,
        }
    }

    fn load(raw: u8) -> Option<Self> {
        [Self::Wanted, Self::Missing, Self::Other].into_iter().find(|r| *r as u8 == raw)
    }
}

/// Whether it is a sealed question.
pub(super) fn is_sealed_find(b: &[u8]) -> bool {
    b.len() == SEALED_FIND_BYTES && b[0] == SEALED_FIND && b[1] == VERSION && zero(&b[2..CLEAR])
}

/// The question, sealed for the host that is asked.
//= P-AUTH-11
pub(super) fn seal_find(keys: &Keys, random: &mut Stream, to: IpAddr, find: Find) -> Option<Vec<u8>> {
    let mut clear = [0; CLEAR];
    (clear[0], clear[1]) = (SEALED_FIND, VERSION);
    keys.seal_datagram(random, Purpose::Find, Some(to), &clear, &[&find.store()[..], &[0; PADDING]].concat())
}

pub(super) fn open_find(keys: &Keys, from: IpAddr, b: &[u8]) -> Option<Find> {
    let content = keys.open_datagram(Purpose::Find, Some(from), CLEAR, b).filter(|c| c.len() == FIND_BYTES + PADDING)?;
    Find::load(&content[..FIND_BYTES])
}

pub(super) fn seal_found(keys: &Keys, random: &mut Stream, to: IpAddr, found: Found) -> Option<Vec<u8>> {
    let mut clear = [0; CLEAR];
    (clear[0], clear[1]) = (SEALED_FOUND, VERSION);
    keys.seal_datagram(random, Purpose::Find, Some(to), &clear, &found.store())
}

pub(super) fn open_found(keys: &Keys, from: IpAddr, b: &[u8]) -> Option<Found> {
    if b.first() != Some(&SEALED_FOUND) || b.get(1) != Some(&VERSION) || !b.get(2..CLEAR).is_some_and(zero) {
        return None;
    }
    Found::load(&keys.open_datagram(Purpose::Find, Some(from), CLEAR, b)?)
}

/// That a question is not answered, sealed or not.
pub(super) fn store_no_key(question: &[u8], why: NoKey) -> Vec<u8> {
    let mut b = vec![0; CLEAR];
    (b[0], b[1], b[2]) = (NO_KEY, VERSION, why as u8);
    b.extend(question.iter().skip(CLEAR).take(RANDOM));
    b
}

/// Why the question is not answered, if `b` says that of it.
pub(super) fn load_no_key(question: &[u8], b: &[u8]) -> Option<NoKey> {
    let fine = b.len() == NO_KEY_BYTES && b[0] == NO_KEY && b[1] == VERSION && zero(&b[3..CLEAR]) && question.get(CLEAR..CLEAR + RANDOM) == Some(&b[CLEAR..]);
    if fine { NoKey::load(b[2]) } else { None }
}

/// Whether a datagram is none of the transport's.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(FIND..=NO_KEY)))
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

    /// Also a question of release 0.1.0.
    pub(crate) fn load(b: &[u8]) -> Option<Self> {
        let fine = b.len() == FIND_BYTES && b[0] == FIND && matches!(b[1], OLD | VERSION) && zero(&b[2..8]) && zero(&b[32..]);
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
        let may_name_user = b.len() == FOUND_BYTES && b[1] == VERSION && !zero(&b[2..4]);
        let fine = b.len() == FOUND_BYTES && b[0] == FOUND && matches!(b[1], OLD | VERSION) && (may_name_user || zero(&b[4..8]));
        fine.then(|| Self {
            nonce: u64::from_le_bytes(word(b, 8)),
            name: u128::from_le_bytes(word(b, 16)),
            user: u32::from_le_bytes(word(b, 4)),
            port: u16::from_le_bytes(word(b, 2)),
        })
    }
}

/// Whether it is a question of release 0.1.0, which reads no other answers than [`old_found`].
pub(super) fn is_old_find(question: &[u8]) -> bool {
    question.get(1) == Some(&OLD)
}

/// The question as a directory of release 0.1.0 reads it; none of a sealed one.
pub(super) fn old_find(question: &[u8]) -> Option<Vec<u8>> {
    let mut old = Find::load(question).map(|_| question.to_vec())?;
    old[1] = OLD;
    Some(old)
}

pub(super) fn old_found(found: Found) -> Vec<u8> {
    let mut b = Found { user: 0, ..found }.store().to_vec();
    b[1] = OLD;
    b
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
    fn sealed_ones_are_read_by_those_with_the_key_alone() {
        //= P-AUTH-11
        let mut random = bellwire_proto::Seed::from(3).stream(bellwire_proto::Purpose::Datagrams);
        let (keys, others) = (Keys::shared([1; 32]), Keys::shared([2; 32]));
        let at = IpAddr::from([10, 0, 0, 1]);
        let (find, found) = (Find { nonce: 5, name: 77 }, Found { nonce: 5, name: 77, user: 1000, port: 9 });
        let question = seal_find(&keys, &mut random, at, find).unwrap();
        assert!(is_sealed_find(&question) && is_ours(&question) && !question.windows(16).any(|w| w == 77u128.to_le_bytes()));
        assert_eq!((open_find(&keys, at, &question), open_find(&others, at, &question)), (Some(find), None));
        let answer = seal_found(&keys, &mut random, at, found).unwrap();
        assert!(is_ours(&answer) && answer.len() <= question.len());
        assert_eq!((open_found(&keys, at, &answer), open_found(&others, at, &answer)), (Some(found), None));
        assert!(open_find(&keys, at, &answer).is_none() && open_found(&keys, at, &question).is_none());
        for (what, bytes) in [(0, &question), (1, &answer)] {
            for bit in 0..bytes.len() * 8 {
                let mut bent = bytes.clone();
                bent[bit / 8] ^= 1 << (bit % 8);
                assert!(if what == 0 { open_find(&keys, at, &bent).is_none() } else { open_found(&keys, at, &bent).is_none() });
            }
        }
        let plain = find.store();
        let wanted = store_no_key(&plain, NoKey::Wanted);
        assert_eq!((load_no_key(&plain, &wanted), load_no_key(&question, &wanted)), (Some(NoKey::Wanted), None));
        let refusal = store_no_key(&question, NoKey::Other);
        assert_eq!((load_no_key(&question, &refusal), load_no_key(&answer, &refusal)), (Some(NoKey::Other), None));
        assert!(is_ours(&refusal) && refusal.len() <= question.len());
    }

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
        const { assert!(CLEAR + DATAGRAM_OVERHEAD + FOUND_BYTES <= SEALED_FIND_BYTES && NO_KEY_BYTES <= FIND_BYTES) }
    }
}
