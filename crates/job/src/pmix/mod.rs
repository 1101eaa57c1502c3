// SPDX-License-Identifier: MIT OR Apache-2.0
//! PMIx: for launchers that serve it (Open MPI, Slurm), through `libpmix.so.2`, which is loaded
//! only when a launcher's variables ask for it.
//!
//! `abi.rs` declares what is used of its C interface and finds it; `client.rs` is what
//! [`crate::Job`] needs. The library knows the way to its server; what it hands over is checked
//! like everything from a launcher.

mod abi;
mod client;

pub(crate) use abi::Api;
pub(crate) use client::Client;
