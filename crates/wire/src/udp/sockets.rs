// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets of a NIC: one for everybody, and beside it one of the same address for each peer
//! that there is a session with.
//!
//! A connected socket is faster (the kernel has looked up route and receiver once), and what the
//! network says about its peer is known to be about that peer: that nobody is there any more, above
//! all. It is bound to the NIC's own address and port, next to the first one, which takes what
//! comes from strangers; when the system cannot have that, or there are too many peers, the first
//! one serves.
//!
//! A poller looks at the socket that had something last; now and then, and whenever there are
//! several peers, at all of them behind one epoll set. An only peer's socket is in that set only
//! while somebody sleeps on the set: else each packet would cost its sender (on one host; else the
//! receiver) a call of the set, 0.2 us, for nobody. A thread that sleeps on that socket itself
//! (`watch_only_peer`) is woken by it alone, without the sets between, and looks at the others only
//! when their set has woken it.

use super::{options, segments};
use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Wanted of the kernel for what arrives while nobody looks; it gives what it allows
/// (net.core.rmem_max).
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Connected sockets; further peers share the first one.
const CONNECTED_MAX: usize = 256;
/// Sockets that one sweep finds readable.
const EVENTS_MAX: usize = 32;
/// Looks at the socket that had something last between two at all of them, while there is one peer:
/// packets of strangers may wait for so many.
const LOOKS_PER_SWEEP: u32 = 64;
/// The same while somebody is about to sleep, whom a packet of a stranger would wake at once.
const LOOKS_PER_SWEEP_ARMED: u32 = 4;
/// In the epoll set: the first socket, and what is none of ours.
const FIRST: u64 = u64::MAX;
const OF_OTHERS: u64 = u64::MAX - 1;

/// A socket with its segmentation state.
#[derive(Debug)]
pub(super) struct Socket {
    pub socket: Arc<UdpSocket>,
    pub state: UdpSocketState,
}

