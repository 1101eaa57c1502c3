// SPDX-License-Identifier: MIT OR Apache-2.0
//! NI16w+Blkbuf, as in the Fujitsu AP3000: the processor moves messages itself, but whole blocks at a time, through a block buffer on its chip. A
//! message's first block says whether it is valid, so a look for a message is a load of that block.

use std::rc::Rc;

use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design = Design { name: "ap3000", like: "Fujitsu AP3000", make: |node, network| Rc::new(Ap3000::new(node, network)) };

pub(super) struct Ap3000 {
    node: Rc<Node>,
    network: Rc<Network>,
}

impl Ap3000 {
    pub(super) fn new(node: &Rc<Node>, network: &Rc<Network>) -> Self {
        Self { node: node.clone(), network: network.clone() }
    }

    /// Copies what of a message lies in its block `index`, header included, to or from the block buffer.
    fn copy(&self, cpu: &Cpu, message: &Message, index: u64) {
        let parameters = &self.node.parameters;
        cpu.compute(parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
    }
}

impl NetworkInterface for Ap3000 {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            // The status: is there room?
            cpu.uncached().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                self.copy(cpu, &message, index);
                cpu.block_buffer().await;
            }
            self.network.launch(message);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            cpu.block_buffer().await;
            let message = self.node.flow.peek(Message::clone)?;
            self.copy(cpu, &message, 0);
            for index in 1..self.node.parameters.blocks(message.payload.len()) {
                cpu.block_buffer().await;
                self.copy(cpu, &message, index);
            }
            self.node.flow.take()
        })
    }

    fn activity(&self) -> &Signal {
        &self.node.flow.activity
    }
}
