// SPDX-License-Identifier: MIT OR Apache-2.0
//! What global memory costs: Figure 2 of the paper on VIA, Active Messages and Split-C (read,
//! write, get, put and store of each scalar type, section 7.2), a breakdown in the manner of its
//! Table 4 (7.3), the bandwidth of bulk operations as in its Figure 5 (7.4), em3d by the share of
//! remote edges, and what two processes gain; beside the layers below, limits of the machine, and
//! others' remote memory.
//!
//! | file | concern |
//! |---|---|
//! | `mod.rs` | what is measured, in which order; what comes out |
//! | `source.rs` | who gives figures: a job of ours, another's program, the layers below |
//! | `others.rs` | programs for others' remote memory |
//! | `worker.rs` | a process of a job of ours |
//! | `breakdown.rs` | what an access consists of, by differences |
//! | `steps.rs` | what a get by packets consists of, by marks |
//! | `plot.rs` | picture |
//!
//! Others are measured with small programs of ours (`bench/peers/*_rma.c`), compiled here with what
//! is installed. Everything runs by turns, round after round, with a canary before and after.
//!
//! Called by `bellwire gas`.

mod breakdown;
mod others;
pub mod plot;
mod source;
mod steps;
pub mod worker;

pub use breakdown::Part;

use crate::goals;
use crate::report::{Report, Suite};
use crate::samples::{Kind, Metric, Series};
use crate::session::SessionConfig;
use crate::turns;

/// Scalar types by their place in the tables, from 1: names in C, and bytes.
pub const TYPES: [(&str, u64); 7] = [("char", 1), ("short", 2), ("int", 4), ("long", 8), ("float", 4), ("double", 8), ("struct of 24 B", 24)];
/// The place of the type whose operations stand for all words in goals and breakdowns.
pub const LONG: u64 = 4;
/// Sizes of bulk operations: all, and if it is to be quick.
const BULK: [&[u64]; 2] = [&[64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[1 << 10, 64 << 10]];
/// Shares of remote edges, per cent: 0 is 1 here, so that it can stand on an axis by quotients.
const PERCENT: [&[u64]; 2] = [&[1, 10, 20, 30, 40, 50], &[10, 40]];

/// Columns.
pub mod series {
    use super::{Kind, Series};

    const fn ours(name: &'static str) -> Series {
        Series { name, kind: Kind::Ours }
    }
    const fn peer(name: &'static str) -> Series {
        Series { name, kind: Kind::Peer { cma: false } }
    }

    /// Over shared memory.
    pub const GLOBAL: Series = ours("global memory");
    /// By packets, over the loopback interface.
    pub const PACKETS: Series = ours("by packets");
    /// Over shared memory, through a view of the block (`Global::shared`).
    pub const VIEW: Series = ours("through a view");
    /// A load and a store of private memory.
    pub const PLAIN: Series = Series { name: "plain load, store", kind: Kind::Limit };
    /// Over shared memory, as many gets in a phase as others do, each into a place of its own.
    pub const MANY: Series = ours("many in a phase, to as many places");
    /// As many copies to as many places.
    pub const MEMCPY_MANY: Series = Series { name: "memcpy to as many places", kind: Kind::Limit };
    /// Nothing but the end of a phase.
    pub const SYNC: Series = ours("an empty phase");
    /// Two messages on a virtual interface, or one.
    pub const RAW: Series = ours("raw VI");
    /// The same over UDP.
    pub const RAW_UDP: Series = ours("raw VI by packets");
    /// RMA of MPICH.
    pub const MPICH: Series = peer("MPICH RMA");
    /// RMA of Open MPI.
    pub const OPEN_MPI: Series = peer("Open MPI RMA");
    /// RMA of libfabric's shm.
    pub const FABRIC: Series = peer("libfabric shm RMA");
    /// RMA of GASNet-EX.
    pub const GASNET: Series = peer("GASNet-EX smp");
    /// em3d by reads.
    pub const EM3D_READ: Series = ours("read");
    /// em3d by gets.
    pub const EM3D_GET: Series = ours("get");
    /// em3d in bulk.
    pub const EM3D_BULK: Series = ours("bulk");
    /// em3d by gets, by packets.
    pub const EM3D_GET_PACKETS: Series = ours("get, by packets");
    /// em3d in bulk, by packets.
    pub const EM3D_BULK_PACKETS: Series = ours("bulk, by packets");
    /// em3d, all of the work.
    pub const EM3D: Series = ours("em3d, 2 x 80000 nodes of 16 edges, 10 % remote, in bulk");
    /// Sample sort, all of the work.
    pub const SAMPLE: Series = ours("sample sort, 4000000 keys of 64 bits");
    /// Sorting by the standard library, of one process.
    pub const SORT: Series = Series { name: "sort_unstable of the same keys", kind: Kind::Limit };
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Processes of the canary and of the layers below; the executable that becomes a job's
    /// processes.
    pub session: SessionConfig,
    /// Others too.
    pub compare: bool,
    /// Families.
    pub groups: Vec<Group>,
    /// Rounds.
    pub rounds: usize,
    /// Fewer sizes, shorter.
    pub quick: bool,
    /// No progress.
    pub quiet: bool,
}

/// A family of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Words.
    Words,
    /// Bulk.
    Bulk,
    /// em3d by the share of remote edges.
    Em3d,
    /// One process and two.
    Speedup,
    /// The steps of a get by packets.
    Steps,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 5] = [Group::Words, Group::Bulk, Group::Em3d, Group::Speedup, Group::Steps];
}

