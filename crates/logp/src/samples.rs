// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that was measured, by what, by whom and by size; and the figure quoted of a set of samples.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::canary::{Best, Canary, Mode};
use crate::stats::{Summary, summarize};

/// What a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Half round trip of messages, ns, by message size.
    Latency,
    /// Quantiles of single half round trips, ns, by per mille.
    Percentile,
    /// One-way bandwidth of messages, GB/s, by size.
    Bandwidth,
    /// Sum of both directions at once, GB/s, by size.
    BothWays,
    /// Messages per second, by size.
    Rate,
    /// Half round trip through polled memory, ns, by size.
    WriteLatency,
    /// Bandwidth into the other side's memory, GB/s, by size.
    WriteBandwidth,
    /// Time of one read, ns, by size.
    ReadLatency,
    /// Bandwidth out of the other side's memory, GB/s, by size.
    ReadBandwidth,
    /// Time to register, ns, by size.
    Registration,
    /// Time to deregister, ns, by size.
    Deregistration,
    /// Processor use while streaming, per cent of one processor, by size.
    Cpu,
    /// Half round trip over ten active VIs, ns, by number of connected VIs.
    ManyVis,
    /// Growth of resident memory per idle VI, bytes, by number of connected VIs.
    ViMemory,
    /// From a message's sending to its taker's running when that waits long, ns, by the length of the wait in microseconds.
    Waiting,
    /// Half round trip of messages between processes that wait instead of polling, ns, by size.
    Blocking,
    /// Bandwidth into the other side's memory while packets are lost on purpose, GB/s, by size.
    Loss,
    /// Datagrams that the bare stream of UDP has lost, per cent, by size of the row that it stands in.
    DatagramsLost,
    /// Messages per second of several ping-pongs together, by number of pairs.
    Pairs,
    /// Ablation: half a round trip, ns, by size.
    AblatedPingPong,
    /// Ablation: an exchange, ns, by size.
    AblatedSendrecv,
    /// Ablation: half a round trip of 8 bytes, ns, by the number of places that are polled.
    AblatedPlaces,
    /// MPI: an exchange between two ranks, us a call, by size.
    Sendrecv,
    /// MPI: Allreduce between two ranks, us a call, by size.
    Allreduce,
    /// MPI: an exchange of 8 bytes around a ring, us a call, by ranks.
    RingOfRanks,
    /// MPI: Allreduce of 8 bytes, us a call, by ranks.
    AllreduceOfRanks,
    /// MPI: Barrier, us a call, by ranks.
    BarrierOfRanks,
    /// LogP: processor time of a send, ns, by size.
    SendOverhead,
    /// LogP: processor time of a receive, ns, by size.
    ReceiveOverhead,
    /// LogP: collecting a completion and posting a receive again, ns, by size.
    Upkeep,
    /// LogP: time between two messages of a long stream, ns, by size.
    Gap,
    /// Breakdown: a round trip, ticks.
    RoundTrip,
    /// Breakdown: a leg of a round trip, ticks, by its place on the way.
    Leg,
    /// LogP: time between two requests, ns, by their number.
    Signature,
    /// Global memory: a read, ns, by type.
    GasRead,
    /// Global memory: a write, ns, by type.
    GasWrite,
    /// Global memory: a get, ns, by type.
    GasGet,
    /// Global memory: a put, ns, by type.
    GasPut,
    /// Global memory: a store, ns, by type.
    GasStore,
    /// Global memory: bulk reads, GB/s, by size.
    GasBulkRead,
    /// Global memory: bulk writes, GB/s, by size.
    GasBulkWrite,
    /// Global memory: bulk gets, GB/s, by size.
    GasBulkGet,
    /// Global memory: bulk puts, GB/s, by size.
    GasBulkPut,
    /// Global memory: bulk stores, GB/s, by size.
    GasBulkStore,
    /// Global memory: an edge of em3d, ns, by per cent of remote edges.
    Em3d,
    /// Global memory: a get and its sync by packets, ns, without marks and with.
    GasTrip,
    /// Global memory: a piece of it, ns, by its place.
    GasLeg,
    /// Global memory: all of a program's work, ms, by the number of processes.
    Speedup,
}

impl Metric {
    /// All of `bellwire perf`, in the order of its report.
    pub const ALL: [Metric; 19] = [
        Metric::Latency,
        Metric::Percentile,
        Metric::Rate,
        Metric::Bandwidth,
        Metric::BothWays,
        Metric::WriteLatency,
        Metric::WriteBandwidth,
        Metric::ReadLatency,
        Metric::ReadBandwidth,
        Metric::Registration,
        Metric::Deregistration,
        Metric::Cpu,
        Metric::ManyVis,
        Metric::ViMemory,
        Metric::Blocking,
        Metric::Waiting,
        Metric::Loss,
        Metric::DatagramsLost,
        Metric::Pairs,
    ];

