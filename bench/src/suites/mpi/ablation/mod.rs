// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's ablation as a run: each protocol of [`crate::bench::ablation`] by size, in turn,
//! beside one another. Called by `bellwire bench mpi --ablation`.

pub mod report;

use crate::canary::Canary;
use crate::error::Error;
use crate::job::{Ablated, Exchanged, Job};
use crate::machine::{self, Machine};
use crate::plan::series as s;
use crate::progress::Progress;
use crate::samples::{Failure, Key, Metric, Sample, Samples, Series};
use crate::session::{Session, SessionConfig};
use serde::Serialize;

/// Sizes: all, and if it is to be quick.
const SIZES: [&[usize]; 2] = [&[8, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20], &[8, 16 << 10, 64 << 10, 1 << 20]];
/// Places that are polled, to see where that stops paying: connections of a process.
const PLACES: [usize; 4] = [1, 8, 32, 120];
/// Bytes and messages of a measurement, at most.
const VOLUME: usize = 24 << 20;
const COUNT_MAX: usize = 4000;
const COUNT_MIN: usize = 8;
/// Exchanges of one canary.
const CANARY_COUNT: u64 = 4000;

/// The protocols with the names of their columns.
const PROTOCOLS: [(Ablated, Series); 4] =
    [(Ablated::Segments, s::SEGMENTS), (Ablated::Registering, s::REGISTERING), (Ablated::Cached, s::CACHED), (Ablated::Polled(1), s::POLLED)];

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// With which processes.
    pub session: SessionConfig,
    /// Rounds.
    pub rounds: usize,
    /// Fewer sizes.
    pub quick: bool,
    /// No progress.
    pub quiet: bool,
}

/// A finished run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it was.
    pub machine: Machine,
    /// Rounds.
    pub rounds: usize,
    /// All figures.
    #[serde(flatten)]
    pub samples: Samples,
}

impl Report {
    /// The first thing that did not work.
    pub fn failure(&self) -> Option<Error> {
        self.samples.failures.first().map(|failure| Error::failed(format!("{}: {}", failure.what, failure.why)))
    }
}

/// Measures.
pub fn run(options: &Options) -> Report {
    let steps = steps(options.quick);
    let mut samples = Samples::default();
    let mut progress = Progress::new(steps.len() * options.rounds, options.quiet);
    let mut session = Session::new(options.session.clone());
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for (key, job) in &steps {
            progress.step(&format!("{}, {}", key.series.name, key.size));
            let before_ns = exchange(&mut session);
            let result = session.run(job);
            let canary = Canary { before_ns, after_ns: exchange(&mut session) };
            samples.best.note(canary.before_ns);
            match result.map(|answer| answer.first.first().copied()) {
                Ok(Some(value)) => samples.add(*key, Sample { round, value, canary }),
                Ok(None) => {}
                Err(error) => samples.fail(Failure { what: format!("{}, {} bytes", key.series.name, key.size), why: error.to_string(), ours: true }),
            }
        }
    }
    progress.finish();
    Report { machine: machine::describe(options.session.pinning), rounds: options.rounds, samples }
}

/// Each size by all protocols, next to each other; then short messages by numbers of places.
fn steps(quick: bool) -> Vec<(Key, Job)> {
    let mut steps = Vec::new();
    for (exchanged, metric) in [(Exchanged::PingPong, Metric::AblatedPingPong), (Exchanged::Sendrecv, Metric::AblatedSendrecv)] {
        for &size in SIZES[usize::from(quick)] {
            for (how, series) in PROTOCOLS {
                let job = Job::Ablation { how, exchanged, size, count: count(size) };
                steps.push((Key::new(metric, series, size as u64), job));
            }
        }
    }
    for places in PLACES {
        for (how, series) in [(Ablated::Polled(places), s::POLLED), (Ablated::Segments, s::SEGMENTS)] {
            let job = Job::Ablation { how, exchanged: Exchanged::PingPong, size: 8, count: count(8) };
            steps.push((Key::new(Metric::AblatedPlaces, series, places as u64), job));
        }
    }
    steps
}

fn count(size: usize) -> u64 {
    (VOLUME / size).clamp(COUNT_MIN, COUNT_MAX) as u64
}

/// A canary; a machine that is too busy even for that is far.
pub(crate) fn exchange(session: &mut Session) -> f64 {
    let answer = session.run(&Job::Exchange { count: CANARY_COUNT, words: 1 });
    answer.ok().and_then(|answer| answer.first.first().copied()).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_stand_next_to_each_other() {
        let steps = steps(true);
        let sizes: Vec<u64> = steps[..4].iter().map(|(key, _)| key.size).collect();
        assert_eq!(sizes, [8; 4]);
        assert_eq!(steps.len(), 2 * 4 * 4 + 2 * PLACES.len());
        assert_eq!((count(8), count(2 << 20)), (4000, 12));
    }
}
