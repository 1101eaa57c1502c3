// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor of a node, as programs and the processor's side of an NI see it: what it does is charged here.
//!
//! Computation and cache hits only move the processor ahead of virtual time, without giving up control; every use of the bus first lets virtual time
//! catch up. That is exact as long as what the processor does between two uses of the bus concerns nobody else.

use std::rc::Rc;

use super::Node;
use super::cache::{Block, State};
use super::coherence::{Agent, Operation};
use crate::time::Time;

/// The processor of a node.
#[derive(Clone)]
pub struct Cpu(pub(crate) Rc<Node>);

impl Cpu {
    /// The node's number.
    pub fn node(&self) -> usize {
        self.0.id
    }

    /// Nodes of the machine.
    pub fn nodes(&self) -> usize {
        self.0.parameters.nodes
    }

    /// The processor's time.
    pub fn now(&self) -> Time {
        self.0.engine.now() + self.0.ahead.get()
    }

    /// Computes for so many cycles.
    pub fn compute(&self, cycles: u64) {
        self.0.ahead.set(self.0.ahead.get() + self.0.parameters.cycle * cycles);
    }

    /// Executes so many instructions without memory accesses, at the full issue width.
    pub fn instructions(&self, count: u64) {
        self.compute(count.div_ceil(self.0.parameters.issue));
    }

    /// Lets virtual time catch up with the processor.
    pub async fn sync(&self) {
        let until = self.now();
        self.0.ahead.set(Time::ZERO);
        self.0.engine.sleep_until(until).await;
    }

    /// Loads a word: one cycle if the cache has it.
    pub async fn load(&self, address: u64) {
        self.access(address, false).await;
    }

    /// Stores a word: one cycle if the cache has the block to write.
    pub async fn store(&self, address: u64) {
        self.access(address, true).await;
    }

    /// Loads `bytes` from `address` on, eight at a time.
    pub async fn load_range(&self, address: u64, bytes: u64) {
        for word in 0..bytes.div_ceil(8) {
            self.load(address + word * 8).await;
        }
    }

    /// Stores `bytes` from `address` on, eight at a time.
    pub async fn store_range(&self, address: u64, bytes: u64) {
        for word in 0..bytes.div_ceil(8) {
            self.store(address + word * 8).await;
        }
    }

    /// Makes sure that the cache holds a block, as if a program had just written it: user data from which an NI sends by itself.
    pub(crate) fn preload(&self, block: Block) {
        let ready = self.0.engine.now();
        if let Some(cache) = &mut self.0.caches.borrow_mut()[Agent::Processor as usize] {
            cache.put(block, State::Modified, ready);
        }
    }

    async fn access(&self, address: u64, write: bool) {
        self.compute(1);
        let block = Block(address / self.0.parameters.block_bytes);
        if !self.hit(block, write) {
            self.miss(block, write).await;
        }
    }

    fn hit(&self, block: Block, write: bool) -> bool {
        let mut caches = self.0.caches.borrow_mut();
        let Some(line) = caches[Agent::Processor as usize].as_mut().and_then(|cache| cache.line(block)) else { return false };
        if write && line.state.writable() {
            line.state = State::Modified;
        }
        !write || line.state.writable()
    }

    async fn miss(&self, block: Block, write: bool) {
        self.sync().await;
        let here = self.0.caches.borrow_mut()[Agent::Processor as usize].as_mut().is_some_and(|cache| cache.line(block).is_some());
        let operation = match (write, here) {
            (false, _) => Operation::Read,
            (true, true) => Operation::Upgrade,
            (true, false) => Operation::ReadExclusive,
        };
        let done = self.0.coherent(Agent::Processor, operation, block);
        self.0.engine.sleep_until(done).await;
    }

    /// An uncached load or store of up to eight bytes in the NI's memory; the processor waits until it has ended.
    pub async fn uncached(&self) {
        self.ni_access(8).await;
    }

    /// Loads a block from the NI into a block buffer, or flushes one to it.
    pub async fn block_buffer(&self) {
        self.compute(self.0.parameters.costs.block_buffer_cycles);
        self.ni_access(self.0.parameters.block_bytes).await;
    }

    async fn ni_access(&self, bytes: u64) {
        self.sync().await;
        let (node, now) = (&self.0, self.0.engine.now());
        let address_end = node.bus.request(now);
        node.bus.count(|traffic| traffic.uncached += 1);
        let ready = node.ni_port.access(address_end, node.ni_memory.get());
        let done = node.bus.transfer(now, ready, bytes);
        node.engine.sleep_until(done).await;
    }
}
