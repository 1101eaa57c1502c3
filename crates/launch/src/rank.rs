// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of the job, as `supervise.rs` keeps it from its start to the end of the job.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::process::Pid;

use crate::summary::RankSummary;

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub dumped: bool,
    pub at: Instant,
}

#[derive(Debug)]
pub(crate) struct Rank {
    pub child: std::process::Child,
    pub pid: Pid,
    pub pidfd: OwnedFd,
    pub started: Instant,
    pub ended: Option<End>,
    /// Its PMI connection is closed, and it lives: when it counts as gone.
    pub gone_at: Option<Instant>,
}

impl Rank {
    /// Its fate, for programs; `processors` are those of all processes, if they are bound.
    pub(crate) fn summary(&self, number: usize, processors: Option<&[Vec<usize>]>) -> RankSummary {
        RankSummary {
            rank: number as u32,
            pid: self.pid.as_raw_pid().cast_unsigned(),
            status: self.ended.and_then(|end| end.status),
            signal: self.ended.and_then(|end| end.signal),
            seconds: self.ended.map_or(0.0, |end| (end.at - self.started).as_secs_f64()),
            processors: processors.and_then(|processors| processors.get(number)).cloned(),
        }
    }
}
