// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that arrive go to a queue in main memory, block by block, as CNI0Qm and the Memory
//! Channel do it: the NI caches nothing.

use super::Work;
use super::queue::{Deposit, ReceiveQueue};
use crate::node::coherence::{Agent, Operation};
use crate::time::Time;

/// By write-invalidate.
pub struct ToMemory;

impl Deposit for ToMemory {
    fn put<'a>(&'a self, queue: &'a ReceiveQueue, position: u64) -> Work<'a, Time> {
        Box::pin(async move { queue.node.coherent(Agent::NiReceive, Operation::WriteInvalidate, queue.ring.block(position)) })
    }
}
