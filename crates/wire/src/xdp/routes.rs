// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel knows of routes, neighbours and interfaces, by rtnetlink: three questions, each
//! answered at once. Nothing is changed.

use super::headers::Mac;
use rustix::fd::OwnedFd;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with};
use std::io;
use std::net::IpAddr;

const GET_LINK: u16 = 18;
const NEW_LINK: u16 = 16;
const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;
const GET_NEIGHBOUR: u16 = 30;
const NEW_NEIGHBOUR: u16 = 28;
const REQUEST: u16 = 1;

/// Bytes of the headers: of a message, and of what it asks for.
const HEADER: usize = 16;
const OF_LINK: usize = 16;
const OF_ROUTE: usize = 12;
const OF_NEIGHBOUR: usize = 12;

/// Attributes of an interface.
const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_RX_QUEUES: u16 = 32;

/// States of a neighbour whose address is not known for certain.
const INCOMPLETE: u16 = 0x01;
const FAILED: u16 = 0x20;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub name: String,
    pub mac: Mac,
    pub mtu: usize,
    /// Queues of packets that arrive, at most.
    pub queues: u32,
}

/// A socket for questions.
#[derive(Debug)]
pub(super) struct Routes {
    socket: OwnedFd,
}

/// A message of attributes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The value of the first attribute of a kind.
fn value(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (u16_at(attributes, 0)?, u16_at(attributes, 2)?);
        let value = attributes.get(4..usize::from(length))?;
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(<[u8; 4]>::try_from(octets).ok()?.into()),
        _ => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
    }
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

impl Routes {
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket })
    }

    /// The answer to a question, behind its header; `None`: there is none.
    fn ask(&self, kind: u16, answer: u16, body: &[u8]) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&REQUEST.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        send(&self.socket, &message, SendFlags::empty()).ok()?;
        let mut bytes = vec![0; 1 << 15];
        // The kernel answers before it returns from the question.
        let (n, _) = recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        let length = u32_at(&bytes, 0)? as usize;
        (u16_at(&bytes, 4)? == answer && length <= n).then(|| bytes.get(HEADER..length).map(<[u8]>::to_vec))?
    }

    /// The interface by which packets to an address leave, and to whom of its network they go. An
    /// address of a link is asked for at `interface`.
    pub fn next_hop(&self, to: IpAddr, interface: u32) -> Option<(u32, IpAddr)> {
        let octets = octets(to);
        let mut body = vec![0; OF_ROUTE];
        (body[0], body[1]) = (family(to), octets.len() as u8 * 8);
        attribute(&mut body, libc::RTA_DST, &octets);
        if matches!(to, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            attribute(&mut body, libc::RTA_OIF, &interface.to_ne_bytes());
        }
        let answer = self.ask(GET_ROUTE, NEW_ROUTE, &body)?;
        // Unicast alone: not to this host itself, nor to many.
        if answer.get(7) != Some(&libc::RTN_UNICAST) {
            return None;
        }
        let attributes = answer.get(OF_ROUTE..)?;
        let interface = u32_at(value(attributes, libc::RTA_OIF)?, 0)?;
        Some((interface, value(attributes, libc::RTA_GATEWAY).and_then(address).unwrap_or(to)))
    }

    /// The address of a neighbour, if the kernel knows it.
    pub fn neighbour(&self, interface: u32, ip: IpAddr) -> Option<Mac> {
        let mut body = vec![0; OF_NEIGHBOUR];
        body[0] = family(ip);
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        attribute(&mut body, libc::NDA_DST, &octets(ip));
        let answer = self.ask(GET_NEIGHBOUR, NEW_NEIGHBOUR, &body)?;
        let state = u16_at(&answer, 8)?;
        if state & (INCOMPLETE | FAILED) != 0 {
            return None;
        }
        value(answer.get(OF_NEIGHBOUR..)?, libc::NDA_LLADDR)?.try_into().ok()
    }

    /// An interface by its number. `None`: it is none, or no Ethernet.
    pub fn interface(&self, number: u32) -> Option<Interface> {
        let mut body = vec![0; OF_LINK];
        body[4..8].copy_from_slice(&number.to_ne_bytes());
        let answer = self.ask(GET_LINK, NEW_LINK, &body)?;
        if u16_at(&answer, 2)? != libc::ARPHRD_ETHER {
            return None;
        }
        let attributes = answer.get(OF_LINK..)?;
        let name = value(attributes, LINK_NAME)?.split(|b| *b == 0).next().unwrap_or_default();
        Some(Interface {
            name: String::from_utf8_lossy(name).into_owned(),
            mac: value(attributes, LINK_ADDRESS)?.try_into().ok()?,
            mtu: u32_at(value(attributes, LINK_MTU)?, 0)? as usize,
            queues: value(attributes, LINK_RX_QUEUES).and_then(|v| u32_at(v, 0)).unwrap_or(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_among_others_and_nonsense_is_none() {
        let mut bytes = Vec::new();
        attribute(&mut bytes, 1, &[1, 2, 3]);
        attribute(&mut bytes, 7, b"seven");
        assert_eq!(value(&bytes, 1), Some(&[1, 2, 3][..]));
        assert_eq!(value(&bytes, 7), Some(&b"seven"[..]));
        assert_eq!(value(&bytes, 2), None);
        for end in 0..bytes.len() {
            let _ = value(&bytes[..end], 9);
        }
        for length in [0u16, 3, 200] {
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(value(&bytes, 9), None, "of length {length}");
        }
    }

    /// The kernel's own answers: this host is not reached by an Ethernet.
    #[test]
    #[cfg_attr(miri, ignore = "a socket")]
    fn the_loopback_is_no_way_out() {
        let routes = Routes::open().unwrap();
        assert_eq!(routes.next_hop("127.0.0.1".parse().unwrap(), 1), None);
        assert_eq!(routes.interface(1), None, "no Ethernet");
        assert_eq!(routes.interface(u32::MAX >> 1), None, "nothing");
    }
}
