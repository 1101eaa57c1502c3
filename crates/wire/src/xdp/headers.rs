// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers of a packet on an Ethernet: written for what leaves, checked for what comes.

use super::filter::{ETHERTYPE_V4, ETHERTYPE_V6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address of an interface on its network.
pub(super) type Mac = [u8; 6];

const ETHERNET: usize = 14;
const V4: usize = 20;
const V6: usize = 40;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;
const HOPS: u8 = 64;

/// The longest headers.
pub(super) const HEADERS_MAX: usize = ETHERNET + V6 + UDP;

/// From and to whom packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub macs: (Mac, Mac),
    pub from: SocketAddr,
    pub to: SocketAddr,
}

impl Route {
    /// Bytes in front of a packet's own.
    pub fn headers(&self) -> usize {
        ETHERNET + if self.to.is_ipv4() { V4 } else { V6 } + UDP
    }

    /// Writes a packet to `frame`, which has room for it, and returns its length; `None` if it is
    /// too long, or the addresses are of two kinds.
    pub fn write(&self, frame: &mut [u8], bytes: &[u8]) -> Option<usize> {
        let (headers, udp) = (self.headers(), UDP + bytes.len());
        let frame = frame.get_mut(..headers + bytes.len())?;
        let udp_length = u16::try_from(udp).ok()?;
        frame[headers..].copy_from_slice(bytes);
        frame[..6].copy_from_slice(&self.macs.1);
        frame[6..12].copy_from_slice(&self.macs.0);
        let pseudo = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame[12..14].copy_from_slice(&ETHERTYPE_V4.to_be_bytes());
                let ip = &mut frame[ETHERNET..ETHERNET + V4];
                ip.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, PROTOCOL_UDP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                ip[2..4].copy_from_slice(&u16::try_from(V4 + udp).ok()?.to_be_bytes());
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..20].copy_from_slice(&to.octets());
                let sum = !folded(sum_of(ip));
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                sum_of(&from.octets()) + sum_of(&to.octets())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                frame[12..14].copy_from_slice(&ETHERTYPE_V6.to_be_bytes());
                let ip = &mut frame[ETHERNET..ETHERNET + V6];
                ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
                ip[4..6].copy_from_slice(&udp_length.to_be_bytes());
                ip[6..8].copy_from_slice(&[PROTOCOL_UDP, HOPS]);
                ip[8..24].copy_from_slice(&from.octets());
                ip[24..40].copy_from_slice(&to.octets());
                sum_of(&from.octets()) + sum_of(&to.octets())
            }
            _ => return None,
        };
        let header = &mut frame[headers - UDP..];
        header[..2].copy_from_slice(&self.from.port().to_be_bytes());
        header[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        header[4..6].copy_from_slice(&udp_length.to_be_bytes());
        header[6..8].fill(0);
        let sum = !folded(pseudo + u64::from(PROTOCOL_UDP) + u64::from(udp_length) + sum_of(header));
        // Zero says that there is none.
        header[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        Some(headers + bytes.len())
    }
}

/// Reads a packet for `own`: who sent it, and where its bytes lie. `None`: it is not for us, or
/// damaged.
///
/// A packet of another machine in this one (of a virtual Ethernet) may have a checksum that is not
/// complete: the sum of addresses and length, to which an adapter would have added the rest.
pub(super) fn read(own: SocketAddr, frame: &[u8]) -> Option<(SocketAddr, core::ops::Range<usize>)> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (ip_bytes, from, to, ip_length, pseudo): (_, IpAddr, IpAddr, _, _) = match word(12)? {
        ETHERTYPE_V4 if frame.get(ETHERNET)? == &0x45 => {
            let ip = frame.get(ETHERNET..ETHERNET + V4)?;
            if folded(sum_of(ip)) != 0xffff || ip[9] != PROTOCOL_UDP {
                return None;
            }
            let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap_or_default());
            (V4, address(12).into(), address(16).into(), usize::from(word(ETHERNET + 2)?).checked_sub(V4)?, sum_of(&ip[12..20]))
        }
        ETHERTYPE_V6 => {
            let ip = frame.get(ETHERNET..ETHERNET + V6)?;
            if ip[0] >> 4 != 6 || ip[6] != PROTOCOL_UDP {
                return None;
            }
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap_or_default());
            (V6, address(8).into(), address(24).into(), usize::from(word(ETHERNET + 4)?), sum_of(&ip[8..40]))
        }
        _ => return None,
    };
    let start = ETHERNET + ip_bytes;
    let udp_length = word(start + 4)?;
    // A short frame is filled up behind the packet.
    let udp = frame.get(start..start + usize::from(udp_length)).filter(|udp| udp.len() >= UDP && udp.len() <= ip_length)?;
    if to != own.ip() || word(start + 2)? != own.port() {
        return None;
    }
    let addresses = pseudo + u64::from(PROTOCOL_UDP) + u64::from(udp_length);
    let stated = word(start + 6)?;
    let is_whole = (stated == 0 && from.is_ipv4()) || stated == folded(addresses) || folded(addresses + sum_of(udp)) == 0xffff;
    is_whole.then(|| (with_scope(SocketAddr::new(from, word(start).unwrap_or(0)), own), start + UDP..start + usize::from(udp_length)))
}

