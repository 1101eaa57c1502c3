// SPDX-License-Identifier: MIT OR Apache-2.0
//! NI16w+Blkbuf, as in the Fujitsu AP3000: the processor moves messages itself, but whole blocks at
//! a time, through a block buffer on its chip. A look for a message is a load of the NI's status,
//! which says how many have arrived.

use std::cell::Cell;
use std::rc::Rc;

use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Flow, Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design = Design { name: "ap3000", like: "Fujitsu AP3000", make: |node, network| Rc::new(Ap3000::new(node, network)) };

pub(super) struct Ap3000 {
    node: Rc<Node>,
    network: Rc<Network>,
    /// Messages that have arrived, as far as the last look showed.
    known: Cell<usize>,
}

impl Ap3000 {
    pub(super) fn new(node: &Rc<Node>, network: &Rc<Network>) -> Self {
        Self { node: node.clone(), network: network.clone(), known: Cell::new(0) }
    }

    /// Copies what of a message lies in its block `index`, header included, to or from the block
    /// buffer.
    fn copy(&self, cpu: &Cpu, message: &Message, index: u64) {
        let parameters = &self.node.parameters;
        cpu.compute(parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
    }
}

impl NetworkInterface for Ap3000 {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            // The status: is there room?
            cpu.status().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                self.copy(cpu, &message, index);
                cpu.block_buffer().await;
            }
            cpu.sync().await;
            self.network.launch(message);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            if self.known.get() == 0 {
                cpu.status().await;
                self.known.set(self.node.flow.arrived());
            }
            let message = self.node.flow.peek(Message::clone)?;
            self.known.set(self.known.get() - 1);
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                cpu.block_buffer().await;
                self.copy(cpu, &message, index);
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
