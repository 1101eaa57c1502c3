// SPDX-License-Identifier: MIT OR Apache-2.0
//! A step of a round: what is measured, by whom, and where the figures go.

use crate::job::{Job, Waiting};
use crate::peers::installed::Flavour;
use crate::peers::libfabric::Way;
use crate::peers::ucx::Test;
use crate::samples::{Key, Kind, Metric, Series};

/// Which pair of processes does a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// The usual one.
    Main,
    /// One that waits instead of polling.
    Blocking,
    /// One that polls, however the others wait.
    Polling,
    /// One that sleeps at once instead of spinning first.
    Sleeping,
    /// One in guarded mode.
    Guarded,
    /// One whose library loses packets on purpose.
    Lossy,
    /// One that opens layers with many peers.
    Peers,
    /// One that has this many VIs open.
    Vis(usize),
}

/// Which number of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// Of the first process.
    First(usize),
    /// Of the second.
    Second(usize),
}

/// How a step is carried out.
#[derive(Debug, Clone)]
pub enum Action {
    /// A job for a pair of measuring processes.
    Pair {
        /// Which pair.
        which: Which,
        /// The job.
        job: Job,
        /// Where its numbers go.
        keys: Vec<(Key, From)>,
    },
    /// Several ping-pongs at once.
    Pairs {
        /// How many.
        pairs: usize,
        /// Polling or blocking.
        waiting: Waiting,
        /// How long.
        millis: u64,
        /// Where the figure goes.
        key: Key,
    },
    /// A test of UCX.
    Ucx {
        /// Which.
        test: Test,
        /// Bytes.
        size: usize,
        /// Messages.
        count: u64,
        /// Where the figure goes.
        key: Key,
    },
    /// A ping-pong of libfabric; large ones also count as bandwidth.
    Libfabric {
        /// Over what.
        way: Way,
        /// Bytes.
        size: usize,
        /// Messages.
        count: u64,
        /// Whose figures.
        series: Series,
    },
    /// Short requests and replies of GASNet.
    Gasnet {
        /// Round trips.
        count: u64,
        /// Where the figure goes.
        key: Key,
    },
    /// One run of the MPI program over all sizes.
    Mpi {
        /// Which MPI.
        flavour: Flavour,
        /// Bytes.
        sizes: Vec<usize>,
        /// Whose figures.
        series: Series,
        /// Metrics that were asked for.
        metrics: Vec<Metric>,
    },
}

/// One measurement of a round.
#[derive(Debug, Clone)]
pub struct Step {
    /// For progress and failures.
    pub label: String,
    /// How.
    pub action: Action,
}

impl Step {
    /// Whether the library under test is measured.
    pub fn is_ours(&self) -> bool {
        match &self.action {
            Action::Pair { keys, .. } => keys.iter().any(|(key, _)| key.series.kind == Kind::Ours),
            action => matches!(action, Action::Pairs { .. }),
        }
    }
}
