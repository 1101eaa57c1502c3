// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses: as commands carry them, and what the host says of them. The kernel is asked by
//! binding and connecting a socket of datagrams, which sends nothing.

use crate::devices;
use bellwire_cm::Gid;
use bellwire_verbs::gid_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

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

/// The device of this process that has an address.
pub(super) fn device_at(ip: IpAddr) -> Option<usize> {
    let gid = gid(ip);
    devices::present().find(|own| own.gid == gid).map(|own| own.index)
}

/// The address of a device, if it is of that family.
pub(super) fn of(gid: &Gid, is_ipv4: bool) -> Option<IpAddr> {
    let ip = Ipv6Addr::from(*gid).to_canonical();
    (ip.is_ipv4() == is_ipv4).then_some(ip)
}

/// Whether an address is one of this host's interfaces, or a device's.
pub(super) fn is_local(address: &SocketAddr) -> bool {
    let at = match address {
        SocketAddr::V4(a) => SocketAddr::from((*a.ip(), 0)),
        SocketAddr::V6(a) => SocketAddrV6::new(*a.ip(), 0, 0, a.scope_id()).into(),
    };
    device_at(address.ip()).is_some() || UdpSocket::bind(at).is_ok()
}

/// The host's own address towards another: `from`, if the program chose one.
pub(super) fn towards(from: Option<IpAddr>, to: &SocketAddr) -> Result<IpAddr, i32> {
    let error = |e: &std::io::Error| e.raw_os_error().unwrap_or(libc::EHOSTUNREACH);
    if let Some(from) = from {
        return Ok(from);
    }
    let any = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).map_err(|e| error(&e))?;
    let mut there = *to;
    there.set_port(if to.port() == 0 { 1 } else { to.port() });
    match socket.connect(there).and_then(|()| socket.local_addr()) {
        Ok(address) => Ok(address.ip()),
        // A device's address need not be an interface's.
        Err(_) if device_at(to.ip()).is_some() => Ok(to.ip()),
        Err(e) => Err(error(&e)),
    }
}
