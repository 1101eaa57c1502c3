// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP between hosts: the port of a packet wire that is a socket.
//!
//! Several packets of a size leave in one call (GSO) and arrive joined (GRO); packets say their own
//! length, so what the kernel has joined needs no note of where to cut. When the socket takes no
//! more, the packets that found no room wait here and nothing else leaves before them.
//!
//! | file | concern |
//! |---|---|
//! | `sockets.rs`, `options.rs` | the socket, and what it leaves away |
//! | `keys.rs` | the keys that the environment names |
//! | `find.rs`, `interface.rs` | the directory of names; the address of this NIC |
//! | `buffers.rs`, `segments.rs` | where datagrams arrive; several packets by one call |
//! | `guard.rs` | when the helper thread looks after packets that wait |
//! | `faults.rs` | faults on purpose; captures |
//! | `group.rs` | multicast, which is no part of the wire |

pub(crate) mod buffers;
mod faults;
pub(crate) mod find;
mod group;
pub(crate) mod guard;
mod interface;
mod keys;
mod options;
pub(crate) mod packet;
#[cfg(test)]
mod prediction_tests;
mod segments;
mod sockets;

pub use buffers::UdpBuffer;
pub use faults::{Leaving, Struck, Tap};
pub(crate) use find::others_listen;
pub use find::{DIRECTORY_PORT, socket_address};
pub use group::{GroupSender, GroupSocket};
pub use interface::address_from;
pub use keys::{KEY, KEY_FILE, KEY_HOSTS, KeysError, LoadedKeys, keys_from_env};
pub use options::without_fragments;

use super::packet::PacketPort;
use super::{LinkFailure, Rendezvous};
use crate::address::NetAddress;
use crate::clock::clock;
use crate::packet::settings::{RING_BYTES_MAX, settings};
use crate::time::{Duration, Instant};
use crate::users::Allow;
use crate::xdp::{self, Xdp, XdpError, XdpMode};
use bellwire_faults::FaultPlan;
use bellwire_memory::MemoryError;
use bellwire_proto::seal::Keys;
use bellwire_proto::{Seed, Transmit};
use buffers::Buffers;
use find::Finder;
use guard::Guard;
use quinn_udp::UdpSockRef;
use rustix::fd::BorrowedFd;
use sockets::Sockets;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// The smallest receive buffer of a usual system.
const RECEIVE_BYTES_LEAST: usize = 212_992;
/// The largest datagram tried: four fill what one call can hand over. (Loopback carries larger
/// ones; then a loss would cost more than the header does.)
const DATAGRAM_MAX: usize = 16_336;
/// What one call can hand over, over IPv4 and IPv6.
const RUN_BYTES_MAX: usize = 65_487;
/// Packets that found no room are tried again after this, if nothing else happens.
const STALL: Duration = Duration::from_micros(200);

/// A spinning thread may as well spin close to the socket.
const LOOKS_AGAIN: u32 = 3;
/// Looks at AF_XDP for each at the UDP sockets, while these have nothing.
const LOOKS_BESIDE: u32 = 32;
/// A datagram up to this length, alone, is a message or an answer, not a part of a stream.
const SHORT: usize = 1024;

/// How to open the port.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// The NIC's address, and its port or 0 for any.
    pub address: SocketAddr,
    /// The port under which hosts answer who waits where.
    pub directory_port: u16,
    /// Seed of the questions' nonces.
    pub seed: Seed,
    /// What happens to the packets that leave.
    pub faults: Option<FaultPlan>,
    /// A capture, which is told of them.
    pub tap: Option<Tap>,
    /// Other users of this host that are looked for; if it names any, no others are.
    pub allow: Allow,
    /// The keys of packets; `None`: they are not authenticated.
    pub keys: Option<Arc<Keys>>,
    /// Whether packets go past the kernel's stack where that is possible.
    pub xdp: XdpMode,
}

/// Packets that the socket did not take.
#[derive(Debug, Default)]
struct Stalled {
    bytes: Vec<u8>,
    to: Option<SocketAddr>,
    segment: Option<usize>,
    retry_at: Instant,
}

/// The host address of a NIC that is at a socket address: 4 or 16 bytes, and 2 more for a port that
/// was chosen.
pub fn host_address(address: SocketAddr) -> Vec<u8> {
    let mut host = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    if address.port() != 0 {
        host.extend_from_slice(&address.port().to_be_bytes());
    }
    host
}

