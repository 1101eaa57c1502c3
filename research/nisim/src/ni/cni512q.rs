// SPDX-License-Identifier: MIT OR Apache-2.0
//! CNI512Q, the Wisconsin CNI without cache: both queues have their home in the NI's memory, 512
//! blocks each, large and therefore slow. An arriving message is in its place with the write into
//! that memory; the processor's old copy is made void, and its next look fetches the block from the
//! NI.

use std::rc::Rc;

use super::queue::{BLOCKS, Deposit, ReceiveQueue, SendQueue};
use super::{Design, NetworkInterface, Work, watching_send};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::coherence::{Agent, Operation};
use crate::node::cpu::Cpu;
use crate::time::Time;

/// The design.
pub const DESIGN: Design = Design { name: "cni512q", like: "Wisconsin CNI without cache", make };

struct Cni512q {
    send: Rc<SendQueue>,
    receive: Rc<ReceiveQueue>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
    node.ni_memory.set(node.parameters.ni_memory_large);
    let send = Rc::new(SendQueue::new(node, Node::ni_home()));
    watching_send::spawn(node, network, &send);
    Rc::new(Cni512q { send, receive: ReceiveQueue::new(node, Node::ni_home(), BLOCKS, InPlace) })
}

struct InPlace;

impl Deposit for InPlace {
    fn put<'a>(&'a self, queue: &'a ReceiveQueue, position: u64) -> Work<'a, Time> {
        Box::pin(async move { queue.node.coherent(Agent::NiReceive, Operation::Upgrade, queue.ring.block(position)) })
    }
}

impl NetworkInterface for Cni512q {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(self.send.compose(cpu, message))
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.receive.node.queue_activity
    }
}
