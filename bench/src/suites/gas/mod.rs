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
//! | `report.rs`, `plot.rs` | tables, JSON, picture |
//!
//! Others are measured with small programs of ours (`bench/peers/*_rma.c`), compiled here with what
//! is installed. Everything runs by turns, round after round, with a canary before and after.
//!
//! Called by `bellwire gas`.

mod breakdown;
mod others;
pub mod plot;
pub mod report;
mod source;
mod steps;
pub mod worker;

pub use breakdown::Part;

use crate::ablation::exchange;
use crate::canary::Canary;
use crate::error::Error;
use crate::goals::{self, Goal};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::samples::{Failure, Kind, Metric, Sample, Samples, Series};
use crate::session::{Session, SessionConfig};
use serde::Serialize;
use source::Source;

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

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it was.
    pub machine: Machine,
    /// Rounds.
    pub rounds: usize,
    /// Names and versions of others.
    pub peers: Vec<String>,
    /// Others that are not here.
    pub missing: Vec<String>,
    /// All figures.
    #[serde(flatten)]
    pub samples: Samples,
    /// What accesses consist of.
    pub breakdown: Vec<Part>,
    /// How the goals stand.
    pub goals: Vec<Goal>,
}

impl Report {
    /// The first thing of ours that did not work.
    pub fn failure(&self) -> Option<Error> {
        let failure = self.samples.failures.iter().find(|failure| failure.ours)?;
        Some(Error::failed(format!("{}: {}", failure.what, failure.why)))
    }
}

/// Measures.
pub fn run(options: &Options) -> Report {
    let mut missing = Vec::new();
    let mut sources = Source::all(options, &mut missing);
    let mut progress = Progress::new(sources.len() * options.rounds, options.quiet);
    let mut samples = Samples::default();
    let mut canary = Session::new(options.session.clone());
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for source in &mut sources {
            let what = source.name().to_owned();
            progress.step(&what);
            // What has failed once is not tried again.
            if samples.failures.iter().any(|failure| failure.what == what) {
                continue;
            }
            let before_ns = exchange(&mut canary);
            let result = source.measure(options);
            let after_ns = exchange(&mut canary);
            samples.best.note(before_ns);
            samples.best.note(after_ns);
            match result {
                Ok(figures) => {
                    let canary = Canary { before_ns, after_ns };
                    figures.into_iter().for_each(|(key, value)| samples.add(key, Sample { round, value, canary }));
                }
                Err(error) => samples.fail(Failure { what, why: error.to_string(), ours: source.is_ours() }),
            }
        }
    }
    progress.finish();
    Report {
        machine: machine::describe(options.session.pinning),
        rounds: options.rounds,
        peers: sources.iter().filter_map(|source| source.version()).collect(),
        missing,
        breakdown: breakdown::parts(&samples),
        goals: goals::evaluate_gas(&samples),
        samples,
    }
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
