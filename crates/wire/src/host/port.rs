// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a NIC in a real process go by a UDP socket of its own, or by the host's agent.

use crate::address::NetAddress;
use crate::agent::AgentPort;
use crate::packet::PacketPort;
use crate::time::Instant;
use crate::udp::{UdpBuffer, UdpPort};
use crate::{LinkFailure, Rendezvous};
use bellwire_proto::Transmit;
use rustix::fd::BorrowedFd;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// One of the two. The socket lies in here, so a NIC with one pays a comparison for each call.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the usual one is the large one, and there is one of them in a NIC")]
pub enum HostPort {
    /// A socket.
    Udp(UdpPort),
    /// The agent.
    Agent(Box<AgentPort>),
}

/// The same call of the port that there is.
macro_rules! either {
    ($self:expr, $port:ident => $call:expr) => {
        match $self {
            HostPort::Udp($port) => $call,
            HostPort::Agent($port) => $call,
        }
    };
}

impl HostPort {
    /// Where peers send to.
    pub fn address(&self) -> SocketAddr {
        either!(self, port => port.address())
    }

    /// Readable when [`handle_control`](PacketPort::handle_control) has something to do.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        either!(self, port => port.control_fd())
    }

    /// To sleep on, edge-triggered and while armed: readable when packets have arrived.
    pub fn arrival_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(port) => port.socket_fd(),
            Self::Agent(port) => port.bell_fd(),
        }
    }

    /// Readable, edge-triggered, when somebody must look every so often.
    pub fn guard_fd(&self) -> BorrowedFd<'_> {
        either!(self, port => port.guard_fd())
    }

    /// Whether that is over.
    pub fn guard_may_go(&mut self) -> bool {
        either!(self, port => port.guard_may_go())
    }

    /// See [`UdpPort::watch_only_peer`]; the agent has one bell for all.
    pub fn watch_only_peer(&mut self) -> Option<Arc<UdpSocket>> {
        match self {
            Self::Udp(port) => port.watch_only_peer(),
            Self::Agent(_) => None,
        }
    }

    /// See [`UdpPort::watch_all`].
    pub fn watch_all(&mut self) {
        if let Self::Udp(port) = self {
            port.watch_all();
        }
    }

    /// See [`UdpPort::look_everywhere`].
    pub fn look_everywhere(&mut self) {
        if let Self::Udp(port) = self {
            port.look_everywhere();
        }
    }
}

impl PacketPort for HostPort {
    type Buffer = UdpBuffer;

    fn name(&self) -> &'static str {
        either!(self, port => port.name())
    }

    #[inline]
    fn now(&self) -> Instant {
        either!(self, port => port.now())
    }

    #[inline]
    fn is_ready(&mut self) -> bool {
        either!(self, port => port.is_ready())
    }

    #[inline]
    fn is_clear(&self) -> bool {
        either!(self, port => port.is_clear())
    }

    #[inline]
    fn send(&mut self, transmit: &Transmit<'_>) {
        either!(self, port => port.send(transmit));
    }

    #[inline]
    fn receive(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        either!(self, port => port.receive())
    }

    #[inline]
    fn receive_joined(&mut self) -> Option<(SocketAddr, UdpBuffer)> {
        either!(self, port => port.receive_joined())
    }

    #[inline]
    fn expects_more(&self) -> bool {
        either!(self, port => port.expects_more())
    }

    #[inline]
    fn has_news(&self) -> bool {
        either!(self, port => port.has_news())
    }

    #[inline]
    fn looks_again(&self) -> u32 {
        either!(self, port => port.looks_again())
    }

    fn handle_control(&mut self) {
        match self {
            Self::Udp(port) => PacketPort::handle_control(port),
            Self::Agent(port) => PacketPort::handle_control(&mut **port),
        }
    }

    #[inline]
    fn note_waiting(&mut self) {
        either!(self, port => port.note_waiting());
    }

    fn set_armed(&mut self, armed: bool) {
        either!(self, port => port.set_armed(armed));
    }

    fn poll_too_big(&mut self) -> Option<(SocketAddr, usize)> {
        either!(self, port => port.poll_too_big())
    }

    fn poll_refused(&mut self) -> Option<SocketAddr> {
        either!(self, port => port.poll_refused())
    }

    fn session_up(&mut self, peer: SocketAddr) {
        either!(self, port => port.session_up(peer));
    }

    fn session_down(&mut self, peer: SocketAddr) {
        either!(self, port => port.session_down(peer));
    }

    fn listen(&mut self, local: &NetAddress) -> bool {
        either!(self, port => port.listen(local))
    }

    fn unlisten(&mut self, local: &NetAddress) {
        either!(self, port => port.unlisten(local));
    }

    fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress) {
        either!(self, port => port.locate(request, how, local, remote));
    }

    fn forget(&mut self, request: u64) {
        either!(self, port => port.forget(request));
    }

    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        either!(self, port => port.poll_located())
    }

    fn next_timeout(&self) -> Instant {
        either!(self, port => port.next_timeout())
    }

    fn is_busy(&self) -> bool {
        either!(self, port => port.is_busy())
    }

    fn is_asking(&self) -> bool {
        either!(self, port => port.is_asking())
    }
}
