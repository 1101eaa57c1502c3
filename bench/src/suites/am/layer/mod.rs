// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire logp --layer am`: what Active Messages cost above the raw VI that they use, in one
//! alternated run.
//!
//! The rows ask what the AMVIA paper's Table 2 asks: half a round trip of 16 bytes (the least that
//! an Active Message with two arguments takes) and *delta*, what it is above the raw VI's; L, o_s,
//! o_r and g by the method of [`crate::model`]. The rows of AMVIA's layouts are ping-pongs without
//! the rest of Active Messages, so they have no L, o_s and o_r. The curve is that of its Figure 5:
//! bandwidth of bulk messages against their size, beside the raw RDMA write.

pub mod report;
pub mod rpc;

use std::time::Duration;

use bellwire_am::MEDIUM_BYTES_MAX;
use serde::Serialize;

use crate::am::AmJob;
use crate::bench::payload::Touch;
use crate::clock;
use crate::error::Error;
use crate::goals::{self, Goal};
use crate::job::{Job, Layout};
use crate::model::{Options, median};
use crate::peers::Peers;
use crate::peers::libfabric::Way;
use crate::peers::ucx::Test;
use crate::plan::{self, Action, From, Step, Which, series as s};
use crate::run::{self, Head};
use crate::samples::{Failure, Key, Metric, Samples, Series};

/// Bytes of the short message.
pub(crate) const SHORT: u64 = 16;
/// Whose messages ours are compared with.
const OTHERS: [Series; 4] = [s::UCX_AM, s::UCX_UCT_AM, s::SHM_MESSAGE, s::GASNET];
/// Credits that AMVIA's layouts are compared with: 8 are v3's own, 64 are v1's.
pub(crate) const CREDITS: [u64; 7] = [2, 4, 8, 16, 32, 64, 128];
/// Sizes of bulk messages.
pub(crate) const BULK: [u64; 10] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];

/// The parameters of one layer, ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Row {
    /// What it is of.
    pub layer: &'static str,
    /// Half a round trip.
    pub half_round_trip_ns: Option<f64>,
    /// What that is above the raw VI's.
    pub delta_ns: Option<f64>,
    /// The same in cycles of the processor's time stamp counter.
    pub delta_cycles: Option<f64>,
    /// Half a round trip less both overheads.
    pub latency_ns: Option<f64>,
    /// Processor time of a request.
    pub o_send_ns: Option<f64>,
    /// Processor time of taking a message and running its handler.
    pub o_recv_ns: Option<f64>,
    /// Between two messages of a long stream; of requests that are replied to, if the layer has
    /// replies.
    pub gap_ns: Option<f64>,
    /// Between two messages of a long stream one way.
    pub gap_one_way_ns: Option<f64>,
    /// Whether a figure has no near sample.
    pub far: bool,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BulkPoint {
    /// Bytes of a message.
    pub size: u64,
    /// The raw RDMA write, GB/s.
    pub write_gbps: Option<f64>,
    /// Bulk messages, GB/s.
    pub am_gbps: Option<f64>,
    /// The same data carried by medium messages and copied by their handlers, GB/s.
    pub in_messages_gbps: Option<f64>,
}

/// AMVIA's layouts with as many credits each on the VI that carries the messages.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CreditPoint {
    /// The credits.
    pub credits: u64,
    /// v1: between two requests of a long stream, each with a reply, ns.
    pub v1_gap_ns: Option<f64>,
    /// v3: the same.
    pub v3_gap_ns: Option<f64>,
    /// v1: half a round trip, ns.
    pub v1_half_round_trip_ns: Option<f64>,
    /// v3: the same.
    pub v3_half_round_trip_ns: Option<f64>,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Layers {
    /// Where and how it was.
    #[serde(flatten)]
    pub head: Head,
    /// Of the short messages.
    pub short_bytes: u64,
    /// The raw VI and Active Messages, then AMVIA's layouts.
    #[serde(rename = "layers")]
    pub rows: [Row; 4],
    /// AMVIA's layouts at equal credits.
    pub credits: Vec<CreditPoint>,
    /// The curve.
    pub bulk: Vec<BulkPoint>,
    /// Names and versions of what others were measured, and their half round trips.
    pub peers: Vec<String>,
    /// Half round trips of others, ns.
    pub others: Vec<Other>,
    /// Others that are not here.
    pub missing: Vec<String>,
    /// How the goals stand.
    pub goals: Vec<Goal>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

/// Half a round trip of somebody else's messages.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Other {
    /// Whose.
    pub name: &'static str,
    /// Half a round trip, ns.
    pub half_round_trip_ns: f64,
    /// Whether it has no near sample.
    pub far: bool,
}

