// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs with stop-and-wait channels on a fabric, in virtual time: for tests and scenarios.

use super::{Channels, Config};
use crate::{Fabric, FabricError, FaultPlan, NodeId, Port, Topology};
use bellwire_faults::Random;
use bellwire_time::Instant;
use core::net::SocketAddr;
use std::collections::VecDeque;

/// The port of each NIC.
const PORT: u16 = 7;

/// Many NICs, in one thread. A NIC takes no time.
#[derive(Debug)]
pub struct ChannelWorld {
    fabric: Fabric,
    ports: Vec<Port>,
    addresses: Vec<SocketAddr>,
    nics: Vec<Channels>,
    /// Packets that the fabric had no room for.
    held: Vec<VecDeque<super::Packet>>,
    /// Packets that arrived: sender, receiver, payload.
    arrived: VecDeque<(u32, u32, Vec<u8>)>,
    /// The share of packets for which a receiver has no room, of 1000.
    refusing: u64,
    random: Random,
}

impl ChannelWorld {
    /// A NIC on each node, which refuses so many of 1000 packets.
    ///
    /// # Errors
    /// As [`Fabric::new`].
    pub fn new(topology: Topology, plan: &FaultPlan, config: Config, refusing: u64, seed: u64) -> Result<Self, FabricError> {
        let nodes = topology.nodes() as u32;
        let addresses: Vec<SocketAddr> = (0..nodes).map(|n| SocketAddr::new(topology.address(NodeId(n)), PORT)).collect();
        let mut fabric = Fabric::new(topology, plan, seed)?;
        let ports = addresses.iter().filter_map(|a| fabric.attach(*a).ok()).collect();
        let nics = (0..nodes).map(|n| Channels::new(config, nodes as usize, Random::mix(seed, n.into()))).collect();
        let held = (0..nodes).map(|_| VecDeque::new()).collect();
        Ok(Self { fabric, ports, addresses, nics, held, arrived: VecDeque::new(), refusing, random: Random::new(seed, 9) })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// A NIC.
    pub fn nic(&mut self, nic: u32) -> &mut Channels {
        &mut self.nics[nic as usize]
    }

    /// Of all packets.
    pub fn digest(&self) -> u64 {
        self.fabric.digest()
    }

    /// Sends, if a channel is free.
    pub fn send(&mut self, from: u32, to: u32, payload: &[u8]) -> bool {
        let now = self.now();
        let sent = self.nics[from as usize].send(now, to, payload);
        self.leave(from as usize);
        sent
    }

    /// The next packet that came: from, to, what.
    pub fn poll_arrived(&mut self) -> Option<(u32, u32, Vec<u8>)> {
        self.arrived.pop_front()
    }

    /// The next thing happens, if there is one until `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let timer = self.nics.iter().map(Channels::next_timeout).fold(Instant::NEVER, Instant::min);
        let next = timer.min(self.fabric.next_event()).max(self.now());
        if next > limit || next == Instant::NEVER {
            return false;
        }
        self.fabric.advance_to(next);
        for nic in 0..self.nics.len() {
            while let Some(datagram) = self.fabric.poll(self.ports[nic], next) {
                let from = self.addresses.iter().position(|a| *a == datagram.from);
                // A checksum finds what was damaged.
                if let Some(from) = from.filter(|_| !datagram.corrupted) {
                    let (arrived, refuses) = (&mut self.arrived, self.random.below(1000) < self.refusing);
                    self.nics[nic].handle_packet(from as u32, &datagram.bytes, |payload| {
                        if !refuses {
                            arrived.push_back((from as u32, nic as u32, payload.to_vec()));
                        }
                        !refuses
                    });
                }
            }
            self.nics[nic].handle_timeout(next);
            self.leave(nic);
        }
        true
    }

    fn leave(&mut self, nic: usize) {
        let now = self.now();
        while let Some(packet) = self.held[nic].pop_front().or_else(|| self.nics[nic].poll_transmit()) {
            let (to, bytes) = packet;
            if let Err(crate::SendError::Full(bytes)) = self.fabric.send(self.ports[nic], self.addresses[to as usize], bytes, now) {
                self.held[nic].push_front((to, bytes));
                return;
            }
        }
    }
}
