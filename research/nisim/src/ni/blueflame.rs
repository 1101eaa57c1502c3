// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC on PCIe with inline descriptor writes: the processor stores descriptor and message
//! together through its write-combining buffers into the NIC, block by block, and the NIC reads
//! nothing (NVIDIA's BlueFlame with inline data; the kernel's mlx5 driver describes both, and that
//! the descriptor is written to main memory as well, in "net/mlx5e: TX latency optimization to save
//! DMA reads", 2015). It receives as `ddio.rs`.

use std::rc::Rc;

use super::ddio::ToCache;
use super::queue::{IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue};
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design = Design { name: "blueflame", like: "PCIe NIC, inline descriptor writes", make };

struct BlueFlame {
    node: Rc<Node>,
    network: Rc<Network>,
    receive: Rc<ReceiveQueue>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
    let receive = ReceiveQueue::behind(node, IN_MEMORY, MEMORY_BLOCKS, ToCache, node.parameters.pcie);
    Rc::new(BlueFlame { node: node.clone(), network: network.clone(), receive })
}

impl NetworkInterface for BlueFlame {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            let (node, parameters) = (&self.node, &self.node.parameters);
            // How many buffers are free the NIC's completions say, in the processor's cache.
            cpu.compute(1);
            cpu.sync().await;
            if !node.flow.has_room() {
                return Err(message);
            }
            node.flow.reserve();
            for index in 0..parameters.blocks(message.payload.len()) {
                // Into the NIC, and into the descriptor's place in memory.
                cpu.compute(2 * parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
                cpu.posted(parameters.block_bytes).await;
            }
            cpu.sync().await;
            let network = self.network.clone();
            node.engine.at(node.engine.now() + parameters.pcie, move || network.launch(message));
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.node.queue_activity
    }
}
