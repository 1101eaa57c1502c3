// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages as the management datagrams (MADs) that devices of InfiniBand would exchange for them,
//! for captures: the specification's volume 1, sections 12.6 and 12.11, and its annex A11 (IP
//! addressing).

use crate::message::{Kind, Message};
use crate::types::QpKind;
use std::net::IpAddr;

/// Bytes of a datagram.
pub const MAD_BYTES: usize = 256;
const HEADER: usize = 24;
/// The class of connection management, and how its messages are sent.
const CLASS: u8 = 0x07;
const SEND: u8 = 0x03;
/// The default partition, with full membership.
const PARTITION: u16 = 0xffff;
/// Bytes of the addresses in front of a request's private data.
const ADDRESSES: usize = 36;
/// Where this software has no number: a long wait, fifteen tries, the longest packets.
const WAIT: u8 = 20;
const TRIES: u8 = 15;
const MTU_4096: u8 = 5;

/// A datagram that is being written.
struct Mad([u8; MAD_BYTES]);

impl Mad {
    /// Bytes of the message, from an offset behind the header.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let room = &mut self.0[HEADER + at..];
        let length = bytes.len().min(room.len());
        room[..length].copy_from_slice(&bytes[..length]);
    }

    fn word(&mut self, at: usize, word: u32) {
        self.put(at, &word.to_be_bytes());
    }

    /// A number of 24 bits with a byte behind it.
    fn number(&mut self, at: usize, number: u32, byte: u8) {
        self.word(at, number << 8 | u32::from(byte));
    }
}

/// The datagram of a message's bytes. `None`: it is no message.
pub fn mad(bytes: &[u8]) -> Option<[u8; MAD_BYTES]> {
    let message = Message::parse(bytes)?;
    // An answer has the transaction of its question, which is the asker's number.
    let (attribute, is_answer) = match message.kind {
        Kind::Request => (0x10, false),
        Kind::Wait => (0x11, true),
        Kind::Reject => (0x12, true),
        Kind::Reply => (0x13, true),
        Kind::Ready => (0x14, false),
        Kind::Leave => (0x15, false),
        Kind::Left => (0x16, true),
        Kind::Resolve => (0x17, false),
        Kind::Resolved => (0x18, true),
    };
    let mut mad = Mad([0; MAD_BYTES]);
    mad.0[..4].copy_from_slice(&[1, CLASS, 2, SEND]);
    let transaction = if is_answer { message.to } else { message.from };
    mad.0[8..16].copy_from_slice(&u64::from(transaction).to_be_bytes());
    mad.0[16..18].copy_from_slice(&[0, attribute]);
    mad.word(0, message.from);
    if message.kind != Kind::Request {
        mad.word(4, message.to);
    }
    let (p, data) = (&message.parameters, &message.parameters.data);
    match message.kind {
        Kind::Request => request(&mut mad, &message),
        Kind::Reply => {
            mad.word(8, p.qkey);
            mad.number(12, p.qp, 0);
            mad.number(20, message.number, 0);
            let counts = p.rnr_retry_count << 5 | u8::from(p.srq != 0) << 4;
            mad.put(24, &[p.responder_resources, p.initiator_depth, WAIT << 3 | u8::from(p.flow_control != 0), counts]);
            mad.put(36, data);
        }
        Kind::Reject => {
            mad.put(10, &(message.reason as u16).to_be_bytes());
            mad.put(84, data);
        }
        Kind::Wait => mad.put(9, &[WAIT << 3]),
        Kind::Leave => {
            mad.number(8, p.qp, 0);
            mad.put(12, data);
        }
        Kind::Ready | Kind::Left => mad.put(8, data),
        Kind::Resolve => {
            // The request's own name, the partition, the service, the addresses.
            mad.word(4, u32::from(PARTITION) << 16);
            mad.put(8, &service(&message));
            mad.put(16, &addresses(&message));
            mad.put(16 + ADDRESSES, data);
        }
        Kind::Resolved => {
            mad.word(0, message.to);
            mad.put(4, &[message.reason as u8, 0, 0, 0]);
            mad.number(8, p.qp, 0);
            mad.put(12, &service(&message));
            mad.word(20, p.qkey);
            mad.put(96, data);
        }
    }
    Some(mad.0)
}

