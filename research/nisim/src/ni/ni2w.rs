// SPDX-License-Identifier: MIT OR Apache-2.0
//! NI2w, as in the TMC CM-5: the processor sees the first two words of the NI's FIFOs and moves
//! messages itself, eight bytes at a time, by uncached accesses. Buffers are the NI's flow-control
//! buffers; when they are full, the processor must empty them.
//!
//! The single-cycle variant has the FIFOs in the processor's registers: each access takes one cycle
//! and no bus.

use std::rc::Rc;

use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Flow, Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// On the memory bus.
pub const DESIGN: Design = Design { name: "ni2w", like: "TMC CM-5", make: |node, network| make(node, network, false) };
/// In the processor's registers.
pub const SINGLE_CYCLE: Design = Design { name: "ni2w-single-cycle", like: "register-mapped", make: |node, network| make(node, network, true) };

pub(super) struct Ni2w {
    node: Rc<Node>,
    network: Rc<Network>,
    single_cycle: bool,
}

fn make(node: &Rc<Node>, network: &Rc<Network>, single_cycle: bool) -> Rc<dyn NetworkInterface> {
    if single_cycle {
        // Nor does the network wait longer for registers.
        node.ni_memory.set(node.parameters.cycle);
    }
    Rc::new(Ni2w::new(node, network, single_cycle))
}

impl Ni2w {
    pub(super) fn new(node: &Rc<Node>, network: &Rc<Network>, single_cycle: bool) -> Self {
        Self { node: node.clone(), network: network.clone(), single_cycle }
    }

    /// One access to a word of the NI.
    async fn access(&self, cpu: &Cpu) {
        if self.single_cycle {
            cpu.compute(1);
        } else {
            cpu.uncached().await;
        }
    }

    /// Header and payload, eight bytes at a time.
    async fn words(&self, cpu: &Cpu, message: &Message) {
        self.access(cpu).await;
        for _ in 0..message.payload.len().div_ceil(8) {
            cpu.compute(self.node.parameters.costs.copy_cycles);
            self.access(cpu).await;
        }
    }
}

impl NetworkInterface for Ni2w {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            // The status: is there room?
            self.access(cpu).await;
            cpu.sync().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            // A FIFO of words does not know where a message ends: destination and length open it.
            self.access(cpu).await;
            self.words(cpu, &message).await;
            cpu.sync().await;
            self.network.launch(message);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            // The status: is there a message, and how long is it?
            self.access(cpu).await;
            cpu.sync().await;
            let message = self.node.flow.peek(Message::clone)?;
            self.words(cpu, &message).await;
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
