// SPDX-License-Identifier: MIT OR Apache-2.0
//! (NI16w+Blkbuf)S (CNI0Qm)R, as in the DEC Memory Channel: the processor sends through a block
//! buffer, as on the AP3000; the NI puts arriving messages into a queue in main memory, as on
//! StarT-JR.

use std::rc::Rc;

use super::ap3000::Ap3000;
use super::memory_receive::ToMemory;
use super::queue::{IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue};
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::Message;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design = Design {
    name: "memory-channel",
    like: "DEC Memory Channel",
    make: |node, network| {
        let receive = ReceiveQueue::new(node, IN_MEMORY, MEMORY_BLOCKS, ToMemory);
        Rc::new(MemoryChannel { send: Ap3000::new(node, network), receive })
    },
};

struct MemoryChannel {
    send: Ap3000,
    receive: Rc<ReceiveQueue>,
}

impl NetworkInterface for MemoryChannel {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        self.send.send(cpu, message)
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.receive.node.queue_activity
    }
}
