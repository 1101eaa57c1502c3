// SPDX-License-Identifier: MIT OR Apache-2.0
//! How large a datagram the path carries: begins with what every path must, tries larger sizes by
//! padded PINGs, and falls back when large packets stop arriving.

use crate::config::{Config, DATAGRAM_BASE};
use crate::packet::checksum;
use bellwire_time::{Duration, Instant};

/// Sizes worth trying below the largest: Ethernet over IPv6 with room for a tunnel, Ethernet over
/// IPv4, jumbo frames, and powers of two less headers.
const CANDIDATES: [usize; 5] = [1452, 1472, 8952, 16_336, 32_720];
const TRIES_MAX: u32 = 3;
/// A try waits at least this long for its answer.
const WAIT_MIN: u64 = 10_000_000;
/// Time until sizes are tried again after a fall.
const AFTER_FALL: Duration = Duration::from_secs(5);

/// The search for a size.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    /// Sizes are those on the wire: with the trailer of a checksum, which the port adds, and that
    /// of an authenticated packet.
    trailer: usize,
    seal: usize,
    current: usize,
    /// Bytes of a packet in the ring: without the trailer of a checksum.
    in_ring: usize,
    max: usize,
    /// The smallest size that is known not to arrive.
    ceiling: usize,
    /// The size being tried, its PING's token, and how often.
    trying: Option<(usize, u32, u32)>,
    due: Instant,
}

impl Mtu {
    pub(crate) fn new(config: &Config, peer_max: usize, now: Instant) -> Self {
        let max = config.datagram_max.min(peer_max).max(DATAGRAM_BASE);
        let current = if config.probe_path { DATAGRAM_BASE } else { max };
        let trailer = if config.checksum { checksum::TRAILER } else { 0 };
        let due = if current < max { now } else { Instant::NEVER };
        Self { trailer, seal: config.trailer(), current, in_ring: current - trailer, max, ceiling: usize::MAX, trying: None, due }
    }

    /// Bytes of a packet.
    //= P-SUM-3
    #[inline]
    pub(crate) const fn current(&self) -> usize {
        self.in_ring - self.seal
    }

    /// .. as it lies in the ring.
    #[inline]
    pub(crate) const fn in_ring(&self) -> usize {
        self.in_ring
    }

    fn set_current(&mut self, size: usize) {
        self.current = size;
        self.in_ring = size - self.trailer;
    }

    pub(crate) const fn deadline(&self) -> Instant {
        self.due
    }

    /// The size of the PING that leaves now, if one is due; `token` is its token.
    //= P-MTU-1
    pub(crate) fn probe(&mut self, config: &Config, now: Instant, rto: Duration, token: u32) -> Option<usize> {
        if now < self.due {
            return None;
        }
        let (size, tries) = match self.trying {
            Some((size, _, tries)) if tries < TRIES_MAX => (size, tries + 1),
            Some((size, ..)) => {
                self.ceiling = self.ceiling.min(size);
                (self.candidate().unwrap_or(0), 1)
            }
            None => {
                self.ceiling = usize::MAX;
                (self.candidate().unwrap_or(0), 1)
            }
        };
        if size == 0 {
            self.rest(now, config.probe_again);
            return None;
        }
        self.trying = Some((size, token, tries));
        self.due = now + Duration((4 * rto.0).max(WAIT_MIN));
        Some(size - self.trailer - self.seal)
    }

    /// A PONG came for a PING of `length` bytes.
    pub(crate) fn answered(&mut self, config: &Config, now: Instant, token: u32, length: usize) {
        let length = length.saturating_add(self.trailer + self.seal);
        if self.trying.is_none_or(|(size, t, _)| t != token || size != length) {
            return;
        }
        self.set_current(self.current.max(length));
        self.trying = None;
        match self.candidate() {
            Some(_) if self.ceiling == usize::MAX => self.due = now,
            Some(size) => (self.trying, self.due) = (Some((size, 0, 0)), now),
            None => self.rest(now, config.probe_again),
        }
    }