const SUITE: Suite = Suite {
    command: "gas",
    about: "A process uses the memory of another, always the same places. read, write: each complete before the next; get, put: 64 at a time; store: one way, counted by the target.\n\
            raw VI, Active Messages: a round trip of 16 bytes beside read and write; the gap of a stream beside the others, of Active Messages with a reply to each beside get and put.\n",
    metrics: &Metric::GAS,
    hint: None,
};

/// The hidden command of a process of a job that is measured.
pub const WORKER_COMMAND: &str = "gas-peer";

/// Measures.
pub fn run(options: &Options) -> Report {
    let (mut missing, mut peers) = (Vec::new(), Vec::new());
    let mut turns = source::all(options, &mut peers, &mut missing);
    let mut tables = turns::run(&options.session, &mut turns, 1, options.rounds, options.quiet);
    let samples = tables.pop().unwrap_or_default();
    let parts = Some(breakdown::parts(&samples));
    let goals = goals::evaluate_gas(&samples);
    Report { parts, peers, missing, ..Report::new(SUITE, &options.session, options.rounds, samples, goals) }
}

/// The sizes of bulk operations.
pub(crate) fn bulk_sizes(quick: bool) -> &'static [u64] {
    BULK[usize::from(quick)]
}

/// The metric of a word operation by its name.
pub(crate) fn word_metric(operation: &str) -> Option<Metric> {
    Some(match operation {
        "read" => Metric::GasRead,
        "write" => Metric::GasWrite,
        "get" => Metric::GasGet,
        "put" => Metric::GasPut,
        "store" => Metric::GasStore,
        _ => return None,
    })
}

/// The metric of a bulk operation by its name.
pub(crate) fn bulk_metric(operation: &str) -> Option<Metric> {
    Some(match operation {
        "read" => Metric::GasBulkRead,
        "write" => Metric::GasBulkWrite,
        "get" => Metric::GasBulkGet,
        "put" => Metric::GasBulkPut,
        "store" => Metric::GasBulkStore,
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::table::render;
    use crate::samples::Samples;
    use series as g;

    pub(crate) fn report() -> Report {
        let samples = Samples::made_up(&[
            (Metric::GasRead, g::GLOBAL, LONG, 1.5),
            (Metric::GasRead, g::PLAIN, LONG, 0.5),
            (Metric::GasRead, g::MPICH, LONG, 25.0),
            (Metric::GasBulkPut, g::GLOBAL, 65536, 50.0),
            (Metric::Em3d, g::EM3D_GET, 10, 3.0),
            (Metric::Speedup, g::EM3D, 1, 18.0),
            (Metric::Speedup, g::EM3D, 2, 10.0),
        ]);
        let (parts, goals) = (Some(breakdown::parts(&samples)), goals::evaluate_gas(&samples));
        let missing = vec!["GASNet-EX smp: built".to_owned()];
        Report { parts, missing, ..Report::new(SUITE, &SessionConfig::made_up(), 1, samples, goals) }
    }

    #[test]
    fn people_see_types_parts_and_goals() {
        let text = render(&report());
        for part in ["long", "1.50 1/1", "finding the place", "MPICH RMA", "GASNet-EX smp: built", "10 %", ">= 1.70"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&report()).unwrap()).unwrap();
        assert_eq!(value["breakdown"][1]["ns"].as_f64(), Some(1.0));
        let read = value["goals"].as_array().unwrap().iter().find(|goal| goal["what"] == "read of a long").unwrap();
        assert_eq!((read["ratio"].as_f64(), read["met"].as_bool()), (Some(1.5 / 25.0), Some(true)));
        let speedup = value["goals"].as_array().unwrap().iter().find(|goal| goal["unit"] == "ms").unwrap();
        assert_eq!((speedup["ratio"].as_f64(), speedup["met"].as_bool()), (Some(1.8), Some(true)));
    }
}
