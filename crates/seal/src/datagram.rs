// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single datagrams outside of sessions, sealed with the users' keys themselves: questions to a
//! directory and their answers; datagrams to a group.
//!
//! ```text
//!   clear | random (28) | encrypted | tag (16)
//! ```
//!
//! The key of each datagram follows from the users' key and 16 of its random bytes; the other 12
//! are the nonce. They have no forward secrecy, and say nothing of when they were made: what they
//! carry must itself tell an answer from an old one.

use crate::association::derive;
use crate::keys::Keys;
use core::net::IpAddr;
use rand_core::Rng;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

const SALT: usize = 16;
const NONCE: usize = 12;
const TAG: usize = 16;
/// Bytes that a sealed datagram has more than its content.
pub const DATAGRAM_OVERHEAD: usize = SALT + NONCE + TAG;

/// The use of a datagram: a datagram that was made for one opens in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A question to a directory, and its answer.
    Find,
    /// A datagram to a group.
    Group,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Find => b"bellwire find",
            Self::Group => b"bellwire group",
        }
    }
}

impl Keys {
    /// What the two hosts have in common.
    fn common(&self, peer: Option<IpAddr>) -> Option<Zeroizing<[u8; 32]>> {
        let of_hosts = match (&self.own, peer) {
            (Some(own), Some(peer)) => Some(self.commons.of(&own.0.0, &self.key_of(peer)?.0)?),
            // The hosts have no key that all of them share.
            (Some(_), None) if self.shared.is_none() => return None,
            _ => None,
        };
        Some(match (self.shared.as_ref(), of_hosts) {
            (Some(shared), Some(of_hosts)) => derive(shared, &[b"bellwire both", &*of_hosts]),
            (shared, of_hosts) => shared.cloned().or(of_hosts)?,
        })
    }

    fn datagram_key(&self, purpose: Purpose, peer: Option<IpAddr>, salt: &[u8]) -> Option<LessSafeKey> {
        let bytes: Zeroizing<[u8; 32]> = derive(&*self.common(peer)?, &[purpose.label(), salt]);
        UnboundKey::new(&CHACHA20_POLY1305, &*bytes).ok().map(LessSafeKey::new)
    }

    /// Whether datagrams can be sealed for a peer; for all who have the key, without one.
    pub fn can_seal(&self, peer: Option<IpAddr>) -> bool {
        self.shared.is_some() || peer.is_some_and(|at| self.key_of(at).is_some())
    }

    /// Seals a datagram for the host at an address, or for all who share the key: `clear`, then
    /// what nobody else can read. `None`: there is no key for it.
    //= P-AUTH-11
    pub fn seal_datagram(&self, random: &mut impl Rng, purpose: Purpose, peer: Option<IpAddr>, clear: &[u8], content: &[u8]) -> Option<Vec<u8>> {
        let mut drawn = [0; SALT + NONCE];
        random.fill_bytes(&mut drawn);
        let key = self.datagram_key(purpose, peer, &drawn[..SALT])?;
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&drawn[SALT..]);
        let mut sealed = content.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(clear), &mut sealed).ok()?;
        Some([clear, &drawn, &sealed].concat())
    }

    /// What a host at an address, or somebody who shares the key, has sealed, if the first `clear`
    /// bytes and everything else are as they were.
    //= P-AUTH-11
    pub fn open_datagram(&self, purpose: Purpose, peer: Option<IpAddr>, clear: usize, datagram: &[u8]) -> Option<Vec<u8>> {
        let (clear, rest) = datagram.split_at_checked(clear)?;
        let (drawn, sealed) = rest.split_at_checked(SALT + NONCE)?;
        let key = self.datagram_key(purpose, peer, &drawn[..SALT])?;
        let nonce = Nonce::try_assume_unique_for_key(&drawn[SALT..]).ok()?;
        let mut content = sealed.to_vec();
        let length = key.open_in_place(nonce, Aad::from(clear), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Host, SecretKey};
    use rand_core::SeedableRng;

    #[test]
    fn only_those_with_the_key_can_make_and_read_them() {
        //= P-AUTH-11
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
        let host =
            |own: u8, peer: u8| Keys::of_host(SecretKey::new([own; 32]), vec![Host { address: Some(ip(peer)), key: SecretKey::new([peer; 32]).public() }]);
        let cases = [
            (Keys::shared([1; 32]), Keys::shared([1; 32]), Keys::shared([2; 32])),
            (host(3, 4), host(4, 3), host(5, 3)),
            (host(3, 4).and_shared([1; 32]), host(4, 3).and_shared([1; 32]), host(4, 3).and_shared([2; 32])),
        ];
        for (a, b, stranger) in cases {
            let (to, from) = (Some(ip(4)), Some(ip(3)));
            let sealed = a.seal_datagram(&mut rng, Purpose::Find, to, b"ab", b"who waits there?").unwrap();
            assert_eq!(sealed.len(), 2 + 16 + DATAGRAM_OVERHEAD);
            assert_eq!(b.open_datagram(Purpose::Find, from, 2, &sealed).as_deref(), Some(b"who waits there?".as_slice()));
            assert_eq!(stranger.open_datagram(Purpose::Find, from, 2, &sealed), None);
            assert_eq!(b.open_datagram(Purpose::Group, from, 2, &sealed), None);
            for bit in 0..sealed.len() * 8 {
                let mut bent = sealed.clone();
                bent[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(b.open_datagram(Purpose::Find, from, 2, &bent), None, "bit {bit}");
            }
            for length in 0..sealed.len() {
                assert_eq!(b.open_datagram(Purpose::Find, from, 2, &sealed[..length]), None);
            }
            assert_eq!(a.seal_datagram(&mut rng, Purpose::Group, None, b"", b"all").is_some(), a.can_seal(None));
        }
        assert!(!host(3, 4).can_seal(None), "hosts' own keys are none of a group");
    }

    #[test]
    fn questions_from_any_number_of_addresses_cost_one_agreement_for_each_key() {
        //= P-AUTH-11
        let ip = |n: u16| IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
        let peers = [SecretKey::new([4; 32]).public(), SecretKey::new([5; 32]).public()];
        let hosts = vec![Host { address: Some(ip(1)), key: peers[0] }, Host { address: None, key: peers[1] }];
        let keys = Keys::of_host(SecretKey::new([3; 32]), hosts);
        for n in 0..1000 {
            assert_eq!(keys.open_datagram(Purpose::Find, Some(ip(n)), 0, &[7; 100]), None);
        }
        assert_eq!(keys.commons.count(), 2);
        assert!(keys.clone() == keys && keys.clone().commons.count() == 0);
    }
}
