// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of RoCE v2, as the InfiniBand Architecture specification (volume 1, chapter 9; annex 17)
//! has them: headers in an UDP datagram to port 4791, and a checksum over what no router changes.

use std::net::{IpAddr, Ipv6Addr};

/// The port of RoCE v2.
const PORT: u16 = 4791;
const UDP: u8 = 17;
/// Hops that a packet may take.
const HOPS: u8 = 64;
/// The default partition, with full membership.
const PARTITION: u16 = 0xffff;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

/// Operations within a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadFirst = 0x0d,
    ReadMiddle = 0x0e,
    ReadLast = 0x0f,
    ReadOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
}

/// Services: the upper three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    Rc = 0x00,
    Uc = 0x20,
    Ud = 0x60,
    Xrc = 0xa0,
}

/// The base transport header (BTH), with what its place in the message decides.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    pub service: Service,
    pub operation: Operation,
    pub to_qp: u32,
    pub psn: u32,
    pub wants_answer: bool,
    pub is_solicited: bool,
}

/// The ends of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub from: IpAddr,
    pub to: IpAddr,
    /// The port of the sender: one for each of its queue pairs, so that routers spread them.
    pub port: u16,
}

/// The address that a GID, in two words, is.
pub fn address(high: u64, low: u64) -> IpAddr {
    Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

/// A packet from its IP header to its checksum, and its length. Its payload has `length` bytes, of
/// which `captured` are known. If that is not all, the packet ends with them, without a checksum.
pub fn packet(ends: &Ends, base: &Base, extended: &[u8], captured: &[u8], length: usize) -> (Vec<u8>, u32) {
    let is_whole = captured.len() == length;
    let padding = length.next_multiple_of(4) - length;
    let transport = 12 + extended.len() + length + padding + CHECKSUM_BYTES;
    let mut bytes = Vec::with_capacity(48 + transport);
    ip(&mut bytes, ends, 8 + transport);
    let udp = bytes.len();
    for word in [ends.port, PORT, (8 + transport) as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.push(base.service as u8 | base.operation as u8);
    bytes.push(u8::from(base.is_solicited) << 7 | (padding as u8) << 4);
    bytes.extend(PARTITION.to_be_bytes());
    bytes.extend((base.to_qp & 0xff_ffff).to_be_bytes());
    bytes.extend((u32::from(base.wants_answer) << 31 | base.psn & 0xff_ffff).to_be_bytes());
    bytes.extend(extended);
    bytes.extend(captured);
    let whole = (udp + 8 + transport) as u32;
    if !is_whole {
        return (bytes, whole);
    }
    bytes.resize(bytes.len() + padding, 0);
    let checksum = invariant(&bytes, udp);
    bytes.extend(checksum.to_le_bytes());
    if ends.from.is_ipv6() {
        // Over IPv4 it may be left out, and is.
        let checksum = udp_checksum(&bytes, udp);
        bytes[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    }
    (bytes, whole)
}

fn ip(bytes: &mut Vec<u8>, ends: &Ends, length: usize) {
    match (ends.from, ends.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Version and length of the header; not to be cut into fragments.
            bytes.extend([0x45, 0]);
            bytes.extend(((20 + length) as u16).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            let checksum = !sum(0, &bytes[..20]);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            bytes.extend([0x60, 0, 0, 0]);
            bytes.extend((length as u16).to_be_bytes());
            bytes.extend([UDP, HOPS]);
            bytes.extend(octets(from));
            bytes.extend(octets(to));
        }
    }
}

/// The checksum of a packet without it (ICRC): the CRC of Ethernet over it, behind eight bytes of
/// ones, with ones where routers write.
fn invariant(bytes: &[u8], udp: usize) -> u32 {
    let mut head = bytes[..udp + 8 + 5].to_vec();
    if head[0] >> 4 == 4 {
        // Type of service, hops, the header's checksum.
        for at in [1, 8, 10, 11] {
            head[at] = 0xff;
        }
    } else {
        // Traffic class and flow label, hops.
        head[0] |= 0x0f;
        for at in [1, 2, 3, 7] {
            head[at] = 0xff;
        }
    }
    // The checksum of UDP, and the byte before the queue pair's number.
    for at in [udp + 6, udp + 7, udp + 8 + 4] {
        head[at] = 0xff;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xff; 8]);
    hasher.update(&head);
    hasher.update(&bytes[head.len()..]);
    hasher.finalize()
}

fn udp_checksum(bytes: &[u8], udp: usize) -> u16 {
    let datagram = &bytes[udp..];
    let length = datagram.len() as u32;
    // The addresses, the length and the protocol count as well.
    let before = sum(u32::from(UDP) + (length >> 16) + (length & 0xffff), &bytes[8..40]);
    match !sum(before.into(), datagram) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The sum of 16-bit words, with carries.
fn sum(start: u32, bytes: &[u8]) -> u16 {
    let mut sum = u64::from(start);
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        Base { service: Service::Rc, operation: Operation::SendOnly, to_qp: 0x1234, psn: 0x1ff_ffff, wants_answer: true, is_solicited: false }
    }

    fn ends(from: &str, to: &str) -> Ends {
        Ends { from: from.parse().unwrap(), to: to.parse().unwrap(), port: 0xc001 }
    }

    #[test]
    fn a_packet_and_its_length() {
        for (from, to, ip) in [("10.0.0.1", "10.0.0.2", 20), ("fd00::1", "fd00::2", 40)] {
            let (bytes, length) = packet(&ends(from, to), &base(), &[], &[1, 2, 3, 4, 5], 5);
            assert_eq!((bytes.len(), length), (ip + 8 + 12 + 8 + 4, bytes.len() as u32));
            // Opcode; three bytes of padding; queue pair; an answer is wanted, 24 bits of a number.
            assert_eq!(bytes[ip + 8..ip + 20], [4, 0x30, 0xff, 0xff, 0, 0, 0x12, 0x34, 0x80, 0xff, 0xff, 0xff]);
            // A receiver's sum over a right header is all ones.
            if ip == 20 {
                assert_eq!(sum(0, &bytes[..20]), 0xffff);
            } else {
                assert_eq!(sum(u32::from(UDP) + (bytes.len() - 40) as u32, &bytes[8..]), 0xffff);
            }
            let (cut, length) = packet(&ends(from, to), &base(), &[], &[1, 2], 5);
            assert_eq!((&cut[ip + 20..], length), (&[1, 2][..], bytes.len() as u32), "what is missing is at the end");
        }
    }

    /// Bytes that routers and checksums change do not change it; all others do.
    #[test]
    fn the_checksum_is_of_what_stays() {
        for (from, to, udp) in [("10.0.0.1", "10.0.0.2", 20usize), ("fd00::1", "fd00::2", 40)] {
            let (bytes, _) = packet(&ends(from, to), &base(), &[], &[9; 16], 16);
            let bytes = &bytes[..bytes.len() - CHECKSUM_BYTES];
            let varies: &[usize] = if udp == 20 { &[1, 8, 10, 11, 26, 27, 32] } else { &[1, 2, 3, 7, 46, 47, 52] };
            for at in 0..bytes.len() {
                let mut other = bytes.to_vec();
                // The version is in the upper half of the first byte.
                other[at] ^= if at == 0 { 0x01 } else { 0x41 };
                let is_same = invariant(&other, udp) == invariant(bytes, udp);
                assert_eq!(is_same, varies.contains(&at) || (at == 0 && udp == 40), "{at}");
            }
        }
    }

    #[test]
    fn addresses_of_gids() {
        assert_eq!(address(0, 0xffff_0a00_0001), "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(address(0xfd00_0000_0000_0000, 1), "fd00::1".parse::<IpAddr>().unwrap());
    }
}