/// An address of a link is that of the own link.
fn with_scope(mut address: SocketAddr, own: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(of), SocketAddr::V6(own)) = (&mut address, own)
        && of.ip().is_unicast_link_local()
    {
        of.set_scope_id(own.scope_id());
    }
    address
}

/// The sum of words of 16 bits, of a packet of less than 2^32 bytes.
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, last) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut rest = [0; 4];
    rest[..last.len()].copy_from_slice(last);
    sum + u64::from(u32::from_be_bytes(rest))
}

/// The sum with what was carried out of 16 bits added to it.
fn folded(sum: u64) -> u16 {
    let mut sum = (sum & 0xffff_ffff) + (sum >> 32);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(v6: bool) -> Route {
        let (from, to) = if v6 { ("[fd76::1]:7000", "[fd76::2]:4791") } else { ("10.118.0.1:7000", "10.118.0.2:4791") };
        Route { macs: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]), from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    /// A packet that the kernel made: RFC 1071's sum over its headers comes out.
    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(folded(sum_of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2, "RFC 1071, section 3");
        assert_eq!(folded(sum_of(&[0xff, 0xff, 0xff, 0xff, 0xff])), folded(sum_of(&[0xff, 0xff, 0xff, 0xff, 0xff, 0])));
        let mut frame = [0; 64];
        let n = route(false).write(&mut frame, b"abc").unwrap();
        assert_eq!(&frame[14..34], [0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x25, 0xe0, 10, 118, 0, 1, 10, 118, 0, 2]);
        assert_eq!((n, &frame[42..45]), (45, &b"abc"[..]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_what_is_changed_is_not(v6: bool, bytes in prop::collection::vec(any::<u8>(), 0..1400), at: usize, bit in 0..8u32) {
            let route = route(v6);
            let mut frame = vec![0; 1514];
            let n = route.write(&mut frame, &bytes).unwrap();
            let (from, range) = read(route.to, &frame[..n]).unwrap();
            prop_assert_eq!((from, &frame[range]), (route.from, &bytes[..]));
            prop_assert_eq!(read(route.to, &frame[..n + 20]).map(|(from, range)| (from, range.len())), Some((route.from, bytes.len())), "filled up");
            prop_assert!(read(route.from, &frame[..n]).is_none(), "for somebody else");
            // One bit of what the sums are about.
            let at = 14 + at % (n - 14);
            frame[at] ^= 1u8 << bit;
            if let Some((from, range)) = read(route.to, &frame[..n]) {
                // IPv6 has no sum over hops, flow and traffic class; those are not used.
                prop_assert!(v6 && at < 22 && from == route.from && frame[range] == bytes[..], "byte {} bit {}", at, bit);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(frame in prop::collection::vec(any::<u8>(), 0..200), v6: bool) {
            let mut frame = frame;
            if frame.len() > 24 {
                frame[12..14].copy_from_slice(&if v6 { ETHERTYPE_V6 } else { ETHERTYPE_V4 }.to_be_bytes());
                frame[14] = if v6 { 0x60 } else { 0x45 };
            }
            let _ = read(route(v6).to, &frame);
        }
    }

    #[test]
    fn sums_that_an_adapter_would_complete() {
        for v6 in [false, true] {
            let route = route(v6);
            let mut frame = vec![0; 200];
            let n = route.write(&mut frame, &[7; 100]).unwrap();
            let (at, ips) = if v6 { (14 + 40 + 6, 22..54) } else { (14 + 20 + 6, 26..34) };
            let partial = folded(sum_of(&frame[ips]) + 17 + 108);
            frame[at..at + 2].copy_from_slice(&partial.to_be_bytes());
            assert!(read(route.to, &frame[..n]).is_some());
            frame[at..at + 2].copy_from_slice(&[0, 0]);
            assert_eq!(read(route.to, &frame[..n]).is_some(), !v6, "none at all");
        }
    }
}
