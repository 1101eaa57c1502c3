// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cachable queues between processor and NI: rings of blocks with the paper's three optimizations.
//! Lazy pointers: each side reads the other's pointer only when its copy says that the queue is
//! full. Valid bits: a message's first word, written last, says that it is there. Sense reverse:
//! what counts as valid changes with each lap, so nobody clears a bit. The coherent NIs use them;
//! whose memory and cache the blocks lie in is theirs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::Work;
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::cache::Block;
use crate::node::coherence::{Agent, Operation};
use crate::node::cpu::Cpu;
use crate::node::{Node, QUEUES};
use crate::time::Time;

/// Blocks of a queue, as CNI512Q has them; a queue in main memory to receive into is
/// [`MEMORY_BLOCKS`] long.
pub const BLOCKS: u64 = 512;
/// Blocks of a queue in main memory to receive into: 64 KiB, plentiful for sixteen nodes.
pub const MEMORY_BLOCKS: u64 = 1024;
/// Where the descriptors of a queue to send begin, behind its first block.
const DESCRIPTORS: u64 = 2 * MEMORY_BLOCKS;
/// Where queues in main memory begin.
pub const IN_MEMORY: Block = Block(QUEUES);

/// A ring of blocks.
pub struct Ring {
    /// Its first block.
    pub first: u64,
    /// How many.
    pub blocks: u64,
}

impl Ring {
    /// The block of a position that only ever rises.
    pub fn block(&self, position: u64) -> Block {
        Block(self.first + position % self.blocks)
    }
}

/// The queue of what leaves.
pub struct SendQueue {
    /// Its blocks.
    pub ring: Ring,
    node: Rc<Node>,
    tail: Cell<u64>,
    head: Cell<u64>,
    head_known: Cell<u64>,
    /// Valid messages, the first with its position.
    posted: RefCell<VecDeque<(u64, Message)>>,
    /// Given when a message has become valid.
    pub valid: Signal,
}

impl SendQueue {
    /// An empty queue at `base`.
    pub fn new(node: &Rc<Node>, base: Block) -> Self {
        let (tail, head, head_known) = Default::default();
        let ring = Ring { first: base.0, blocks: BLOCKS };
        node.share_bus();
        Self { ring, node: node.clone(), tail, head, head_known, posted: RefCell::default(), valid: Signal::default() }
    }

    fn is_full(&self, blocks: u64) -> bool {
        self.tail.get() + blocks - self.head_known.get() > self.ring.blocks
    }

    /// The processor composes a message in its cache, block by block, and sets the valid bit last.
    pub async fn compose(&self, cpu: &Cpu, message: Message) -> Result<(), Message> {
        let parameters = &self.node.parameters;
        let blocks = parameters.blocks(message.payload.len());
        if self.is_full(blocks) {
            // The NI's pointer is a register of the NI.
            cpu.status().await;
            self.head_known.set(self.head.get());
            if self.is_full(blocks) {
                return Err(message);
            }
        }
        let start = self.tail.replace(self.tail.get() + blocks);
        for index in 0..blocks {
            cpu.sync().await;
            cpu.store(self.ring.block(start + index).0 * parameters.block_bytes).await;
            cpu.compute(parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
        }
        // Others see the bit when it is set, not earlier: composing the message must have taken its
        // time before.
        cpu.sync().await;
        cpu.store(self.ring.block(start).0 * parameters.block_bytes).await;
        cpu.sync().await;
        self.posted.borrow_mut().push_back((start, message));
        self.valid.give(&self.node.engine);
        Ok(())
    }

    /// The processor writes the next message's descriptor, a quarter of a block.
    pub async fn describe(&self, cpu: &Cpu) {
        cpu.sync().await;
        cpu.store_range(self.descriptor(self.tail.get()).0 * self.node.parameters.block_bytes, 16).await;
    }

    /// The block with the descriptor of the message at a position.
    pub fn descriptor(&self, position: u64) -> Block {
        Block(self.ring.first + DESCRIPTORS + position % self.ring.blocks / 4)
    }

    /// The position of the oldest valid message.
    pub fn first_valid(&self) -> Option<(u64, u64)> {
        self.posted.borrow().front().map(|(start, message)| (*start, self.node.parameters.blocks(message.payload.len())))
    }

    /// The NI has read the oldest message: it goes as soon as flow control lets it.
    pub async fn launch(&self, network: &Rc<Network>) {
        loop {
            let seen = self.node.flow.activity.count();
            if self.node.flow.has_room() {
                break;
            }
            self.node.flow.activity.past(&self.node.engine, seen).await;
        }
        let posted = self.posted.borrow_mut().pop_front();
        if let Some((start, message)) = posted {
            self.node.flow.reserve();
            self.head.set(start + self.node.parameters.blocks(message.payload.len()));
            network.launch(message);
            self.node.queue_activity.give(&self.node.engine);
            // Meanwhile the NI reads the message out of its memory, and does nothing else.
            self.node.engine.sleep_until(self.node.engine.now() + self.node.ni_memory.get()).await;
        }
    }
}

/// How an NI puts a block of a message where the processor finds it: when it is there. Others'
/// copies are void when it returns.
pub trait Deposit {
    /// Puts the block at `position`.
    fn put<'a>(&'a self, queue: &'a ReceiveQueue, position: u64) -> Work<'a, Time>;
}

/// The queue of what arrives.
pub struct ReceiveQueue {
    /// Its blocks.
    pub ring: Ring,
    /// The node.
    pub node: Rc<Node>,
    pointer: Block,
    tail: Cell<u64>,
    head: Cell<u64>,
    head_known: Cell<u64>,
    visible: RefCell<VecDeque<(u64, Message)>>,
    /// From the arrival of a message in the NI until the NI reaches the bus with it.
    link: Time,
    consumed: Signal,
}

impl ReceiveQueue {
    /// An empty queue at `base`, `blocks` long, and the task of the NI that fills it.
    pub fn new(node: &Rc<Node>, base: Block, blocks: u64, deposit: impl Deposit + 'static) -> Rc<Self> {
        Self::behind(node, base, blocks, deposit, Time::ZERO)
    }

