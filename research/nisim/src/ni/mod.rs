// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces: one file each. A design is what the processor does to send and to receive
//! (the two methods), and what the NI does by itself (tasks that its constructor spawns).

mod ap3000;
mod blueflame;
mod cni32qm;
mod cni512q;
mod cxl;
mod ddio;
mod link;
mod memory_channel;
mod memory_receive;
mod ni2w;
mod pcie;
mod queue;
mod shared_queue;
mod startjr;
mod udma;
mod watching_send;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::engine::Signal;
use crate::network::{Flow, Message, Network};
use crate::node::Node;
use crate::node::cpu::Cpu;
pub use queue::MEMORY_BLOCKS;

/// What a method of an NI gives.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A network interface, as the processor of its node uses it.
pub trait NetworkInterface {
    /// Sends a message of the network, or gives it back if there is no room; what the processor
    /// does for it is charged.
    fn send<'a>(&'a self, cpu: &'a Cpu, message: Message) -> Work<'a, Result<(), Message>>;

    /// Looks for a message once and takes it if there is one; what the processor does for it is
    /// charged.
    fn receive<'a>(&'a self, cpu: &'a Cpu) -> Work<'a, Option<Message>>;

    /// Given whenever a look or a send that failed may succeed now.
    fn activity(&self) -> &Signal;

    /// The flow-control buffers, if the look for room shows at no further cost that a message waits
    /// in them which only the processor can take out: one status word of a FIFO says both. NIs that
    /// buffer by themselves need no such help.
    fn fifo(&self) -> Option<&Flow> {
        None
    }
}

/// A row of the paper's Table 2 or an NI of today, and how to make one.
#[derive(Clone, Copy)]
pub struct Design {
    /// Its name in commands and plans.
    pub name: &'static str,
    /// What it is like.
    pub like: &'static str,
    /// Makes the NI of a node.
    pub make: fn(&Rc<Node>, &Rc<Network>) -> Rc<dyn NetworkInterface>,
}

/// All designs.
pub const DESIGNS: &[Design] = &[
    ni2w::DESIGN,
    ni2w::SINGLE_CYCLE,
    udma::DESIGN,
    udma::ALWAYS,
    ap3000::DESIGN,
    startjr::DESIGN,
    memory_channel::DESIGN,
    cni512q::DESIGN,
    cni32qm::DESIGN,
    cni32qm::THROTTLE,
    pcie::DESIGN,
    blueflame::DESIGN,
    ddio::DESIGN,
    cxl::DESIGN,
    shared_queue::DESIGN,
];

/// Those of today: names, in the order of their figure.
pub const TODAY: [&str; 5] = ["pcie", "blueflame", "ddio", "cxl", "shared-queue"];

/// The design of a name.
pub fn find(name: &str) -> Option<&'static Design> {
    DESIGNS.iter().find(|design| design.name == name)
}