/// A UDP socket, and whom it can reach.
#[derive(Debug)]
pub struct UdpPort {
    sockets: Sockets,
    /// The shorter way for the same packets, and why there is none.
    xdp: Option<Box<Xdp>>,
    no_xdp: Option<XdpError>,
    /// Looks at both since a socket had something.
    looks: u32,
    finder: Finder,
    buffers: Buffers,
    arrived: VecDeque<(SocketAddr, UdpBuffer)>,
    /// Bytes of what the socket gave last.
    came_last: usize,
    stalled: Stalled,
    too_big: VecDeque<(SocketAddr, usize)>,
    refused: VecDeque<SocketAddr>,
    struck: Option<Box<Struck>>,
    keys: Option<Arc<Keys>>,
    guard: Guard,
}

impl UdpPort {
    /// Opens the socket.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, or the kernel refuses sockets.
    pub fn open(config: &UdpConfig) -> Result<Self, io::Error> {
        let mut sockets = Sockets::open(config.address)?;
        let (mut xdp, mut no_xdp) = (None, None);
        if config.xdp != XdpMode::Off {
            match Xdp::open(sockets.own(), config.xdp) {
                Ok(opened) => xdp = Some(Box::new(opened)),
                Err(e) => no_xdp = Some(e),
            }
        }
        if let Some(xdp) = &xdp {
            xdp.fds().try_for_each(|fd| sockets.tell_too(fd))?;
        }
        let struck = Struck::new(config.faults.clone(), config.tap, sockets.own(), clock()).map(Box::new);
        let finder = Finder::new(sockets.own(), config, clock()).map_err(io::Error::other)?;
        Ok(Self {
            sockets,
            xdp,
            no_xdp,
            looks: 0,
            finder,
            buffers: Buffers::new(),
            arrived: VecDeque::new(),
            came_last: 0,
            stalled: Stalled::default(),
            too_big: VecDeque::new(),
            refused: VecDeque::new(),
            struck,
            keys: config.keys.clone(),
            guard: Guard::new().map_err(io::Error::other)?,
        })
    }

