// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of RoCE v2, as the InfiniBand Architecture specification (volume 1, chapter 9; annex 17)
//! has them: headers in an UDP datagram to port 4791, and a checksum over what no router changes.

use super::ip::{self, Ends, UDP_BYTES};

/// The port of RoCE v2.
pub const PORT: u16 = 4791;
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

/// A packet from its IP header to its checksum, and its length. Its payload has `length` bytes, of
/// which `captured` are known. If that is not all, the packet ends with them, without a checksum.
pub fn packet(ends: &Ends, base: &Base, extended: &[u8], captured: &[u8], length: usize) -> (Vec<u8>, u32) {
    let is_whole = captured.len() == length;
    let padding = length.next_multiple_of(4) - length;
    let transport = 12 + extended.len() + length + padding + CHECKSUM_BYTES;
    let (mut bytes, udp) = ip::header(ends, transport);
    bytes.push(base.service as u8 | base.operation as u8);
    bytes.push(u8::from(base.is_solicited) << 7 | (padding as u8) << 4);
    bytes.extend(PARTITION.to_be_bytes());
    bytes.extend((base.to_qp & 0xff_ffff).to_be_bytes());
    bytes.extend((u32::from(base.wants_answer) << 31 | base.psn & 0xff_ffff).to_be_bytes());
    bytes.extend(extended);
    bytes.extend(captured);
    let whole = (udp + UDP_BYTES + transport) as u32;
    if !is_whole {
        return (bytes, whole);
    }
    bytes.resize(bytes.len() + padding, 0);
    let checksum = invariant(&bytes, udp);
    bytes.extend(checksum.to_le_bytes());
    // Over IPv4 the checksum of UDP may be left out, and is.
    if ends.is_v6() {
        ip::sum_up(&mut bytes);
    }
    (bytes, whole)
}

/// The checksum of a packet without it (ICRC): the CRC of Ethernet over it, behind eight bytes of
/// ones, with ones where routers write.
fn invariant(bytes: &[u8], udp: usize) -> u32 {
    let mut head = bytes[..udp + UDP_BYTES + 5].to_vec();
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
    for at in [udp + 6, udp + 7, udp + UDP_BYTES + 4] {
        head[at] = 0xff;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xff; 8]);
    hasher.update(&head);
    hasher.update(&bytes[head.len()..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        Base { service: Service::Rc, operation: Operation::SendOnly, to_qp: 0x1234, psn: 0x1ff_ffff, wants_answer: true, is_solicited: false }
    }

    fn ends(from: &str, to: &str) -> Ends {
        Ends { from: from.parse().unwrap(), to: to.parse().unwrap(), ports: [0xc001, PORT] }
    }

    #[test]
    fn a_packet_and_its_length() {
        for (from, to, ip) in [("10.0.0.1", "10.0.0.2", 20), ("fd00::1", "fd00::2", 40)] {
            let (bytes, length) = packet(&ends(from, to), &base(), &[], &[1, 2, 3, 4, 5], 5);
            assert_eq!((bytes.len(), length), (ip + 8 + 12 + 8 + 4, bytes.len() as u32));
            // Opcode; three bytes of padding; queue pair; an answer is wanted, 24 bits of a number.
            assert_eq!(bytes[ip + 8..ip + 20], [4, 0x30, 0xff, 0xff, 0, 0, 0x12, 0x34, 0x80, 0xff, 0xff, 0xff]);
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
}
