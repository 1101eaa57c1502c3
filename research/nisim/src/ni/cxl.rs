// SPDX-License-Identifier: MIT OR Apache-2.0
//! A coherent NIC on CXL.cache: it caches the queue to send, so the processor's store of the valid
//! bit reaches it as a snoop, without a doorbell; then it reads the message. It pushes arriving
//! messages into the processor's cache. One way across CXL: the snoop, the read, its data.
//!
//! CXL.cache's messages are in the Compute Express Link specification; what a NIC makes of them
//! follows Ji et al., "Re-architecting End-host Networking with CXL: Coherence, Memory, and
//! Offloading" (MICRO 2025).

use std::rc::Rc;

use super::ddio::ToCache;
use super::link::Fetch;
use super::queue::{IN_MEMORY, MEMORY_BLOCKS, ReceiveQueue, SendQueue};
use super::{Design, NetworkInterface, Work};
use crate::engine::Signal;
use crate::network::{Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;

/// The design.
pub const DESIGN: Design = Design { name: "cxl", like: "coherent NIC over CXL.cache", make };

/// Crossings of CXL between the valid bit's store and the message in the NIC.
const CROSSINGS: u64 = 3;

struct Cxl {
    send: Rc<SendQueue>,
    fetch: Rc<Fetch>,
    receive: Rc<ReceiveQueue>,
}

fn make(node: &Rc<Node>, network: &Rc<Network>) -> Rc<dyn NetworkInterface> {
    let (send, cxl) = (Rc::new(SendQueue::new(node, IN_MEMORY)), node.parameters.cxl);
    let fetch = Fetch::new(network, &send, node, cxl * CROSSINGS, false);
    Rc::new(Cxl { send, fetch, receive: ReceiveQueue::behind(node, IN_MEMORY, MEMORY_BLOCKS, ToCache, cxl) })
}

impl NetworkInterface for Cxl {
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>> {
        Box::pin(async move {
            self.send.compose(cpu, message).await?;
            self.fetch.tell();
            Ok(())
        })
    }

    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>> {
        Box::pin(self.receive.receive(cpu))
    }

    fn activity(&self) -> &Signal {
        &self.receive.node.queue_activity
    }
}
