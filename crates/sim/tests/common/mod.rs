// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the fabric share: a fabric with a port on each node, and running it dry.
#![allow(dead_code)]

use bellwire_sim::{Fabric, FaultPlan, Instant, NodeId, Port, Topology};
use std::net::SocketAddr;

/// Time, node, bytes.
pub type Arrival = (u64, usize, Vec<u8>);

pub struct Net {
    pub fabric: Fabric,
    pub ports: Vec<Port>,
    pub addresses: Vec<SocketAddr>,
}

impl Net {
    pub fn new(topology: Topology, faults: &str, seed: u64) -> Self {
        Self::planned(topology, &faults.parse().unwrap(), seed)
    }

    pub fn planned(topology: Topology, plan: &FaultPlan, seed: u64) -> Self {
        let addresses: Vec<_> = (0..topology.nodes() as u32).map(|n| SocketAddr::new(topology.address(NodeId(n)), 4791)).collect();
        let mut fabric = Fabric::new(topology, plan, seed).unwrap();
        let ports = addresses.iter().map(|&a| fabric.attach(a).unwrap()).collect();
        Self { fabric, ports, addresses }
    }

    /// Sends from one node to another; gives back what was refused.
    pub fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>, now: u64) -> Result<(), bellwire_sim::SendError> {
        self.fabric.send(self.ports[from], self.addresses[to], bytes, Instant(now))
    }

    /// Lets all happen until nothing is under way or the time has come; gives what arrived, in
    /// order.
    pub fn run(&mut self, until: u64) -> Vec<Arrival> {
        let mut arrived = Vec::new();
        loop {
            self.take(&mut arrived);
            let next = self.fabric.next_event();
            if next == Instant::NEVER || next.0 > until || self.fabric.in_flight() == 0 {
                return arrived;
            }
            self.fabric.advance_to(next);
        }
    }

    pub fn take(&mut self, arrived: &mut Vec<Arrival>) {
        let now = self.fabric.now();
        while let Some(port) = self.fabric.poll_readable() {
            let node = self.ports.iter().position(|p| *p == port).unwrap();
            while let Some(datagram) = self.fabric.poll(port, now) {
                arrived.push((now.0, node, datagram.bytes));
            }
        }
    }

    /// S2 of the fabric.
    pub fn conserved(&self) -> bool {
        let s = self.fabric.statistics();
        s.sent + s.duplicated == s.delivered + s.dropped_in_all() + self.fabric.in_flight()
    }
}
