// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the processes of a job on one host and looks after them until all have ended:
//! `bellwire run`.
//!
//! ```text
//!   Options ── plan.rs: what will be started, with what, where (also --dry-run, --explain)
//!      └─ run: supervise.rs, one thread around epoll (rank.rs: a process; source.rs: an event)
//!           ├─ spawn.rs     a process: its group, its pipes, its end of PMI-1; started by the threads of spawners.rs
//!           ├─ pmi.rs       the launcher's end of PMI-1 for all of them (bellwire_job::pmi::server)
//!           ├─ output.rs    lines of all, whole (lines.rs), to a thread that writes (sink.rs)
//!           ├─ input.rs     standard input to one or all
//!           ├─ signals.rs   what the launcher is sent
//!           ├─ ending.rs    why the job ends, and how hard it is pressed
//!           └─ guard.rs     a process that ends what is left over, whatever happens to the launcher
//! ```
//! `provider.rs` is what the environment says to a program of MPI or libfabric.
//!
//! Invariants:
//! - No process of the job outlives the launcher. Its own children are killed by the kernel
//!   (`PR_SET_PDEATHSIG`); what they have started is found by the job's mark in its environment and
//!   killed by the guard, whose pipe closes with the launcher however that ends.
//! - A child is not reaped before the job is over, so that its process group's number cannot come
//!   to mean somebody else.
//! - What a program writes or says is bounded: a line of output, what a slow reader has not taken,
//!   a request to the PMI server.
//!
//! `unsafe` is in `spawn.rs` only: what a child does between fork and exec.

mod bind;
mod ending;
mod guard;
mod input;
mod lines;
mod output;
mod plan;
mod pmi;
pub mod provider;
mod rank;
mod signals;
mod sink;
mod source;
mod spawn;
mod spawners;
mod summary;
mod supervise;

pub use bind::Bind;
pub use guard::main as guard_main;
pub use plan::{Input, Options, Output, Plan};
pub use summary::{RankSummary, Summary};
pub use supervise::run;

/// The variable by which every process of a job can be known.
pub const MARK: &str = "BELLWIRE_JOB_ID";
