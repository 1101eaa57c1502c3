// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up of programs that run as many equal processes (SPMD): rank, size, and small blocks
//! exchanged before there is a network.
//!
//! ```text
//!   Job::join ── environment: who started this process?
//!      ├─ nobody            a job of one
//!      ├─ PMI-1 by wire     bellwire run, MPICH's mpiexec, Slurm's srun --mpi=pmi2        pmi/client.rs
//!      └─ PMIx by library   Open MPI's mpirun, Slurm's srun --mpi=pmix                    pmix/ (libpmix.so.2, loaded when needed)
//!
//!   bellwire run (bellwire-launch) ── pmi/server.rs: the other end of the wire
//! ```
//!
//! The program is the same under all of them (`examples/ring.rs`). Blocks are opaque bytes up to
//! [`BLOCK_MAX_BYTES`]; they become visible to others by a fence. This is for start-up (addresses,
//! keys): every block stays with the launcher until the job ends, and a round takes tens of
//! microseconds for each process of the job.
//!
//! A process is in its job once. Where libraries of this project meet in one process, each with a
//! copy of this code, they join through the job library (`installed.rs`).
//!
//! Everything that a launcher says is copied, bounded and checked; the answer to nonsense is an
//! [`Error`] that says what was expected. A launcher that dies is an error at once, one that does
//! not answer, after [`REPLY_TIMEOUT`].
//!
//! `unsafe` is in `pmi/client.rs` (a descriptor whose number comes from the environment), `pmix/`
//! and `installed.rs` (C libraries), one line of `job.rs` (`atexit`), and `exiting.rs`.

pub mod dissemination;
mod environment;
mod error;
mod exiting;
mod installed;
mod job;
mod mapping;
pub mod pmi;
mod pmix;
mod text;

pub use environment::Launcher;
pub use error::Error;
pub use exiting::end_process;
pub use job::{Job, REPLY_TIMEOUT};
pub use text::{BLOCK_MAX_BYTES, KEY_MAX_BYTES};
