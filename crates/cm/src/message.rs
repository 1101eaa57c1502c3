// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between two machines.
//!
//! ```text
//!  0  kind u8 | flags u8 (1: IPv6) | bytes of the program u8 | kind of queue pairs u8
//!  4  from: the sender's identifier u32
//!  8  to: the receiver's identifier u32 (0: not known yet)
//! 12  service: space u16, port u16
//! 16  reason or status u32
//! 20  queue pair u32
//! 24  key u32
//! 28  first packet number u32
//! 32  responder resources, initiator depth, flow control, retries, RNR retries, SRQ: u8 each;
//!     2 bytes of zeros
//! 40  ECE: vendor u32, options u32
//! 48  the sender's address: 16 bytes, port u16; the receiver's: 16 bytes, port u16
//! 84  bytes of the program, at most 224
//! ```
//! Numbers are big-endian. A peer may send any bytes. [`Message::parse`] drops bytes of another
//! form.

use crate::types::{Parameters, QpKind, Service, Space};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const HEAD: usize = 84;
/// Most bytes of the program in a message.
pub(crate) const DATA_MAX: usize = 224;
/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = HEAD + DATA_MAX;
const IPV6: u8 = 1;

/// The kind of a message. The first seven are InfiniBand's connection messages, the last two its
/// service resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Asks for a connection.
    Request = 1,
    /// The request came; its answer takes a while.
    Wait,
    /// Accepts.
    Reply,
    /// Confirms the acceptance.
    Ready,
    /// Refuses.
    Reject,
    /// Ends the connection.
    Leave,
    /// Confirms the end.
    Left,
    /// Asks for a service's queue pair.
    Resolve,
    /// Names it, or refuses.
    Resolved,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        use Kind::{Leave, Left, Ready, Reject, Reply, Request, Resolve, Resolved, Wait};
        [Request, Wait, Reply, Ready, Reject, Leave, Left, Resolve, Resolved].into_iter().find(|k| *k as u8 == bits)
    }

    /// Bytes of the program that fit, as devices have it.
    pub(crate) fn data_bytes(self) -> usize {
        match self {
            Self::Request => 56,
            Self::Reply => 196,
            Self::Reject => 148,
            Self::Ready | Self::Leave | Self::Left => 220,
            Self::Wait => 0,
            Self::Resolve => 180,
            Self::Resolved => 136,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub kind: Kind,
    pub qp_kind: QpKind,
    pub from: u32,
    pub to: u32,
    pub service: Service,
    pub reason: u32,
    pub number: u32,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub parameters: Parameters,
}

fn put_address(out: &mut Vec<u8>, address: &SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

impl Message {
    pub(crate) fn store(&self) -> Vec<u8> {
        let p = &self.parameters;
        let data = &p.data[..p.data.len().min(DATA_MAX)];
        let mut out = Vec::with_capacity(HEAD + data.len());
        let flags = if self.source.is_ipv6() || self.destination.is_ipv6() { IPV6 } else { 0 };
        out.extend_from_slice(&[self.kind as u8, flags, data.len() as u8, self.qp_kind.number()]);
        for word in [self.from, self.to, u32::from(self.service.space as u16) << 16 | u32::from(self.service.port), self.reason, p.qp, p.qkey, self.number] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&[p.responder_resources, p.initiator_depth, p.flow_control, p.retry_count, p.rnr_retry_count, p.srq, 0, 0]);
        out.extend_from_slice(&p.ece.0.to_be_bytes());
        out.extend_from_slice(&p.ece.1.to_be_bytes());
        put_address(&mut out, &self.source);
        put_address(&mut out, &self.destination);
        out.extend_from_slice(data);
        out
    }

    /// `None`: the bytes are no message.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, data) = bytes.split_at_checked(HEAD)?;
        let kind = Kind::from_bits(head[0])?;
        if data.len() != usize::from(head[2]) || data.len() > DATA_MAX {
            return None;
        }
        let word = |at: usize| head[at..at + 4].iter().fold(0, |n: u32, b| n << 8 | u32::from(*b));
        let space = Space::from_number((word(12) >> 16) as u16)?;
        let address = |at: usize| {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&head[at..at + 16]).unwrap_or_default());
            let ip = ip.to_ipv4_mapped().filter(|_| head[1] & IPV6 == 0).map_or(IpAddr::V6(ip), IpAddr::V4);
            SocketAddr::new(ip, u16::from_be_bytes([head[at + 16], head[at + 17]]))
        };
        Some(Self {
            kind,
            qp_kind: QpKind::from_number(head[3])?,
            from: word(4),
            to: word(8),
            service: Service { space, port: word(12) as u16 },
            reason: word(16),
            number: word(28) & 0xff_ffff,
            source: address(48),
            destination: address(66),
            parameters: Parameters {
                qp: word(20) & 0xff_ffff,
                qkey: word(24),
                responder_resources: head[32],
                initiator_depth: head[33],
                flow_control: head[34],
                retry_count: head[35] & 7,
                rnr_retry_count: head[36] & 7,
                srq: head[37],
                ece: (word(40), word(44)),
                data: data.to_vec(),
            },
        })
    }
}

/// The address that stands for none.
pub(crate) const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive() {
        for (source, destination) in [("10.0.0.1:7", "10.0.0.2:9"), ("[fd00::1]:7", "[fd00::2]:9"), ("[::ffff:10.0.0.1]:7", "[fd00::2]:9")] {
            for kind in 1..=9 {
                let message = Message {
                    kind: Kind::from_bits(kind).unwrap(),
                    qp_kind: QpKind::Datagram,
                    from: 1,
                    to: u32::MAX,
                    service: Service { space: Space::Udp, port: 7174 },
                    reason: 28,
                    number: 0xabcdef,
                    source: source.parse().unwrap(),
                    destination: destination.parse().unwrap(),
                    parameters: Parameters {
                        qp: 5,
                        qkey: UDP,
                        responder_resources: 1,
                        initiator_depth: 2,
                        retry_count: 7,
                        ece: (3, 4),
                        data: vec![9; 200],
                        ..Default::default()
                    },
                };
                let bytes = message.store();
                assert!(bytes.len() <= MESSAGE_BYTES_MAX);
                assert_eq!(Message::parse(&bytes), Some(message));
                assert_eq!(Message::parse(&bytes[..bytes.len() - 1]), None);
            }
        }
        assert_eq!(Message::parse(&[]), None);
        assert_eq!(Message::parse(&[255; MESSAGE_BYTES_MAX]), None);
    }

    const UDP: u32 = crate::types::UDP_QKEY;
}
