// SPDX-License-Identifier: MIT OR Apache-2.0
//! CNI0Qm, as in the MIT StarT-JR: queues to send and to receive lie in main memory, and the NI
//! moves messages between them and the network. It polls the next message's valid bit with reads
//! that keep no copy, and takes no note of what else happens on the bus.

use std::rc::Rc;

use super::memory_receive::ToMemory;
use super::queue::{IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue, SendQueue};
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::coherence::{Agent, Operation};
use crate::node::cpu::Cpu;
use crate::time::Time;

/// The design.
pub const DESIGN: Design = Design { name: "startjr", like: "MIT StarT-JR", make };

struct StartJr {
    node: Rc<Node>,
    send: Rc<SendQueue>,
    receive: Rc<ReceiveQueue>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
    let send = Rc::new(SendQueue::new(node, IN_MEMORY));
    let (task, of, network) = (send.clone(), node.clone(), network.clone());
    node.engine.spawn(false, async move { poll(&task, &of, &network).await });
    Rc::new(StartJr { node: node.clone(), send, receive: ReceiveQueue::new(node, IN_MEMORY, MEMORY_BLOCKS, ToMemory) })
}

/// The NI's look at the queue's head, over and over. Looks that find nothing change nothing, so
/// only their rhythm is kept; the bus transactions of them are left out.
async fn poll(queue: &SendQueue, node: &Rc<Node>, network: &Rc<Network>) {
    let (engine, mut position, mut period) = (&node.engine, 0, Time::from_ns(1));
    loop {
        let (idle_since, seen) = (engine.now(), queue.valid.count());
        let Some((start, blocks)) = queue.first_valid() else {
            queue.valid.past(engine, seen).await;
            // The look that was under way saw the bit as it was.
            engine.sleep_until(idle_since + (engine.now() - idle_since).align(period)).await;
            continue;
        };
        debug_assert_eq!(start, position, "the queue is read in order");
        for index in 0..blocks {
            let asked = engine.now();
            engine.sleep_until(node.coherent(Agent::NiSend, Operation::ReadOnce, queue.ring.block(start + index))).await;
            if index == 0 {
                period = engine.now() - asked;
            }
        }
        position = start + blocks;
        queue.launch(network).await;
    }
}

impl NetworkInterface for StartJr {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(self.send.compose(cpu, message))
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.node.queue_activity
    }
}