fn request(mad: &mut Mad, message: &Message) {
    let p = &message.parameters;
    // 0: reliable; 1: unreliable; 3: another, which is 1 (XRC) in the field of three bits.
    let (service_type, other) = match message.qp_kind {
        QpKind::Unreliable => (1, 0),
        QpKind::Reliable | QpKind::Datagram => (0, 0),
        _ => (3, 1),
    };
    mad.put(8, &service(message));
    mad.word(28, p.qkey);
    mad.number(32, p.qp, p.responder_resources);
    mad.number(36, 0, p.initiator_depth);
    mad.number(40, 0, WAIT << 3 | service_type << 1 | u8::from(p.flow_control != 0));
    mad.number(44, message.number, WAIT << 3 | p.retry_count & 7);
    mad.put(48, &PARTITION.to_be_bytes());
    mad.put(50, &[MTU_4096 << 4 | p.rnr_retry_count & 7, TRIES << 4 | u8::from(p.srq != 0) << 3 | other]);
    // Devices of RoCE have no LIDs, and GIDs that are their IP addresses.
    let gid = |ip| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    mad.put(52, &[0xff; 4]);
    mad.put(56, &gid(message.source.ip()));
    mad.put(72, &gid(message.destination.ip()));
    // Hops, and how long an answer takes.
    mad.put(93, &[64, 0, WAIT << 3]);
    mad.put(140, &addresses(message));
    mad.put(140 + ADDRESSES, &p.data);
}

/// The service's id: its port space and port.
fn service(message: &Message) -> [u8; 8] {
    (u64::from(message.service.space as u16) << 16 | u64::from(message.service.port)).to_be_bytes()
}

/// The addresses that stand before a request's private data.
fn addresses(message: &Message) -> [u8; ADDRESSES] {
    let mut bytes = [0; ADDRESSES];
    let (source, destination) = (message.source, message.destination);
    bytes[1] = if source.is_ipv4() { 0x40 } else { 0x60 };
    bytes[2..4].copy_from_slice(&source.port().to_be_bytes());
    for (at, ip) in [(4, source.ip()), (20, destination.ip())] {
        match ip {
            IpAddr::V4(ip) => bytes[at + 12..at + 16].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Parameters, Service, Space};

    fn message(kind: Kind) -> Message {
        let parameters = Parameters {
            qp: 0x123456,
            qkey: 0x11111,
            responder_resources: 3,
            initiator_depth: 4,
            flow_control: 1,
            retry_count: 7,
            rnr_retry_count: 6,
            srq: 1,
            data: vec![0xaa; kind.data_bytes().min(200)],
            ..Parameters::default()
        };
        Message {
            kind,
            qp_kind: QpKind::Reliable,
            from: 0x0102_0304,
            to: 0x0506_0708,
            service: Service { space: Space::Tcp, port: 7174 },
            reason: 28,
            number: 0xabcdef,
            source: "10.0.0.1:9".parse().unwrap(),
            destination: "10.0.0.2:7174".parse().unwrap(),
            parameters,
        }
    }

    #[test]
    fn a_request_and_its_answers() {
        let of = |kind| mad(&message(kind).store()).unwrap();
        let request = of(Kind::Request);
        assert_eq!(request[..18], [1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x10]);
        assert_eq!(request[24..40], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 6, 0x1c, 6]);
        // The queue pair, resources; depth; timeouts, service, flow control; first number, tries.
        assert_eq!(request[56..72], [0x12, 0x34, 0x56, 3, 0, 0, 0, 4, 0, 0, 0, 0xa1, 0xab, 0xcd, 0xef, 0xa7]);
        assert_eq!(request[72..76], [0xff, 0xff, 0x56, 0xf8]);
        assert_eq!(request[164..168], [0, 0x40, 0, 9]);
        assert_eq!(request[176..200], [0, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2].as_slice()[..24].to_vec()[..]);
        assert_eq!(request[200..], [0xaa; 56]);
        let reply = of(Kind::Reply);
        assert_eq!(reply[12..18], [5, 6, 7, 8, 0, 0x13]);
        assert_eq!(reply[24..52], [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0x11, 0x11, 0x12, 0x34, 0x56, 0, 0, 0, 0, 0, 0xab, 0xcd, 0xef, 0, 3, 4, 0xa1, 0xd0]);
        assert_eq!(of(Kind::Reject)[34..36], [0, 28]);
        assert_eq!(of(Kind::Leave)[32..36], [0x12, 0x34, 0x56, 0]);
        assert_eq!(of(Kind::Ready)[32..34], [0xaa, 0xaa]);
        assert_eq!(of(Kind::Resolved)[24..36], [5, 6, 7, 8, 28, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(mad(&[1, 2, 3]), None);
    }
}
