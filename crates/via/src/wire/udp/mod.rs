// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP between hosts: the port of a packet wire that is a socket.
//!
//! One socket per NIC, bound to the NIC's own address. Several packets of a size leave in one call (GSO) and arrive joined (GRO); packets say their own length, so what the
//! kernel has joined needs no note of where to cut. When the socket takes no more, the packets that found no room wait here and nothing else leaves before them.
//!
//! `find.rs`: who is where. `interface.rs`: which address is ours. `buffers.rs`: where datagrams arrive.

mod buffers;
mod find;
mod interface;
mod packet;

pub use buffers::UdpBuffer;
pub use find::{DIRECTORY_PORT, socket_address};
pub use interface::address_from;

use super::packet::PacketPort;
use super::{LinkFailure, Rendezvous};
use crate::attributes::NetAddress;
use crate::time::{Duration, Instant};
use bellwire_memory::MemoryError;
use bellwire_proto::{NicId, Transmit};
use buffers::Buffers;
use find::Finder;
use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Wanted of the kernel for what arrives while nobody looks; it gives what it allows.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;
/// Packets that found no room are tried again after this, if nothing else happens.
const STALL: Duration = Duration::from_micros(200);

/// How to open the port.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// The NIC's address, and its port or 0 for any.
    pub address: SocketAddr,
    /// The port under which hosts answer who waits where.
    pub directory_port: u16,
    /// Seed of the questions' nonces.
    pub seed: u64,
}

/// Packets that the socket did not take.
#[derive(Debug, Default)]
struct Stalled {
    bytes: Vec<u8>,
    to: Option<SocketAddr>,
    segment: Option<usize>,
    retry_at: Instant,
}

/// The host address of a NIC that is at a socket address: 4 or 16 bytes, and 2 more for a port that was chosen.
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
    socket: UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
    finder: Finder,
    buffers: Buffers,
    arrived: VecDeque<(SocketAddr, UdpBuffer)>,
    stalled: Stalled,
    too_big: VecDeque<(SocketAddr, usize)>,
}

/// The time that engines in real processes are told.
fn clock() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    Instant((t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64))
}

impl UdpPort {
    /// Opens the socket.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, or the kernel refuses sockets.
    pub fn open(config: &UdpConfig) -> Result<Self, io::Error> {
        let socket = UdpSocket::bind(config.address)?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Less than wanted is the machine's limit (net.core.rmem_max), not an error.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SEND_BUFFER_BYTES);
        let address = socket.local_addr()?;
        let finder = Finder::new(address, config.directory_port, config.seed, clock()).map_err(io::Error::other)?;
        Ok(Self { socket, state, address, finder, buffers: Buffers::new(), arrived: VecDeque::new(), stalled: Stalled::default(), too_big: VecDeque::new() })
    }

    /// Where peers send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Readable when packets have arrived.
    pub fn socket_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Readable when [`handle_control`](Self::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.finder.fd()
    }

    /// Handles what is ready of the search; never blocks.
    pub fn handle_control(&mut self) {
        self.finder.handle_ready(clock());
    }

    /// A setting of the transport that fits this port.
    pub fn transport_config(&self) -> Result<bellwire_proto::Config, MemoryError> {
        let mut nic = [0; 16];
        rustix::rand::getrandom(&mut nic, rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
        Ok(bellwire_proto::Config {
            nic: NicId(nic),
            boot: clock().0,
            kept_packets_max: buffers::KEPT_MAX,
            run_packets_max: self.state.max_gso_segments(),
            ..bellwire_proto::Config::default()
        })
    }

    /// One datagram or several of a size. `false`: the socket takes no more now.
    fn put(&mut self, to: SocketAddr, bytes: &[u8], segment: Option<usize>) -> bool {
        let sent = match segment {
            None => self.socket.send_to(bytes, to).map(drop),
            Some(size) => {
                let t = quinn_udp::Transmit { destination: to, ecn: None, contents: bytes, segment_size: Some(size), src_ip: None };
                self.state.try_send(UdpSockRef::from(&self.socket), &t)
            }
        };
        match sent {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
            Err(e) => {
                self.failed(to, bytes, segment, &e);
                true
            }
        }
    }

    /// What cannot be sent counts as lost; the transport's timers see to it.
    #[cold]
    fn failed(&mut self, to: SocketAddr, bytes: &[u8], segment: Option<usize>, error: &io::Error) {
        if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
            self.too_big.push_back((to, segment.unwrap_or(bytes.len())));
        } else if let Some(size) = segment
            && self.state.max_gso_segments() == 1
        {
            // Segmentation turned out not to work here: one at a time.
            for packet in bytes.chunks(size) {
                let _ = self.socket.send_to(packet, to);
            }
        }
    }

    /// What did not find room, again.
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

    fn name(&self) -> &'static str {
        "udp"
    }

    #[inline]
    fn now(&self) -> Instant {
        clock()
    }

    fn is_ready(&mut self) -> bool {
        self.unstall();
        self.stalled.to.is_none()
    }

    fn send(&mut self, transmit: &Transmit<'_>) {
        if !self.put(transmit.to, transmit.bytes, transmit.segment) {
            self.stalled.bytes.clear();
            self.stalled.bytes.extend_from_slice(transmit.bytes);
            (self.stalled.to, self.stalled.segment) = (Some(transmit.to), transmit.segment);
            self.stalled.retry_at = clock() + STALL;
        }
    }

    fn receive(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        if let Some(first) = self.arrived.pop_front() {
            return Some(first);
        }
        loop {
            let slot = self.buffers.writable()?;
            // Errors are those of packets sent earlier (ICMP), or no memory: the transport's timers see to both.
            let (n, from) = self.socket.recv_from(slot).ok()?;
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

    fn poll_too_big(&mut self) -> Option<(SocketAddr, usize)> {
        self.too_big.pop_front()
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        self.finder.listen(clock(), local)
    }

    fn unlisten(&mut self, local: &NetAddress) {
        self.finder.unlisten(local);
    }

    fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        self.finder.locate(clock(), &self.socket, request, how, local, remote);
    }

    fn forget(&mut self, request: u64) {
        self.finder.cancel(request);
    }

    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        self.finder.handle_timeout(clock(), &self.socket);
        self.finder.poll_found()
    }

    fn next_timeout(&self) -> Instant {
        let stall = if self.stalled.to.is_some() { self.stalled.retry_at } else { Instant::NEVER };
        self.finder.next_timeout().min(stall)
    }

    fn is_busy(&self) -> bool {
        self.finder.is_busy()
    }
}
