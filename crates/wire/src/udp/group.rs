// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets of IP multicast groups. The kernel and the network know the members: a datagram leaves
//! once, however many members there are, and a member makes nobody send anything.

use bellwire_proto::seal::Keys;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

/// Bytes of datagrams that may wait in a member's socket.
const RECEIVE_BYTES: usize = 1 << 20;

/// A member's socket: takes datagrams to one group and port that come by one interface.
#[derive(Debug)]
pub struct GroupSocket(UdpSocket);

/// A socket for datagrams to groups by one interface. They go no further than its network.
#[derive(Debug)]
pub struct GroupSender {
    socket: UdpSocket,
    /// Index of the interface; for IPv6.
    interface: u32,
}

/// Datagrams to groups are not authenticated: a NIC with keys has no groups.
fn without_keys(keys: Option<&Keys>) -> io::Result<()> {
    if keys.is_some() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}

fn open(at: &SocketAddr, is_shared: bool) -> io::Result<UdpSocket> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if is_shared {
        // All members of a host wait at the same port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, at)?;
    Ok(socket.into())
}

/// The index of the interface that has an address.
fn interface_of(own: IpAddr) -> io::Result<u32> {
    let found = if_addrs::get_if_addrs()?.into_iter().find(|i| i.ip() == own).and_then(|i| i.index);
    found.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// The socket takes only what comes by the interface by which it joined, not what other sockets of
/// the host have joined.
fn only_where_joined(socket: &UdpSocket) -> io::Result<()> {
    // Linux' `IPV6_MULTICAST_ALL`, which libc does not name everywhere.
    const IPV6_MULTICAST_ALL: libc::c_int = 29;
    let (level, name) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL),
    };
    let off: libc::c_int = 0;
    // SAFETY: the option's value is one int, which lives here and is only read; the descriptor is
    // borrowed for the call.
    let code = unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const off).cast(), size_of_val(&off) as libc::socklen_t) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl GroupSocket {
    /// Joins a group at a port, by the interface that has the address `own`, for a NIC with these
    /// keys.
    ///
    /// # Errors
    /// `Unsupported`: the NIC has keys. Those of the system: no such interface, no descriptors, too
    /// many groups.
    pub fn join(group: IpAddr, port: u16, own: IpAddr, keys: Option<&Keys>) -> io::Result<Self> {
        without_keys(keys)?;
        let socket = match (group, own) {
            (IpAddr::V4(group), IpAddr::V4(own)) => {
                let socket = open(&(group, port).into(), true)?;
                sockopt::set_ip_add_membership(&socket, &group, &own)?;
                socket
            }
            (IpAddr::V6(group), IpAddr::V6(_)) => {
                let interface = interface_of(own)?;
                let socket = open(&SocketAddrV6::new(group, port, 0, interface).into(), true)?;
                sockopt::set_ipv6_add_membership(&socket, &group, interface)?;
                socket
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        only_where_joined(&socket)?;
        // The least is there anyway.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
        Ok(Self(socket))
    }

    /// Takes a datagram: its length, cut to the room, and its sender.
    ///
    /// # Errors
    /// `WouldBlock`: there is none.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<(usize, IpAddr)> {
        self.0.recv_from(to).map(|(n, from)| (n, from.ip()))
    }
}

impl AsFd for GroupSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl GroupSender {
    /// A socket at `own`, which receivers see, that sends by its interface, for a NIC with these
    /// keys. Members of this host get what it sends, too.
    ///
    /// # Errors
    /// `Unsupported`: the NIC has keys. Those of the system.
    pub fn new(own: IpAddr, keys: Option<&Keys>) -> io::Result<Self> {
        without_keys(keys)?;
        let interface = if own.is_ipv6() { interface_of(own)? } else { 0 };
        let at: SocketAddr = match own {
            IpAddr::V4(ip) => (ip, 0).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, 0, 0, interface).into(),
        };
        let socket = open(&at, false)?;
        match own {
            IpAddr::V4(own) => sockopt::set_ip_multicast_if(&socket, &own)?,
            IpAddr::V6(_) => sockopt::set_ipv6_multicast_if(&socket, interface)?,
        }
        Ok(Self { socket, interface })
    }

    /// Sends a datagram to a group.
    ///
    /// # Errors
    /// Those of the system; nothing is sent.
    pub fn send(&self, group: IpAddr, port: u16, bytes: &[u8]) -> io::Result<()> {
        let to: SocketAddr = match group {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.interface).into(),
        };
        self.socket.send_to(bytes, to).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn take(member: &GroupSocket) -> Option<(Vec<u8>, IpAddr)> {
        let mut room = vec![0; 9000];
        poll(&mut [PollFd::new(member, PollFlags::IN)], Some(&rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
        let (n, from) = member.receive(&mut room).ok()?;
        room.truncate(n);
        Some((room, from))
    }

    #[test]
    fn a_nic_with_keys_has_no_groups() {
        //= P-AUTH-3
        let (own, group) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([239, 255, 71, 3]));
        let keys = Keys::shared([1; 32]);
        assert_eq!(GroupSocket::join(group, 0, own, Some(&keys)).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(GroupSender::new(own, Some(&keys)).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    /// All members of the host get a copy each, longer than a packet of Ethernet too, and know the
    /// sender; those of another group or port get none.
    #[test]
    fn members_get_one_copy_each() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let (group, other) = (IpAddr::from([239, 255, 71, 1]), IpAddr::from([239, 255, 71, 2]));
        let port = 20_000 + (std::process::id() % 20_000) as u16;
        let members = [GroupSocket::join(group, port, own, None).unwrap(), GroupSocket::join(group, port, own, None).unwrap()];
        let others = [GroupSocket::join(other, port, own, None).unwrap(), GroupSocket::join(group, port + 1, own, None).unwrap()];
        let sender = GroupSender::new(own, None).unwrap();
        for length in [0, 1, 5000] {
            sender.send(group, port, &vec![7; length]).unwrap();
            for member in &members {
                assert_eq!(take(member), Some((vec![7; length], own)));
            }
        }
        for socket in members.iter().chain(&others) {
            assert_eq!(socket.receive(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
