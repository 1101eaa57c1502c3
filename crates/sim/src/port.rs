// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port of a packet wire that is a port of the fabric: so `Engine<PacketWire<FabricPort>>` runs
//! in virtual time, with the same code as over UDP. Made by `world.rs`.
//!
//! Invariants
//! - A NIC's host address holds its port (6 or 18 bytes), so nobody is searched for:
//!   [`PacketPort::locate`] answers at once.
//! - The fabric has no checksum, so packets carry the transport's (`packet::checksum`): those that
//!   were corrupted are found by it, counted and dropped. Whether it missed one is counted, too.
//!   With keys packets carry no checksum: the transport finds corrupted packets by their tags.
//! - Digest and trace do not depend on where memory lies: the addresses in RDMA frames are left out
//!   of a packet's hash.
//! - The fabric is borrowed within a call only, and no call of it leads back here.

use crate::fabric::hash;
use crate::{Fabric, NodeId, Port, SendError};
use bellwire_proto::packet::checksum;
use bellwire_proto::packet::header::{AUTH, HEADER};
use bellwire_proto::{Frames, Transmit};
use bellwire_time::Instant;
use bellwire_via::NetAddress;
use bellwire_via::frame::{Head, Op};
use bellwire_via::wire::packet::{Lent, PacketPort, Pool};
use bellwire_via::wire::udp::socket_address;
use bellwire_via::wire::{LinkFailure, Rendezvous};
use core::net::SocketAddr;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of one word of a frame's head, and of the header before the head.
const WORD: usize = 8;
/// The word of a frame's head that holds an address, in frames that have one.
const ADDRESS_WORD: usize = 3;

/// A datagram that has arrived. Dropped, its memory is used again by the fabric.
pub type FabricBuffer = Lent<FabricPool>;

/// Where the memory of datagrams goes back to.
#[derive(Debug)]
pub struct FabricPool(Rc<RefCell<Fabric>>);

impl Pool for FabricPool {
    fn give_back(&mut self, bytes: Vec<u8>) {
        if let Ok(mut fabric) = self.0.try_borrow_mut() {
            fabric.recycle(bytes);
        }
    }
}

/// A NIC's place on a fabric.
#[derive(Debug)]
pub struct FabricPort {
    fabric: Rc<RefCell<Fabric>>,
    node: NodeId,
    port: Port,
    /// Packets that a queue that holds had no room for; they go first.
    stalled: VecDeque<(SocketAddr, Vec<u8>)>,
    located: VecDeque<(u64, Result<SocketAddr, LinkFailure>)>,
    checksum: bool,
    corrupted: u64,
    missed: u64,
}

impl FabricPort {
    /// Takes a port that is attached to `fabric`, at `node`; packets have a checksum or keys.
    pub fn new(fabric: Rc<RefCell<Fabric>>, node: NodeId, port: Port, checksum: bool) -> Self {
        Self { fabric, node, port, stalled: VecDeque::new(), located: VecDeque::new(), checksum, corrupted: 0, missed: 0 }
    }

    /// The port of the fabric.
    pub const fn port(&self) -> Port {
        self.port
    }

    /// Packets that came with flipped bits.
    pub const fn corrupted(&self) -> u64 {
        self.corrupted
    }

    /// Packets about which the checksum was wrong: flipped bits that it did not find, or found
    /// where there are none.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Packets that wait for room.
    pub fn stalled(&self) -> usize {
        self.stalled.len()
    }

    /// Packets that do not fit wait here; packets given to a closed port are lost.
    fn put(&mut self, to: SocketAddr, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let mut fabric = self.fabric.borrow_mut();
        let now = fabric.now();
        // The checksum covers the addresses that are left out.
        let hash = placeless_hash(&bytes[..bytes.len() - if self.checksum { checksum::TRAILER } else { 0 }]);
        match fabric.send_hashed(self.port, to, bytes, hash, now) {
            Err(SendError::Full(bytes)) => Err(bytes),
            Ok(()) | Err(SendError::Closed(_)) => Ok(()),
        }
    }

    fn unstall(&mut self) {
        while let Some((to, bytes)) = self.stalled.pop_front() {
            if let Err(bytes) = self.put(to, bytes) {
                self.stalled.push_front((to, bytes));
                return;
            }
        }
    }
}

