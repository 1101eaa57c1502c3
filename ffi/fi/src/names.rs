// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of endpoints as programs give them: node and service, socket addresses, or names that
//! endpoints have told.
//!
//! A service is a number that an endpoint has as its name, like a port, so that others need not be
//! told it. Where an endpoint of ours is, the environment says: another node is no source.

use crate::abi::{Outcome, error};
use crate::attributes::Info;
use crate::flags;
use bellwire_tag::{NAME_BYTES, Name};
use bellwire_via::nic::NicConfig;
use core::ffi::{CStr, c_char, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// The node is a number, not a name.
const NUMERIC_HOST: u64 = 1 << 55;

/// The two ends of an answer.
pub(crate) struct Ends {
    pub source: Option<Name>,
    pub destination: Option<Name>,
}

/// Our host address, as the environment has it.
fn own_host() -> Option<Vec<u8>> {
    NicConfig::from_env().ok().map(|config| config.host)
}

/// Our address, if it is that of the host alone: a NIC with a port of its own has no sockets'
/// addresses.
pub(crate) fn own_ip() -> Option<IpAddr> {
    own_host().filter(|host| matches!(host.len(), 4 | 16)).as_deref().and_then(ip_of)
}

/// A host address without its port.
pub(crate) fn ip_of(host: &[u8]) -> Option<IpAddr> {
    match host.len() {
        4 | 6 => Some(Ipv4Addr::new(host[0], host[1], host[2], host[3]).into()),
        16 | 18 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(&host[..16]).ok()?).into()),
        _ => None,
    }
}

fn host_of(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// # Safety
/// F2: NULL or a string.
unsafe fn text<'a>(at: *const c_char) -> Outcome<Option<&'a str>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(at) }.to_str().map(Some).map_err(|_| error::ENODATA)
}

/// The address of a node that suits ours.
pub(crate) fn resolve(node: &str, is_numeric: bool) -> Outcome<IpAddr> {
    if let Ok(ip) = node.parse::<IpAddr>() {
        return Ok(ip);
    }
    if is_numeric {
        return Err(error::ENODATA);
    }
    let own = own_host().as_deref().and_then(ip_of);
    let all: Vec<IpAddr> = (node, 0).to_socket_addrs().map_err(|_| error::ENODATA)?.map(|a| a.ip()).collect();
    let same = all.iter().find(|ip| own.is_none_or(|own| own.is_ipv4() == ip.is_ipv4()));
    same.or(all.first()).copied().ok_or(error::ENODATA)
}

/// A service by its number.
pub(crate) fn service(text: &str) -> Outcome<u16> {
    text.parse().map_err(|_| error::ENODATA)
}

/// The name of a service at an address; without a number, of the host.
pub(crate) fn name_at(ip: IpAddr, service: Option<u16>) -> Outcome<Name> {
    let host = host_of(ip);
    service.filter(|s| *s != 0).map_or_else(|| Name::of_host(&host), |s| Name::of_service(&host, s)).ok_or(error::ENODATA)
}

/// An address in hints: a name, or a socket's.
///
/// # Safety
/// F2: `length` bytes.
unsafe fn given(at: *const c_void, length: usize) -> Outcome<Option<Name>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    let bytes = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), length) };
    if let Ok(name) = <&[u8; NAME_BYTES]>::try_from(bytes) {
        return Name::from_bytes(name).map(Some).ok_or(error::ENODATA);
    }
    let address = socket_address(bytes).ok_or(error::ENODATA)?;
    name_at(address.ip(), Some(address.port())).map(Some)
}

/// `struct sockaddr_in` or `sockaddr_in6` as bytes.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = libc::c_int::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: IpAddr = match (family, bytes.len()) {
        (libc::AF_INET, 16) => Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?).into(),
        (libc::AF_INET6, 28) => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Where an answer's endpoint is to be, and whom it is to reach.
///
/// # Safety
/// F2.
pub(crate) unsafe fn ends(node: *const c_char, number: *const c_char, flags: u64, asked: Option<&Info>) -> Outcome<Ends> {
    // SAFETY: the caller's.
    let (node, number) = unsafe { (text(node)?, text(number)?) };
    let number = number.map(service).transpose()?;
    let ip = node.map(|node| resolve(node, flags & NUMERIC_HOST != 0)).transpose()?;
    let own = own_host();
    let (from, to) = match asked {
        // SAFETY: the caller's.
        Some(a) => unsafe { (given(a.src_addr, a.src_addrlen)?, given(a.dest_addr, a.dest_addrlen)?) },
        None => (None, None),
    };
    let is_source = flags & flags::FROM_SOURCE != 0;
    let id_of = |from: Option<Name>| from.and_then(|name| name.id());
    let (mut wanted, mut id) = (from.as_ref().and_then(|name| ip_of(name.host())), id_of(from));
    let mut destination = to;
    if is_source && (ip.is_some() || number.is_some()) {
        (wanted, id) = (ip, number.and_then(|n| id_of(own.as_deref().and_then(|host| Name::of_service(host, n)))));
    } else if ip.is_some() || number.is_some() {
        let ip = ip.or_else(|| own.as_deref().and_then(ip_of)).ok_or(error::ENODATA)?;
        destination = Some(name_at(ip, number)?);
    }
    let here = own.as_deref().and_then(ip_of);
    if wanted.is_some_and(|ip| !ip.is_unspecified() && here.is_some_and(|here| here != ip)) {
        return Err(error::ENODATA);
    }
    let source = own.and_then(|host| id.map_or_else(|| Name::of_host(&host), |id| Name::new(&host, id)));
    Ok(Ends { source, destination })
}