    /// Has packets told of from now on, or no more.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        match &mut self.struck {
            Some(struck) => {
                if !struck.set_tap(tap) {
                    self.struck = None;
                }
            }
            None => self.struck = Struck::new(None, tap, self.sockets.own(), clock()).map(Box::new),
        }
    }

    /// Where peers send to.
    pub fn address(&self) -> SocketAddr {
        self.sockets.own()
    }

    /// Where packets go past the kernel's stack, or why they do not; `None`: nobody asked for it.
    pub fn xdp(&self) -> Option<Result<String, &XdpError>> {
        let of_it = self.xdp.as_ref().map(|xdp| Ok(xdp.describe()));
        of_it.or_else(|| self.no_xdp.as_ref().map(Err))
    }

    /// Readable when packets have arrived.
    pub fn socket_fd(&self) -> BorrowedFd<'_> {
        self.sockets.fd()
    }

    /// Readable when [`handle_control`](Self::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.finder.fd()
    }

    /// Handles what is ready of the search; never blocks.
    pub fn handle_control(&mut self) {
        self.finder.handle_ready(clock());
    }

    /// The only peer's socket, for a sleeper to watch itself beside [`socket_fd`](Self::socket_fd),
    /// until [`watch_all`](Self::watch_all); if there is one.
    pub fn watch_only_peer(&mut self) -> Option<Arc<UdpSocket>> {
        if self.xdp.is_some() {
            return None;
        }
        self.sockets.watch_only_peer()
    }

    /// [`socket_fd`](Self::socket_fd) tells of all packets.
    pub fn watch_all(&mut self) {
        self.sockets.watch_all();
    }

    /// [`socket_fd`](Self::socket_fd) has told of something: the next look is at all sockets.
    pub fn look_everywhere(&mut self) {
        self.sockets.look_everywhere();
    }

    /// Readable, edge-triggered, when somebody must look every so often.
    pub fn guard_fd(&self) -> BorrowedFd<'_> {
        self.guard.fd()
    }

    /// Whether that is over.
    pub fn guard_may_go(&mut self) -> bool {
        self.guard.may_go()
    }

    /// A setting of the transport that fits this port.
    pub fn transport_config(&self) -> Result<bellwire_proto::Config, MemoryError> {
        // What the kernel keeps while nobody looks: peers have no more under way.
        let socket = self.sockets.first();
        let receive_bytes = socket.state.recv_buffer_size(UdpSockRef::from(&socket.socket)).map_or(RECEIVE_BYTES_LEAST, |twice| twice / 2);
        Ok(bellwire_proto::Config {
            datagram_max: DATAGRAM_MAX,
            // What a peer like this one lets be under way, twice: in flight, and arrived but not
            // yet acknowledged in order. More would only be written to memory that the cache has
            // lost.
            ring_bytes: (2 * receive_bytes).min(RING_BYTES_MAX),
            run_bytes_max: RUN_BYTES_MAX,
            keys: self.keys.clone(),
            run_packets_max: self.sockets.first().state.max_gso_segments(),
            ..settings(receive_bytes)?
        })
    }

    /// One datagram or several of a size. `false`: the socket takes no more now.
    fn put(&mut self, to: SocketAddr, bytes: &[u8], segment: Option<usize>) -> bool {
        if let Some(xdp) = &mut self.xdp {
            match xdp.send(clock(), to, bytes, segment) {
                xdp::Sent::Gone => return true,
                xdp::Sent::Full => return false,
                xdp::Sent::TooBig => {
                    self.too_big.push_back((to, segment.unwrap_or(bytes.len())));
                    return true;
                }
                xdp::Sent::Elsewhere => {}
            }
        }
        let (socket, connected) = self.sockets.to(to);
        let e = match socket.put(to, connected, bytes, segment) {
            Ok(()) => return true,
            Err(e) => e,
        };
        match e.kind() {
            io::ErrorKind::WouldBlock => return false,
            // Said of an earlier packet; this one has not left.
            io::ErrorKind::ConnectionRefused => self.refused.push_back(to),
            _ if e.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => self.too_big.push_back((to, segment.unwrap_or(bytes.len()))),
            _ => {
                if let Some(size) = segment
                    && socket.state.max_gso_segments() == 1
                {
                    // Segmentation turned out not to work here: one at a time.
                    bytes.chunks(size).for_each(|packet| drop(socket.put(to, connected, packet, None)));
                }
            }
        }
        // A packet that cannot be sent counts as lost; the transport's timers see to it.
        true
    }

    /// Receives to a slot, from whichever has something: its bytes, and whose they are; or whom
    /// nobody is at.
    #[inline]
    fn next(&mut self) -> Option<Result<(usize, SocketAddr), SocketAddr>> {
        if let Some(xdp) = &mut self.xdp {
            let got = if xdp.has_come() { xdp.receive(self.buffers.writable()?) } else { None };
            if let Some(got) = got {
                return Some(Ok(got));
            }
            if !self.is_time_for_sockets() {
                return None;
            }
        }
        let got = self.sockets.receive(self.buffers.writable()?).transpose()?;
        self.looks = 0;
        Some(got)
    }

    /// Whether the UDP sockets are looked at beside AF_XDP: always for a while after one had
    /// something, else seldom, for each look is a system call.
    fn is_time_for_sockets(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks < LOOKS_BESIDE || self.looks.is_multiple_of(LOOKS_BESIDE) || self.sockets.is_armed()
    }

    /// The packets that did not find room, again.
    fn unstall(&mut self) {
        if let Some(to) = self.stalled.to {
            let bytes = core::mem::take(&mut self.stalled.bytes);
            if self.put(to, &bytes, self.stalled.segment) {
                self.stalled.to = None;
            } else {
                self.stalled.retry_at = clock() + STALL;
            }
            self.stalled.bytes = bytes;
        }
    }
}

impl PacketPort for UdpPort {
    type Buffer = UdpBuffer;

    fn handle_control(&mut self) {
        Self::handle_control(self);
    }

