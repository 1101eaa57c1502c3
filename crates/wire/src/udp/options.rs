// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a socket is asked to leave away. `quinn-udp` asks the kernel to say with each packet when
//! it came, to which address, and how it was marked. Nobody here reads that, and it costs about as
//! much as a whole look that finds nothing: the time of arrival is even taken for all packets of
//! the host, as long as one socket wants it.

use rustix::fd::{AsFd, AsRawFd};

/// Asks for packets without these notes. A kernel that does not know an option does not send the
/// note either.
pub(super) fn without_notes(socket: impl AsFd) {
    const NOTES: [(i32, i32); 5] = [
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        (libc::IPPROTO_IP, libc::IP_PKTINFO),
        (libc::IPPROTO_IP, libc::IP_RECVTOS),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    ];
    let off: libc::c_int = 0;
    for (level, name) in NOTES {
        // SAFETY: the option's value is one int, which lives here and is only read; the descriptor
        // is borrowed. An error changes nothing.
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const off).cast(), size_of_val(&off) as libc::socklen_t) };
    }
}

/// Asks that datagrams longer than the path takes are refused, not sent in fragments: the transport
/// finds out which sizes pass. A kernel that does not know the option sends fragments.
pub fn without_fragments(socket: impl AsFd) {
    const ASKED: [(i32, i32, i32); 2] =
        [(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE), (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)];
    for (level, name, value) in ASKED {
        let value: libc::c_int = value;
        // SAFETY: the option's value is one int, which lives here and is only read; the descriptor
        // is borrowed.
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), size_of_val(&value) as libc::socklen_t) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSliceMut;
    use std::net::UdpSocket;

    /// Whether the kernel says anything with a packet.
    fn has_notes(socket: &UdpSocket, other: &UdpSocket) -> bool {
        other.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        let (mut slot, mut control) = ([0; 8], [0u64; 32]);
        let mut piece = IoSliceMut::new(&mut slot);
        // SAFETY: all zeros is a message without anything.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = (&raw mut piece).cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the message refers to `piece` and `control`, which live here.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
        assert_eq!(n, 1);
        message.msg_controllen != 0
    }

    #[test]
    fn packets_come_without_notes() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let other = UdpSocket::bind(address).unwrap();
            let _ = quinn_udp::UdpSocketState::new((&socket).into()).unwrap();
            socket.set_nonblocking(false).unwrap();
            assert!(has_notes(&socket, &other), "they are asked for: {address}");
            without_notes(&socket);
            assert!(!has_notes(&socket, &other), "{address}");
        }
    }
}
