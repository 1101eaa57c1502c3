// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine of the paper's Table 3 and section 5, in one place.

use super::Costs;
use crate::time::Time;

/// Blocks of the caches of all nodes together, at most: the simulator keeps a few words for each.
const LINES_MAX: u64 = 1 << 24;

/// A machine. The default is that of the paper.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Nodes of the parallel machine.
    pub nodes: usize,
    /// One cycle of the processor.
    pub cycle: Time,
    /// Instructions issued in a cycle.
    pub issue: u64,
    /// Bytes of a cache block.
    pub block_bytes: u64,
    /// Bytes of the processor's cache.
    pub cache_bytes: u64,
    /// Blocks in a set of the cache: 1 is direct-mapped.
    pub cache_ways: usize,
    /// Access time of main memory; a bank is busy as long.
    pub memory: Time,
    /// Banks of main memory, among which blocks are dealt out in turn.
    pub memory_banks: usize,
    /// Access time of the NI's memory.
    pub ni_memory: Time,
    /// Access time of the NI's memory where that is large and therefore made of DRAM (CNI512Q).
    pub ni_memory_large: Time,
    /// One cycle of the memory bus.
    pub bus_cycle: Time,
    /// Bytes that the bus carries in a cycle.
    pub bus_bytes: u64,
    /// From the last byte into the network to the first byte out of it.
    pub network: Time,
    /// Across PCIe, one way, between a device and the bus of its node.
    pub pcie: Time,
    /// Across CXL, one way.
    pub cxl: Time,
    /// A block from the cache of one core to that of another.
    pub core: Time,
    /// The greatest message of the network, header included, in bytes.
    pub message_bytes: u64,
    /// Header of a message in bytes.
    pub header_bytes: u64,
    /// Flow-control buffers for outgoing, and again for incoming messages; none is infinitely many.
    pub buffers: Option<u32>,
    /// What the paper leaves open.
    pub costs: Costs,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            nodes: 16,
            cycle: Time::from_ns(1),
            issue: 2,
            block_bytes: 64,
            cache_bytes: 1 << 20,
            cache_ways: 1,
            memory: Time::from_ns(120),
            memory_banks: 1,
            ni_memory: Time::from_ns(60),
            ni_memory_large: Time::from_ns(120),
            bus_cycle: Time::from_ns(4),
            bus_bytes: 32,
            network: Time::from_ns(40),
            pcie: Time::from_ns(198),
            cxl: Time::from_ns(40),
            core: Time::from_ns(51),
            message_bytes: 256,
            header_bytes: 8,
            buffers: Some(8),
            costs: Costs::default(),
        }
    }
}

impl Parameters {
    /// A server of today, for today's designs: 3 GHz and four instructions a cycle, a cache of 2
    /// MiB, DRAM at 90 ns in eight banks, blocks of 64 bytes over an interconnect of 2 GHz, a
    /// network of one switch. Costs in cycles are those of the paper's machine.
    pub fn today() -> Self {
        Self {
            cycle: Time(333),
            issue: 4,
            cache_bytes: 2 << 20,
            cache_ways: 16,
            memory: Time::from_ns(90),
            memory_banks: 8,
            ni_memory: Time::from_ns(20),
            ni_memory_large: Time::from_ns(90),
            bus_cycle: Time(500),
            bus_bytes: 64,
            network: Time::from_ns(150),
            costs: Costs { injection_bytes_per_ns: 25, ..Costs::default() },
            ..Self::default()
        }
    }

    /// The most payload that one network message carries.
    pub fn payload_max(&self) -> usize {
        (self.message_bytes - self.header_bytes) as usize
    }

    /// Blocks that a message of so many bytes of payload fills, with its header.
    pub fn blocks(&self, payload: usize) -> u64 {
        (payload as u64 + self.header_bytes).div_ceil(self.block_bytes)
    }

    /// Words of eight bytes that lie in block `index` of a message of so many bytes of payload,
    /// header included.
    pub fn words_in(&self, payload: usize, index: u64) -> u64 {
        (payload as u64 + self.header_bytes - index * self.block_bytes).min(self.block_bytes).div_ceil(8)
    }

    /// Whether such a machine can be built.
    ///
    /// # Errors
    /// The first thing that is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(what.to_owned());
        if !(2..=1024).contains(&self.nodes) {
            return wrong("nodes must be 2 to 1024");
        }
        if self.cycle == Time::ZERO || self.bus_cycle == Time::ZERO || self.issue == 0 {
            return wrong("the cycles of processor and bus, and the issue width, must not be zero");
        }
        if !self.block_bytes.is_power_of_two() || !(16..=4096).contains(&self.block_bytes) {
            return wrong("block_bytes must be a power of two from 16 to 4096");
        }
        if self.cache_ways == 0 || !self.cache_bytes.is_power_of_two() || !(self.block_bytes..=1 << 30).contains(&self.cache_bytes) {
            return wrong("cache_bytes must be a power of two, at least a block and at most 1 GiB, and cache_ways at least 1");
        }
        if !(1..=1024).contains(&self.memory_banks) {
            return wrong("memory_banks must be 1 to 1024");
        }
        let lines = self.cache_bytes / self.block_bytes;
        if lines * self.nodes as u64 > LINES_MAX {
            return wrong("the cache_bytes of all nodes together must be at most 16777216 blocks");
        }
        if !lines.is_multiple_of(self.cache_ways as u64) || !(lines / self.cache_ways as u64).is_power_of_two() {
            return wrong("cache_ways must divide the blocks of the cache into a power of two of sets");
        }
        if self.bus_bytes < 8 || self.header_bytes < 8 || self.message_bytes < self.header_bytes + 8 || self.message_bytes > 1 << 16 {
            return wrong("bus_bytes and header_bytes must be at least 8, and message_bytes at least 8 more than the header and at most 65536");
        }
        if self.buffers == Some(0) {
            return wrong("there must be at least one flow-control buffer");
        }
        self.costs.check()
    }
}