/// What an accurate clock shows at the fabric's time 0, nanoseconds: so long that a clock that is
/// an hour slow does not stand still at its own zero.
const EPOCH: u64 = 1 << 43;

/// What the clock of a node shows now.
pub(crate) fn local_time(fabric: &Fabric, node: NodeId) -> Instant {
    fabric.local_time(node, Instant(fabric.now().0 + EPOCH))
}

/// When the clock of a node shows a time.
pub(crate) fn global_time(fabric: &Fabric, node: NodeId, local: Instant) -> Instant {
    match fabric.global_time(node, local) {
        Instant::NEVER => Instant::NEVER,
        at => Instant(at.0.saturating_sub(EPOCH)),
    }
}

/// A hash of a packet without the addresses of memory in it, which differ from run to run. Of an
/// encrypted one, nothing else can be told apart.
fn placeless_hash(packet: &[u8]) -> u64 {
    let mut sum = packet.len() as u64;
    if packet[1] & AUTH != 0 {
        return hash::fold(sum, hash::of_bytes(&packet[..HEADER]));
    }
    let mut from = 0;
    for frame in Frames::of_packet(packet) {
        let head = Head(frame.head[0]);
        let has_address = frame.head.len() > ADDRESS_WORD && (head.is_bulk() || head.op() == Some(Op::ReadRequest));
        if has_address {
            let at = frame.place.start - (frame.head.len() - ADDRESS_WORD) * WORD;
            sum = hash::fold(sum, hash::of_bytes(&packet[from..at]));
            from = at + WORD;
        }
    }
    hash::fold(sum, hash::of_bytes(&packet[from..]))
}

impl PacketPort for FabricPort {
    type Buffer = FabricBuffer;

    fn name(&self) -> &'static str {
        "fabric"
    }

    /// What the node's clock shows.
    fn now(&self) -> Instant {
        local_time(&self.fabric.borrow(), self.node)
    }

    fn is_ready(&mut self) -> bool {
        if !self.stalled.is_empty() {
            self.unstall();
        }
        self.stalled.is_empty()
    }

    fn is_clear(&self) -> bool {
        self.stalled.is_empty()
    }

    fn send(&mut self, transmit: &Transmit<'_>) {
        for packet in transmit.bytes.chunks(transmit.segment.unwrap_or(transmit.bytes.len()).max(1)) {
            let mut bytes = self.fabric.borrow_mut().buffer();
            bytes.extend_from_slice(packet);
            if self.checksum {
                checksum::seal(&mut bytes);
            }
            if !self.stalled.is_empty() {
                self.stalled.push_back((transmit.to, bytes));
            } else if let Err(bytes) = self.put(transmit.to, bytes) {
                self.stalled.push_back((transmit.to, bytes));
            }
        }
    }

    fn receive(&mut self) -> Option<(SocketAddr, FabricBuffer)> {
        let mut fabric = self.fabric.borrow_mut();
        let now = fabric.now();
        loop {
            let mut datagram = fabric.poll(self.port, now)?;
            let is_whole = !self.checksum || checksum::open(&mut datagram.bytes);
            self.missed += u64::from(self.checksum && is_whole == datagram.corrupted);
            if is_whole {
                self.corrupted += u64::from(datagram.corrupted);
                return Some((datagram.from, Lent::new(datagram.bytes, FabricPool(Rc::clone(&self.fabric)))));
            }
            self.corrupted += 1;
            fabric.recycle(datagram.bytes);
        }
    }

    fn listen(&mut self, _local: &NetAddress) -> bool {
        true
    }

    fn unlisten(&mut self, _local: &NetAddress) {}

    fn locate(&mut self, request: u64, _how: Rendezvous, _local: &NetAddress, remote: &NetAddress) {
        let found = socket_address(remote.host()).filter(|address| address.port() != 0);
        self.located.push_back((request, found.ok_or(LinkFailure::NotReachable)));
    }

    fn forget(&mut self, request: u64) {
        self.located.retain(|(other, _)| *other != request);
    }

    fn poll_located(&mut self) -> Option<(u64, Result<SocketAddr, LinkFailure>)> {
        self.located.pop_front()
    }

    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Any node that knows the address may send at any time.
    fn is_busy(&self) -> bool {
        true
    }
}
