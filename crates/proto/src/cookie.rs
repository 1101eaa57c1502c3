// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cookies: a peer that can send one back receives at the address that it claims. They are a keyed
//! hash of everything that identifies the handshake and of the time; nothing is stored.

use crate::packet::Hello;
use crate::packet::auth::AuthHello;
use bellwire_time::{Duration, Instant};
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip128::{Hasher128, SipHasher24};

/// Makes and checks cookies.
#[derive(Debug)]
pub(crate) struct Baker {
    key: [u64; 2],
    time: Duration,
}

impl Baker {
    pub(crate) const fn new(key: [u64; 2], time: Duration) -> Self {
        Self { key, time }
    }

    /// The cookie for a HELLO from `from` at this time.
    pub(crate) fn bake(&self, now: Instant, from: SocketAddr, hello: &Hello) -> [u8; 16] {
        self.of(self.slot(now), from, hello)
    }

    /// Whether the HELLO's cookie is one that was given for it, in this slot of time or the last.
    //= P-HAND-3
    pub(crate) fn is_good(&self, now: Instant, from: SocketAddr, hello: &Hello) -> bool {
        let slot = self.slot(now);
        hello.cookie == self.of(slot, from, hello) || (slot > 0 && hello.cookie == self.of(slot - 1, from, hello))
    }

    const fn slot(&self, now: Instant) -> u64 {
        now.0 / self.time.0
    }

    /// The cookie for an authenticated HELLO.
    pub(crate) fn bake_auth(&self, now: Instant, from: SocketAddr, hello: &AuthHello) -> [u8; 16] {
        self.of_auth(self.slot(now), from, hello)
    }

    /// Whether that of an authenticated HELLO is good.
    //= P-HAND-3
    pub(crate) fn is_good_auth(&self, now: Instant, from: SocketAddr, hello: &AuthHello) -> bool {
        let slot = self.slot(now);
        hello.cookie == self.of_auth(slot, from, hello) || (slot > 0 && hello.cookie == self.of_auth(slot - 1, from, hello))
    }

    fn of(&self, slot: u64, from: SocketAddr, hello: &Hello) -> [u8; 16] {
        let mut hasher = self.hasher(from);
        hasher.write(&hello.party.nic.0);
        for word in [slot, hello.party.boot, hello.party.session, hello.party.attempt, hello.nonce] {
            hasher.write(&word.to_le_bytes());
        }
        Self::of_hash(hasher)
    }

    fn of_auth(&self, slot: u64, from: SocketAddr, hello: &AuthHello) -> [u8; 16] {
        let mut hasher = self.hasher(from);
        for word in [slot, hello.pattern as u64, hello.session, hello.nonce] {
            hasher.write(&word.to_le_bytes());
        }
        Self::of_hash(hasher)
    }

    fn hasher(&self, from: SocketAddr) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_keys(self.key[0], self.key[1]);
        match from.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write(&from.port().to_le_bytes());
        hasher
    }

    fn of_hash(hasher: SipHasher24) -> [u8; 16] {
        let mut cookie = hasher.finish128().as_bytes();
        // All zero means "none".
        cookie[0] |= u8::from(cookie == [0; 16]);
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NicId;
    use crate::packet::handshake::Party;

    fn hello() -> Hello {
        let party = Party { nic: NicId([3; 16]), boot: 1, session: 2, attempt: 3, features: 0, datagram: 1200, psn: 9, room: 1 << 20 };
        Hello { timestamp: 5, party, nonce: 77, versions: [1, 1], cookie: [0; 16] }
    }

    #[test]
    fn a_cookie_is_good_for_its_handshake_and_its_time_alone() {
        //= P-HAND-3
        let baker = Baker::new([1, 2], Duration(1000));
        let from: SocketAddr = "10.0.0.1:5".parse().unwrap();
        let mut h = hello();
        assert!(!baker.is_good(Instant(0), from, &h));
        h.cookie = baker.bake(Instant(500), from, &h);
        assert!(baker.is_good(Instant(500), from, &h) && baker.is_good(Instant(1999), from, &h));
        assert!(!baker.is_good(Instant(2000), from, &h));
        assert!(!baker.is_good(Instant(500), "10.0.0.2:5".parse().unwrap(), &h) && !baker.is_good(Instant(500), "10.0.0.1:6".parse().unwrap(), &h));
        for change in 0..4 {
            let mut other = h;
            match change {
                0 => other.nonce += 1,
                1 => other.party.attempt += 1,
                2 => other.party.nic.0[15] += 1,
                _ => other.party.session += 1,
            }
            assert!(!baker.is_good(Instant(500), from, &other));
        }
        assert!(!Baker::new([1, 3], Duration(1000)).is_good(Instant(500), from, &h));
    }
}
