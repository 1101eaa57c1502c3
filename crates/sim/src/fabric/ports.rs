// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of the fabric: ports at socket addresses, each with an inbox, like a UDP socket. Called
//! by the harness.

use super::packets::Packet;
use super::record::{DropCause, Mark, What};
use super::{Fabric, Overheard, Port, Sink, hash};
use crate::topology::NodeId;
use bellwire_time::Instant;
use core::fmt;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// Largest datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 1 << 24;
/// Where ports are taken from if none is asked for.
const PORTS_DRAWN: core::ops::RangeInclusive<u16> = 49_152..=65_535;

/// A packet that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address of the port that sent it.
    pub from: SocketAddr,
    /// What it carries; [`Fabric::recycle`] takes the buffer back.
    pub bytes: Vec<u8>,
    /// It is not what was sent, for bits were flipped on the way: what a checksum would find.
    pub corrupted: bool,
}

/// Why a port was not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// No node has this address.
    NoNode,
    /// A port is attached there, or all are if none was asked for.
    Taken,
    /// The node has crashed.
    Crashed,
}

/// Why a packet was not taken. It is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The queue holds and is full. The port is among the writable ones later.
    Full(Vec<u8>),
    /// The port is closed.
    Closed(Vec<u8>),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNode => "no node has this address",
            Self::Taken => "another port has this address",
            Self::Crashed => "the node has crashed",
        })
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the queue is full",
            Self::Closed(_) => "the port is closed",
        })
    }
}

impl std::error::Error for AttachError {}
impl std::error::Error for SendError {}

#[derive(Debug)]
pub(super) struct PortState {
    address: SocketAddr,
    node: u32,
    generation: u32,
    open: bool,
    pub inbox: VecDeque<u32>,
    inbox_bytes: u64,
    /// It is in the list of readable ports.
    listed: bool,
    /// Lanes that hold a packet for this inbox.
    pub waiters: VecDeque<u32>,
}