    /// All of `bellwire bench mpi`, in the order of its report.
    pub const MPI: [Metric; 7] =
        [Metric::Latency, Metric::Bandwidth, Metric::Sendrecv, Metric::Allreduce, Metric::RingOfRanks, Metric::AllreduceOfRanks, Metric::BarrierOfRanks];

    /// All of `bellwire gas`, in the order of its report.
    pub const GAS: [Metric; 12] = [
        Metric::GasRead,
        Metric::GasWrite,
        Metric::GasGet,
        Metric::GasPut,
        Metric::GasStore,
        Metric::GasBulkRead,
        Metric::GasBulkWrite,
        Metric::GasBulkGet,
        Metric::GasBulkPut,
        Metric::GasBulkStore,
        Metric::Em3d,
        Metric::Speedup,
    ];

    /// Title of its table.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Latency => "Latency: half round trip of send/receive",
            Metric::Percentile => "Latency of single messages of 8 bytes: quantiles of half round trips",
            Metric::Bandwidth => "Bandwidth, one way, send/receive",
            Metric::BothWays => "Bandwidth, both ways at once, sum",
            Metric::Rate => "Message rate, send to receive",
            Metric::WriteLatency => "RDMA write: half round trip, memory polled",
            Metric::WriteBandwidth => "RDMA write: bandwidth",
            Metric::ReadLatency => "RDMA read: time of one read",
            Metric::ReadBandwidth => "RDMA read: bandwidth",
            Metric::Registration => "Registration of memory",
            Metric::Deregistration => "Deregistration of memory",
            Metric::Cpu => "Processor use while streaming, of one processor",
            Metric::ManyVis => "Many VIs, ten of them active: half round trip of 8 bytes",
            Metric::ViMemory => "Many VIs: resident memory per idle VI",
            Metric::Waiting => "Waking: half round trip of 8 bytes, each side computing before it answers, less that time",
            Metric::Blocking => "Latency, blocking: half round trip of send/receive between processes that wait",
            Metric::Loss => "RDMA write while packets are lost on purpose: bandwidth",
            Metric::DatagramsLost => "Datagrams lost by the bare streams, which repair nothing",
            Metric::Pairs => "Many ping-pong pairs of 8 bytes: messages of all together",
            Metric::AblatedPingPong => "Ping-pong: half round trip",
            Metric::AblatedSendrecv => "Exchange: both send and receive",
            Metric::AblatedPlaces => "Ping-pong of 8 bytes, so many places polled",
            Metric::Sendrecv => "Sendrecv between two ranks",
            Metric::Allreduce => "Allreduce between two ranks",
            Metric::RingOfRanks => "Sendrecv around a ring, 8 bytes",
            Metric::AllreduceOfRanks => "Allreduce, 8 bytes",
            Metric::BarrierOfRanks => "Barrier",
            Metric::SendOverhead => "LogP: o_send",
            Metric::ReceiveOverhead => "LogP: o_recv",
            Metric::Upkeep => "LogP: upkeep",
            Metric::Gap => "LogP: gap",
            Metric::RoundTrip => "Breakdown: round trip",
            Metric::Leg => "Breakdown: leg",
            Metric::Signature => "LogP: signature",
            Metric::GasRead => "Read",
            Metric::GasWrite => "Write",
            Metric::GasGet => "Get, 64 in a phase",
            Metric::GasPut => "Put, 64 in a phase",
            Metric::GasStore => "Store",
            Metric::GasBulkRead => "Bulk read",
            Metric::GasBulkWrite => "Bulk write",
            Metric::GasBulkGet => "Bulk get; of ours one in a phase, of others 64, all to one place",
            Metric::GasBulkPut => "Bulk put, 64 in a phase; of large ones as many as are 1 MiB",
            Metric::GasBulkStore => "Bulk store; of the raw VI RDMA write, of Active Messages bulk messages",
            Metric::Em3d => "em3d: time for an edge",
            Metric::GasTrip => "A get and its sync by packets",
            Metric::GasLeg => "A piece of a get by packets",
            Metric::Speedup => "The same work on one process and on two",
        }
    }

    /// Unit of the samples.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Bandwidth | Metric::BothWays | Metric::WriteBandwidth | Metric::ReadBandwidth | Metric::Loss => "GB/s",
            Metric::GasBulkRead | Metric::GasBulkWrite | Metric::GasBulkGet | Metric::GasBulkPut | Metric::GasBulkStore => "GB/s",
            Metric::Speedup => "ms",
            Metric::Rate | Metric::Pairs => "msg/s",
            Metric::Cpu | Metric::DatagramsLost => "%",
            Metric::ViMemory => "bytes",
            Metric::RoundTrip | Metric::Leg => "ticks",
            Metric::Sendrecv | Metric::Allreduce | Metric::RingOfRanks | Metric::AllreduceOfRanks | Metric::BarrierOfRanks => "us",
            _ => "ns",
        }
    }

    /// Heading of the column that names the rows.
    pub fn row_heading(self) -> &'static str {
        match self {
            Metric::Percentile => "quantile",
            Metric::ManyVis | Metric::ViMemory => "VIs",
            Metric::Pairs => "pairs",
            Metric::AblatedPlaces => "places",
            Metric::RingOfRanks | Metric::AllreduceOfRanks | Metric::BarrierOfRanks => "ranks",
            Metric::Waiting => "computing",
            Metric::GasRead | Metric::GasWrite | Metric::GasGet | Metric::GasPut | Metric::GasStore => "type",
            Metric::Em3d => "remote",
            Metric::Speedup => "processes",
            _ => "size",
        }
    }

    /// Whether less is better.
    pub fn less_is_better(self) -> bool {
        !matches!(self.unit(), "GB/s" | "msg/s")
    }
}

