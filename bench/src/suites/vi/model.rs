// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire logp`: the parameters of the LogP and LogGP models, measured by the published method
//! over the C interface.
//!
//! | parameter | here |
//! |---|---|
//! | o_send, o_recv | processor time of a request issued with gaps, and of receiving one that is there ([`crate::bench::overhead`]) |
//! | L | half a round trip less both overheads |
//! | g | mean time per message in a long one-way stream |
//! | G | slope of the time per message against its size, for long messages |
//!
//! The signature (time between requests against their number, for several delays;
//! [`crate::bench::signature`]) is the check: its left end is o_send, its right end the gap, or the
//! delay and all overheads. Everything runs through [`crate::run`], so each figure is a median of
//! near samples.

pub mod fit;
pub mod report;

use serde::Serialize;

use crate::bench::payload::Touch;
use crate::canary::Mode;
use crate::error::Error;
use crate::job::Job;
use crate::peers::Peers;
use crate::plan::{Action, From, Step, Which, series as s};
use crate::run::{self, Head, Limits};
use crate::samples::{Failure, Key, Kind, Metric, Samples, Series};
use crate::session::SessionConfig;

/// Delays of the signature, ns, each a series.
pub const DELAYS: [(u64, Series); 5] = [
    (0, Series { name: "delay 0", kind: Kind::Ours }),
    (250, Series { name: "delay 250 ns", kind: Kind::Ours }),
    (500, Series { name: "delay 500 ns", kind: Kind::Ours }),
    (1000, Series { name: "delay 1000 ns", kind: Kind::Ours }),
    (2000, Series { name: "delay 2000 ns", kind: Kind::Ours }),
];
/// Numbers of requests of the signature.
const BURSTS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];
/// Sizes from which G is fitted.
const LONG: [u64; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Largest message whose gap is measured with every message in a buffer of its own.
const RATE_SIZE_MAX: u64 = 16 << 10;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Message sizes, bytes, at least one.
    pub sizes: Vec<u64>,
    /// With which processes.
    pub session: SessionConfig,
    /// Rounds, and what is spent on a machine that is slow for a while.
    pub limits: Limits,
    /// Shorter measurements.
    pub quick: bool,
    /// No progress.
    pub quiet: bool,
}

/// The parameters at one size; ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size: u64,
    /// Processor time of a send.
    pub o_send_ns: Option<f64>,
    /// Processor time of a receive.
    pub o_recv_ns: Option<f64>,
    /// Collecting a send's completion and posting a receive again; not part of o_send and o_recv.
    pub upkeep_ns: Option<f64>,
    /// What is left of half a round trip.
    pub latency_ns: Option<f64>,
    /// Between two messages of a long stream.
    pub gap_ns: Option<f64>,
    /// Half a round trip.
    pub half_round_trip_ns: Option<f64>,
    /// Whether a figure has no near sample.
    pub far: bool,
}

