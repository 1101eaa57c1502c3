// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets of a NIC: one for everybody, and beside it one of the same address for each peer that there is a session with.
//!
//! A connected socket is faster (the kernel has looked up route and receiver once), and what the network says about its peer is known to be about that peer: that nobody
//! is there any more, above all. It is bound to the NIC's own address and port, next to the first one, which takes what comes from strangers; when the system
//! cannot have that, or there are too many peers, the first one serves.
//!
//! Whoever polls looks at the socket that had something last; now and then, and whenever there are several peers, at all of them behind one epoll set.

use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Wanted of the kernel for what arrives while nobody looks; it gives what it allows (net.core.rmem_max).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Connected sockets; further peers share the first one.
const CONNECTED_MAX: usize = 256;
/// Looks at the socket that had something last between two at all of them, while there is one peer.
const LOOKS_PER_SWEEP: u32 = 16;
/// In the epoll set: the first socket.
const FIRST: u64 = u64::MAX;

/// A socket with its segmentation state.
#[derive(Debug)]
pub(super) struct Socket {
    pub socket: UdpSocket,
    pub state: UdpSocketState,
}

impl Socket {
    fn new(socket: UdpSocket) -> Result<Self, io::Error> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Less than wanted is the machine's limit, not an error.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SEND_BUFFER_BYTES);
        Ok(Self { socket, state })
    }

    /// One datagram or several of a size. To a connected socket's peer, `to` is `None`.
    pub(super) fn put(&self, to: SocketAddr, is_connected: bool, bytes: &[u8], segment: Option<usize>) -> Result<(), io::Error> {
        match segment {
            None if is_connected => self.socket.send(bytes).map(drop),
            None => self.socket.send_to(bytes, to).map(drop),
            Some(size) => {
                let t = quinn_udp::Transmit { destination: to, ecn: None, contents: bytes, segment_size: Some(size), src_ip: None };
                self.state.try_send(UdpSockRef::from(&self.socket), &t)
            }
        }
    }
}

/// Where to look next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    First,
    Peer(SocketAddr),
}

/// All sockets of a NIC.
#[derive(Debug)]
pub(super) struct Sockets {
    first: Socket,
    own: SocketAddr,
    peers: BTreeMap<SocketAddr, Peer>,
    /// The peer of each number in the epoll set.
    numbers: BTreeMap<u64, SocketAddr>,
    next: u64,
    set: OwnedFd,
    hot: At,
    looks: u32,
    /// Sockets that the epoll set has shown to have something.
    ready: Vec<At>,
}

#[derive(Debug)]
struct Peer {
    socket: Socket,
    number: u64,
    /// Sessions with it.
    users: u32,
}