    /// The same of an NI behind a link, which carries what arrives in `link` to the bus, one
    /// message behind the other.
    pub fn behind(node: &Rc<Node>, base: Block, blocks: u64, deposit: impl Deposit + 'static, link: Time) -> Rc<Self> {
        let (tail, head, head_known) = Default::default();
        let ring = Ring { first: base.0 + MEMORY_BLOCKS, blocks };
        let pointer = Block(base.0 + BLOCKS);
        node.share_bus();
        let queue = Self { ring, node: node.clone(), pointer, tail, head, head_known, visible: RefCell::default(), link, consumed: Signal::default() };
        let queue = Rc::new(queue);
        // The user of the queue has cleared its valid bits, so the processor's cache has its
        // blocks.
        (0..blocks).for_each(|position| node.preload(queue.ring.block(position)));
        let task = queue.clone();
        node.engine.spawn(false, async move { task.fill(&deposit).await });
        queue
    }

    /// Blocks from the processor's pointer, as far as the NI knows it, to `position`.
    pub fn ahead_known(&self, position: u64) -> u64 {
        position - self.head_known.get()
    }

    /// The processor's pointer as the NI knows it.
    pub fn head_known(&self) -> u64 {
        self.head_known.get()
    }

    /// The NI reads the processor's pointer, which lies in the processor's cache.
    pub async fn read_head(&self) {
        self.node.engine.sleep_until(self.node.coherent(Agent::NiReceive, Operation::ReadOnce, self.pointer)).await;
        self.head_known.set(self.head.get());
    }

    async fn fill(&self, deposit: &dyn Deposit) {
        let (node, engine) = (&self.node, &self.node.engine);
        loop {
            let seen = node.flow.activity.count();
            let Some(blocks) = node.flow.peek(|message| node.parameters.blocks(message.payload.len())) else {
                node.flow.activity.past(engine, seen).await;
                // Perhaps there is room to send again.
                node.queue_activity.give(engine);
                continue;
            };
            engine.sleep_until(node.flow.arrived_at() + self.link).await;
            self.room(blocks).await;
            let start = self.tail.replace(self.tail.get() + blocks);
            // The first block last: it has the valid bit.
            for index in (0..blocks).rev() {
                let there = deposit.put(self, start + index).await;
                if index == 0 {
                    let message = node.flow.peek(Message::clone);
                    self.visible.borrow_mut().extend(message.map(|message| (start, message)));
                    node.queue_activity.give(engine);
                }
                engine.sleep_until(there).await;
            }
            node.flow.take();
        }
    }

    async fn room(&self, blocks: u64) {
        while self.ahead_known(self.tail.get()) + blocks > self.ring.blocks {
            let seen = self.consumed.count();
            self.read_head().await;
            if self.ahead_known(self.tail.get()) + blocks > self.ring.blocks {
                self.consumed.past(&self.node.engine, seen).await;
            }
        }
    }

    /// The processor looks at the valid bit, in its cache as long as nobody has written there, and
    /// copies the message out.
    pub async fn receive(&self, cpu: &Cpu) -> Option<Message> {
        let parameters = &self.node.parameters;
        cpu.sync().await;
        cpu.load(self.ring.block(self.head.get()).0 * parameters.block_bytes).await;
        cpu.sync().await;
        let (start, message) = self.visible.borrow_mut().pop_front()?;
        debug_assert_eq!(start, self.head.get(), "the queue is read in order");
        let blocks = parameters.blocks(message.payload.len());
        for index in 0..blocks {
            cpu.load(self.ring.block(start + index).0 * parameters.block_bytes).await;
            cpu.compute(parameters.words_in(message.payload.len(), index) * parameters.costs.copy_cycles);
        }
        cpu.sync().await;
        cpu.store(self.pointer.0 * parameters.block_bytes).await;
        cpu.sync().await;
        self.head.set(start + blocks);
        self.consumed.give(&self.node.engine);
        Some(message)
    }
}
