// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending through a link between NI and bus, for NIs that fetch messages by themselves: PCIe and
//! CXL. Many fetches are under way at once, so a message's latencies are added up and waited for
//! once, and only the reads on the bus take their turns.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::queue::SendQueue;
use crate::engine::Signal;
use crate::network::Network;
use crate::node::Node;
use crate::node::coherence::{Agent, Operation};
use crate::time::Time;

/// What the NI was told, and when it has reached the bus for it.
pub struct Fetch {
    node: Rc<Node>,
    due: RefCell<VecDeque<Time>>,
    told: Signal,
    latency: Time,
}

impl Fetch {
    /// The NI's task for a queue. It has a message `latency` after it was told of it, beside the
    /// reads on the bus: of a descriptor if there is one, and of the message's blocks.
    pub fn new(network: &Rc<Network>, queue: &Rc<SendQueue>, node: &Rc<Node>, latency: Time, has_descriptor: bool) -> Rc<Self> {
        let fetch = Rc::new(Self { node: node.clone(), due: RefCell::default(), told: Signal::default(), latency });
        let (task, queue, network) = (fetch.clone(), queue.clone(), network.clone());
        node.engine.spawn(false, async move { task.run(&queue, &network, has_descriptor).await });
        fetch
    }

    /// Tells the NI of one more message in the queue.
    pub fn tell(&self) {
        self.due.borrow_mut().push_back(self.node.engine.now() + self.latency);
        self.told.give(&self.node.engine);
    }

    async fn run(&self, queue: &SendQueue, network: &Rc<Network>, has_descriptor: bool) {
        let engine = &self.node.engine;
        loop {
            let seen = self.told.count();
            let Some(due) = self.due.borrow_mut().pop_front() else {
                self.told.past(engine, seen).await;
                continue;
            };
            engine.sleep_until(due).await;
            let Some((start, blocks)) = queue.first_valid() else { continue };
            let descriptor = has_descriptor.then(|| queue.descriptor(start));
            let reads = descriptor.into_iter().chain((0..blocks).map(|index| queue.ring.block(start + index)));
            let done = reads.map(|block| self.node.coherent(Agent::NiSend, Operation::ReadOnce, block)).max();
            engine.sleep_until(done.unwrap_or_default()).await;
            queue.launch(network).await;
        }
    }
}