/// What kind of thing a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// libvipl.
    Ours,
    /// The machine.
    Limit,
    /// Another library; with cross-memory attach for large messages if so marked.
    Peer {
        /// Whether it uses cross-memory attach.
        cma: bool,
    },
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Series {
    /// Heading.
    pub name: &'static str,
    /// What it is about.
    pub kind: Kind,
}

/// A cell: what, by whom, at which size (or quantile, or number of VIs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// What.
    pub metric: Metric,
    /// By whom.
    pub series: Series,
    /// At which size.
    pub size: u64,
}

impl Key {
    /// A key.
    pub fn new(metric: Metric, series: Series, size: u64) -> Self {
        Key { metric, series, size }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Round it was taken in, from 1.
    pub round: usize,
    /// In the metric's unit.
    pub value: f64,
    /// The machine around it.
    pub canary: Canary,
}

/// What is quoted of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Over the near samples, or over all if none is near.
    pub summary: Summary,
    /// Whether near samples were there.
    pub mode: Mode,
    /// Near samples.
    pub near: usize,
    /// All samples.
    pub total: usize,
}

/// A measurement that did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What was measured.
    pub what: String,
    /// Why there is no figure.
    pub why: String,
    /// Whether it is a failure of ours, and not a peer's or something not offered here.
    pub ours: bool,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub struct Samples {
    cells: BTreeMap<Key, Vec<Sample>>,
    order: Vec<Series>,
    /// The best canary.
    pub best: Best,
    /// What did not work; each thing once.
    pub failures: Vec<Failure>,
}

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, key: Key, sample: Sample) {
        if !self.order.contains(&key.series) {
            self.order.push(key.series);
        }
        self.cells.entry(key).or_default().push(sample);
    }

    /// Adds a failure unless it is known.
    pub fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.what == failure.what && known.why == failure.why) {
            self.failures.push(failure);
        }
    }

    /// All cells with their samples.
    pub fn cells(&self) -> impl Iterator<Item = (&Key, &[Sample])> {
        self.cells.iter().map(|(key, samples)| (key, samples.as_slice()))
    }

    /// The figure of a cell.
    pub fn figure(&self, key: &Key) -> Option<Figure> {
        figure(self.cells.get(key)?, self.best.ns())
    }

    /// Series with samples of a metric: ours, limits, peers, each in the order in which they were first measured.
    pub fn series_of(&self, metric: Metric) -> Vec<Series> {
        let measured = |series: &Series| self.cells.keys().any(|key| key.metric == metric && key.series == *series);
        let mut series: Vec<Series> = self.order.iter().copied().filter(measured).collect();
        series.sort_by_key(|series| match series.kind {
            Kind::Ours => 0,
            Kind::Limit => 1,
            Kind::Peer { .. } => 2,
        });
        series
    }

    /// Sizes with samples of a metric, rising.
    pub fn sizes_of(&self, metric: Metric) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.cells.keys().filter(|key| key.metric == metric).map(|key| key.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// The figure of some samples, given the run's best canary.
pub fn figure(samples: &[Sample], best_ns: f64) -> Option<Figure> {
    let near: Vec<f64> = samples.iter().filter(|sample| sample.canary.mode(best_ns) == Mode::Near).map(|sample| sample.value).collect();
    let (mode, summary) = match summarize(&near) {
        Some(summary) => (Mode::Near, summary),
        None => (Mode::Far, summarize(&samples.iter().map(|sample| sample.value).collect::<Vec<_>>())?),
    };
    Some(Figure { summary, mode, near: near.len(), total: samples.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64, canary_ns: f64) -> Sample {
        Sample { round: 1, value, canary: Canary { before_ns: canary_ns, after_ns: canary_ns } }
    }

    #[test]
    fn near_samples_alone_make_the_figure() {
        let figure = figure(&[sample(100.0, 50.0), sample(900.0, 170.0), sample(102.0, 60.0), sample(104.0, 50.0)], 50.0).unwrap();
        assert_eq!((figure.summary.median, figure.near, figure.total, figure.mode), (102.0, 3, 4, Mode::Near));
    }

    #[test]
    fn without_near_samples_the_figure_is_marked() {
        let figure = figure(&[sample(900.0, 170.0)], 50.0).unwrap();
        assert_eq!((figure.summary.median, figure.near, figure.mode), (900.0, 0, Mode::Far));
        assert_eq!(super::figure(&[], 50.0), None);
    }
}
