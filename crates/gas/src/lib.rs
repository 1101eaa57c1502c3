// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory: every process of a job has an address space of its own, and a global pointer
//! names a place in any of them.
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
//! A program's statics and heap are moved into its window before it begins (`window.rs`), so a
//! global pointer to any of them is a load or a store at an alias. Other memory (a stack,
//! memory of `mmap`) is reached by cross-memory attach (`far.rs`). Symmetric memory has the same
//! addresses in all processes.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | where everything lies: in the memfd, in address spaces; packing of global pointers |
//! | `symmetric.rs` | the allocator of symmetric memory: pure arithmetic, the same everywhere |
//! | `window.rs` | takes over statics and heap |
//! | `group.rs` | which processes share memory |
//! | `host.rs` | the memfd's way to all of them |
//! | `control.rs` | barrier, exchange, counts of stores, who has left |
//! | `call.rs` | functions on places of others, one at a time |
//! | `far.rs` | places that are not mapped |
//! | `fault.rs` | a touch of a hole in an alias, told plainly |
//! | `net.rs` | all other processes: messages |
//! | `net/vi.rs` | the same by VIs of libvipl, if `BELLWIRE_GAS` says so |
//! | `probe.rs` | steps of a get by messages, for measuring programs |
//! | `process.rs`, `access.rs`, `together.rs` | [`Process`]: the processes of the job; accesses; completion and collective calls |
//!
//! Called by `ffi/gas`, whose header has the word operations inline. The wire is chosen per pair:
//! processes of one host share memory; the others, and all with `BELLWIRE_SHM=off`, talk by
//! messages on virtual interfaces (`net.rs`). If there are any of these, what all processes do
//! together goes by messages as well.
//!
//! Processes of one job trust each other with their memory: the program asked for that. Addresses
//! that a process reads from the control area or a message are checked before they are used.
//!
//! Unsafe code relies on three invariants.
//! - G1: the control area, the window and the aliases are mapped from start to the end of the
//!   process; `layout` keeps what is computed inside them.
//! - G3: a program names only places that may change. After [`Process::start`] it can name
//!   everything that a process shares, statics too, so the caller promises that no reference
//!   forbids
//!   the change. After [`Process::join`] it can name symmetric memory alone, which has no
//!   references.
//! - G2: one thread uses [`Process`]; start happens before `main`, alone. The NIC's helper thread
//!   reads and writes the window as another process would.

mod access;
mod call;
mod control;
mod error;
mod far;
mod fault;
mod group;
mod host;
pub mod layout;
#[cfg(doctest)]
mod needs_unsafe;
mod net;
pub mod probe;
mod process;
mod symmetric;
mod together;
mod window;

pub use call::{Function, set_functions};
pub use error::{Access, Death, Error, Left, Trouble, Why};
pub use far::Direction;
pub use net::{Atomic, machine};
pub use process::{PeerEntry, Process};
