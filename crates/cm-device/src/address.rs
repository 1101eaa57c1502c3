// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses, as commands carry them.

use bellwire_cm::Gid;
use bellwire_verbs::gid_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address out of a command. `None`: the family is neither IPv4 nor IPv6.
pub(super) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET => Some((Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?), port).into()),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
            let scope = u32::from_ne_bytes(bytes.get(24..28)?.try_into().ok()?);
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
}

/// Whether a command carries no address.
pub(super) fn is_none(bytes: &[u8]) -> bool {
    bytes.get(..2).is_none_or(|family| family == [0, 0])
}

/// An address for an answer.
pub(super) fn store(address: &SocketAddr) -> Vec<u8> {
    let mut out = vec![0; if address.is_ipv4() { 16 } else { 28 }];
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    out[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    out[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(a) => out[4..8].copy_from_slice(&a.ip().octets()),
        SocketAddr::V6(a) => {
            out[8..24].copy_from_slice(&a.ip().octets());
            out[24..28].copy_from_slice(&a.scope_id().to_ne_bytes());
        }
    }
    out
}

/// The GID of an address.
pub(super) fn gid(ip: IpAddr) -> Gid {
    let of = match ip {
        IpAddr::V4(ip) => gid_of(&ip.octets()),
        IpAddr::V6(ip) => gid_of(&ip.octets()),
    };
    of.unwrap_or_default()
}

/// The address of a device, if it is of that family.
pub(super) fn of(gid: &Gid, is_ipv4: bool) -> Option<IpAddr> {
    let ip = Ipv6Addr::from(*gid).to_canonical();
    (ip.is_ipv4() == is_ipv4).then_some(ip)
}
