// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC on PCIe as most are programmed: the processor composes the message and a descriptor in its
//! cache and rings a doorbell, a posted store. The NIC reads the descriptor, then the message. It
//! writes arriving messages to a queue in main memory, where the processor polls.
//!
//! One way across PCIe: doorbell, two reads there and back. The model of such a NIC is that of
//! Neugebauer et al., "Understanding PCIe performance for end host networking" (SIGCOMM 2018).

use std::rc::Rc;

use super::link::Fetch;
use super::memory_receive::ToMemory;
use super::queue::{Deposit, IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue, SendQueue};
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design =
    Design { name: "pcie", like: "PCIe NIC, doorbell and DMA descriptors", make: |node, network| Rc::new(Pcie::new(node, network, ToMemory)) };

/// Crossings of PCIe between the doorbell's store and the message in the NIC.
const CROSSINGS: u64 = 5;

pub(super) struct Pcie {
    send: Rc<SendQueue>,
    fetch: Rc<Fetch>,
    receive: Rc<ReceiveQueue>,
}

impl Pcie {
    pub(super) fn new(node: &Rc<Node>, network: &Rc<Network>, deposit: impl Deposit + 'static) -> Self {
        let (send, pcie) = (Rc::new(SendQueue::new(node, IN_MEMORY)), node.parameters.pcie);
        let fetch = Fetch::new(network, &send, node, pcie * CROSSINGS, true);
        Self { send, fetch, receive: ReceiveQueue::behind(node, IN_MEMORY, MEMORY_BLOCKS, deposit, pcie) }
    }
}

impl NetworkInterface for Pcie {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            self.send.describe(cpu).await;
            self.send.compose(cpu, message).await?;
            cpu.posted(8).await;
            cpu.sync().await;
            self.fetch.tell();
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.receive.node.queue_activity
    }
}
