// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor of a node, as programs and the processor's side of an NI see it: what it does is charged here.
//!
//! Computation and cache hits only move the processor ahead of virtual time, without giving up control; every use of the bus first lets virtual time
//! catch up. That is exact as long as what the processor does between two uses of the bus concerns nobody else.

use std::rc::Rc;

use super::Node;
use super::cache::Block;
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
        self.access_range(address, bytes.div_ceil(8), false).await;
    }

    /// Stores `bytes` from `address` on, eight at a time.
    pub async fn store_range(&self, address: u64, bytes: u64) {
        self.access_range(address, bytes.div_ceil(8), true).await;
    }

    async fn access(&self, address: u64, write: bool) {
        self.compute(1);
        let block = self.0.block_of(address);
        if !self.hit(block, write) {
            self.miss(block, write).await;
        }
    }

    /// Words one after the other. Nobody else does anything between two hits, so those of a block are one step.
    async fn access_range(&self, mut address: u64, mut words: u64, write: bool) {
        while words > 0 {
            let block = self.0.block_of(address);
            if !self.hit(block, write) {
                self.compute(1);
                self.miss(block, write).await;
                (address, words) = (address + 8, words - 1);
                continue;
            }
            let end = (block.0 + 1) << self.0.block_shift;
            let here = words.min((end - address).div_ceil(8));
            self.compute(here);
            (address, words) = (address + here * 8, words - here);
        }
    }

    #[inline]
    fn hit(&self, block: Block, write: bool) -> bool {
        self.0.cache(Agent::Processor).is_some_and(|cache| cache.hit(block, write))
    }

    async fn miss(&self, block: Block, write: bool) {
        self.sync().await;
        let here = self.0.cache(Agent::Processor).is_some_and(|cache| cache.state(block).is_some());
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

    /// A store of `bytes` to a device that the processor does not wait for once the bus has taken it.
    pub async fn posted(&self, bytes: u64) {
        self.sync().await;
        let (node, now) = (&self.0, self.0.engine.now());
        node.bus.count(|traffic| traffic.uncached += 1);
        let taken = node.bus.transfer(now, node.bus.request(now), bytes);
        node.engine.sleep_until(taken).await;
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
