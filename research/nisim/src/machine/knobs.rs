// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every size, time and cost of a machine by name, with its unit and the reason for its usual
//! value: plans and `--set` may change these, and the report lists them. One row of the table each.

use super::Parameters;
use crate::time::Time;

/// What a knob's value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Cycles of the processor.
    Cycles,
    /// Cycles of the bus.
    BusCycles,
    /// Nanoseconds; fractions down to a picosecond.
    Nanoseconds,
    /// Bytes in a nanosecond.
    BytesPerNanosecond,
}

impl Unit {
    /// As it is written behind a number; empty for things.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "B",
            Self::Cycles => "cycles",
            Self::BusCycles => "bus cycles",
            Self::Nanoseconds => "ns",
            Self::BytesPerNanosecond => "B/ns",
        }
    }
}

/// Where a usual value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper's Table 3 or text.
    Paper,
    /// The paper leaves it open; fitted on the 8- and 64-byte round trips of all designs at once.
    Fitted,
    /// The paper leaves it open; chosen for the reason given.
    Chosen,
    /// Not of the paper's time: from the measurement that is named.
    Cited,
}

/// A size, time or cost.
pub struct Knob {
    /// Its name in plans.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Where its usual value comes from.
    pub source: Source,
    /// What it is, and why it has its usual value.
    pub reason: &'static str,
    get: fn(&Parameters) -> f64,
    set: fn(&mut Parameters, f64),
}

macro_rules! knob {
    (count $name:literal, $($field:ident).+, $unit:ident, $source:ident, $reason:literal) => {
        Knob {
            name: $name,
            unit: Unit::$unit,
            source: Source::$source,
            reason: $reason,
            get: |machine| machine.$($field).+ as f64,
            set: |machine, value| machine.$($field).+ = value as _,
        }
    };
    (time $name:literal, $($field:ident).+, $source:ident, $reason:literal) => {
        Knob {
            name: $name,
            unit: Unit::Nanoseconds,
            source: Source::$source,
            reason: $reason,
            get: |machine| machine.$($field).+.as_ns(),
            set: |machine, value| machine.$($field).+ = Time((value * 1e3).round() as u64),
        }
    };
}

