// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deterministic discrete-event simulator of network interfaces on a memory bus, after Mukherjee
//! and Hill (HPCA 1998).
//!
//! | file | content |
//! |---|---|
//! | `machine/` | the machine of Table 3; each cost that the paper leaves open, with its reason; both by name |
//! | `engine.rs` | virtual time, the tasks, signals |
//! | `queue.rs` | the events to come |
//! | `node/` | cache, bus, memory, processor of one node |
//! | `network.rs` | the network and return-to-sender flow control |
//! | `ni/` | one file for each network interface |
//! | `am.rs` | active messages for the programs of nodes |
//! | `cluster.rs` | builds the nodes, runs a program on each |
//! | `programs/` | the macrobenchmarks |
//! | `experiment/` | the microbenchmarks, the paper's tables beside ours, plans |
//!
//! Everything of one simulation lives on one thread; several simulations run beside each other on
//! several threads. Nothing is random: the same program on the same machine gives the same times.

#![forbid(unsafe_code)]

pub mod am;
pub mod cluster;
pub mod engine;
pub mod experiment;
pub mod machine;
pub mod network;
pub mod ni;
pub mod node;
pub mod programs;
pub mod queue;
pub mod time;
