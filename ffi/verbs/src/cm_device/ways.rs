// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which addresses this host has, and its own address towards another. The kernel is asked by
//! binding and connecting a socket of datagrams, which sends nothing.
//!
//! The calls go to the kernel without the C library's functions. librspreload, which is loaded
//! beside this library, takes `socket` and `connect` of the process for its rsockets: those would
//! ask this device for the way, without end.

use super::address::{device_at, parse, store};
use core::ffi::c_long;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Whether an address is one of this host's interfaces, or a device's.
pub(super) fn is_local(address: &SocketAddr) -> bool {
    let at = match address {
        SocketAddr::V4(a) => SocketAddr::from((*a.ip(), 0)),
        SocketAddr::V6(a) => SocketAddrV6::new(*a.ip(), 0, 0, a.scope_id()).into(),
    };
    device_at(address.ip()).is_some() || Asking::at(&at).is_ok()
}

/// The host's own address towards another: `from`, if the program chose one.
pub(super) fn towards(from: Option<IpAddr>, to: &SocketAddr) -> Result<IpAddr, i32> {
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
        Err(_) if device_at(to.ip()).is_some() => Ok(to.ip()),
        Err(e) => Err(e),
    }
}

/// The socket.
struct Asking(OwnedFd);

/// The result of a system call, or its error.
fn checked(result: c_long) -> Result<c_long, i32> {
    if result < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) } else { Ok(result) }
}

impl Asking {
    /// A socket that is bound to an address.
    fn at(address: &SocketAddr) -> Result<Self, i32> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: numbers.
        let fd = checked(unsafe { libc::syscall(libc::SYS_socket, family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: a new descriptor, which nobody else has.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        socket.give(libc::SYS_bind, address)?;
        Ok(socket)
    }

    /// The host's own address towards another.
    fn towards(&self, address: &SocketAddr) -> Result<SocketAddr, i32> {
        self.give(libc::SYS_connect, address)?;
        let mut bytes = [0_u8; 28];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: room for an address of either family, as long as it says.
        checked(unsafe { libc::syscall(libc::SYS_getsockname, self.0.as_raw_fd(), bytes.as_mut_ptr(), &raw mut length) })?;
        parse(&bytes).ok_or(libc::EHOSTUNREACH)
    }

    /// A call that takes an address.
    fn give(&self, call: c_long, address: &SocketAddr) -> Result<(), i32> {
        let bytes = store(address);
        // SAFETY: an address of the kernel's shape, as long as it says.
        checked(unsafe { libc::syscall(call, self.0.as_raw_fd(), bytes.as_ptr(), bytes.len()) }).map(|_| ())
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