/// All of them.
pub const KNOBS: &[Knob] = &[
    knob!(count "nodes", nodes, Count, Paper, "nodes of the parallel machine: Table 3"),
    knob!(time "cycle_ns", cycle, Paper, "a cycle of the processor, 1 GHz: Table 3"),
    knob!(count "issue", issue, Count, Paper, "instructions issued in a cycle: dual-issue, section 5.1.1"),
    knob!(count "block_bytes", block_bytes, Bytes, Paper, "a block of the cache: Table 3"),
    knob!(count "cache_bytes", cache_bytes, Bytes, Paper, "the processor's cache: Table 3"),
    knob!(count "cache_ways", cache_ways, Count, Paper, "blocks in a set: direct-mapped, Table 3"),
    knob!(time "memory_ns", memory, Paper, "access to main memory: Table 3"),
    knob!(count "memory_banks", memory_banks, Count, Chosen, "banks of main memory, each busy for an access: the paper speaks of one access time and of no interleaving"),
    knob!(time "ni_memory_ns", ni_memory, Paper, "access to the NI's memory: Table 3"),
    knob!(time "ni_memory_large_ns", ni_memory_large, Paper, "access to a large NI's memory, made of DRAM (CNI512Q): note of Table 3"),
    knob!(time "bus_cycle_ns", bus_cycle, Paper, "a cycle of the memory bus, 250 MHz: Table 3"),
    knob!(count "bus_bytes", bus_bytes, Bytes, Paper, "what the bus carries in a cycle, 256 bits: Table 3"),
    knob!(time "network_ns", network, Paper, "last byte in to first byte out: Table 3"),
    knob!(time "pcie_ns", pcie, Cited, "across PCIe, one way; derived: a 64-byte read of what the host has in a cache takes 426 ns (measured: LAT_CMD_RD, Xeon E5-2620 v3, in the published data of Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018, doi 10.1145/3230543.3230560), of which 30 are our bus and cache"),
    knob!(time "cxl_ns", cxl, Cited, "across CXL, one way; derived: half of the 70-90 ns that a read of directly attached CXL memory takes longer than one of local memory (estimated from measured ports by Li et al., Pond: CXL-Based Memory Pooling Systems for Cloud Platforms, ASPLOS 2023, doi 10.1145/3575693.3578835); devices that are sold add more"),
    knob!(time "core_ns", core, Cited, "a block from one core's cache to another's on a die: measured median of a Xeon Platinum 8375C (Viennot, core-to-core-latency, 2022, https://github.com/nviennot/core-to-core-latency)"),
    knob!(count "message_bytes", message_bytes, Bytes, Paper, "the greatest message of the network, header included: Table 3"),
    knob!(count "header_bytes", header_bytes, Bytes, Paper, "header of a message: Table 5"),
    Knob {
        name: "buffers",
        unit: Unit::Count,
        source: Source::Paper,
        reason: "flow-control buffers, outgoing and again incoming; inf for no limit: 8 in Table 5",
        get: |machine| machine.buffers.map_or(f64::INFINITY, f64::from),
        set: |machine, value| machine.buffers = value.is_finite().then_some(value as u32),
    },
    knob!(count "send_cycles", costs.send_cycles, Cycles, Fitted, "sending a network message beside its accesses: call, header, choice of the path; as much as looking for it and receiving it"),
    knob!(count "receive_cycles", costs.receive_cycles, Cycles, Fitted, "receiving a network message beside its accesses: dispatch, call of the handler, return"),
    knob!(count "poll_cycles", costs.poll_cycles, Cycles, Fitted, "a look for a message beside its accesses"),
    knob!(count "poll_interval_cycles", costs.poll_interval, Cycles, Chosen, "between two looks of a program of shared memory that computes: often enough that a request waits little longer than it travels, and so rarely that the dearest look, of 0.1 us, costs a twentieth"),
    knob!(count "copy_cycles", costs.copy_cycles, Cycles, Fitted, "copying eight bytes between the user's buffer and where the NI's access takes or leaves them: at least a load, a store and a share of the loop"),
    knob!(count "block_buffer_cycles", costs.block_buffer_cycles, Cycles, Paper, "flush or load of a block buffer: section 6.1.1"),
    knob!(count "arbitration_cycles", costs.arbitration, BusCycles, Fitted, "from a request to its grant: bus interface, arbitration, grant"),
    knob!(count "address_cycles", costs.address, BusCycles, Chosen, "address phase: one cycle on a split-transaction bus"),
    knob!(count "snoop_cycles", costs.snoop, BusCycles, Chosen, "from the address to the snoop's result: a tag look-up and the wired-or lines"),
    knob!(count "data_arbitration_cycles", costs.data_arbitration, BusCycles, Fitted, "arbitration for the data bus, and taking the data in"),
    knob!(count "turnaround_cycles", costs.turnaround, BusCycles, Chosen, "idle between two owners of the data bus: one cycle"),
    knob!(time "cache_supply_ns", costs.cache_supply, Fitted, "from the snoop's result until a processor's cache has the block ready"),
    knob!(time "master_switch_ns", costs.master_switch, Fitted, "handing the bus from the processor to an NI that masters it, or back: named in section 6.1.1 as a cost of UDMA, which alone pays it"),
    knob!(count "injection_bytes_per_ns", costs.injection_bytes_per_ns, BytesPerNanosecond, Chosen, "what an NI injects: the bandwidth of the bus, so that the network is not the bottleneck"),
    knob!(time "retry_ns", costs.retry, Chosen, "from the return of a message to the next try: one more network latency, so that the receiver has time to drain"),
];

/// The knob of a name.
pub fn find(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

impl Knob {
    /// Its value on a machine.
    pub fn get(&self, machine: &Parameters) -> f64 {
        (self.get)(machine)
    }

    /// Sets it. Whether the machine as a whole can be built, [`Parameters::check`] says.
    ///
    /// # Errors
    /// A value that no machine has, in words.
    pub fn set(&self, machine: &mut Parameters, value: f64) -> Result<(), String> {
        let endless = self.name == "buffers" && value == f64::INFINITY;
        if !endless && !(0.0..=1e9).contains(&value) {
            return Err(format!("{} must be 0 to 1e9", self.name));
        }
        if !endless && self.unit != Unit::Nanoseconds && value.fract() != 0.0 {
            return Err(format!("{} must be a whole number", self.name));
        }
        (self.set)(machine, value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knob_sets_what_it_gets() {
        for knob in KNOBS {
            let mut machine = Parameters::default();
            let usual = knob.get(&machine);
            knob.set(&mut machine, usual + 3.0).unwrap();
            assert_eq!(knob.get(&machine), usual + 3.0, "{}", knob.name);
            let changed: Vec<&str> = KNOBS.iter().filter(|other| other.get(&machine) != other.get(&Parameters::default())).map(|other| other.name).collect();
            assert_eq!(changed, [knob.name], "a knob changes itself alone");
            assert!(knob.set(&mut machine, -1.0).is_err() && knob.set(&mut machine, f64::NAN).is_err());
        }
        assert!(find("buffers").unwrap().set(&mut Parameters::default(), f64::INFINITY).is_ok());
        assert!(find("nodes").unwrap().set(&mut Parameters::default(), 1.5).is_err());
    }
}
