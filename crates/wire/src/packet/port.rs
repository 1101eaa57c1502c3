// SPDX-License-Identifier: MIT OR Apache-2.0
//! The carrier of a packet wire's datagrams: a socket, or a simulated network. All that depends on
//! where packets go is behind this; no rule of the protocol is.

use crate::address::NetAddress;
use crate::time::Instant;
use crate::{LinkFailure, Rendezvous};
use bellwire_proto::{Buffer, Transmit};
use core::net::SocketAddr;

/// Bytes that stay where they are.
///
/// # Safety
/// K4: `as_ref` gives the same bytes each time, at the same address, wherever the value is moved,
/// until it is dropped, unless they are changed by `as_mut` or `truncate`, which needs an exclusive
/// reference: the transport opens a packet before it delivers it, and no wire does so after.
pub unsafe trait StableBytes: Buffer {}

// SAFETY: K4: they are on the heap, and change through an exclusive reference only.
unsafe impl StableBytes for Vec<u8> {}

/// Takes back the memory of datagrams that nobody reads any more.
pub trait Pool {
    /// It may be used again.
    fn give_back(&mut self, bytes: Vec<u8>);
}

/// A datagram in memory of a pool, to which it goes back when it is dropped.
#[derive(Debug)]
pub struct Lent<P: Pool> {
    bytes: Vec<u8>,
    pool: P,
}

impl<P: Pool> Lent<P> {
    /// A datagram.
    pub fn new(bytes: Vec<u8>, pool: P) -> Self {
        Self { bytes, pool }
    }
}

impl<P: Pool> AsRef<[u8]> for Lent<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<P: Pool> AsMut<[u8]> for Lent<P> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl<P: Pool> Buffer for Lent<P> {
    fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }
}

impl<P: Pool> Drop for Lent<P> {
    fn drop(&mut self) {
        self.pool.give_back(core::mem::take(&mut self.bytes));
    }
}

// SAFETY: K4: the bytes are on the heap, and the vector never grows.
unsafe impl<P: Pool> StableBytes for Lent<P> {}

/// A way for datagrams out and in, time, and a way to find who is at an address. Nothing here
/// blocks.
pub trait PacketPort {
    /// A datagram that has arrived.
    type Buffer: StableBytes;

    /// A short name: "udp", "fabric".
    fn name(&self) -> &'static str;
    /// The time, on the clock that the engine is told.
    fn now(&self) -> Instant;
    /// Whether packets can leave; those that found no room the last time go first.
    fn is_ready(&mut self) -> bool {
        true
    }
    /// Whether a packet can leave now with nothing before it, and nothing but the network happens
    /// to it.
    fn is_clear(&self) -> bool {
        false
    }
    /// Sends packets, while [`is_ready`](Self::is_ready). What the network cannot take is lost; the
    /// transport sends it again.
    fn send(&mut self, transmit: &Transmit<'_>);
    /// The next datagram that has arrived. `None`: nothing, or enough for one turn.
    fn receive(&mut self) -> Option<(SocketAddr, Self::Buffer)>;
    /// The next of those that came together with the one that [`receive`](Self::receive) gave; to
    /// be asked until `None`.
    fn receive_joined(&mut self) -> Option<(SocketAddr, Self::Buffer)> {
        None
    }
    /// Whether [`receive`](Self::receive) is likely to have more: not after a short datagram that
    /// came alone.
    fn expects_more(&self) -> bool {
        true
    }
    /// Whether anything but [`receive`](Self::receive) may have something to say now or soon:
    /// packets held back, an answer, a complaint of the network.
    fn has_news(&self) -> bool {
        true
    }
    /// How often an empty port may be asked again within one look, by a caller that looks again and
    /// again.
    fn looks_again(&self) -> u32 {
        0
    }
    /// Handles what is ready of the search for peers; never blocks.
    fn handle_control(&mut self) {}
    /// Frames wait to share a packet: somebody must look within a short time, even if the
    /// application does not.
    fn note_waiting(&mut self) {}
    /// Whether somebody sleeps until packets come, or is about to.
    fn set_armed(&mut self, _armed: bool) {}
    /// The network said that a datagram of so many bytes to somebody is too large for the path.
    fn poll_too_big(&mut self) -> Option<(SocketAddr, usize)> {
        None
    }
    /// The network said that nobody is at an address.
    fn poll_refused(&mut self) -> Option<SocketAddr> {
        None
    }
    /// There is a session with a peer (once for each of several).
    fn session_up(&mut self, _peer: SocketAddr) {}
    /// One is over.
    fn session_down(&mut self, _peer: SocketAddr) {}

    /// Accept sessions for this address. `false`: another process does.
    fn listen(&mut self, local: &NetAddress) -> bool;
    /// No longer.
    fn unlisten(&mut self, local: &NetAddress);
    /// Find where packets for the NIC at `remote` go; answered by
    /// [`poll_located`](Self::poll_located).
    fn locate(&mut self, request: u64, how: Rendezvous, local: &NetAddress, remote: &NetAddress);
    /// The answer is no longer wanted, or what it was for is over.
    fn forget(&mut self, request: u64);
    /// An answer.
    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)>;
    /// When [`poll_located`](Self::poll_located) must be asked at the latest.
    fn next_timeout(&self) -> Instant;
    /// Whether somebody may look for this NIC, or it looks for somebody.
    fn is_busy(&self) -> bool;
    /// Whether it looks for somebody.
    fn is_asking(&self) -> bool {
        self.is_busy()
    }
}
