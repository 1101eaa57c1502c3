// SPDX-License-Identifier: MIT OR Apache-2.0
//! CNI32Qm, the Wisconsin CNI with a cache: both queues have their home in main memory, and the NI
//! keeps 32 blocks of each in caches of its own. Arriving messages go into the receive cache, from
//! which the processor fetches it. If a message not yet read is in its place there, the NI bypasses
//! the cache and writes to main memory; blocks of messages that have been read are dead and not
//! written back.
//!
//! With throttling, the sending processor leaves between messages the time that the receiving one
//! needs for one at best.

use std::cell::Cell;
use std::rc::Rc;

use super::queue::{Deposit, IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue, SendQueue};
use super::{Design, NetworkInterface, Work, watching_send};
use crate::engine::Signal;
use crate::machine::Parameters;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::coherence::{Agent, Operation};
use crate::node::cpu::Cpu;
use crate::time::Time;

/// The design.
pub const DESIGN: Design = Design { name: "cni32qm", like: "Wisconsin CNI with cache", make: |node, network| make(node, network, false) };
/// With throttling.
pub const THROTTLE: Design = Design { name: "cni32qm-throttle", like: "Wisconsin CNI with cache, throttled", make: |node, network| make(node, network, true) };

/// Blocks of each of the two caches.
const CACHE: u64 = 32;

struct Cni32qm {
    send: Rc<SendQueue>,
    receive: Rc<ReceiveQueue>,
    throttle: bool,
    next: Cell<Time>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>, throttle: bool) -> Rc<dyn NetworkInterface> {
    for agent in [Agent::NiSend, Agent::NiReceive] {
        node.add_cache(agent, CACHE as usize);
    }
    let send = Rc::new(SendQueue::new(node, IN_MEMORY));
    watching_send::spawn(node, network, &send);
    Rc::new(Cni32qm { send, receive: ReceiveQueue::new(node, IN_MEMORY, MEMORY_BLOCKS, ThroughCache::default()), throttle, next: Cell::default() })
}

/// The receive cache: of each of its places, the position in the queue of the block there.
#[derive(Default)]
struct ThroughCache([Cell<Option<u64>>; CACHE as usize]);

impl Deposit for ThroughCache {
    fn put<'a>(&'a self, queue: &'a ReceiveQueue, position: u64) -> Work<'a, Time> {
        Box::pin(async move {
            let (place, block) = (&self.0[(position % CACHE) as usize], queue.ring.block(position));
            // A flush of a message to main memory takes the present head: perhaps the message in
            // its place has been read meanwhile.
            let pending = || place.get().is_some_and(|there| there >= queue.head_known());
            if pending() {
                queue.read_head().await;
            }
            if pending() {
                return queue.node.coherent(Agent::NiReceive, Operation::WriteInvalidate, block);
            }
            if let Some(dead) = place.replace(Some(position)) {
                queue.node.forget(Agent::NiReceive, queue.ring.block(dead));
            }
            queue.node.coherent(Agent::NiReceive, Operation::Upgrade, block)
        })
    }
}

/// What a receiving node needs for a message at best: its blocks come from the NI's cache, each
/// after the NI has put it there over the same bus.
fn consumption(parameters: &Parameters, payload: usize) -> Time {
    let (costs, cycle) = (&parameters.costs, parameters.bus_cycle);
    let beats = parameters.block_bytes.div_ceil(parameters.bus_bytes);
    let fetch = cycle * (costs.arbitration + costs.address + costs.snoop + costs.data_arbitration + beats) + parameters.ni_memory;
    let words = (payload as u64 + parameters.header_bytes).div_ceil(8);
    let deposit = cycle * (costs.arbitration + costs.address + costs.snoop);
    (fetch + deposit) * parameters.blocks(payload) + parameters.cycle * (costs.poll_cycles + costs.receive_cycles + words * costs.copy_cycles)
}

impl NetworkInterface for Cni32qm {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            if self.throttle {
                let behind = self.next.get().0.saturating_sub(cpu.now().0);
                cpu.compute(behind.div_ceil(self.receive.node.parameters.cycle.0));
                self.next.set(cpu.now() + consumption(&self.receive.node.parameters, message.payload.len()));
            }
            self.send.compose(cpu, message).await
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.receive.node.queue_activity
    }
}
