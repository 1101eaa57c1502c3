// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory: every process of a job has an address space of its own, and a global pointer names a place in any of them.
//!
//! ```text
//!   one memfd for all processes of a host
//!   | control | window of process 0 | window of process 1 | ...        each as sparse as its process is
//!
//!   address space of a process
//!   | statics | heap |     | symmetric |        | alias 0: statics heap symmetric | alias 1: .. | ...
//!     \_________________________/                 the same pages as process 0's own
//!       its own window, at its own addresses: what local pointers name
//! ```
//!
//! A program's statics and heap are moved into its window before it begins (`window.rs`), so a global pointer to any of them is a load or a store at an alias. What is elsewhere (a
//! stack, memory of `mmap`) is reached by cross-memory attach (`far.rs`). Symmetric memory has the same addresses in all processes.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | where everything lies: in the memfd, in address spaces; packing of global pointers |
//! | `symmetric.rs` | the allocator of symmetric memory: pure arithmetic, the same everywhere |
//! | `window.rs` | takes over statics and heap |
//! | `host.rs` | the memfd's way to all processes of the host |
//! | `control.rs` | barrier, exchange, counts of stores, who has left |
//! | `far.rs` | places that are not mapped |
//! | `fault.rs` | a touch of a hole in an alias, told plainly |
//! | `process.rs` | [`Process`]: all of it |
//!
//! Called by `ffi/gas`, whose header has the word operations inline. This crate's processes are on one host; packets will stand behind the same interface, chosen per pair.
//!
//! Processes of one job trust each other with their memory: that is what the program asked for. What is read from the control area decides about addresses only after a check.
//!
//! Unsafe code relies on two invariants.
//! - G1: the control area and the aliases are mapped from start to the end of the process; `layout` keeps what is computed inside them.
//! - G2: one thread uses [`Process`]; start happens before `main`, alone.

mod control;
mod error;
mod far;
mod fault;
mod host;
pub mod layout;
mod process;
mod symmetric;
mod window;

pub use control::Left;
pub use error::Error;
pub use far::Direction;
pub use process::{PeerEntry, Process};