/// Measures, with `compare` others in the same run too; of the options the sizes say nothing here.
///
/// # Errors
/// If the library cannot be opened. Failures of single measurements are in the result.
pub fn run(options: &Options, compare: bool) -> Result<Layers, Error> {
    let peers = if compare { Peers::find_for_am() } else { Peers::default() };
    let (head, samples) = run::of_library(&options.session, &peers, &steps(options.quick, &peers), options.limits, options.quiet)?;
    let raw = row(&samples, s::OURS, "raw VI", None);
    let am = row(&samples, s::AM, "Active Messages", raw.half_round_trip_ns);
    let figure = |metric, series, size| median(&samples, metric, series, size).map(|(value, _)| value);
    Ok(Layers {
        short_bytes: SHORT,
        head,
        rows: [raw, am, row(&samples, s::AMVIA_V1, "AMVIA v1", raw.half_round_trip_ns), row(&samples, s::AMVIA_V3, "AMVIA v3", raw.half_round_trip_ns)],
        credits: CREDITS
            .map(|credits| {
                let [v1_gap_ns, v3_gap_ns] = [s::AMVIA_V1_CREDITS, s::AMVIA_V3_CREDITS].map(|series| figure(Metric::Gap, series, credits));
                let [v1_half_round_trip_ns, v3_half_round_trip_ns] =
                    [s::AMVIA_V1_CREDITS, s::AMVIA_V3_CREDITS].map(|series| figure(Metric::Latency, series, credits));
                CreditPoint { credits, v1_gap_ns, v3_gap_ns, v1_half_round_trip_ns, v3_half_round_trip_ns }
            })
            .to_vec(),
        bulk: BULK
            .map(|size| {
                let [write_gbps, am_gbps, in_messages_gbps] = [s::OURS, s::AM, s::AM_IN_MESSAGES].map(|series| figure(Metric::WriteBandwidth, series, size));
                BulkPoint { size, write_gbps, am_gbps, in_messages_gbps }
            })
            .to_vec(),
        peers: peers.versions(),
        others: OTHERS
            .iter()
            .filter_map(|&series| median(&samples, Metric::Latency, series, SHORT).map(|(ns, far)| Other { name: series.name, half_round_trip_ns: ns, far }))
            .collect(),
        missing: peers.missing,
        goals: goals::evaluate_layers(&samples),
        failures: samples.failures,
    })
}

/// Others' half round trips of as many bytes, next to ours.
fn of_others(peers: &Peers, trips: u64) -> Vec<Step> {
    let key = |series| Key::new(Metric::Latency, series, SHORT);
    let (size, mut actions) = (SHORT as usize, Vec::new());
    if peers.ucx.is_some() {
        for (test, series) in [(Test::AmLatency, s::UCX_AM), (Test::UctAmLatency, s::UCX_UCT_AM)] {
            actions.push((series, Action::Ucx { test, size, count: trips, key: key(series) }));
        }
    }
    if peers.libfabric.is_some() {
        actions.push((s::SHM_MESSAGE, Action::Libfabric { way: Way::Message, size, count: trips, series: s::SHM_MESSAGE }));
    }
    if peers.gasnet.is_some() {
        // Its clock shows microseconds and its figure nanoseconds: more round trips than of the
        // others.
        actions.push((s::GASNET, Action::Gasnet { count: 10 * trips, key: key(s::GASNET) }));
    }
    actions.into_iter().map(|(series, action)| Step { label: plan::label(&key(series)), action }).collect()
}

