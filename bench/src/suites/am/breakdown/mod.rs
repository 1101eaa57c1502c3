// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire breakdown`: where the time of an Active Message goes, in cycles, by the categories and
//! calls of the AMVIA paper's Tables 3 and 5.
//!
//! Ping-pongs run by turns in one run: of the raw VI and of Active Messages, each with its steps
//! marked ([`crate::marks`]) and without. A mark waits until all before it is done, and costs what
//! a row of marks with nothing between them shows; that is taken off each piece of a processor's
//! work. What the round trip without marks takes beyond these pieces is the transfers': there a
//! mark is made while a message is on its way. So the pieces add up to the round trip without
//! marks, and whatever a processor does beside its neighbour's work makes the transfers shorter.
//! The check is a mapping cost that knows nothing of pieces: both round trips measured once more
//! without marks, in steps of their own.
//!
//! | file | concern |
//! |---|---|
//! | `path.rs` | the pieces of a way, their categories and calls |
//! | `tally.rs` | stamps of two processes made into times |
//! | `mod.rs` | the plan, and costs out of times |
//! | `report.rs` | tables and JSON |

pub mod path;
pub mod report;
pub mod tally;

use std::time::Duration;

use serde::Serialize;

use crate::am::{AmJob, Way};
use crate::bench::payload::Touch;
use crate::clock;
use crate::error::Error;
use crate::job::Job;
use crate::model::Options;
use crate::peers::Peers;
use crate::plan::{Action, From, Step, Which, series as s};
use crate::run::{self, Head};
use crate::samples::{Failure, Key, Kind as SeriesKind, Metric, Samples, Series};
use path::{Kind, Leg, Primitive};

/// Bytes of the short message, as for [`crate::layer`].
const SHORT_BYTES: u64 = crate::layer::SHORT;
/// Bytes of the medium.
const MEDIUM_BYTES: u64 = 4 << 10;
/// Bytes of the bulk messages: that of the paper's Table 5, and a long one.
const BULK_BYTES: [u64; 2] = [1 << 10, 64 << 10];

const fn series(name: &'static str) -> Series {
    Series { name, kind: SeriesKind::Ours }
}
const RAW: Series = series("raw VI");
const SHORT: Series = series("short");
const MEDIUM: Series = series("medium");
const BULK: Series = series("bulk");
const BULK_STREAM: Series = series("bulk in a stream");
const MARK: Series = series("a mark");

/// A way that is measured.
#[derive(Debug, Clone, Copy)]
struct Measured {
    series: Series,
    size: u64,
    legs: &'static [Leg],
}

static MEASURED: [Measured; 5] = [
    Measured { series: RAW, size: SHORT_BYTES, legs: &path::RAW },
    Measured { series: SHORT, size: SHORT_BYTES, legs: &path::SHORT },
    Measured { series: MEDIUM, size: MEDIUM_BYTES, legs: &path::SHORT },
    Measured { series: BULK, size: BULK_BYTES[0], legs: &path::BULK },
    Measured { series: BULK, size: BULK_BYTES[1], legs: &path::BULK },
];

/// What a piece of a way costs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost {
    /// What is done.
    pub what: &'static str,
    /// Of what kind it is.
    pub kind: Kind,
    /// In which call.
    pub of: Primitive,
    /// Whether the round trip waits for it.
    pub waited_for: bool,
    /// Cycles of the time stamp counter, the mark's own taken off.
    pub cycles: f64,
}

/// A way and its pieces.
#[derive(Debug, Clone, Serialize)]
pub struct Breakdown {
    /// What is sent: the raw VI's message, or a kind of request, which is answered by a short
    /// reply.
    pub name: &'static str,
    /// Bytes: of the message if it is short, else of the payload.
    pub size: u64,
    /// A round trip without marks, cycles.
    pub round_trip: f64,
    /// With marks.
    pub marked_round_trip: f64,
    /// The pieces.
    pub costs: Vec<Cost>,
    /// A look that finds nothing, cycles.
    pub empty_poll: Option<f64>,
}

