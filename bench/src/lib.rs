// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurement: libvipl through its public C calls, the limits of the machine, and other libraries, alternately in one run.
//!
//! ```text
//!   perf ── plan ── run ──────────────┬── session ══ socket pair ══ worker ─┬─ limits      (two processes, one mapping)
//!             what     rounds,        │   two measuring processes           └─ bench ── endpoint ── vipl_abi ── libvipl.so
//!                      canaries       └── peers       ucx_perftest, fi_pingpong, MPI programs
//!                                     └── route: shared memory, UDP over loopback, UDP between network namespaces; the same for ours, limits and peers
//!   samples ── goals ── report         table, json, plot
//! ```
//!
//! Rules of the crate:
//! - The library under test is found and loaded at run time; nothing of its source is linked in.
//! - The controller sleeps while something is measured. Both sides of every measurement run in processes of their own, pinned where possible.
//! - Figures that are compared were taken in the same run, in turn, with a canary around each ([`canary`]).
//! - A failed measurement is reported beside the others; a peer that is missing is named, never an error.
//!
//! Beside the comparison: [`breakdown`] says where the time of an Active Message goes, [`contend`] has many clients ask one server, [`mpi`] runs MPIs on Bellwire and as they are, [`gas`] measures global memory, [`model`] measures the parameters of the LogP model by the same means, [`host`] says what this host offers, and [`stat`] asks running
//! processes for their counters.
//!
//! Called by the `bellwire` command: [`perf::run`], [`model::run`], [`breakdown::run`], [`contend::run`], [`mpi::run`], [`gas::run`], [`host::inspect`], [`stat::ask`] and, in the measuring processes, [`worker::main`] and [`gas::worker::main`].

pub mod ablation;
pub mod am;
pub mod bench;
pub mod breakdown;
pub mod canary;
pub mod contend;
pub mod endpoint;
pub mod gas;
pub mod goals;
pub mod job;
pub mod layer;
pub mod limits;
pub mod machine;
pub mod marks;
pub mod model;
pub mod mpi;
pub mod peers;
pub mod perf;
pub mod plan;
pub mod progress;
pub mod report;
pub mod route;
pub mod run;
pub mod samples;
pub mod session;
pub mod worker;

pub use bellwire_inspect::{Error, channel, cleanup, clock, error, exchange, pin, shared, stat, stats, vipl_abi};