impl Sockets {
    pub(super) fn open(address: SocketAddr) -> Result<Self, io::Error> {
        let socket = UdpSocket::bind(address)?;
        // Set only now, so that a port chosen by the kernel is nobody else's; those bound later to the same one must be this user's.
        sockopt::set_socket_reuseport(&socket, true)?;
        let own = socket.local_addr()?;
        let first = Socket::new(socket)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, &first.socket, epoll::EventData::new_u64(FIRST), epoll::EventFlags::IN)?;
        let (peers, numbers) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { first, own, peers, numbers, next: 0, set, hot: At::First, looks: 0, ready: Vec::new() })
    }

    /// The NIC's address.
    pub(super) fn own(&self) -> SocketAddr {
        self.own
    }

    /// For packets to anybody.
    pub(super) fn first(&self) -> &Socket {
        &self.first
    }

    /// Readable when any of the sockets is.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// There is a session with a peer: it gets a socket of its own, if possible.
    pub(super) fn connect(&mut self, to: SocketAddr) {
        if let Some(p) = self.peers.get_mut(&to) {
            p.users += 1;
            return;
        }
        // A NIC's link to itself has one address for both ends.
        if self.peers.len() >= CONNECTED_MAX || to == self.own {
            return;
        }
        if let Ok(socket) = self.open_connected(to) {
            let number = self.next;
            self.next += 1;
            if epoll::add(&self.set, &socket.socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN).is_ok() {
                self.peers.insert(to, Peer { socket, number, users: 1 });
                self.numbers.insert(number, to);
            }
        }
    }

    fn open_connected(&self, to: SocketAddr) -> Result<Socket, io::Error> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &self.own)?;
        connect(&socket, &to)?;
        Socket::new(UdpSocket::from(socket))
    }

    /// A session with a peer is over.
    pub(super) fn disconnect(&mut self, to: SocketAddr) {
        let Some(p) = self.peers.get_mut(&to) else { return };
        p.users -= 1;
        if p.users > 0 {
            return;
        }
        if let Some(p) = self.peers.remove(&to) {
            // Also needed before closing: a forked child may keep the description open.
            let _ = epoll::delete(&self.set, &p.socket.socket);
            self.numbers.remove(&p.number);
        }
        self.ready.clear();
        self.hot = At::First;
    }

    /// The socket for packets to `to`, and whether it is connected to it.
    #[inline]
    pub(super) fn to(&mut self, to: SocketAddr) -> (&Socket, bool) {
        match self.peers.get(&to) {
            Some(p) => (&p.socket, true),
            None => (&self.first, false),
        }
    }

    /// Receives from whichever socket has something. The address of the peer when its own socket says that nobody is there.
    pub(super) fn receive(&mut self, slot: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, SocketAddr> {
        if let Some(got) = self.receive_at(self.hot, slot)? {
            return Ok(Some(got));
        }
        self.looks = self.looks.wrapping_add(1);
        if self.peers.len() <= 1 && self.hot != At::First && !self.looks.is_multiple_of(LOOKS_PER_SWEEP) {
            return Ok(None);
        }
        if self.ready.is_empty() {
            self.sweep();
        }
        while let Some(at) = self.ready.pop() {
            if at != self.hot
                && let Some(got) = self.receive_at(at, slot)?
            {
                self.hot = at;
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// Asks which sockets have something.
    fn sweep(&mut self) {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 32];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(&self.set, &mut events[..], Some(&at_once)).unwrap_or(0);
        for e in &events[..n] {
            match e.data.u64() {
                FIRST => self.ready.push(At::First),
                number => self.ready.extend(self.numbers.get(&number).map(|to| At::Peer(*to))),
            }
        }
    }

    fn receive_at(&mut self, at: At, slot: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, SocketAddr> {
        let got = match at {
            At::First => self.first.socket.recv_from(slot),
            At::Peer(to) => match self.peers.get(&to) {
                // Only its packets arrive there: the kernel need not say whose they are. (One that came before the socket was connected passes for the peer's, as one with a forged source
                // would; the transport believes neither more than it must.)
                Some(p) => p.socket.socket.recv(slot).map(|n| (n, to)),
                None => return Ok(None),
            },
        };
        match (got, at) {
            (Ok(got), _) => Ok(Some(got)),
            (Err(e), At::Peer(to)) if e.kind() == io::ErrorKind::ConnectionRefused => Err(to),
            // Nothing, or no memory: the transport's timers see to that.
            (Err(_), _) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn sockets() -> Sockets {
        Sockets::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
    }

    fn receive(s: &mut Sockets) -> Option<(Vec<u8>, SocketAddr)> {
        let mut slot = [0; 64];
        // The loopback delivers at once, but a sweep is not made each time.
        (0..2 * LOOKS_PER_SWEEP).find_map(|_| s.receive(&mut slot).unwrap()).map(|(n, from)| (slot[..n].to_vec(), from))
    }

    #[test]
    fn a_peer_s_packets_and_strangers_arrive_from_the_same_address() {
        let (mut a, mut b, c) = (sockets(), sockets(), sockets());
        for (bytes, connect) in [(b"one", false), (b"two", true), (b"six", true)] {
            if connect {
                a.connect(b.own());
            }
            let (own, to) = (a.own(), b.own());
            let (socket, connected) = a.to(to);
            assert_eq!(connected, connect);
            socket.put(to, connected, bytes, None).unwrap();
            assert_eq!(receive(&mut b), Some((bytes.to_vec(), own)));
            b.first().put(own, false, bytes, None).unwrap();
            assert_eq!(receive(&mut a), Some((bytes.to_vec(), to)));
            c.first().put(own, false, b"stranger", None).unwrap();
            assert_eq!(receive(&mut a), Some((b"stranger".to_vec(), c.own())));
        }
        a.disconnect(b.own());
        assert!(a.to(b.own()).1, "a second session has it still");
        a.disconnect(b.own());
        assert!(!a.to(b.own()).1);
    }

    #[test]
    fn who_has_gone_is_told_by_the_peer_s_own_socket() {
        let (mut a, b) = (sockets(), sockets());
        let gone = b.own();
        a.connect(gone);
        drop(b);
        let (socket, connected) = a.to(gone);
        socket.put(gone, connected, b"hello", None).unwrap();
        let mut slot = [0; 8];
        assert_eq!((0..2 * LOOKS_PER_SWEEP).find_map(|_| a.receive(&mut slot).err()), Some(gone));
    }

    #[test]
    fn several_peers_are_all_heard() {
        let mut a = sockets();
        let others: Vec<Sockets> = (0..5).map(|_| sockets()).collect();
        others.iter().for_each(|o| a.connect(o.own()));
        for round in 0..3u8 {
            for o in &others {
                o.first().put(a.own(), false, &[round], None).unwrap();
            }
            let mut from: Vec<SocketAddr> = (0..5).map(|_| receive(&mut a).unwrap().1).collect();
            from.sort();
            let mut all: Vec<SocketAddr> = others.iter().map(Sockets::own).collect();
            all.sort();
            assert_eq!(from, all);
        }
    }
}
