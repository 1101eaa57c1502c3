// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites: the measurements of each layer.

pub mod am;
pub mod gas;
pub mod mpi;
pub mod peers;
pub mod rpc;
pub mod verbs;
pub mod vi;