impl Socket {
    fn new(socket: UdpSocket) -> Result<Self, io::Error> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        options::without_notes(&socket);
        // Less than wanted is the machine's limit, not an error.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SEND_BUFFER_BYTES);
        Ok(Self { socket: Arc::new(socket), state })
    }

    /// One datagram or several of a size. To a connected socket's peer, `to` is `None`.
    pub(super) fn put(&self, to: SocketAddr, is_connected: bool, bytes: &[u8], segment: Option<usize>) -> Result<(), io::Error> {
        match segment {
            // A bare system call: the C library's is a point of cancellation, which costs as much
            // again as its part in user space.
            None if is_connected => Ok(rustix::net::send(&self.socket, bytes, SendFlags::empty()).map(drop)?),
            None => self.socket.send_to(bytes, to).map(drop),
            Some(size) => {
                if is_connected {
                    let sent = segments::send(&self.socket, bytes, size);
                    let is_refused = |e: &io::Error| e.raw_os_error().is_some_and(|e| [libc::EIO, libc::EINVAL].contains(&e));
                    if !sent.as_ref().is_err_and(is_refused) {
                        return sent;
                    }
                    // Segmentation seems not to work: the socket layer finds out and acts on it.
                }
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
    /// The place in `peers`.
    Peer(usize),
}

/// All sockets of a NIC.
#[derive(Debug)]
pub(super) struct Sockets {
    first: Socket,
    own: SocketAddr,
    peers: Vec<Option<Peer>>,
    /// The place of each.
    places: BTreeMap<SocketAddr, usize>,
    set: OwnedFd,
    /// Somebody sleeps, or is about to: all sockets are in the set.
    armed: bool,
    /// The sleeper watches an only peer's socket itself.
    apart: bool,
    /// The next look that finds nothing is at all sockets.
    everywhere: bool,
    hot: At,
    looks: u32,
    /// Sockets that the epoll set has shown to have something.
    ready: Vec<At>,
    /// Descriptors of others, and whether they are in the epoll set.
    others: Vec<(OwnedFd, bool)>,
}

#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    socket: Socket,
    /// Sessions with it.
    users: u32,
    /// In the epoll set.
    listened: bool,
}

impl Sockets {
    pub(super) fn open(address: SocketAddr) -> Result<Self, io::Error> {
        let socket = UdpSocket::bind(address)?;
        // Set only now, so that a port chosen by the kernel is nobody else's; those bound later to
        // the same one must be this user's.
        sockopt::set_socket_reuseport(&socket, true)?;
        let own = socket.local_addr()?;
        let first = Socket::new(socket)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, &first.socket, epoll::EventData::new_u64(FIRST), epoll::EventFlags::IN)?;
        Ok(Self {
            first,
            own,
            peers: Vec::new(),
            places: BTreeMap::new(),
            set,
            armed: false,
            apart: false,
            everywhere: false,
            hot: At::First,
            looks: 0,
            ready: Vec::with_capacity(EVENTS_MAX),
            others: Vec::new(),
        })
    }

    /// The NIC's address.
    pub(super) fn own(&self) -> SocketAddr {
        self.own
    }

    /// For packets to anybody.
    pub(super) fn first(&self) -> &Socket {
        &self.first
    }

    /// Readable, while armed, when any of the sockets is.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Has [`fd`](Self::fd) tell, while armed, of another descriptor, too; its owner looks at it.
    pub(super) fn tell_too(&mut self, fd: BorrowedFd<'_>) -> Result<(), io::Error> {
        self.others.push((fd.try_clone_to_owned()?, false));
        Ok(())
    }

    /// Whether somebody sleeps on [`fd`](Self::fd), or is about to.
    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Whether somebody sleeps on [`fd`](Self::fd), or is about to.
    pub(super) fn set_armed(&mut self, armed: bool) {
        if self.armed != armed {
            (self.armed, self.everywhere) = (armed, true);
            self.listen();
        }
    }

    /// An only peer's socket, for a sleeper to watch beside [`fd`](Self::fd), which does not tell
    /// of it from now on. `None`: that tells of all.
    pub(super) fn watch_only_peer(&mut self) -> Option<Arc<UdpSocket>> {
        let place = *self.places.values().next().filter(|_| self.places.len() == 1)?;
        if !self.apart {
            self.apart = true;
            self.listen();
        }
        self.peers[place].as_ref().map(|p| Arc::clone(&p.socket.socket))
    }

    /// [`fd`](Self::fd) tells of all sockets again.
    pub(super) fn watch_all(&mut self) {
        if core::mem::take(&mut self.apart) {
            self.everywhere = true;
            self.listen();
        }
    }

    /// [`fd`](Self::fd) has told of something.
    pub(super) fn look_everywhere(&mut self) {
        self.everywhere = true;
    }

    /// Brings the epoll set up to date.
    fn listen(&mut self) {
        let all = (self.armed && !self.apart) || self.places.len() > 1;
        for (place, slot) in self.peers.iter_mut().enumerate() {
            let Some(peer) = slot.as_mut().filter(|p| p.listened != all) else { continue };
            if !all {
                peer.listened = epoll::delete(&self.set, &peer.socket.socket).is_err();
            } else if epoll::add(&self.set, &peer.socket.socket, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN).is_ok() {
                peer.listened = true;
            } else {
                // It would not be heard: the first socket takes what comes for it.
                self.places.remove(&peer.address);
                *slot = None;
            }
        }
        for (fd, listened) in &mut self.others {
            if *listened && !self.armed {
                *listened = epoll::delete(&self.set, &*fd).is_err();
            } else if !*listened && self.armed {
                *listened = epoll::add(&self.set, &*fd, epoll::EventData::new_u64(OF_OTHERS), epoll::EventFlags::IN).is_ok();
            }
        }
        // A poller of an only peer looks there.
        if !all && let Some(place) = self.places.values().next() {
            self.hot = At::Peer(*place);
        }
    }

    /// There is a session with a peer: it gets a socket of its own, if possible.
    pub(super) fn connect(&mut self, to: SocketAddr) {
        if let Some(p) = self.places.get(&to).and_then(|place| self.peers[*place].as_mut()) {
            p.users += 1;
            return;
        }
        // A NIC's link to itself has one address for both ends.
        if self.places.len() >= CONNECTED_MAX || to == self.own {
            return;
        }
        if let Ok(socket) = self.open_connected(to) {
            let peer = Peer { address: to, socket, users: 1, listened: false };
            let place = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
            if place == self.peers.len() {
                self.peers.push(None);
            }
            self.peers[place] = Some(peer);
            self.places.insert(to, place);
            // A sleeper knows nothing of it.
            self.watch_all();
            self.listen();
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
        let Some(place) = self.places.get(&to).copied() else { return };
        let Some(p) = &mut self.peers[place] else { return };
        p.users -= 1;
        if p.users > 0 {
            return;
        }
        if p.listened {
            // Also needed before closing: a forked child may keep the description open.
            let _ = epoll::delete(&self.set, &p.socket.socket);
        }
        self.peers[place] = None;
        self.places.remove(&to);
        self.ready.clear();
        self.hot = At::First;
        self.watch_all();
        self.listen();
    }

    /// The socket for packets to `to`, and whether it is connected to it.
    #[inline]
    pub(super) fn to(&self, to: SocketAddr) -> (&Socket, bool) {
        if let At::Peer(place) = self.hot
            && let Some(p) = self.peers[place].as_ref().filter(|p| p.address == to)
        {
            return (&p.socket, true);
        }
        match self.places.get(&to).and_then(|place| self.peers[*place].as_ref()) {
            Some(p) => (&p.socket, true),
            None => (&self.first, false),
        }
    }

    /// Receives from whichever socket has something. The address of the peer when its own socket
    /// says that nobody is there.
    #[inline]
    pub(super) fn receive(&mut self, slot: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, SocketAddr> {
        if let Some(got) = self.receive_at(self.hot, slot)? {
            return Ok(Some(got));
        }
        self.looks = self.looks.wrapping_add(1);
        let looks_per_sweep = if self.armed && !self.apart { LOOKS_PER_SWEEP_ARMED } else { LOOKS_PER_SWEEP };
        let listens = self.everywhere || self.looks.is_multiple_of(looks_per_sweep);
        if self.places.len() == 1 && self.hot != At::First && !listens {
            return Ok(None);
        }
        self.receive_elsewhere(slot)
    }

    #[cold]
    #[inline(never)]
    fn receive_elsewhere(&mut self, slot: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, SocketAddr> {
        if self.ready.is_empty() {
            self.sweep();
        }
        while let Some(at) = self.ready.pop() {
            if at == self.hot {
                continue;
            }
            if let Some(got) = self.receive_at(at, slot)? {
                // An only peer that is not in the set is looked at each time.
                if at != At::First || self.places.len() != 1 || (self.armed && !self.apart) {
                    self.hot = at;
                }
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// Asks which sockets have something.
    fn sweep(&mut self) {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS_MAX];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(&self.set, &mut events[..], Some(&at_once)).unwrap_or(0);
        self.everywhere &= n != 0;
        for e in &events[..n] {
            match e.data.u64() {
                FIRST => self.ready.push(At::First),
                OF_OTHERS => {}
                place => self.ready.push(At::Peer(place as usize)),
            }
        }
    }

    #[inline]
    fn receive_at(&mut self, at: At, slot: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, SocketAddr> {
        let (peer, got) = match at {
            At::First => return Ok(self.first.socket.recv_from(slot).ok()),
            At::Peer(place) => match self.peers.get(place) {
                // Only its packets arrive there: the kernel need not say whose they are. (One that
                // came before the socket was connected passes for the peer's, as one with a forged
                // source would; the transport believes neither more than it must.)
                Some(Some(p)) => (p.address, rustix::net::recv(&p.socket.socket, slot, RecvFlags::empty())),
                _ => return Ok(None),
            },
        };
        match got {
            Ok((n, _)) => Ok(Some((n, peer))),
            Err(Errno::CONNREFUSED) => Err(peer),
            // Nothing, or no memory: the transport's timers see to that.
            Err(_) => Ok(None),
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

    /// Whether a sleeper on the set would be woken.
    fn tells(s: &Sockets) -> bool {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 4];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&s.set, &mut events[..], Some(&at_once)).unwrap() != 0
    }

    #[test]
    fn what_a_sleeper_watches_itself_is_told_by_nothing_else_and_nothing_is_missed() {
        let (mut a, b, c) = (sockets(), sockets(), sockets());
        let own = a.own();
        let put = |from: &Sockets| from.first().put(own, false, b"x", None).unwrap();
        assert!(a.watch_only_peer().is_none(), "there is no peer");
        a.connect(b.own());
        a.set_armed(true);
        put(&b);
        assert!(tells(&a), "all that comes");
        assert_eq!(receive(&mut a).unwrap().1, b.own());
        let apart = a.watch_only_peer().unwrap();
        put(&b);
        assert!(!tells(&a));
        assert_eq!(apart.peek(&mut [0; 8]).unwrap(), 1);
        assert_eq!(receive(&mut a).unwrap().1, b.own());
        put(&c);
        put(&c);
        assert!(tells(&a), "strangers");
        let mut slot = [0; 64];
        for _ in 0..2 {
            a.look_everywhere();
            assert_eq!(a.receive(&mut slot), Ok(Some((1, c.own()))), "the next look finds them all");
        }
        assert_eq!((a.receive(&mut slot), tells(&a)), (Ok(None), false));
        put(&b);
        a.watch_all();
        assert!(tells(&a), "as before");
        receive(&mut a);
        // A second peer: nothing is apart any more, and a sleeper on the first one's socket hears
        // of the second one's.
        assert!(a.watch_only_peer().is_some());
        a.connect(c.own());
        put(&c);
        assert!(tells(&a) && a.watch_only_peer().is_none());
        receive(&mut a);
        a.disconnect(c.own());
        put(&b);
        assert!(tells(&a));
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
