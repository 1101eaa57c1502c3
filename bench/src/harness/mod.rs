// SPDX-License-Identifier: MIT OR Apache-2.0
//! The harness: two measuring processes and their jobs, the machine around them, samples, goals,
//! and the report.

pub mod canary;
pub mod goals;
pub mod machine;
pub mod marks;
pub mod patient;
pub mod peers;
pub mod progress;
pub mod report;
pub mod route;
pub mod run;
pub mod samples;
pub mod session;
pub mod spans;
pub mod turns;
