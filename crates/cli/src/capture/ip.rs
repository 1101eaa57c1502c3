// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of IP and UDP around captured bytes.

use std::net::IpAddr;

const UDP: u8 = 17;
/// Hops that a packet may take.
const HOPS: u8 = 64;
/// Bytes of the header of UDP.
pub const UDP_BYTES: usize = 8;

/// The ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub from: IpAddr,
    pub to: IpAddr,
    /// Those of the sender and of the receiver.
    pub ports: [u16; 2],
}

impl Ends {
    /// Whether the packet is one of IPv6.
    pub fn is_v6(&self) -> bool {
        self.from.is_ipv6() || self.to.is_ipv6()
    }
}

/// The headers of IP and UDP for so many bytes behind them, and where the one of UDP begins, which
/// has no checksum yet.
pub fn header(ends: &Ends, payload: usize) -> (Vec<u8>, usize) {
    let length = UDP_BYTES + payload;
    let mut bytes = Vec::with_capacity(40 + length);
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
    let udp = bytes.len();
    for word in [ends.ports[0], ends.ports[1], length as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    (bytes, udp)
}

/// Writes the checksum of UDP into a packet that is complete.
pub fn sum_up(packet: &mut [u8]) {
    // The addresses, the length and the protocol count as well.
    let (addresses, udp) = if packet[0] >> 4 == 4 { (12, 20) } else { (8, 40) };
    let length = (packet.len() - udp) as u32;
    let before = sum(u32::from(UDP) + (length >> 16) + (length & 0xffff), &packet[addresses..udp]);
    let checksum = match !sum(before.into(), &packet[udp..]) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
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

    /// A receiver's sum over a right packet is all ones.
    #[test]
    fn checksums() {
        for (from, to, udp) in [("10.0.0.1", "10.0.0.2", 20), ("fd00::1", "fd00::2", 40)] {
            let ends = Ends { from: from.parse().unwrap(), to: to.parse().unwrap(), ports: [7118, 40_000] };
            let (mut bytes, at) = header(&ends, 5);
            bytes.extend([1, 2, 3, 4, 255]);
            sum_up(&mut bytes);
            assert_eq!((at, bytes.len()), (udp, udp + UDP_BYTES + 5));
            let length = (bytes.len() - udp) as u32;
            assert_eq!(sum(u32::from(UDP) + length, &bytes[if udp == 20 { 12 } else { 8 }..]), 0xffff);
            assert!(udp == 40 || sum(0, &bytes[..20]) == 0xffff);
        }
    }
}
