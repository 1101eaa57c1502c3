// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments in, text and files out: a file for each command.

pub mod bench;
pub mod breakdown;
pub mod contend;
pub mod gas;
pub mod logp;
pub mod measured;
pub mod paper;
pub mod perf;
