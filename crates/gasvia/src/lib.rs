// SPDX-License-Identifier: MIT OR Apache-2.0
//! Split-C's memory operations on the public calls of the VI Provider Library alone, in the two
//! ways of the AMVIA paper's section 6.
//!
//! | version | for each pair of processes |
//! |---|---|
//! | [`Version::One`] | one VI with 8 credits for everything; bulk data by gather; an acknowledgement for each second store |
//! | [`Version::Two`] | a VI with 64 credits for words, one with 8 for bulk data, which is copied before it is sent; an acknowledgement for each 16th store of words, and each second one of bulk data |
//!
//! A request takes a credit, which its reply brings back. Each VI has `2k` send buffers and
//! `2k + 1` posted receives for its `k` credits, so a reply needs no credit.
//!
//! | file | concern |
//! |---|---|
//! | `version.rs` | the two ways |
//! | `head.rs` | messages as bytes |
//! | `lane.rs` | a VI with descriptors and buffers; its requests that are out |
//! | `core.rs`, `serve.rs` | the state of a process: completions, replies; requests of peers |
//! | `ask.rs` | requests, tried once |
//! | `meet.rs` | how processes connect |
//! | `station.rs` | the state under a token, calls that wait, and the thread that serves while the program computes |
//! | `memory.rs`, `failure.rs` | a process's memory as peers reach it; failures |
//!
//! **Free of deadlock.** Nothing waits inside: a request that has no credit or buffer is tried
//! again by its caller, who polls meanwhile and so serves others. A request of a peer is taken when
//! a buffer for its reply is free, which completions alone decide.
//!
//! Unsafe code relies on these invariants.
//! - L1: the memory of a `Lane` begins with `2k` descriptors for sends and `2k + 1`
//!   for receives; behind them lie as many buffers.
//! - L2: a descriptor and its buffer are the library's from a post until the completion, else the
//!   lane's. A slot of `free` is not posted.
//! - L3: what a posted send gathers stays readable and registered until its completion: memory of
//!   [`Memory::find`] for ever, lent memory by the promise to [`Core::try_send`].
//! - L4: the place of a pending get is writable until its answer has come or [`Core::abandon`] was
//!   called: the promise to [`Core::try_get`].

mod ask;
mod core;
mod failure;
mod head;
mod lane;
mod meet;
mod memory;
mod serve;
mod station;
mod version;

pub use self::ask::{Kind, There};
pub use self::core::Core;
pub use self::failure::{Access, Failure, Stop};
pub use self::memory::Memory;
pub use self::station::Station;
pub use self::version::Version;
pub use bellwire_vipl_calls::{Nic, probe};
