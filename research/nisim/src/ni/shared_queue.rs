// SPDX-License-Identifier: MIT OR Apache-2.0
//! No NI at all: the nodes are cores of one machine, and a message lies in a queue of cache blocks
//! between two of them. The sender gets the right to write the block, the receiver's next look
//! finds its copy gone and fetches it; each costs a transfer between two caches of the die. How
//! long that takes has been measured for many processors (N. Viennot, core-to-core-latency, 2022).
//! Flow-control buffers are places of the queue.

use std::rc::Rc;

use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Flow, Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;
use crate::time::Time;

/// The design.
pub const DESIGN: Design = Design { name: "shared-queue", like: "queue in shared memory between cores", make };

struct SharedQueue {
    node: Rc<Node>,
    network: Rc<Network>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
    // An arriving message is where the receiver reads it.
    node.ni_memory.set(Time::ZERO);
    Rc::new(SharedQueue { node: node.clone(), network: network.clone() })
}

impl SharedQueue {
    /// A block between two caches, and the copy of what lies in it.
    async fn block(&self, cpu: &Cpu, message: &Message, index: u64) {
        let (engine, parameters) = (&self.node.engine, &self.node.parameters);
        cpu.sync().await;
        engine.sleep_until(engine.now() + parameters.core).await;
        cpu.compute(parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
    }
}

impl NetworkInterface for SharedQueue {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            cpu.compute(1);
            cpu.sync().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                self.block(cpu, &message, index).await;
            }
            cpu.sync().await;
            self.network.pass(message, self.node.parameters.core);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            cpu.compute(1);
            cpu.sync().await;
            let message = self.node.flow.peek(Message::clone)?;
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                self.block(cpu, &message, index).await;
            }
            cpu.sync().await;
            self.node.flow.take()
        })
    }

    fn fifo(&self) -> Option<&Flow> {
        Some(&self.node.flow)
    }

    fn activity(&self) -> &Signal {
        &self.node.flow.activity
    }
}