    fn name(&self) -> &'static str {
        "udp"
    }

    #[inline]
    fn now(&self) -> Instant {
        clock()
    }

    fn is_ready(&mut self) -> bool {
        if let Some(mut struck) = self.struck.take() {
            struck.release(clock(), |to, packet| _ = self.put(to, packet, None));
            self.struck = Some(struck);
        }
        self.unstall();
        self.stalled.to.is_none()
    }

    #[inline]
    fn is_clear(&self) -> bool {
        self.stalled.to.is_none() && self.struck.is_none()
    }

    fn send(&mut self, transmit: &Transmit<'_>) {
        if let Some(struck) = self.struck.as_ref().filter(|struck| !struck.strikes()) {
            struck.tell(transmit.to, transmit.bytes, transmit.segment.unwrap_or(transmit.bytes.len()));
        } else if let Some(mut struck) = self.struck.take() {
            let (now, size) = (clock(), transmit.segment.unwrap_or(transmit.bytes.len()).max(1));
            // What the socket does not take is one more that is lost.
            struck.send(now, transmit.to, transmit.bytes, size, |p| _ = self.put(transmit.to, p, (p.len() > size).then_some(size)));
            self.struck = Some(struck);
            return;
        }
        if !self.put(transmit.to, transmit.bytes, transmit.segment) {
            self.stalled.bytes.clear();
            self.stalled.bytes.extend_from_slice(transmit.bytes);
            (self.stalled.to, self.stalled.segment) = (Some(transmit.to), transmit.segment);
            self.stalled.retry_at = clock() + STALL;
        }
    }

    #[inline]
    fn receive(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        if let Some(first) = self.arrived.pop_front() {
            return Some(first);
        }
        loop {
            let (n, from) = match self.next()? {
                Ok(got) => got,
                Err(peer) => {
                    self.refused.push_back(peer);
                    return None;
                }
            };
            let slot = self.buffers.writable()?;
            self.came_last = n;
            let bytes = &slot[..n];
            if packet::is_ours(bytes) {
                self.finder.handle_packet(clock(), from, bytes);
                continue;
            }
            let arrived = &mut self.arrived;
            self.buffers.lend(n, bellwire_proto::packet::length, |part| arrived.push_back((from, part)));
            if let Some(first) = self.arrived.pop_front() {
                return Some(first);
            }
        }
    }

    #[inline]
    fn receive_joined(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        self.arrived.pop_front()
    }

    #[inline]
    fn expects_more(&self) -> bool {
        self.came_last > SHORT
    }

    #[inline]
    fn has_news(&self) -> bool {
        let of_the_network = !self.too_big.is_empty() || !self.refused.is_empty();
        of_the_network || self.stalled.to.is_some() || self.struck.is_some() || self.finder.is_asking() || self.finder.next_timeout() != Instant::NEVER
    }

    #[inline]
    fn looks_again(&self) -> u32 {
        LOOKS_AGAIN
    }

    #[inline]
    fn note_waiting(&mut self) {
        self.guard.call();
    }

    fn set_armed(&mut self, armed: bool) {
        self.sockets.set_armed(armed);
    }

    fn poll_too_big(&mut self) -> Option<(SocketAddr, usize)> {
        self.too_big.pop_front()
    }

    fn poll_refused(&mut self) -> Option<SocketAddr> {
        self.refused.pop_front()
    }

    fn session_up(&mut self, peer: SocketAddr) {
        self.sockets.connect(peer);
        if let Some(xdp) = &mut self.xdp {
            xdp.session_up(peer);
        }
    }

    fn session_down(&mut self, peer: SocketAddr) {
        self.sockets.disconnect(peer);
        if let Some(xdp) = &mut self.xdp {
            xdp.session_down(peer);
        }
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        self.finder.listen(clock(), local)
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.finder.unlisten(local);
    }

    fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        self.finder.locate(clock(), &self.sockets.first().socket, request, how, local, remote);
    }

    fn forget(&mut self, request: u64) {
        self.finder.cancel(request);
    }

    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        // Asked at each look: the clock only if something is being looked for.
        if self.finder.next_timeout() != Instant::NEVER {
            self.finder.handle_timeout(clock(), &self.sockets.first().socket);
        }
        self.finder.poll_found()
    }

    fn next_timeout(&self) -> Instant {
        let stall = if self.stalled.to.is_some() { self.stalled.retry_at } else { Instant::NEVER };
        let held = self.struck.as_ref().map_or(Instant::NEVER, |s| s.next_timeout());
        self.finder.next_timeout().min(stall).min(held)
    }

    fn is_busy(&self) -> bool {
        self.finder.is_busy()
    }

    fn is_asking(&self) -> bool {
        self.finder.is_asking()
    }
}
