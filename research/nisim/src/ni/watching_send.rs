// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the Wisconsin CNIs take messages out of their send queue. The NI takes copies of the
//! processor's blocks, so the processor must ask for the right to write a block when it composes
//! the next message there; the NI sees that on the bus. The first block asked for, it looks for the
//! valid bit (virtual polling: no look without a reason); another one, it fetches the block before,
//! which must be complete (prefetch). What was written after it was fetched is fetched again.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::queue::SendQueue;
use crate::network::Network;
use crate::node::cache::Block;
use crate::node::coherence::{Agent, Operation};
use crate::node::{Node, Watch};

/// Spawns the NI's task for a queue.
pub fn spawn(node: &Rc<Node>, network: &Rc<Network>, queue: &Rc<SendQueue>) {
    let watch = node.watch_blocks(queue.ring.first..queue.ring.first + queue.ring.blocks, Agent::Processor);
    let task = Sender { node: node.clone(), network: network.clone(), queue: queue.clone(), watch, fetched: BTreeSet::new(), next: 0 };
    node.engine.spawn(false, task.run());
}

struct Sender {
    node: Rc<Node>,
    network: Rc<Network>,
    queue: Rc<SendQueue>,
    watch: Rc<Watch>,
    fetched: BTreeSet<u64>,
    /// Position of the next message.
    next: u64,
}

impl Sender {
    async fn run(mut self) {
        loop {
            let seen = self.watch.signal.count();
            let Some(block) = self.written() else {
                self.watch.signal.past(&self.node.engine, seen).await;
                continue;
            };
            let first = self.queue.ring.block(self.next);
            if block == first {
                // Time to fill the block: an earlier look would see a message half composed, and
                // take the right to write from the processor.
                let (engine, parameters) = (&self.node.engine, &self.node.parameters);
                let words = parameters.block_bytes / 8;
                engine.sleep_until(engine.now() + parameters.cycle * (words * parameters.costs.copy_cycles)).await;
                self.fetch(block).await;
            } else {
                let before = (block.0 + self.queue.ring.blocks - 1 - self.queue.ring.first) % self.queue.ring.blocks;
                self.fetch(Block(self.queue.ring.first + before)).await;
            }
            self.launch().await;
        }
    }

    /// The next block that the processor asked for; the copy fetched before is stale.
    fn written(&mut self) -> Option<Block> {
        let block = self.watch.seen.borrow_mut().pop_front()?;
        self.fetched.remove(&block.0);
        Some(block)
    }

    async fn fetch(&mut self, block: Block) {
        if self.fetched.insert(block.0) {
            let done = self.node.coherent(Agent::NiSend, Operation::Read, block);
            self.node.engine.sleep_until(done).await;
        }
    }

    /// Sends the messages that the blocks fetched show to be valid.
    async fn launch(&mut self) {
        let mut asked = BTreeSet::new();
        loop {
            while let Some((start, blocks)) = self.queue.first_valid() {
                self.stale(&mut asked);
                for index in 0..blocks {
                    self.fetch(self.queue.ring.block(start + index)).await;
                }
                self.queue.launch(&self.network).await;
                for index in 0..blocks {
                    self.fetched.remove(&self.queue.ring.block(start + index).0);
                }
                self.next = start + blocks;
            }
            // The next message's first block may have been asked for meanwhile: without a copy of
            // it, its valid bit would be set unseen.
            self.stale(&mut asked);
            let first = self.queue.ring.block(self.next);
            if !asked.remove(&first.0) {
                return;
            }
            self.fetch(first).await;
        }
    }

    /// Notes which blocks the processor asked for; copies of them are stale.
    fn stale(&mut self, asked: &mut BTreeSet<u64>) {
        while let Some(block) = self.written() {
            asked.insert(block.0);
        }
    }
}
