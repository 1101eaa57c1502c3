// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP: a shorter way for the same UDP packets, past the kernel's stack, where a process may use
//! it (CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN; any root).
//!
//! A program on the interface (`filter.rs`) gives packets for the NIC's port to a socket whose
//! memory the NIC maps, so receiving takes no system call, and sending one without the stack. What
//! a peer sees is the same: packets are UDP, with all headers, and a peer without AF_XDP is no
//! different. The UDP sockets stay beside it. They take what this cannot: peers on this host, peers
//! whose place on the network the kernel does not know yet, packets that were cut or joined.
//!
//! A socket of this kind has a queue of an interface to itself: the first process that asks has it,
//! and others go on by UDP.
//!
//! | file | concern |
//! |---|---|
//! | `filter.rs`, `bpf.rs` | the program on the interface; the calls that load and attach it |
//! | `rings.rs` | the socket of a queue: frames and rings |
//! | `headers.rs` | headers of Ethernet, IP and UDP |
//! | `routes.rs` | what the kernel knows of routes, neighbours and interfaces |

mod bpf;
mod filter;
mod headers;
mod rings;
mod routes;

use crate::time::{Duration, Instant};
use core::fmt;
use headers::{HEADERS_MAX, Route};
use rings::{FRAME, Xsk};
use routes::{Interface, Routes};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// Queues of an interface that are used; packets of further ones go by UDP sockets.
const QUEUES_MAX: u32 = 16;
/// The kernel sees no packet of this way, so it would not notice that a neighbour has moved. Now
/// and then one packet goes by the UDP socket, and the kernel is asked anew.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Until it is asked again whom it did not know.
const UNKNOWN: Duration = Duration::from_millis(1);
/// How often an interface that is taken is tried again, and the pauses between.
const BUSY_TRIES: u32 = 10;
const BUSY_PAUSE: std::time::Duration = std::time::Duration::from_millis(3);
/// Damaged packets that one look passes over.
const DAMAGED_MAX: u32 = 64;
/// Packets longer than this are parts of a stream, and as many of them at most follow a run.
const SHORT: usize = 512;
const FOLLOW: u32 = 16;
/// The longest packet with its headers: the kernel leaves room before what arrives
/// (`XDP_PACKET_HEADROOM`).
const LONGEST: usize = FRAME - 256;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// How an interface runs the program (`BELLWIRE_XDP`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Not at all.
    #[default]
    Off,
    /// By the kernel's common part, behind the driver. The interface goes on cutting and joining
    /// long packets, for this NIC as for others.
    On,
    /// By the driver. A virtual Ethernet then hands on no long packets, so bulk is slower.
    Native,
}

impl XdpMode {
    /// `off`, `on` or `native`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            "on" => Some(Self::On),
            "native" => Some(Self::Native),
            _ => None,
        }
    }

    /// `XDP_FLAGS_SKB_MODE` or `XDP_FLAGS_DRV_MODE`.
    fn flags(self) -> u32 {
        if self == Self::Native { 1 << 2 } else { 1 << 1 }
    }
}

