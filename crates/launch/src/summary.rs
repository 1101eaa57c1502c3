// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fate of a job, for programs.

use serde::Serialize;

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankSummary {
    /// Its number.
    pub rank: u32,
    /// Its process id.
    pub pid: u32,
    /// Its exit status, unless a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// From its start to its end, seconds.
    pub seconds: f64,
    /// The processors that it was bound to.
    pub processors: Option<Vec<usize>>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Version of this object.
    pub format: u32,
    /// The job's name.
    pub job: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How many processes it was to have.
    pub size: u32,
    /// The launcher's exit status.
    pub status: i32,
    /// Why it is not 0, or why the job was ended.
    pub reason: Option<String>,
    /// From the first start to the last end, seconds.
    pub seconds: f64,
    /// The processes that were started.
    pub ranks: Vec<RankSummary>,
}
