// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs that the paper leaves open: one value for the whole machine each, none for a single
//! design, each with its reason. Most are what `experiment/fit.rs` finds on the 8- and 64-byte
//! round trips of all designs at once, from a first guess; a test sees that they are. The others
//! are not fitted to anything.

use crate::time::Time;

/// The open costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Processor cycles of sending one network message, beside its accesses: call, header, choice
    /// of the path.
    pub send_cycles: u64,
    /// Processor cycles of receiving one network message, beside its accesses: dispatch, call of
    /// the handler, return.
    pub receive_cycles: u64,
    /// Processor cycles of a look for a message, beside its accesses.
    pub poll_cycles: u64,
    /// Processor cycles between two looks for messages of a program that computes while others may
    /// want something of its node.
    pub poll_interval: u64,
    /// Processor cycles of copying eight bytes between a user's buffer in the cache and where the
    /// NI's access takes or leaves them: two loads, two stores, the loop.
    pub copy_cycles: u64,
    /// Processor cycles of flushing or loading a block buffer: given by the paper, section 6.1.1.
    pub block_buffer_cycles: u64,
    /// Bus cycles from a request to its grant: through the processor's bus interface, arbitration,
    /// grant.
    pub arbitration: u64,
    /// Bus cycles of an address phase.
    pub address: u64,
    /// Bus cycles from the address to the snoop's result.
    pub snoop: u64,
    /// Bus cycles of arbitration for the data bus and of taking the data in.
    pub data_arbitration: u64,
    /// Idle bus cycles between two owners of the data bus.
    pub turnaround: u64,
    /// From the snoop's result until a processor's cache has the block ready.
    pub cache_supply: Time,
    /// Handing the bus from the processor to an NI that is to master it, or back. The paper names
    /// this cost of UDMA, not its size. It is in the fit like the others; but only UDMA pays it, so
    /// its two fitted round trips say little of UDMA.
    pub master_switch: Time,
    /// Bytes that an NI injects into the network in a nanosecond: the bandwidth of the bus, so that
    /// the network is not the bottleneck.
    pub injection_bytes_per_ns: u64,
    /// Between the return of a message to its sender and the next try: one more network latency, so
    /// that the receiver has time to drain.
    pub retry: Time,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            send_cycles: 75,
            receive_cycles: 60,
            poll_cycles: 15,
            poll_interval: 2000,
            copy_cycles: 4,
            block_buffer_cycles: 12,
            arbitration: 4,
            address: 1,
            snoop: 2,
            data_arbitration: 3,
            turnaround: 1,
            cache_supply: Time::from_ns(25),
            master_switch: Time::from_ns(65),
            injection_bytes_per_ns: 8,
            retry: Time::from_ns(40),
        }
    }
}

impl Costs {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.address == 0 || self.injection_bytes_per_ns == 0 {
            return Err("an address phase takes at least one bus cycle, and the network carries at least a byte in a nanosecond".into());
        }
        Ok(())
    }
}
