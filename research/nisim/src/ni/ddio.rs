// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC on PCIe with direct cache injection: arriving messages go into the processor's cache
//! instead of main memory, as with Intel's Data Direct I/O (Intel's pages on DDIO: the cache is the
//! first destination and source of I/O). It sends as `pcie.rs` does; its reads find the message in
//! the cache in either case.

use std::rc::Rc;

use super::pcie::Pcie;
use super::queue::{Deposit, ReceiveQueue};
use super::{Design, Work};
use crate::node::coherence::{Agent, Operation};
use crate::time::Time;

/// The design.
pub const DESIGN: Design =
    Design { name: "ddio", like: "PCIe NIC with direct cache injection", make: |node, network| Rc::new(Pcie::new(node, network, ToCache)) };

/// Messages that arrive go into the processor's cache.
pub struct ToCache;

impl Deposit for ToCache {
    fn put<'a>(&'a self, queue: &'a ReceiveQueue, position: u64) -> Work<'a, Time> {
        Box::pin(async move { queue.node.coherent(Agent::NiReceive, Operation::Inject, queue.ring.block(position)) })
    }
}
