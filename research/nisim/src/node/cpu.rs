// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor of a node, as programs and the processor's side of an NI see it: what it does is
//! charged here.
//!
//! A processor runs ahead of virtual time, in a time of its own, as long as what it does concerns
//! nobody else: computation and hits in its cache cost no event, and neither do accesses to the bus
//! of a node where the processor alone uses the bus (the NIs with FIFOs). Where an NI uses the bus
//! by itself, virtual time catches up before each bus transaction, and the processor runs ahead
//! again before it has ended. Who looks at what others change (flow control, queues shared with the
//! NI), lets virtual time catch up before: [`Cpu::sync`], [`Cpu::status`].

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::Node;
use super::cache::Block;
use super::coherence::{Agent, Operation};
use crate::engine::Sleep;
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
    pub fn sync(&self) -> Sleep<'_> {
        let until = self.now();
        self.0.ahead.set(Time::ZERO);
        self.0.engine.sleep_until(until)
    }

    /// Loads a word: one cycle if the cache has it.
    pub fn load(&self, address: u64) -> Access<'_> {
        Access { cpu: self, address, words: 1, write: false, catching_up: None }
    }

    /// Stores a word: one cycle if the cache has the block to write.
    pub fn store(&self, address: u64) -> Access<'_> {
        Access { cpu: self, address, words: 1, write: true, catching_up: None }
    }

    /// Loads `bytes` from `address` on, eight at a time.
    pub fn load_range(&self, address: u64, bytes: u64) -> Access<'_> {
        Access { cpu: self, address, words: bytes.div_ceil(8), write: false, catching_up: None }
    }

    /// Stores `bytes` from `address` on, eight at a time.
    pub fn store_range(&self, address: u64, bytes: u64) -> Access<'_> {
        Access { cpu: self, address, words: bytes.div_ceil(8), write: true, catching_up: None }
    }

    /// Loads or stores `bytes` from `address` on if the cache allows all of it; if not, nothing is
    /// done.
    #[inline]
    pub fn access_at_once(&self, address: u64, bytes: u64, write: bool) -> bool {
        let (node, words) = (&self.0, bytes.div_ceil(8).max(1));
        let Some(cache) = node.cache(Agent::Processor) else { return false };
        let blocks = node.block_of(address).0..=node.block_of(address + (words - 1) * 8).0;
        let hits = blocks.into_iter().all(|block| cache.hit(Block(block), write));
        if hits {
            self.compute(words);
        }
        hits
    }

    /// An uncached load or store of up to eight bytes in the NI's memory; the processor waits until
    /// it has ended.
    pub async fn uncached(&self) {
        self.ni_access(8).await;
    }

    /// An uncached load whose answer others change: virtual time has caught up when it is there.
    pub async fn status(&self) {
        self.uncached().await;
        self.sync().await;
    }

    /// A store of `bytes` to a device that the processor does not wait for once the bus has taken
    /// it.
    pub async fn posted(&self, bytes: u64) {
        self.take_bus().await;
        let (node, now) = (&self.0, self.now());
        node.bus.count(|traffic| traffic.uncached += 1);
        self.go_on_at(node.bus.transfer(now, node.bus.request(now), bytes));
    }

    /// Loads a block from the NI into a block buffer, or flushes one to it.
    pub async fn block_buffer(&self) {
        self.compute(self.0.parameters.costs.block_buffer_cycles);
        self.ni_access(self.0.parameters.block_bytes).await;
    }

    async fn ni_access(&self, bytes: u64) {
        self.take_bus().await;
        let (node, now) = (&self.0, self.now());
        let address_end = node.bus.request(now);
        node.bus.count(|traffic| traffic.uncached += 1);
        let ready = node.ni_port.access(address_end, node.ni_memory.get());
        self.go_on_at(node.bus.transfer(now, ready, bytes));
    }

    /// Before a transaction: virtual time must have caught up if an NI may use the bus meanwhile.
    fn take_bus(&self) -> Sleep<'_> {
        if self.0.shares_bus.get() { self.sync() } else { self.0.engine.sleep_until(Time::ZERO) }
    }

    /// The processor waits until `time` for what it has asked for.
    fn go_on_at(&self, time: Time) {
        self.0.ahead.set(time - self.0.engine.now());
    }

    /// Accesses to words one after the other, in virtual time or ahead of it; those to words of one
    /// block that the cache has are one step.
    #[inline]
    fn hits(&self, access: &mut (u64, u64), write: bool) -> bool {
        let (node, Some(cache)) = (&self.0, self.0.cache(Agent::Processor)) else { return false };
        while access.1 > 0 {
            let block = node.block_of(access.0);
            if !cache.hit(block, write) {
                return false;
            }
            let end = (block.0 + 1) << node.block_shift;
            let here = access.1.min((end - access.0).div_ceil(8));
            self.compute(here);
            *access = (access.0 + here * 8, access.1 - here);
        }
        true
    }

    /// The bus transaction for an access that the cache does not allow.
    fn miss(&self, block: Block, write: bool) {
        let here = self.0.cache(Agent::Processor).is_some_and(|cache| cache.state(block).is_some());
        let operation = match (write, here) {
            (false, _) => Operation::Read,
            (true, true) => Operation::Upgrade,
            (true, false) => Operation::ReadExclusive,
        };
        self.go_on_at(self.0.coherent_at(self.now(), Agent::Processor, operation, block));
    }
}

/// Loads or stores of words one after the other. Hits take place when it is polled first, without a
/// look at the queue of events.
pub struct Access<'a> {
    cpu: &'a Cpu,
    address: u64,
    words: u64,
    write: bool,
    /// Before a miss.
    catching_up: Option<Sleep<'a>>,
}

impl Access<'_> {
    /// Does what the cache allows; whether that is all.
    #[inline]
    pub fn now(&mut self) -> bool {
        let mut rest = (self.address, self.words);
        let done = self.cpu.hits(&mut rest, self.write);
        (self.address, self.words) = rest;
        done
    }
}

impl Future for Access<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.catching_up.is_none() {
                if self.now() {
                    return Poll::Ready(());
                }
                self.cpu.compute(1);
                self.catching_up = Some(self.cpu.take_bus());
            }
            if let Some(sleep) = &mut self.catching_up {
                ready!(Pin::new(sleep).poll(context));
            }
            self.catching_up = None;
            self.cpu.miss(self.cpu.0.block_of(self.address), self.write);
            (self.address, self.words) = (self.address + 8, self.words - 1);
        }
    }
}