impl Fabric {
    /// Attaches a port at an address of a node. Port number 0 takes any that is free.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(&mut self, address: SocketAddr) -> Result<Port, AttachError> {
        let node = *self.node_at.get(&address.ip()).ok_or(AttachError::NoNode)?;
        if self.outages.is_crashed(node) {
            return Err(AttachError::Crashed);
        }
        let mut address = address;
        if address.port() == 0 {
            let free = PORTS_DRAWN.map(|number| SocketAddr::new(address.ip(), number)).find(|a| !self.port_at.contains_key(a));
            address = free.ok_or(AttachError::Taken)?;
        }
        if self.port_at.contains_key(&address) {
            return Err(AttachError::Taken);
        }
        let fresh = PortState { address, node, generation: 0, open: true, inbox: VecDeque::new(), inbox_bytes: 0, listed: false, waiters: VecDeque::new() };
        let index = match self.free_ports.pop() {
            Some(index) => {
                let generation = self.ports[index as usize].generation + 1;
                self.ports[index as usize] = PortState { generation, ..fresh };
                index
            }
            None => {
                self.ports.push(fresh);
                self.ports.len() as u32 - 1
            }
        };
        self.port_at.insert(address, index);
        Ok(Port { index, generation: self.ports[index as usize].generation })
    }

    /// Closes a port; what it has not taken is lost. Closing it again does nothing.
    pub fn detach(&mut self, port: Port) {
        if self.state(port).is_some() {
            self.close(port.index);
            self.settle();
        }
    }

    fn close(&mut self, index: u32) {
        let state = &mut self.ports[index as usize];
        state.open = false;
        state.inbox_bytes = 0;
        self.port_at.remove(&state.address);
        for id in core::mem::take(&mut state.inbox) {
            let packet = self.packets.take(id);
            let mark = Mark { bytes: packet.bytes.len() as u64, hash: packet.hash };
            self.record.statistics.unread += 1;
            self.record.note(self.now, What::Unread, packet.target, mark, 0, || packet.to.to_string());
            self.packets.recycle(packet.bytes);
        }
        // Senders that waited for room now find nobody there. The slot is free when all have.
        self.relieved.push_back(Sink::Port(index));
        self.free_ports.push(index);
    }

    /// Closes all ports of a node.
    pub(super) fn close_all_of(&mut self, node: u32) {
        for index in 0..self.ports.len() as u32 {
            if self.ports[index as usize].open && self.ports[index as usize].node == node {
                self.close(index);
            }
        }
    }

    fn state(&self, port: Port) -> Option<&PortState> {
        self.ports.get(port.index as usize).filter(|s| s.open && s.generation == port.generation)
    }

    /// The address of a port; `None` if it is closed.
    pub fn address(&self, port: Port) -> Option<SocketAddr> {
        self.state(port).map(|s| s.address)
    }

    /// The node of a port; `None` if it is closed.
    pub fn node_of(&self, port: Port) -> Option<NodeId> {
        self.state(port).map(|s| NodeId(s.node))
    }

    /// Sends a datagram. All that happens until `now` happens first. Like a network, the fabric
    /// promises nothing about what it has taken.
    ///
    /// # Errors
    /// The datagram comes back if the port is closed, or if the first queue holds and is full.
    pub fn send(&mut self, port: Port, to: SocketAddr, bytes: Vec<u8>, now: Instant) -> Result<(), SendError> {
        let hash = hash::of_bytes(&bytes);
        self.send_hashed(port, to, bytes, hash, now)
    }

    /// As [`send`](Self::send), for bytes of which some differ from run to run (addresses of
    /// memory): `hash` stands for them in digest and trace.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_hashed(&mut self, port: Port, to: SocketAddr, bytes: Vec<u8>, hash: u64, now: Instant) -> Result<(), SendError> {
        self.advance_to(now);
        let Some(&PortState { address: from, node: source, .. }) = self.state(port) else { return Err(SendError::Closed(bytes)) };
        let target = self.node_at.get(&to.ip()).copied();
        let way = target.and_then(|target| self.ways.of(source, target, from, to));
        let first = way.and_then(|(next, end)| (next < end).then(|| self.ways.lane(next)));
        if let Some(first) = first {
            let lane = &mut self.lanes[first as usize];
            if lane.holds() && lane.is_full(self.now, bytes.len() as u64) {
                if !lane.blocked.contains(&port) {
                    lane.blocked.push(port);
                }
                return Err(SendError::Full(bytes));
            }
        }
        let mark = Mark { bytes: bytes.len() as u64, hash };
        self.record.statistics.sent += 1;
        self.record.note(self.now, What::Sent, source, mark, 0, || format!("{from}>{to}"));
        if let Some(overheard) = &mut self.overheard {
            overheard.push(Overheard { from, to, bytes: bytes.clone() });
        }
        let too_big = bytes.len() > DATAGRAM_BYTES_MAX;
        let (next, end) = way.unwrap_or_default();
        let id = self.packets.add(Packet { bytes, from, to, source, target: target.unwrap_or(source), next, end, hash, damage: Vec::new() });
        if too_big {
            self.discard(id, DropCause::TooBig, None);
        } else if way.is_none() {
            self.discard(id, DropCause::NoRoute, None);
        } else if let Some(first) = first {
            if self.outages.parts(source, self.packets.get(id).target) {
                self.discard(id, DropCause::Partition, None);
            } else {
                let taken = self.offer(first, id);
                debug_assert!(taken, "there was room a moment ago");
            }
        } else if !self.deliver(id) {
            // To itself, through no link: nothing can hold it.
            self.discard(id, DropCause::InboxFull, None);
        }
        self.settle();
        Ok(())
    }

    /// Puts a packet into the inbox it is for, or drops it; `false` if there is no room.
    pub(super) fn deliver(&mut self, id: u32) -> bool {
        let packet = self.packets.get(id);
        let mark = Mark { bytes: packet.bytes.len() as u64, hash: packet.hash };
        let target = packet.target;
        let cause = if self.outages.is_crashed(target) {
            Some(DropCause::NodeDown)
        } else if self.outages.parts(packet.source, target) {
            Some(DropCause::Partition)
        } else {
            None
        };
        let index = match (cause, self.port_at.get(&packet.to)) {
            (None, Some(&index)) => index,
            (cause, _) => {
                self.discard(id, cause.unwrap_or(DropCause::NoPort), None);
                return true;
            }
        };
        let state = &mut self.ports[index as usize];
        let limit = self.topology.inbox_bytes;
        if limit != 0 && !state.inbox.is_empty() && state.inbox_bytes + mark.bytes > limit {
            return false;
        }
        state.inbox.push_back(id);
        state.inbox_bytes += mark.bytes;
        if !state.listed {
            state.listed = true;
            self.readable.push_back(Port { index, generation: state.generation });
        }
        let to = packet.to;
        self.record.statistics.delivered += 1;
        self.record.note(self.now, What::Delivered, target, mark, 0, || to.to_string());
        true
    }

    /// The port that a packet is for, if it is open.
    pub(super) fn port_for(&self, id: u32) -> Option<u32> {
        self.port_at.get(&self.packets.get(id).to).copied()
    }

    /// Takes a datagram that has arrived by `now`. All that happens until then happens first.
    pub fn poll(&mut self, port: Port, now: Instant) -> Option<Datagram> {
        self.advance_to(now);
        self.state(port)?;
        let state = &mut self.ports[port.index as usize];
        let packet = self.packets.take(state.inbox.pop_front()?);
        state.inbox_bytes -= packet.bytes.len() as u64;
        if !state.waiters.is_empty() {
            self.relieved.push_back(Sink::Port(port.index));
            self.settle();
        }
        Some(Datagram { from: packet.from, bytes: packet.bytes, corrupted: !packet.damage.is_empty() })
    }

    /// Whether a port has something to be polled.
    pub fn is_readable(&self, port: Port) -> bool {
        self.state(port).is_some_and(|s| !s.inbox.is_empty())
    }

    /// A port whose inbox got something since the port was last named here. To be polled until it
    /// is empty.
    pub fn poll_readable(&mut self) -> Option<Port> {
        while let Some(port) = self.readable.pop_front() {
            if self.state(port).is_some() {
                self.ports[port.index as usize].listed = false;
                return Some(port);
            }
        }
        None
    }

    /// A port that was refused by a full queue, which now has room.
    pub fn poll_writable(&mut self) -> Option<Port> {
        while let Some(port) = self.writable.pop_front() {
            if self.state(port).is_some() {
                return Some(port);
            }
        }
        None
    }

    /// An empty buffer, often one that was used before.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.packets.buffer()
    }

    /// Takes a buffer back for use again.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.packets.recycle(bytes);
    }
}
