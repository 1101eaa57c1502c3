// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's ablation as a run: each protocol of [`crate::bench::ablation`] by size, in turn,
//! beside one another. Called by `bellwire bench mpi --ablation`.

use std::time::Duration;

use crate::job::{Ablated, Exchanged, Job};
use crate::peers::Peers;
use crate::plan::{Action, From, Step, Which, series as s};
use crate::report::{Report, Suite};
use crate::run::{self, Limits};
use crate::samples::{Key, Metric, Series};
use crate::session::SessionConfig;

/// Sizes: all, and if it is to be quick.
const SIZES: [&[usize]; 2] = [&[8, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20], &[8, 16 << 10, 64 << 10, 1 << 20]];
/// Places that are polled, to see where that stops paying: connections of a process.
const PLACES: [usize; 4] = [1, 8, 32, 120];
/// Bytes and messages of a measurement, at most.
const VOLUME: usize = 24 << 20;
const COUNT_MAX: usize = 4000;
const COUNT_MIN: usize = 8;

/// The protocols with the names of their columns.
const PROTOCOLS: [(Ablated, Series); 4] =
    [(Ablated::Segments, s::SEGMENTS), (Ablated::Registering, s::REGISTERING), (Ablated::Cached, s::CACHED), (Ablated::Polled(1), s::POLLED)];

const SUITE: Suite = Suite {
    command: "bench mpi --ablation",
    about: "Messages lie in memory of the program, unregistered. Below 32,000 bytes the first three are the same; polled: up to 16 KiB, beyond as cached.\n",
    metrics: &METRICS,
    hint: None,
};
/// The tables and charts.
pub const METRICS: [Metric; 3] = [Metric::AblatedPingPong, Metric::AblatedSendrecv, Metric::AblatedPlaces];

/// Measures in so many rounds, fewer sizes if `quick`.
pub fn run(session: &SessionConfig, rounds: usize, quick: bool, quiet: bool) -> Report {
    let label = |key: &Key| format!("{}, {} bytes", key.series.name, key.size);
    let step = |(key, job): (Key, Job)| Step { label: label(&key), action: Action::Pair { which: Which::Main, job, keys: vec![(key, From::First(0))] } };
    let steps: Vec<Step> = steps(quick).into_iter().map(step).collect();
    let limits = Limits { rounds, make_up: Duration::ZERO, waiting: Duration::ZERO };
    let samples = run::run(session, &Peers::default(), &steps, limits, quiet);
    Report::new(SUITE, session, rounds, samples, Vec::new())
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