/// Why a NIC goes without AF_XDP.
#[derive(Debug)]
pub enum XdpError {
    /// The NIC's address is on no interface with an Ethernet.
    NoInterface,
    /// The kernel refused, with the step that it refused.
    Refused(&'static str, io::Error),
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface => f.write_str("the NIC's address is on no Ethernet interface"),
            Self::Refused(step, error) => {
                write!(f, "{step}: {error}")?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => f.write_str(" (it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF)"),
                    io::ErrorKind::ResourceBusy => f.write_str(" (another process has the interface: one at a time)"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl core::error::Error for XdpError {}

/// How sending a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// They have left.
    Gone,
    /// Not now.
    Full,
    /// They are too long for the interface.
    TooBig,
    /// They have to go by the UDP socket.
    Elsewhere,
}

/// A peer that there is a session with.
#[derive(Debug)]
struct Peer {
    route: Option<Route>,
    ask_at: Instant,
    users: u32,
    /// Long packets that follow a run by the UDP socket there: beside it they would overtake.
    follow: u32,
}

/// The sockets of a NIC, and its peers.
#[derive(Debug)]
pub(crate) struct Xdp {
    own: SocketAddr,
    number: u32,
    interface: Interface,
    mode: XdpMode,
    sockets: Vec<Xsk>,
    /// The socket that had something last.
    hot: usize,
    routes: Routes,
    peers: BTreeMap<SocketAddr, Peer>,
    /// Ends the program's work when it is closed, also by a kill.
    link: OwnedFd,
    /// The process that made it.
    process: u32,
}

impl Drop for Xdp {
    fn drop(&mut self) {
        // A child of a fork may have the descriptor still. In the child, the program is the
        // parent's.
        if std::process::id() == self.process {
            bpf::detach(self.link.as_fd());
        }
    }
}

impl Xdp {
    /// The sockets of the interface that has a NIC's address.
    ///
    /// # Errors
    /// [`XdpError`].
    pub fn open(own: SocketAddr, mode: XdpMode) -> Result<Self, XdpError> {
        let refused = |step| move |error| XdpError::Refused(step, error);
        let routes = Routes::open().map_err(refused("asking for routes"))?;
        let number = interface_of(own)?;
        let interface = routes.interface(number).ok_or(XdpError::NoInterface)?;
        let sockets = of_queues(number, interface.queues).map_err(refused("a socket of AF_XDP"))?;
        let map = bpf::map_of_sockets(sockets.len() as u32).map_err(refused("a map of sockets"))?;
        for (queue, socket) in sockets.iter().enumerate() {
            bpf::put(map.as_fd(), queue as u32, socket.fd()).map_err(refused("a map of sockets"))?;
        }
        let longest = LONGEST.min(interface.mtu + ETHERNET);
        let program = bpf::load(&filter::program(own.port(), map.as_raw_fd(), longest)).map_err(refused("loading the program"))?;
        let link = bpf::attach(program.as_fd(), number, mode.flags()).map_err(refused("attaching the program"))?;
        Ok(Self { own, number, interface, mode, sockets, hot: 0, routes, peers: BTreeMap::new(), link, process: std::process::id() })
    }

    /// For people: which interface, and how.
    pub fn describe(&self) -> String {
        let how = if self.mode == XdpMode::Native { "by the driver" } else { "by the kernel" };
        format!("{} ({how}, {} queues)", self.interface.name, self.sockets.len())
    }

    /// Readable when packets have arrived.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(Xsk::fd)
    }

    /// There is a session with a peer.
    pub fn session_up(&mut self, to: SocketAddr) {
        self.peers.entry(to).or_insert(Peer { route: None, ask_at: Instant(0), users: 0, follow: 0 }).users += 1;
    }

    /// One is over.
    pub fn session_down(&mut self, to: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.users -= 1;
            if peer.users == 0 {
                self.peers.remove(&to);
            }
        }
    }

    /// One datagram to a peer that there is a session with. Several of a size are better off with
    /// the stack, which hands them on as one packet as far as it can.
    pub fn send(&mut self, now: Instant, to: SocketAddr, bytes: &[u8], segment: Option<usize>) -> Sent {
        let Some(peer) = self.peers.get_mut(&to) else { return Sent::Elsewhere };
        if segment.is_some_and(|size| size < bytes.len()) {
            peer.follow = FOLLOW;
            return Sent::Elsewhere;
        }
        if peer.follow != 0 && bytes.len() > SHORT {
            peer.follow -= 1;
            return Sent::Elsewhere;
        }
        if now >= peer.ask_at {
            // What the interface takes may have changed as well.
            self.interface = self.routes.interface(self.number).unwrap_or_else(|| self.interface.clone());
            peer.route = route(&self.routes, self.number, self.interface.mac, self.own, to);
            peer.ask_at = now + if peer.route.is_some() { ASK_AGAIN } else { UNKNOWN };
            return Sent::Elsewhere;
        }
        let Some(route) = peer.route else { return Sent::Elsewhere };
        let length = bytes.len() + route.headers();
        if length > self.interface.mtu + ETHERNET {
            return Sent::TooBig;
        }
        if length > LONGEST {
            return Sent::Elsewhere;
        }
        let socket = &mut self.sockets[0];
        let has_room = socket.has_room(1);
        if has_room {
            socket.send(|frame| route.write(frame, bytes));
        }
        socket.kick();
        if has_room { Sent::Gone } else { Sent::Full }
    }

    /// Whether packets have arrived.
    #[inline]
    pub fn has_come(&mut self) -> bool {
        self.sockets.iter_mut().any(Xsk::has_come)
    }

    /// Copies the next datagram to `slot`.
    #[inline]
    pub fn receive(&mut self, slot: &mut [u8]) -> Option<(usize, SocketAddr)> {
        let (own, count) = (self.own, self.sockets.len());
        // A packet that is damaged is as good as lost; a flood of them does not hold the caller.
        let mut left = DAMAGED_MAX;
        for _ in 0..count {
            while let Some(read) = self.sockets[self.hot].receive(|frame| {
                let (from, range) = headers::read(own, frame)?;
                let to = slot.get_mut(..range.len())?;
                to.copy_from_slice(&frame[range]);
                Some((to.len(), from))
            }) {
                left -= 1;
                if read.is_some() || left == 0 {
                    return read;
                }
            }
            self.hot = (self.hot + 1) % count;
        }
        None
    }
}

/// Whether a NIC at an address could use AF_XDP now: the name of its interface. Everything is tried
/// but what others would notice.
///
/// # Errors
/// As NICs have them.
pub fn possible(own: SocketAddr) -> Result<String, XdpError> {
    let refused = |step| move |error| XdpError::Refused(step, error);
    let routes = Routes::open().map_err(refused("asking for routes"))?;
    let interface = routes.interface(interface_of(own)?).ok_or(XdpError::NoInterface)?;
    rings::possible().map_err(refused("a socket of AF_XDP"))?;
    let map = bpf::map_of_sockets(1).map_err(refused("a map of sockets"))?;
    let _ = bpf::load(&filter::program(1, map.as_raw_fd(), LONGEST.min(interface.mtu + ETHERNET))).map_err(refused("loading the program"))?;
    Ok(interface.name)
}

/// The number of the interface with an address.
fn interface_of(own: SocketAddr) -> Result<u32, XdpError> {
    if let SocketAddr::V6(of_link) = own
        && of_link.ip().is_unicast_link_local()
    {
        return Ok(of_link.scope_id());
    }
    let all = if_addrs::get_if_addrs().map_err(|e| XdpError::Refused("asking for interfaces", e))?;
    all.into_iter().find(|i| i.ip() == own.ip() && !i.is_loopback()).and_then(|i| i.index).ok_or(XdpError::NoInterface)
}

/// A socket for each queue of an interface, of which it may use fewer than it has room for.
fn of_queues(interface: u32, room: u32) -> io::Result<Vec<Xsk>> {
    // What a process had that has just ended is free a moment later.
    let mut tries = 0;
    let first = loop {
        match Xsk::open(interface, 0) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            opened => break opened?,
        }
    };
    let mut sockets = vec![first];
    for queue in 1..room.min(QUEUES_MAX) {
        match Xsk::open(interface, queue) {
            Ok(socket) => sockets.push(socket),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(sockets)
}

/// The way to a peer, if the kernel knows it, and it leaves by this interface.
fn route(routes: &Routes, number: u32, mac: headers::Mac, own: SocketAddr, to: SocketAddr) -> Option<Route> {
    let (interface, hop) = routes.next_hop(to.ip(), number)?;
    let to_mac = (interface == number).then(|| routes.neighbour(interface, hop))??;
    Some(Route { macs: (mac, to_mac), from: own, to })
}

const _: () = assert!(HEADERS_MAX + SHORT < LONGEST);