impl Breakdown {
    /// Cycles of a kind that the round trip waits for.
    pub fn waited(&self, kind: Kind) -> f64 {
        self.costs.iter().filter(|cost| cost.kind == kind && cost.waited_for).map(|cost| cost.cycles).sum()
    }

    /// Processor time of both sides, cycles: without transfers and the measuring program, with a
    /// look that finds nothing for each message.
    pub fn processor(&self) -> f64 {
        let own = |cost: &&Cost| !matches!(cost.kind, Kind::Transfer | Kind::Program);
        self.costs.iter().filter(own).map(|cost| cost.cycles).sum::<f64>() + 2.0 * self.empty_poll.unwrap_or(0.0)
    }
}

/// What a bulk message takes in a stream above the raw RDMA write: the paper's Table 5.
#[derive(Debug, Clone, Serialize)]
pub struct BulkDifference {
    /// Bytes of a message.
    pub size: u64,
    /// Time between two raw RDMA writes, cycles.
    pub write: f64,
    /// Time between two bulk messages, cycles.
    pub bulk: f64,
    /// What the sender's call does in the stream, a mark's cost taken off each.
    pub costs: Vec<Cost>,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Breakdowns {
    /// Where and how it was.
    #[serde(flatten)]
    pub head: Head,
    /// Nanoseconds of a cycle.
    pub ns_per_cycle: f64,
    /// What a mark costs, cycles.
    pub mark: f64,
    /// The ways.
    pub ways: Vec<Breakdown>,
    /// The mapping cost measured once more, without marks: of half a round trip, cycles.
    #[serde(rename = "delta_measured")]
    pub delta: Option<f64>,
    /// Bulk messages in a stream.
    pub bulk: Vec<BulkDifference>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

impl Breakdowns {
    /// The way of this name.
    pub fn way(&self, name: &str) -> Option<&Breakdown> {
        self.ways.iter().find(|way| way.name == name)
    }

    /// By kind, what half a round trip of Active Messages waits for above the raw VI's, cycles.
    pub fn differences(&self) -> Option<Vec<(Kind, f64)>> {
        let (raw, short) = self.way(RAW.name).zip(self.way(SHORT.name))?;
        Some(Kind::ALL.map(|kind| (kind, (short.waited(kind) - raw.waited(kind)) / 2.0)).to_vec())
    }
}

/// Measures; of the options the sizes say nothing here.
///
/// # Errors
/// If the library cannot be opened. Failures of single measurements are in the result.
pub fn run(options: &Options) -> Result<Breakdowns, Error> {
    let (head, samples) = run::of_library(&options.session, &Peers::default(), &steps(options.quick), options.limits, options.quiet)?;
    let ns_per_cycle = clock::ns_per_tick(Duration::from_millis(50));
    Ok(Breakdowns {
        head,
        ns_per_cycle,
        mark: median(&samples, Key::new(Metric::Upkeep, MARK, 0)).unwrap_or(f64::NAN),
        ways: MEASURED.iter().filter_map(|measured| breakdown(&samples, measured)).collect(),
        delta: delta(&samples),
        bulk: BULK_BYTES.iter().filter_map(|size| bulk_difference(&samples, *size, ns_per_cycle)).collect(),
        failures: samples.failures,
    })
}

fn steps(quick: bool) -> Vec<Step> {
    let batches = if quick { 24 } else { 80 };
    let mut steps = Vec::new();
    let mut step = |label: String, job: Job, keys: Vec<Key>| {
        let keys = keys.into_iter().enumerate().map(|(i, key)| (key, From::First(i))).collect();
        steps.push(Step { label, action: Action::Pair { which: Which::Main, job, keys } });
    };
    let trips = batches as u64 * tally::BATCH;
    for measured in &MEASURED {
        for watched in [false, true] {
            let way_batches = if measured.size > 16 << 10 { batches / 4 } else { batches };
            let keys = if watched {
                let legs = (0..measured.legs.len()).map(|leg| leg_key(measured, leg));
                std::iter::once(trip_key(measured, true)).chain(legs).collect()
            } else {
                vec![trip_key(measured, false)]
            };
            let label = format!("{} {}{}", measured.series.name, measured.size, if watched { ", marked" } else { "" });
            step(label, job(measured, way_batches, watched), keys);
        }
    }
    for measured in &MEASURED[..2] {
        step(format!("{}, once more", measured.series.name), job(measured, batches, false), vec![again_key(measured)]);
    }
    step("a mark".to_owned(), Job::Mark, vec![Key::new(Metric::Upkeep, MARK, 0)]);
    step("polls in vain: raw VI".to_owned(), Job::EmptyPolls { count: 10_000 }, vec![Key::new(Metric::Upkeep, RAW, 0)]);
    step("polls in vain: Active Messages".to_owned(), Job::Am(AmJob::EmptyPolls { count: 10_000 }), vec![Key::new(Metric::Upkeep, SHORT, 0)]);
    for bytes in BULK_BYTES {
        let (size, count) = (bytes as usize, if bytes > 16 << 10 { trips / 10 } else { trips });
        step(format!("RDMA write {bytes}"), Job::WriteBandwidth { size, count, touch: Touch::Ends }, vec![Key::new(Metric::WriteBandwidth, s::OURS, bytes)]);
        step(format!("bulk {bytes}"), Job::Am(AmJob::Bulk { size, count }), vec![Key::new(Metric::WriteBandwidth, s::AM, bytes)]);
        let legs = (0..path::BULK_STREAM.len()).map(|leg| stream_key(bytes, leg)).collect();
        step(format!("bulk {bytes} in a stream, marked"), Job::Am(AmJob::BulkSteps { size, count }), legs);
    }
    steps
}

fn job(measured: &Measured, batches: usize, watched: bool) -> Job {
    let size = measured.size as usize;
    let way = match measured.series {
        RAW => return Job::Steps { size, batches, watched },
        SHORT => Way::Short,
        MEDIUM => Way::Medium,
        _ => Way::Bulk,
    };
    Job::Am(AmJob::Steps { way, size: if way == Way::Short { 0 } else { size }, batches, watched })
}

/// Ways of one series differ in their size, legs of one way in their place: both are in a key's
/// size.
fn leg_key(measured: &Measured, leg: usize) -> Key {
    Key::new(Metric::Leg, measured.series, measured.size << 8 | leg as u64)
}

fn stream_key(size: u64, leg: usize) -> Key {
    Key::new(Metric::Leg, BULK_STREAM, size << 8 | leg as u64)
}

fn trip_key(measured: &Measured, watched: bool) -> Key {
    Key::new(Metric::RoundTrip, measured.series, measured.size << 8 | u64::from(watched))
}

fn again_key(measured: &Measured) -> Key {
    Key::new(Metric::Latency, measured.series, measured.size)
}

fn median(samples: &Samples, key: Key) -> Option<f64> {
    samples.figure(&key).map(|figure| figure.summary.median)
}

fn breakdown(samples: &Samples, measured: &Measured) -> Option<Breakdown> {
    let (round_trip, marked_round_trip) = median(samples, trip_key(measured, false)).zip(median(samples, trip_key(measured, true)))?;
    let times: Option<Vec<f64>> = (0..measured.legs.len()).map(|leg| median(samples, leg_key(measured, leg))).collect();
    let empty_poll = median(samples, Key::new(Metric::Upkeep, if measured.series == RAW { RAW } else { SHORT }, 0));
    let (name, size) = (measured.series.name, measured.size);
    let mark = median(samples, Key::new(Metric::Upkeep, MARK, 0))?;
    let costs = costs(measured.legs, &times?, round_trip, marked_round_trip, mark);
    Some(Breakdown { name, size, round_trip, marked_round_trip, costs, empty_poll })
}

/// What the pieces take without their marks. What a transfer takes is what is left of the round
/// trip without marks: while a message is on its way a mark costs nothing, or makes a look later.
/// The last piece, the program's own loop, ends the round trip with marks.
fn costs(legs: &[Leg], times: &[f64], round_trip: f64, marked: f64, mark: f64) -> Vec<Cost> {
    let waited = |of: Kind| legs.iter().zip(times).filter(move |(leg, _)| leg.waited_for && (leg.kind == Kind::Transfer) == (of == Kind::Transfer));
    let looped = marked - legs.iter().zip(times).filter(|(leg, _)| leg.waited_for).map(|(_, time)| time).sum::<f64>() - mark;
    let named: f64 = waited(Kind::Program).map(|(_, time)| time - mark).sum::<f64>() + looped;
    let (transfers, marked_transfers) = (round_trip - named, waited(Kind::Transfer).map(|(_, time)| time).sum::<f64>());
    let mut costs: Vec<Cost> = legs
        .iter()
        .zip(times)
        .map(|(leg, time)| {
            let cycles = if leg.kind == Kind::Transfer { transfers * time / marked_transfers } else { time - mark };
            Cost { what: leg.what, kind: leg.kind, of: leg.of, waited_for: leg.waited_for, cycles }
        })
        .collect();
    costs.push(Cost { what: "loop", kind: Kind::Program, of: Primitive::Between, waited_for: true, cycles: looped });
    costs
}

fn delta(samples: &Samples) -> Option<f64> {
    let round_trip = |measured: &Measured| median(samples, again_key(measured));
    round_trip(&MEASURED[1]).zip(round_trip(&MEASURED[0])).map(|(am, raw)| (am - raw) / 2.0)
}

fn bulk_difference(samples: &Samples, size: u64, ns_per_cycle: f64) -> Option<BulkDifference> {
    let each = |series| median(samples, Key::new(Metric::WriteBandwidth, series, size)).map(|gbps| size as f64 / gbps / ns_per_cycle);
    let mark = median(samples, Key::new(Metric::Upkeep, MARK, 0))?;
    let cost = |(i, leg): (usize, &Leg)| {
        let cycles = median(samples, stream_key(size, i))? - mark;
        Some(Cost { what: leg.what, kind: leg.kind, of: leg.of, waited_for: leg.waited_for, cycles })
    };
    let costs: Option<Vec<Cost>> = path::BULK_STREAM.iter().enumerate().map(cost).collect();
    Some(BulkDifference { size, write: each(s::OURS)?, bulk: each(s::AM)?, costs: costs? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_round_trip_without_marks() {
        let times: Vec<f64> = (0..path::SHORT.len()).map(|i| 30.0 + i as f64).collect();
        let waited: f64 = times.iter().zip(&path::SHORT).filter(|(_, leg)| leg.waited_for).map(|(time, _)| time).sum();
        let costs = costs(&path::SHORT, &times, 500.0, waited + 35.0, 25.0);
        let sum: f64 = costs.iter().filter(|cost| cost.waited_for).map(|cost| cost.cycles).sum();
        assert!((sum - 500.0).abs() < 1e-9);
        assert_eq!((costs[0].cycles, costs.last().map(|cost| cost.cycles)), (5.0, Some(10.0)));
        let transfers: Vec<f64> = costs.iter().filter(|cost| cost.kind == Kind::Transfer).map(|cost| cost.cycles).collect();
        assert!(transfers.len() == 2 && transfers[1] > transfers[0], "{transfers:?}");
    }

    #[test]
    fn everything_is_planned_with_marks_and_without() {
        let steps = steps(true);
        let marked = steps.iter().filter(|step| step.label.ends_with(", marked")).count();
        assert_eq!((marked, steps.len()), (MEASURED.len() + BULK_BYTES.len(), 2 * MEASURED.len() + 5 + 3 * BULK_BYTES.len()));
        let keys = steps.iter().flat_map(|step| if let Action::Pair { keys, .. } = &step.action { keys.clone() } else { vec![] }).map(|(key, _)| key);
        let keys: Vec<Key> = keys.collect();
        let different: std::collections::BTreeSet<&Key> = keys.iter().collect();
        assert_eq!(different.len(), keys.len(), "no two figures share a key");
    }
}
