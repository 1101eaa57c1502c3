// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reliable datagrams with tag matching, remote memory and atomics on Bellwire's virtual
//! interfaces: what an MPI asks of a network. `libbellwire-fi.so` is its C interface.
//!
//! An [`Endpoint`] sends to any other by its [`Name`]; connections are made on first use.
//! Operations end as [`Completion`]s, which wait in the endpoint until the program reads them.
//!
//! | file | concern |
//! |---|---|
//! | `matching.rs` | posted and unexpected queues, wildcards, claims: a machine without I/O |
//! | `header.rs`, `name.rs` | messages and names as bytes |
//! | `gather.rs`, `regions.rs` | memory of the program: of an operation; that peers may reach |
//! | `completion.rs`, `gone.rs`, `posted.rs`, `listener.rs` | how operations end, and why peers are gone; receives and messages; the user of an endpoint |
//! | `connection.rs`, `leave.rs` | credits; what waits to leave, in order; streams of large ones |
//! | `core.rs`, `life.rs` | an endpoint as a machine, its connections' beginnings and ends |
//! | `send.rs`, `receive.rs`, `remote.rs` | what programs ask for |
//! | `lent.rs`, `pull.rs`, `trial.rs` | long messages within a host in one copy: told, pulled, timed |
//! | `arrive.rs`, `serve.rs`, `atomics.rs`, `arithmetic.rs`, `long_double.rs` | what peers send; what they ask of our memory |
//! | `ends.rs` | completions that wait for their reader; counters |
//! | `shared.rs`, `sharing.rs` | receives that several endpoints have in common |
//! | `words.rs` | what users of endpoints say to each other |
//! | `endpoint.rs` | all of it on a NIC: the lock, polling, waiting |
//! | `machine.rs` | all of it on an engine of the caller's, for fuzzers |
//!
//! **Memory.** A pair of endpoints that have talked costs some hundred bytes beside the NIC's link.
//! What a peer may have us hold is bounded: [`WINDOW`] messages that nobody has polled for,
//! unexpected payloads up to [`UNEXPECTED_BYTES_MAX`] in all, and one envelope for each of its own
//! unfinished operations, which its program cannot exceed without an error.
//!
//! **Free of deadlock.** Nothing waits inside: what cannot leave is queued, and credits are given
//! back when a message is taken, whatever it leads to.

mod arithmetic;
mod arrive;
mod atomics;
mod completion;
mod connection;
mod core;
mod endpoint;
mod ends;
mod gather;
mod gone;
mod header;
mod leave;
mod lent;
mod life;
mod listener;
mod long_double;
pub mod machine;
pub mod matching;
mod name;
#[cfg(doctest)]
mod needs_unsafe;
mod posted;
mod pull;
mod receive;
mod regions;
mod remote;
mod send;
mod serve;
mod shared;
mod sharing;
mod trial;
mod words;

pub use self::core::UNEXPECTED_BYTES_MAX;
pub use atomics::{DataType, Form, Op as AtomicOp};
pub use bellwire_memory::owned_bytes::OwnedBytes;
pub use completion::{Completion, Error, Failure, NOBODY, Notes};
pub use connection::WINDOW;
pub use endpoint::{Endpoint, OpenError, Read};
pub use ends::{Bindings, Counted, Counter, Outlet, Queue, Waker};
pub use gather::{Gather, PIECES_MAX, Piece};
pub use gone::Gone;
pub use header::EAGER_BYTES_MAX;
pub use listener::{Listener, Verdict};
pub use name::{NAME_BYTES, Name};
pub use posted::{Matched, Peek, Receive, ReceiveFlags, Want, WantOne};
pub use regions::{Access, Region, Regions, SharedRegions};
pub use remote::{AtomicRequest, RemoteFlags, RemoteRequest, Target};
pub use send::{SendFlags, SendOne, SendOut};
pub use shared::SharedReceives;
pub use words::WORDS_BYTES_MAX;