fn steps(quick: bool, peers: &Peers) -> Vec<Step> {
    let budget_ns = if quick { 4e6 } else { 12e6 };
    let count = |each_ns: f64, most: u64| ((budget_ns / each_ns) as u64).clamp(16, most);
    let mut steps = of_others(peers, count(300.0, 200_000));
    let mut step = |job: Job, series: Series, size: u64, metrics: &[Metric]| {
        let keys: Vec<(Key, From)> = metrics.iter().enumerate().map(|(i, metric)| (Key::new(*metric, series, size), From::First(i))).collect();
        let label = format!("{}, {} {size}", metrics[0].title(), series.name);
        steps.push(Step { label, action: Action::Pair { which: Which::Main, job, keys } });
    };
    let size = SHORT as usize;
    let trips = count(300.0, 200_000);
    step(Job::Latency { size, count: trips, touch: Touch::All }, s::OURS, SHORT, &[Metric::Latency]);
    step(Job::Am(AmJob::Latency { count: trips }), s::AM, SHORT, &[Metric::Latency]);
    let bursts = count(75_000.0, 400);
    step(Job::Overhead { size, bursts }, s::OURS, SHORT, &[Metric::SendOverhead, Metric::ReceiveOverhead]);
    step(Job::Am(AmJob::Overhead { bursts }), s::AM, SHORT, &[Metric::SendOverhead, Metric::ReceiveOverhead]);
    let stream = count(40.0, 400_000);
    step(Job::Rate { size, count: stream }, s::OURS, SHORT, &[Metric::Rate]);
    step(Job::Am(AmJob::Gap { count: stream, replied: true }), s::AM, SHORT, &[Metric::Gap]);
    step(Job::Am(AmJob::Gap { count: stream, replied: false }), s::AM_ONE_WAY, SHORT, &[Metric::Gap]);
    for (layout, series) in [(Layout::V1, s::AMVIA_V1), (Layout::V3, s::AMVIA_V3)] {
        step(Job::Amvia { layout, credits: None, count: trips, streamed: false }, series, SHORT, &[Metric::Latency]);
        step(Job::Amvia { layout, credits: None, count: stream / 4, streamed: true }, series, SHORT, &[Metric::Gap]);
    }
    for k in CREDITS {
        for (layout, series) in [(Layout::V1, s::AMVIA_V1_CREDITS), (Layout::V3, s::AMVIA_V3_CREDITS)] {
            let credits = Some(k as usize);
            step(Job::Amvia { layout, credits, count: trips, streamed: false }, series, k, &[Metric::Latency]);
            step(Job::Amvia { layout, credits, count: stream / 4, streamed: true }, series, k, &[Metric::Gap]);
        }
    }
    for bytes in BULK {
        let (size, messages) = (bytes as usize, count(60.0 + bytes as f64 * 0.04, 100_000));
        step(Job::WriteBandwidth { size, count: messages, touch: Touch::Ends }, s::OURS, bytes, &[Metric::WriteBandwidth]);
        step(Job::Am(AmJob::Bulk { size, count: messages }), s::AM, bytes, &[Metric::WriteBandwidth]);
        if size <= MEDIUM_BYTES_MAX {
            step(Job::Am(AmJob::InMessages { size, count: messages }), s::AM_IN_MESSAGES, bytes, &[Metric::WriteBandwidth]);
        }
    }
    steps
}

fn row(samples: &Samples, series: Series, layer: &'static str, raw_half: Option<f64>) -> Row {
    let of = |metric, series| median(samples, metric, series, SHORT);
    let by_rate = of(Metric::Rate, series).map(|(rate, far)| (1e9 / rate, far));
    let one_way = if series == s::AM { of(Metric::Gap, s::AM_ONE_WAY) } else { by_rate };
    let figures =
        [of(Metric::Latency, series), of(Metric::SendOverhead, series), of(Metric::ReceiveOverhead, series), of(Metric::Gap, series).or(by_rate), one_way];
    let far = figures.iter().flatten().any(|(_, far)| *far);
    let [half_round_trip_ns, o_send_ns, o_recv_ns, gap_ns, gap_one_way_ns] = figures.map(|figure| figure.map(|(value, _)| value));
    let delta_ns = half_round_trip_ns.zip(raw_half).map(|(own, raw)| own - raw);
    let delta_cycles = delta_ns.map(|ns| ns / clock::ns_per_tick(Duration::from_millis(20)));
    let latency_ns = half_round_trip_ns.zip(o_send_ns).zip(o_recv_ns).map(|((half, send), receive)| half - send - receive);
    Row { layer, half_round_trip_ns, delta_ns, delta_cycles, latency_ns, o_send_ns, o_recv_ns, gap_ns, gap_one_way_ns, far }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_cost_is_what_is_above_the_raw_vi() {
        let samples = Samples::made_up(&[
            (Metric::Latency, s::OURS, SHORT, 90.0),
            (Metric::SendOverhead, s::OURS, SHORT, 20.0),
            (Metric::ReceiveOverhead, s::OURS, SHORT, 45.0),
            (Metric::Latency, s::AM, SHORT, 120.0),
            (Metric::SendOverhead, s::AM, SHORT, 30.0),
            (Metric::ReceiveOverhead, s::AM, SHORT, 50.0),
            (Metric::Rate, s::OURS, SHORT, 25e6),
        ]);
        let raw = row(&samples, s::OURS, "raw", None);
        let am = row(&samples, s::AM, "am", raw.half_round_trip_ns);
        assert_eq!((raw.latency_ns, raw.gap_ns, raw.delta_ns), (Some(25.0), Some(40.0), None));
        assert_eq!((am.latency_ns, am.delta_ns, am.far), (Some(40.0), Some(30.0), false));
        assert!(am.delta_cycles.is_some_and(|cycles| cycles > 1.0));
    }

    #[test]
    fn both_layers_are_planned_side_by_side() {
        let steps = steps(true, &Peers::default());
        let of = |series: Series| steps.iter().filter(|step| step.label.contains(series.name)).count();
        let in_messages = BULK.iter().filter(|size| **size as usize <= MEDIUM_BYTES_MAX).count();
        assert_eq!(steps.len(), 11 + 4 * CREDITS.len() + 2 * BULK.len() + in_messages);
        let alike = |series: Series| steps.iter().filter(|step| step.label.contains(series.name)).count();
        assert_eq!(alike(s::AMVIA_V1_CREDITS), alike(s::AMVIA_V3_CREDITS));
        assert!(of(s::AM) >= BULK.len() + 3);
    }
}
