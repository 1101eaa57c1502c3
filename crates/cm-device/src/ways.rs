// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which addresses this host has, and its own address towards another. The kernel is asked by
//! binding and connecting a socket of datagrams, which sends nothing.
//!
//! The calls go to the kernel without the C library's functions, as rustix makes them on Linux
//! (`tests/verbs/cm.sh` would show if it did not). librspreload, which is loaded
//! beside this library, takes `socket` and `connect` of the process for its rsockets: those would
//! ask this device for the way, without end.

use crate::{Devices, address};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket_with};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Whether an address is one of this host's interfaces, or a device's.
pub(super) fn is_local(devices: &dyn Devices, address: &SocketAddr) -> bool {
    let at = match address {
        SocketAddr::V4(a) => SocketAddr::from((*a.ip(), 0)),
        SocketAddr::V6(a) => SocketAddrV6::new(*a.ip(), 0, 0, a.scope_id()).into(),
    };
    devices.at(&address::gid(address.ip())).is_some() || Asking::at(&at).is_ok()
}

/// The host's own address towards another: `from`, if the program chose one.
pub(super) fn towards(devices: &dyn Devices, from: Option<IpAddr>, to: &SocketAddr) -> Result<IpAddr, i32> {
    if let Some(from) = from {
        return Ok(from);
    }
    let any = if to.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = Asking::at(&(any, 0).into())?;
    let mut there = *to;
    there.set_port(if to.port() == 0 { 1 } else { to.port() });
    match socket.towards(&there) {
        Ok(address) => Ok(address.ip()),
        // A device's address need not be an interface's.
        Err(_) if devices.at(&address::gid(to.ip())).is_some() => Ok(to.ip()),
        Err(e) => Err(e),
    }
}

/// The socket.
struct Asking(OwnedFd);

impl Asking {
    /// A socket that is bound to an address.
    fn at(address: &SocketAddr) -> Result<Self, i32> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(Errno::raw_os_error)?;
        bind(&socket, address).map_err(Errno::raw_os_error)?;
        Ok(Self(socket))
    }

    /// The host's own address towards another.
    fn towards(&self, address: &SocketAddr) -> Result<SocketAddr, i32> {
        connect(&self.0, address).map_err(Errno::raw_os_error)?;
        getsockname(&self.0).and_then(SocketAddr::try_from).map_err(Errno::raw_os_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ways() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let socket = Asking::at(&at("0.0.0.0:0")).unwrap();
        assert_eq!(socket.towards(&at("127.0.0.1:9")).unwrap().ip(), at("127.0.0.1:9").ip());
        assert_eq!(Asking::at(&at("192.0.2.1:0")).err(), Some(libc::EADDRNOTAVAIL));
        if let Ok(socket) = Asking::at(&at("[::]:0")) {
            assert_eq!(socket.towards(&at("[::1]:9")).map(|a| a.ip()), Ok(at("[::1]:9").ip()));
        }
    }
}
