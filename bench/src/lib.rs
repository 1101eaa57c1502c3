// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurement: libvipl through its public C calls, the limits of the machine, and other libraries,
//! alternately in one run.
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
//! - The controller sleeps while something is measured. Both sides of every measurement run in
//!   processes of their own, pinned where possible.
//! - Figures that are compared were taken in the same run, in turn, with a canary around each
//!   ([`canary`]).
//! - A failed measurement is reported beside the others; a peer that is missing is named, never an
//!   error.
//!
//! Beside the comparison: [`breakdown`] says where the time of an Active Message goes, [`contend`]
//! has many clients ask one server, [`mpi`] runs MPIs on Bellwire and as they are, [`gas`] measures
//! global memory, [`papers`] sets measurements beside papers, [`model`] measures the parameters of
//! the LogP model by the same means.
//!
//! Called by the `bellwire` command: [`perf::run`], [`model::run`], [`breakdown::run`],
//! [`contend::run`], [`mpi::run`], [`gas::run`] and, in the measuring processes, [`worker::main`]
//! and [`gas::worker::main`].

pub mod harness;
pub mod job;
pub mod papers;
pub mod suites;
pub mod worker;

// Short names: a module is known by what it is, not by its folder.
pub use bellwire_inspect::{Error, channel, cleanup, clock, error, exchange, pin, shared, stat, stats, vipl_abi};
pub use harness::{canary, goals, machine, marks, patient, peers, progress, report, route, run, samples, session, spans, turns};
pub use suites::am::{breakdown, layer, mapped};
pub use suites::mpi::ablation;
pub use suites::peers as crowd;
pub use suites::rpc::contend;
pub use suites::vi::{bench, endpoint, ladder, limits, model, perf, plan, splitc};
pub use suites::{am, gas, mpi, verbs};
