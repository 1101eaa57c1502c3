// SPDX-License-Identifier: MIT OR Apache-2.0
//! One node: processor, cache, bus, memory, and the places where its NI attaches.

pub mod bus;
pub mod cache;
pub mod coherence;
pub mod cpu;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::engine::{Engine, Signal};
use crate::machine::Parameters;
use crate::network::Flow;
use crate::time::Time;
use bus::{Bus, Port};
use cache::{Block, Cache, State};
use coherence::{Agent, Operation};

/// Blocks from here on have their home in the NI.
const NI_HOME: u64 = 1 << 50;

/// A range of blocks of which somebody wants to hear when their copies become void.
pub struct Watch {
    blocks: core::ops::Range<u64>,
    by: Agent,
    /// Blocks that were written, in order.
    pub seen: RefCell<VecDeque<Block>>,
    /// Given for each.
    pub signal: Signal,
}

/// Blocks from here on, and below those of the NI, are queues in main memory between processor and
/// NI: above what programs use.
pub const QUEUES: u64 = 1 << 43;

/// One node.
pub struct Node {
    /// Its number.
    pub id: usize,
    /// Virtual time.
    pub engine: Rc<Engine>,
    /// The machine.
    pub parameters: Rc<Parameters>,
    /// The memory bus.
    pub bus: Bus,
    /// Main memory: its banks, block by block in turn.
    memory: Box<[Port]>,
    /// The NI's memory, from the bus; from the network it has a port of its own.
    pub ni_port: Port,
    /// Access time of the NI's memory.
    pub ni_memory: Cell<Time>,
    /// The caches on the bus, by agent.
    caches: [OnceCell<Cache>; 3],
    /// Flow control of its NI.
    pub flow: Flow,
    /// Given when a look at a queue or a send that was in vain may succeed now.
    pub queue_activity: Signal,
    /// Of an address, the bits that lie within a block.
    block_shift: u32,
    /// Whether the NI uses the bus by itself.
    shares_bus: Cell<bool>,
    /// How far the processor is ahead of virtual time.
    ahead: Cell<Time>,
    watches: RefCell<Vec<Rc<Watch>>>,
}

impl Node {
    /// A node with cold caches.
    pub fn new(id: usize, engine: Rc<Engine>, parameters: Rc<Parameters>) -> Self {
        let sets = (parameters.cache_bytes / parameters.block_bytes) as usize / parameters.cache_ways;
        Self {
            id,
            bus: Bus::new(&parameters),
            memory: (0..parameters.memory_banks).map(|_| Port::default()).collect(),
            ni_port: Port::default(),
            ni_memory: Cell::new(parameters.ni_memory),
            caches: [Cache::new(sets, parameters.cache_ways).into(), OnceCell::new(), OnceCell::new()],
            block_shift: parameters.block_bytes.trailing_zeros(),
            flow: Flow::new(id, parameters.buffers),
            queue_activity: Signal::default(),
            shares_bus: Cell::default(),
            ahead: Cell::default(),
            watches: RefCell::default(),
            engine,
            parameters,
        }
    }

    /// The first block of those whose home is the NI.
    pub const fn ni_home() -> Block {
        Block(NI_HOME)
    }

    /// From now on the NI may use the bus at any time, not only while its processor waits for it.
    pub fn share_bus(&self) {
        self.shares_bus.set(true);
    }

    /// Drops a block whose content nobody will read from a cache, without writing it back.
    pub fn forget(&self, agent: Agent, block: Block) {
        if let Some(cache) = self.cache(agent) {
            cache.take(block);
        }
    }

    /// Makes the processor's cache hold a block, as if a program had just written it; nothing is
    /// charged.
    pub fn preload(&self, block: Block) {
        if let Some(cache) = self.cache(Agent::Processor) {
            cache.put(block, State::Modified, self.engine.now());
        }
    }

    /// Gives an agent of the NI a cache of so many blocks, direct-mapped.
    ///
    /// # Panics
    /// If it has one.
    pub fn add_cache(&self, agent: Agent, blocks: usize) {
        assert!(self.caches[agent as usize].set(Cache::new(blocks, 1)).is_ok(), "an agent has one cache");
    }

    /// The cache of an agent, if it has one.
    fn cache(&self, agent: Agent) -> Option<&Cache> {
        self.caches[agent as usize].get()
    }

    /// The block of an address.
    fn block_of(&self, address: u64) -> Block {
        Block(address >> self.block_shift)
    }

    /// The bank of main memory that a block lies in.
    pub fn bank(&self, block: Block) -> &Port {
        &self.memory[(block.0 % self.parameters.memory_banks as u64) as usize]
    }

    fn is_ni_home(&self, block: Block) -> bool {
        block.0 >= NI_HOME
    }

    /// Watches `blocks` for being written by `by`.
    pub fn watch_blocks(&self, blocks: core::ops::Range<u64>, by: Agent) -> Rc<Watch> {
        let watch = Rc::new(Watch { blocks, by, seen: RefCell::default(), signal: Signal::default() });
        self.watches.borrow_mut().push(watch.clone());
        watch
    }

    fn watch(&self, operation: Operation, agent: Agent, block: Block, at: Time) {
        if matches!(operation, Operation::Read | Operation::ReadOnce) {
            return;
        }
        for watch in self.watches.borrow().iter().filter(|watch| watch.by == agent && watch.blocks.contains(&block.0)) {
            let (watch, engine) = (watch.clone(), self.engine.clone());
            self.engine.at(at, move || {
                watch.seen.borrow_mut().push_back(block);
                watch.signal.give(&engine);
            });
        }
    }
}
