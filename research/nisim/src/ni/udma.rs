// SPDX-License-Identifier: MIT OR Apache-2.0
//! NI64w+Udma, as in Princeton's User-Level DMA: the processor starts a transfer with two
//! instructions, an uncached store and an uncached load, and the NI moves the message between its
//! memory and the user's, block by block. The messaging software waits until the transfer is
//! complete. Small messages go as on NI2w, except in the paper's microbenchmarks.

use std::cell::Cell;
use std::rc::Rc;

use super::ni2w::Ni2w;
use super::queue::IN_MEMORY;
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Flow, Message, Network};
use crate::node::Node;
use crate::node::cache::Block;
use crate::node::coherence::{Agent, Operation};
use crate::node::cpu::Cpu;

/// Small messages as on NI2w.
pub const DESIGN: Design = Design { name: "udma", like: "Princeton UDMA", make: |node, network| make(node, network, 96) };
/// All messages by UDMA.
pub const ALWAYS: Design = Design { name: "udma-always", like: "Princeton UDMA, all messages", make: |node, network| make(node, network, 0) };

/// Blocks of the user's buffers: messages to send come from here, those that arrive go behind them.
const BUFFER: u64 = 512;

struct Udma {
    node: Rc<Node>,
    network: Rc<Network>,
    words: Ni2w,
    /// Payload in bytes above which UDMA is used.
    above: usize,
    next: Cell<u64>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>, above: usize) -> Rc<dyn NetworkInterface> {
    Rc::new(Udma { node: node.clone(), network: network.clone(), words: Ni2w::new(node, network, false), above, next: Cell::default() })
}

impl Udma {
    /// The bus goes from the processor to the NI, or back.
    async fn switch(&self) {
        let engine = &self.node.engine;
        engine.sleep_until(engine.now() + self.node.parameters.costs.master_switch).await;
    }

    /// A transfer of a whole message, and the wait for its end. The NI masters the bus for the
    /// command, and again for each block: in between, the processor has it back, as it waits for
    /// the end by looking for it.
    async fn transfer(&self, cpu: &Cpu, operation: Operation, message: &Message, first: Block) {
        let (node, engine) = (&self.node, &self.node.engine);
        cpu.uncached().await;
        cpu.uncached().await;
        cpu.sync().await;
        self.switch().await;
        for index in 0..node.parameters.blocks(message.payload.len()) {
            // One block after the other: out of the one memory, over the bus, into the other.
            let block = Block(first.0 + index);
            self.switch().await;
            if operation == Operation::WriteInvalidate {
                engine.sleep_until(node.ni_port.access(engine.now(), node.ni_memory.get())).await;
                engine.sleep_until(node.coherent(Agent::NiReceive, operation, block)).await;
                engine.sleep_until(node.bank(block).free()).await;
            } else {
                engine.sleep_until(node.coherent(Agent::NiSend, operation, block)).await;
                engine.sleep_until(node.ni_port.access(engine.now(), node.ni_memory.get())).await;
            }
            self.switch().await;
        }
        self.switch().await;
        // Is it complete?
        cpu.uncached().await;
    }

    fn buffer(&self, message: &Message, base: u64) -> Block {
        let place = self.next.get() % (BUFFER / 2);
        self.next.set(place + self.node.parameters.blocks(message.payload.len()));
        Block(IN_MEMORY.0 + base + place)
    }
}

impl NetworkInterface for Udma {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            if message.payload.len() <= self.above {
                return self.words.send(cpu, message).await;
            }
            // The status: is there room?
            cpu.status().await;
            if !self.node.flow.has_room() {
                return Err(message);
            }
            self.node.flow.reserve();
            // The data are in the cache; the header goes before them.
            let first = self.buffer(&message, 0);
            for index in 0..self.node.parameters.blocks(message.payload.len()) {
                self.node.preload(Block(first.0 + index));
            }
            self.transfer(cpu, Operation::ReadOnce, &message, first).await;
            cpu.sync().await;
            self.network.launch(message);
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(async move {
            cpu.sync().await;
            let small = self.node.flow.peek(|message| message.payload.len() <= self.above);
            if small.unwrap_or(true) && self.above > 0 {
                return self.words.receive(cpu).await;
            }
            // The status, and the header: for whom, how long?
            cpu.status().await;
            let message = self.node.flow.peek(Message::clone)?;
            cpu.uncached().await;
            let first = self.buffer(&message, BUFFER);
            self.transfer(cpu, Operation::WriteInvalidate, &message, first).await;
            cpu.sync().await;
            self.node.flow.take().map(|message| Message { lies: Some(first), ..message })
        })
    }

    fn fifo(&self) -> Option<&Flow> {
        Some(&self.node.flow)
    }

    fn activity(&self) -> &Signal {
        &self.node.flow.activity
    }
}