    /// Large packets do not arrive any more; whether that changed anything.
    //= P-MTU-2
    pub(crate) fn fall(&mut self, now: Instant) -> bool {
        if self.current == DATAGRAM_BASE {
            return false;
        }
        self.set_current(DATAGRAM_BASE);
        self.trying = None;
        self.due = now + AFTER_FALL;
        true
    }

    /// A datagram of `bytes` is too large for the path, the network says.
    pub(crate) fn too_big(&mut self, now: Instant, bytes: usize) -> bool {
        if bytes <= DATAGRAM_BASE {
            return false;
        }
        self.ceiling = self.ceiling.min(bytes);
        let fell = self.current >= bytes;
        if fell {
            self.set_current(DATAGRAM_BASE);
        }
        if fell || self.trying.is_some_and(|(size, ..)| size >= bytes) {
            self.trying = self.candidate().map(|size| (size, 0, 0));
            self.due = now;
        }
        fell
    }

    fn rest(&mut self, now: Instant, time: Duration) {
        self.trying = None;
        self.due = if self.current < self.max { now + time } else { Instant::NEVER };
    }

    /// The largest size worth trying.
    fn candidate(&self) -> Option<usize> {
        let worth = |size: &usize| *size > self.current && *size < self.ceiling && *size <= self.max;
        [self.max].iter().chain(CANDIDATES.iter().rev()).copied().find(worth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the search run on a path that carries `path` bytes; PINGs needed.
    fn search(mtu: &mut Mtu, config: &Config, now: &mut Instant, path: usize) -> u32 {
        let mut pings = 0;
        while mtu.deadline() < *now + Duration::from_secs(1) {
            *now = (*now).max(mtu.deadline());
            pings += 1;
            if let Some(size) = mtu.probe(config, *now, Duration::from_millis(1), pings)
                && size <= path
            {
                mtu.answered(config, *now, pings, size);
            }
            assert!(pings < 50);
        }
        pings
    }

    #[test]
    fn finds_the_largest_that_arrives() {
        //= P-MTU-1
        let config = Config { datagram_max: 65_487, ..Config::default() };
        for (path, found) in [(100_000, 65_487), (40_000, 32_720), (9000, 8952), (1500, 1472), (1460, 1452), (1300, 1200)] {
            let mut now = Instant(7);
            let mut mtu = Mtu::new(&config, 1 << 20, now);
            search(&mut mtu, &config, &mut now, path);
            assert_eq!(mtu.current(), found);
            assert_eq!(mtu.deadline() == Instant::NEVER, found == 65_487);
        }
        assert_eq!(Mtu::new(&Config { probe_path: false, ..config }, 4000, Instant(0)).current(), 4000);
    }

    #[test]
    fn the_trailer_of_a_checksum_is_part_of_the_size() {
        //= P-SUM-3
        let config = Config { datagram_max: 8952, checksum: true, ..Config::default() };
        let mut now = Instant(7);
        let mut mtu = Mtu::new(&config, 1 << 20, now);
        assert_eq!(mtu.current(), 1192);
        // `search` counts without it.
        search(&mut mtu, &config, &mut now, 1472 - 8);
        assert_eq!(mtu.current(), 1464);
    }

    #[test]
    fn falls_and_recovers() {
        //= P-MTU-2
        let config = Config { datagram_max: 8952, ..Config::default() };
        let mut now = Instant(7);
        let mut mtu = Mtu::new(&config, 8952, now);
        search(&mut mtu, &config, &mut now, 9000);
        assert!(mtu.fall(now) && mtu.current() == DATAGRAM_BASE && !mtu.fall(now));
        now = mtu.deadline();
        search(&mut mtu, &config, &mut now, 1480);
        assert_eq!(mtu.current(), 1472);
        assert!(mtu.too_big(now, 1472) && mtu.current() == DATAGRAM_BASE);
        search(&mut mtu, &config, &mut now, 1460);
        assert_eq!(mtu.current(), 1452);
        assert!(!mtu.too_big(now, 1300 - 200));
    }
}
