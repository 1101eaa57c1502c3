// SPDX-License-Identifier: MIT OR Apache-2.0
//! NICs with endpoints on a fabric, one on each node, stepped in virtual time. Called by tests and
//! scenarios.
//!
//! Invariants
//! - A NIC has a turn when packets came, room came, its timer is due, or it was called.
//! - All clocks show the fabric's time. A node that crashes has no port any more, and stays so.

use super::{EndpointNic, NicConfig};
use crate::world::NIC_PORT;
use crate::{Fabric, FabricError, FabricPort, FaultPlan, NodeId, Topology};
use bellwire_faults::Random;
use bellwire_proto::{Config, NicId};
use bellwire_time::Instant;
use core::cmp::Reverse;
use core::net::SocketAddr;
use std::cell::RefCell;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// Many NICs with endpoints, in one thread.
#[derive(Debug)]
pub struct EndpointWorld {
    fabric: Rc<RefCell<Fabric>>,
    nics: Vec<EndpointNic>,
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    /// When the next turn of each is; entries of the agenda with another time do not count.
    due: Vec<u64>,
}

impl EndpointWorld {
    /// A NIC on each node; `config` gives the settings for each number. Their names, lives and
    /// peers are filled in.
    ///
    /// # Errors
    /// As [`Fabric::new`].
    pub fn new(topology: Topology, plan: &FaultPlan, seed: u64, config: impl Fn(u32) -> NicConfig) -> Result<Self, FabricError> {
        let peers: Vec<_> = (0..topology.nodes() as u32).map(|n| SocketAddr::new(topology.address(NodeId(n)), NIC_PORT)).collect();
        let fabric = Rc::new(RefCell::new(Fabric::new(topology, plan, seed)?));
        let mut nics = Vec::new();
        for (nic, address) in (0..).zip(&peers) {
            // Each node has one port.
            let Ok(port) = fabric.borrow_mut().attach(*address) else { continue };
            let port = FabricPort::new(Rc::clone(&fabric), NodeId(nic), port, true);
            let config = config(nic);
            let mut name = [0; 16];
            name[..4].copy_from_slice(&(nic + 1).to_le_bytes());
            let transport = Config { nic: NicId(name), boot: 1, ..config.transport };
            nics.push(EndpointNic::new(port, NicConfig { nic, peers: peers.clone(), transport, ..config }, Random::mix(seed, nic.into())));
        }
        let due = vec![u64::MAX; nics.len()];
        Ok(Self { fabric, nics, agenda: BinaryHeap::new(), due })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.fabric.borrow().now()
    }

    /// How many NICs there are.
    pub fn nics(&self) -> usize {
        self.nics.len()
    }

    /// A NIC, to look at.
    pub fn nic(&self, nic: usize) -> &EndpointNic {
        &self.nics[nic]
    }

    /// A NIC, to take from what it has for programs; that gives it nothing to do.
    pub fn nic_mut(&mut self, nic: usize) -> &mut EndpointNic {
        &mut self.nics[nic]
    }

    /// Calls a NIC, which has a turn afterwards.
    pub fn with<R>(&mut self, nic: usize, f: impl FnOnce(&mut EndpointNic, Instant) -> R) -> R {
        let now = self.now();
        let result = f(&mut self.nics[nic], now);
        self.wake(nic, now.0);
        result
    }

    /// Of all packets. Runs with equal digests did the same.
    pub fn digest(&self) -> u64 {
        self.fabric.borrow().digest()
    }

    /// The next turn: which NIC had it. `None`: there is none until `limit`, and it is so late.
    pub fn step(&mut self, limit: Instant) -> Option<usize> {
        loop {
            self.wake_ready();
            let (now, next) = (self.now(), self.next_turn());
            if next <= now.0 {
                return self.turn(now);
            }
            let next = Instant(next).min(self.fabric.borrow().next_event());
            if next > limit || next == Instant::NEVER {
                if limit > now && limit != Instant::NEVER {
                    self.fabric.borrow_mut().advance_to(limit);
                }
                return None;
            }
            self.fabric.borrow_mut().advance_to(next);
        }
    }

    fn turn(&mut self, now: Instant) -> Option<usize> {
        let Reverse((_, nic)) = self.agenda.pop()?;
        let nic = nic as usize;
        self.due[nic] = u64::MAX;
        self.nics[nic].turn(now);
        let at = self.nics[nic].next_timeout();
        self.wake(nic, at.0);
        Some(nic)
    }

    /// Those whose packets came, and those that can send again.
    fn wake_ready(&mut self) {
        let mut fabric = self.fabric.borrow_mut();
        let now = fabric.now().0;
        while let Some(port) = fabric.poll_readable().or_else(|| fabric.poll_writable()) {
            if let Some(node) = fabric.node_of(port) {
                wake(&mut self.agenda, &mut self.due, node.0, now);
            }
        }
    }

    fn wake(&mut self, nic: usize, at: u64) {
        wake(&mut self.agenda, &mut self.due, nic as u32, at);
    }

    fn next_turn(&mut self) -> u64 {
        while let Some(Reverse((at, nic))) = self.agenda.peek() {
            if self.due[*nic as usize] == *at {
                return *at;
            }
            self.agenda.pop();
        }
        u64::MAX
    }
}

fn wake(agenda: &mut BinaryHeap<Reverse<(u64, u32)>>, due: &mut [u64], nic: u32, at: u64) {
    let mine = &mut due[nic as usize];
    if at < *mine {
        *mine = at;
        agenda.push(Reverse((at, nic)));
    }
}