/// The names of so many nodes from this one on, and of each so many services from this one on. One
/// that there cannot be is `None`.
///
/// # Safety
/// F2: strings.
pub(crate) unsafe fn range(node: *const c_char, nodes: usize, number: *const c_char, services: usize) -> Outcome<impl Iterator<Item = Option<Name>>> {
    // SAFETY: the caller's.
    let (node, number) = unsafe { (text(node)?.ok_or(error::EINVAL)?, text(number)?.ok_or(error::EINVAL)?) };
    let (ip, number) = (resolve(node, false).map_err(|_| error::EINVAL)?, service(number).map_err(|_| error::EINVAL)?);
    let after = move |n: usize| -> Option<IpAddr> {
        Some(match ip {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).checked_add(n.try_into().ok()?)?).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).checked_add(n as u128)?).into(),
        })
    };
    let name = move |n, s: usize| name_at(after(n)?, Some(number.checked_add(s.try_into().ok()?)?)).ok().filter(|name| name.service().is_some());
    Ok((0..nodes).flat_map(move |n| (0..services).map(move |s| name(n, s))))
}

/// The id that an endpoint's source address asks for.
///
/// # Safety
/// F2.
pub(crate) unsafe fn wanted_id(info: &Info) -> Outcome<Option<[u8; 16]>> {
    // SAFETY: the caller's.
    let name = unsafe { given(info.src_addr, info.src_addrlen) }.map_err(|_| error::EINVAL)?;
    Ok(name.and_then(|name| name.id()))
}

/// The id of an address here that an endpoint is to have; none for a host alone.
///
/// # Safety
/// F2: `length` bytes.
pub(crate) unsafe fn id_here(at: *const u8, length: usize) -> Outcome<Option<[u8; 16]>> {
    // SAFETY: the caller's.
    let name = unsafe { given(at.cast(), length) }.map_err(|_| error::EINVAL)?.ok_or(error::EINVAL)?;
    let (wanted, own) = (ip_of(name.host()), own_host().as_deref().and_then(ip_of));
    if wanted.is_some_and(|ip| !ip.is_unspecified() && Some(ip) != own) {
        return Err(libc::EADDRNOTAVAIL);
    }
    Ok(name.id())
}

/// The name of an answer's source.
///
/// # Safety
/// F2.
pub(crate) unsafe fn source_of(info: &Info) -> Option<Name> {
    // SAFETY: the caller's.
    unsafe { given(info.src_addr, info.src_addrlen) }.ok().flatten().filter(|name| name.id().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(node: Option<&CStr>, service: Option<&CStr>, flags: u64) -> Outcome<Ends> {
        let at = |s: Option<&CStr>| s.map_or(core::ptr::null(), CStr::as_ptr);
        // SAFETY: strings, and no hints.
        unsafe { ends(at(node), at(service), flags, None) }
    }

    #[test]
    fn nodes_and_services() {
        let local = Name::of_service(&[127, 0, 0, 1], 80).unwrap();
        let got = of(Some(c"127.0.0.1"), Some(c"80"), 0).unwrap();
        assert_eq!((got.destination, got.source), (Some(local), Name::of_host(&[127, 0, 0, 1])));
        let got = of(Some(c"localhost"), Some(c"80"), flags::FROM_SOURCE).unwrap();
        assert_eq!((got.destination, got.source), (None, Some(local)));
        let got = of(None, Some(c"80"), flags::FROM_SOURCE).unwrap();
        assert_eq!((got.destination, got.source), (None, Some(local)));
        // We are not there; no such number; a name where a number is to be.
        assert_eq!(of(Some(c"10.99.0.1"), None, flags::FROM_SOURCE).err(), Some(error::ENODATA));
        assert_eq!(of(None, Some(c"70000"), 0).err(), Some(error::ENODATA));
        assert_eq!(of(Some(c"localhost"), None, NUMERIC_HOST).err(), Some(error::ENODATA));
    }

    #[test]
    fn ranges() {
        // SAFETY: strings.
        let all: Vec<_> = unsafe { range(c"10.0.0.255".as_ptr(), 2, c"65535".as_ptr(), 2) }.unwrap().collect();
        assert_eq!(all, [Name::of_service(&[10, 0, 0, 255], 65535), None, Name::of_service(&[10, 0, 1, 0], 65535), None]);
    }

    #[test]
    fn socket_addresses() {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..8].copy_from_slice(&[0, 80, 127, 0, 0, 1]);
        assert_eq!(socket_address(&bytes), Some("127.0.0.1:80".parse().unwrap()));
        assert_eq!(socket_address(&bytes[..15]), None);
        assert_eq!(socket_address(&[]), None);
    }
}
