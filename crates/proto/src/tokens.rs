// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the work that strangers cause: buckets of tokens, for all of them or for each address.

use crate::seed::{Purpose, Seed};
use bellwire_time::Instant;
use core::hash::Hasher;
use core::net::IpAddr;
use rand_core::Rng;
use siphasher::sip128::{Hasher128, SipHasher13};

/// One token, in the unit that buckets count in: about a nanosecond's worth at one per second.
const TOKEN: u64 = 1 << 30;
/// Buckets of addresses.
const BUCKETS: usize = 1 << 10;
/// Buckets that an address has.
const CHOICES: usize = 2;

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_second: u32,
    /// Tokens that may be taken at once.
    pub(crate) burst: u32,
}

/// A bucket of tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    tokens: u64,
    filled: Instant,
}

impl Rate {
    fn full(self) -> u64 {
        u64::from(self.burst.max(1)) * TOKEN
    }

    pub(crate) fn bucket(self) -> Tokens {
        Tokens { tokens: self.full(), filled: Instant(0) }
    }
}

impl Tokens {
    fn fill(&mut self, now: Instant, rate: Rate) {
        let passed = now.since(self.filled).0.min(TOKEN);
        self.filled = now;
        self.tokens = (self.tokens + passed * u64::from(rate.per_second)).min(rate.full());
    }

    /// Takes a token, if there is one.
    //= P-RESET-2
    pub(crate) fn take(&mut self, now: Instant, rate: Rate) -> bool {
        self.fill(now, rate);
        let has = self.tokens >= TOKEN;
        self.tokens -= if has { TOKEN } else { 0 };
        has
    }
}

/// Limits what is done for each address, and for all of them together, in 16 KiB however many there
/// are.
///
/// The buckets have no names: a keyed hash gives two of them to each address, and an address may go
/// on while one of its two has a token. So it is held up by others only if they have emptied both
/// of its buckets, which nobody can aim at.
#[derive(Debug)]
pub(crate) struct AddressLimit {
    key: [u64; 2],
    rate: Rate,
    buckets: Box<[Tokens]>,
    total: Rate,
    all: Tokens,
}

impl AddressLimit {
    /// `rate` for each address; `total` for all.
    pub(crate) fn new(seed: &Seed, rate: Rate, total: Rate) -> Self {
        let mut stream = seed.stream(Purpose::LimitKey);
        let key = [stream.next_u64(), stream.next_u64()];
        Self { key, rate, buckets: vec![rate.bucket(); BUCKETS].into(), total, all: total.bucket() }
    }

    /// The two buckets of an address; they may be one. Hosts have a /64 of IPv6 for themselves.
    fn of(&self, from: IpAddr) -> [usize; CHOICES] {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        match from.to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()[..8]),
        }
        let hash = hasher.finish128();
        [hash.h1, hash.h2].map(|half| half as usize % BUCKETS)
    }

    /// Whether something more may be done for an address. What an address has used up takes nothing
    /// from the others.
    //= P-AUTH-1
    pub(crate) fn take(&mut self, now: Instant, from: IpAddr) -> bool {
        let [one, other] = self.of(from);
        let mut has = self.buckets[one].take(now, self.rate);
        if other != one {
            has |= self.buckets[other].take(now, self.rate);
        }
        has && self.all.take(now, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 250, burst: 64 };
    const TOTAL: Rate = Rate { per_second: 1000, burst: 256 };

    fn limit() -> AddressLimit {
        AddressLimit::new(&Seed::from(7), RATE, TOTAL)
    }

    fn v4(n: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + n).to_be_bytes())
    }

    #[test]
    fn an_address_that_floods_takes_nothing_from_another() {
        //= P-AUTH-1
        let mut limit = limit();
        let (mut flood, mut honest) = (0, 0);
        for step in 1..=10_000u64 {
            let now = Instant(step * 1_000_000);
            flood += (0..20).filter(|_| limit.take(now, v4(1))).count();
            if step % 10 == 0 {
                honest += usize::from(limit.take(now, v4(2)));
            }
        }
        assert_eq!(honest, 1000, "each one of the address that does not flood");
        assert!((2300..=2500 + 64).contains(&flood), "ten seconds of one address: {flood}");
    }

    #[test]
    fn a_host_with_many_addresses_of_its_network_is_one() {
        let mut limit = limit();
        let of = |n: u16| IpAddr::from([0xfd00, 1, 2, 3, n, n, 4, n]);
        let taken = (0..5000).filter(|n| limit.take(Instant(1), of(*n))).count();
        assert_eq!(taken, 64);
        assert!(limit.take(Instant(1), IpAddr::from([0xfd00, 1, 2, 4, 0, 0, 0, 1])));
        // One host, written in two ways.
        let taken = (0..100).filter(|n| limit.take(Instant(1), if n % 2 == 0 { v4(9) } else { "::ffff:10.0.0.9".parse().unwrap() })).count();
        assert_eq!(taken, 64);
    }

    #[test]
    fn any_number_of_addresses_have_one_ceiling_and_no_more_memory() {
        //= P-AUTH-1
        let mut limit = limit();
        let taken = (0..100_000u32).filter(|n| limit.take(Instant(u64::from(*n) * 10_000), v4(*n))).count();
        assert!((1150..=1000 + 256).contains(&taken), "one second of all addresses: {taken}");
        assert_eq!(size_of_val(&*limit.buckets), 16 << 10);
    }

    #[test]
    fn few_of_the_others_are_held_up_by_some_that_flood() {
        let mut limit = AddressLimit::new(&Seed::from(7), RATE, Rate { per_second: u32::MAX, burst: u32::MAX });
        for flooding in 0..16 {
            while limit.take(Instant(1), v4(flooding)) {}
        }
        let held_up = (1000..11_000).filter(|n| !limit.take(Instant(1), v4(*n))).count();
        assert!(held_up < 400, "{held_up} of 10000");
    }
}
