// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites: what is measured, layer by layer.

pub mod am;
pub mod gas;
pub mod mpi;
pub mod rpc;
pub mod vi;
