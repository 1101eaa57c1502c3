// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's UDP socket, and the header of a packet between two agents.
//!
//! ```text
//!   0      1          2         4           6      8                        16
//!   | 0xe1 | ver|kind | to (2)  | from (2)  | 0    | tag of the network (8) | packet ..
//! ```
//!
//! Numbers are little-endian. `to` and `from` are numbers of endpoints; 0 is the directory. A
//! datagram that does not come from the agents' port is dropped: on a host whose port an agent
//! holds, no other process can send from it.

use crate::config::{AgentConfig, OpenError};
use bellwire_time::Instant;
use bellwire_wire::agent::segment::{Kind, PACKET_BYTES_MAX};
use bellwire_wire::udp::{Struck, without_fragments};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

const MAGIC: u8 = 0xe1;
const VERSION: u8 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 16;
const DATAGRAM_BYTES_MAX: usize = HEADER_BYTES + PACKET_BYTES_MAX;
/// Wanted of the kernel for what arrives while the agent sleeps, or has no processor: root gets it,
/// others what the kernel allows.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) to: u16,
    pub(crate) from: u16,
    pub(crate) network: u64,
}

impl Header {
    fn store(self) -> [u8; HEADER_BYTES] {
        let mut b = [0; HEADER_BYTES];
        (b[0], b[1]) = (MAGIC, VERSION << 4 | self.kind as u8);
        b[2..4].copy_from_slice(&self.to.to_le_bytes());
        b[4..6].copy_from_slice(&self.from.to_le_bytes());
        b[8..16].copy_from_slice(&self.network.to_le_bytes());
        b
    }

    fn load(b: &[u8]) -> Option<Self> {
        let b = b.first_chunk::<HEADER_BYTES>()?;
        let fine = b[0] == MAGIC && b[1] >> 4 == VERSION && b[6] == 0 && b[7] == 0;
        let kind = Kind::of(u32::from(b[1] & 0xf)).filter(|_| fine)?;
        let network = u64::from_le_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]);
        Some(Self { kind, to: u16::from_le_bytes([b[2], b[3]]), from: u16::from_le_bytes([b[4], b[5]]), network })
    }
}

/// The socket.
#[derive(Debug)]
pub(crate) struct Network {
    socket: UdpSocket,
    own: SocketAddr,
    struck: Option<Box<Struck>>,
    out: Vec<u8>,
}

impl Network {
    pub(crate) fn open(config: &AgentConfig, now: Instant) -> Result<Self, OpenError> {
        let socket = UdpSocket::bind(config.address).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => OpenError::Taken(config.address),
            _ => OpenError::Udp(config.address, e),
        })?;
        socket.set_nonblocking(true).map_err(|e| OpenError::Udp(config.address, e))?;
        without_fragments(&socket);
        // Less than wanted is the machine's limit, not an error.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES));
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        let own = socket.local_addr().map_err(|e| OpenError::Udp(config.address, e))?;
        let struck = Struck::new(config.faults.clone(), None, own, now).map(Box::new);
        Ok(Self { socket, own, struck, out: Vec::with_capacity(DATAGRAM_BYTES_MAX) })
    }

    pub(crate) fn own(&self) -> SocketAddr {
        self.own
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The agent of a host.
    fn agent_at(&self, ip: IpAddr) -> SocketAddr {
        self.endpoint_at(ip, self.own.port())
    }

    /// An endpoint of a host, as programs know it: on our own link, if its address means something
    /// only there.
    pub(crate) fn endpoint_at(&self, ip: IpAddr, number: u16) -> SocketAddr {
        match (self.own, ip) {
            (SocketAddr::V6(own), IpAddr::V6(ip)) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, number, 0, own.scope_id()).into(),
            _ => SocketAddr::new(ip, number),
        }
    }

    /// Sends a packet to the agent of a host; `fill` writes its `length` bytes. What the socket
    /// does not take is lost.
    pub(crate) fn send(&mut self, now: Instant, to: IpAddr, header: Header, length: usize, fill: impl FnOnce(&mut [u8])) {
        let to = self.agent_at(to);
        self.out.clear();
        self.out.extend_from_slice(&header.store());
        self.out.resize(HEADER_BYTES + length.min(PACKET_BYTES_MAX), 0);
        fill(&mut self.out[HEADER_BYTES..]);
        let Self { socket, struck, out, .. } = self;
        let put = |bytes: &[u8]| _ = socket.send_to(bytes, to);
        match struck {
            None => put(out),
            Some(struck) => struck.send(now, to, out, out.len(), put),
        }
    }

    /// The next datagram, in `bytes`: an agent's, or a strange one, which counts for the caller, so
    /// that a flood of them does not keep it here.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Option<Option<(IpAddr, Header, usize)>> {
        loop {
            let (n, from) = match self.socket.recv_from(bytes) {
                Ok(got) => got,
                // Said of a packet that was sent.
                Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => continue,
                Err(_) => return None,
            };
            // A longer packet than programs send: its receiver would think that its agent breaks
            // the rules.
            let is_fine = n <= DATAGRAM_BYTES_MAX && from.port() == self.own.port();
            let header = Header::load(&bytes[..n]).filter(|_| is_fine);
            return Some(header.map(|header| (from.ip(), header, n)));
        }
    }

    /// Packets that faults have held back.
    pub(crate) fn release(&mut self, now: Instant) {
        let Self { socket, struck: Some(struck), .. } = self else { return };
        struck.release(now, |to, bytes| _ = socket.send_to(bytes, to));
    }

    pub(crate) fn next_timeout(&self) -> Instant {
        self.struck.as_ref().map_or(Instant::NEVER, |s| s.next_timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_and_nonsense_is_found() {
        let header = Header { kind: Kind::NotResident, to: 7, from: 0xfffe, network: u64::MAX / 7 };
        let bytes = header.store();
        assert_eq!(Header::load(&bytes), Some(header));
        for (at, bit) in [(0, 1), (1, 0x80), (1, 0x0c), (6, 1), (7, 0x80)] {
            let mut bytes = bytes;
            bytes[at] ^= bit;
            assert_eq!(Header::load(&bytes), None, "byte {at}");
        }
        assert_eq!(Header::load(&bytes[..15]), None);
    }
}