/// A point of the signature.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Delay after each request, ns.
    pub delay_ns: u64,
    /// Requests of a burst.
    pub burst: u64,
    /// Mean time between two, ns.
    pub interval_ns: f64,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Model {
    /// Where and how it was.
    #[serde(flatten)]
    pub head: Head,
    /// One row per size.
    #[serde(rename = "parameters")]
    pub rows: Vec<Row>,
    /// Time per byte of long messages, ns, and what a message of no length would take by the same
    /// line, ns.
    #[serde(flatten)]
    pub per_byte: Option<fit::Line>,
    /// Size of the signature's messages, bytes.
    pub signature_size: u64,
    /// The signature.
    pub signature: Vec<Point>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

/// Measures.
///
/// # Errors
/// If the library cannot be opened. Failures of single measurements are in the model.
pub fn run(options: &Options) -> Result<Model, Error> {
    let (head, samples) = run::of_library(&options.session, &Peers::default(), &steps(options), options.limits, options.quiet)?;
    Ok(Model {
        head,
        rows: options.sizes.iter().map(|&size| row(&samples, size)).collect(),
        per_byte: fit::line(&LONG.map(|size| (size as f64, interval(&samples, size))).into_iter().filter_map(|(x, y)| Some((x, y?.0))).collect::<Vec<_>>()),
        signature_size: options.sizes[0],
        signature: signature(&samples),
        failures: samples.failures,
    })
}

fn steps(options: &Options) -> Vec<Step> {
    let budget_ns = if options.quick { 4e6 } else { 12e6 };
    let count = |each_ns: f64, most: u64| ((budget_ns / each_ns) as u64).clamp(16, most);
    let mut steps = Vec::new();
    let mut step = |job: Job, keys: Vec<(Key, From)>| {
        let label = keys.first().map_or_else(String::new, |(key, _)| format!("{}, {} {}", key.metric.title(), key.series.name, key.size));
        steps.push(Step { label, action: Action::Pair { which: Which::Main, job, keys } });
    };
    for &bytes in &options.sizes {
        let size = bytes as usize;
        let message_ns = 150.0 + bytes as f64 * 0.1;
        let key = |metric| Key::new(metric, s::OURS, bytes);
        step(Job::Latency { size, count: count(2.0 * message_ns, 200_000), touch: Touch::Ends }, vec![(key(Metric::Latency), From::First(0))]);
        let keys =
            [Metric::SendOverhead, Metric::ReceiveOverhead, Metric::Upkeep].into_iter().enumerate().map(|(index, metric)| (key(metric), From::First(index)));
        step(Job::Overhead { size, bursts: count(70_000.0 + 32.0 * message_ns, 400) }, keys.collect());
        if bytes <= RATE_SIZE_MAX {
            step(Job::Rate { size, count: count(30.0 + bytes as f64 * 0.1, 400_000) }, vec![(key(Metric::Rate), From::First(0))]);
        }
    }
    for bytes in LONG.into_iter().chain(options.sizes.iter().copied().filter(|size| *size > RATE_SIZE_MAX && !LONG.contains(size))) {
        let size = bytes as usize;
        let job = Job::Bandwidth { size, count: count(bytes as f64 * 0.05, 4000), touch: Touch::Ends, both_ways: false };
        step(job, vec![(Key::new(Metric::Bandwidth, s::OURS, bytes), From::First(0))]);
    }
    let size = options.sizes[0] as usize;
    for (delay_ns, series) in DELAYS {
        for burst in BURSTS {
            let bursts = count((burst * (100 + delay_ns) + 1000) as f64 * 2.0, 20_000);
            step(Job::Signature { size, burst, delay_ns, bursts }, vec![(Key::new(Metric::Signature, series, burst), From::First(0))]);
        }
    }
    steps
}

/// Median, and whether it is a far one.
pub(crate) fn median(samples: &Samples, metric: Metric, series: Series, size: u64) -> Option<(f64, bool)> {
    samples.figure(&Key::new(metric, series, size)).map(|figure| (figure.summary.median, figure.mode == Mode::Far))
}

/// Time between two messages of a long stream, ns.
fn interval(samples: &Samples, size: u64) -> Option<(f64, bool)> {
    let by_rate = median(samples, Metric::Rate, s::OURS, size).map(|(rate, far)| (1e9 / rate, far));
    by_rate.or_else(|| median(samples, Metric::Bandwidth, s::OURS, size).map(|(bandwidth, far)| (size as f64 / bandwidth, far)))
}

fn row(samples: &Samples, size: u64) -> Row {
    let of = |metric| median(samples, metric, s::OURS, size);
    let figures = [of(Metric::SendOverhead), of(Metric::ReceiveOverhead), of(Metric::Upkeep), of(Metric::Latency), interval(samples, size)];
    let far = figures.iter().flatten().any(|(_, far)| *far);
    let [o_send_ns, o_recv_ns, upkeep_ns, half_round_trip_ns, gap_ns] = figures.map(|figure| figure.map(|(value, _)| value));
    let latency_ns = half_round_trip_ns.zip(o_send_ns).zip(o_recv_ns).map(|((half, send), receive)| half - send - receive);
    Row { size, o_send_ns, o_recv_ns, upkeep_ns, latency_ns, gap_ns, half_round_trip_ns, far }
}

fn signature(samples: &Samples) -> Vec<Point> {
    let point = |delay_ns, series, burst| median(samples, Metric::Signature, series, burst).map(|(interval_ns, _)| Point { delay_ns, burst, interval_ns });
    DELAYS.iter().flat_map(|&(delay_ns, series)| BURSTS.iter().filter_map(move |&burst| point(delay_ns, series, burst))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_round_trip_is_taken_apart() {
        let cells = [(Metric::Latency, 90.0), (Metric::SendOverhead, 20.0), (Metric::ReceiveOverhead, 45.0), (Metric::Upkeep, 30.0), (Metric::Rate, 25e6)];
        let samples = Samples::made_up(&cells.map(|(metric, value)| (metric, s::OURS, 8, value)));
        let row = row(&samples, 8);
        assert_eq!((row.latency_ns, row.gap_ns, row.upkeep_ns, row.far), (Some(25.0), Some(40.0), Some(30.0), false));
    }

    #[test]
    fn all_sizes_and_all_delays_are_planned() {
        let session = SessionConfig::made_up();
        let zero = std::time::Duration::ZERO;
        let limits = Limits { rounds: 1, make_up: zero, waiting: zero };
        let steps = steps(&Options { sizes: vec![8, 1 << 17, 48 << 10], session, limits, quick: true, quiet: true });
        let has = |job: &dyn Fn(&Job) -> bool| steps.iter().any(|step| matches!(&step.action, Action::Pair { job: planned, .. } if job(planned)));
        assert!(has(&|job| matches!(job, Job::Bandwidth { size: 49_152, .. })) && !has(&|job| matches!(job, Job::Rate { size: 49_152, .. })));
        assert_eq!(steps.iter().filter(|step| step.label.starts_with(Metric::Signature.title())).count(), DELAYS.len() * BURSTS.len());
        assert_eq!(steps.iter().filter(|step| step.label.contains("131072")).count(), 3);
    }
}
