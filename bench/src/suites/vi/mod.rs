// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual interfaces through libvipl's calls, the limits of the machine and other libraries:
//! `bellwire perf` and `bellwire logp`.

pub mod bench;
pub mod endpoint;
pub mod ladder;
pub mod limits;
pub mod model;
pub mod perf;
pub mod plan;
pub mod splitc;
