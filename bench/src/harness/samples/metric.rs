// SPDX-License-Identifier: MIT OR Apache-2.0
//! What numbers say: the metrics, their units, titles and rows.

use serde::Serialize;

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
    /// Time of one atomic request, ns, by size.
    AtomicLatency,
    /// Atomic requests per second, by size.
    AtomicRate,
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
    /// Half round trip with the one active peer, ns, by number of connected peers.
    PeersLatency,
    /// Messages per second to the one active peer, by number of connected peers.
    PeersRate,
    /// From a message's sending to its taker's running when that waits long, ns, by the length of
    /// the wait in microseconds.
    Waiting,
    /// Half round trip of messages between processes that wait instead of polling, ns, by size.
    Blocking,
    /// Bandwidth into the other side's memory while packets are lost on purpose, GB/s, by size.
    Loss,
    /// Datagrams that the bare stream of UDP has lost, per cent, by size of the row that it stands
    /// in.
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
    pub const ALL: [Metric; 23] = [
        Metric::Latency,
        Metric::Percentile,
        Metric::Rate,
        Metric::Bandwidth,
        Metric::BothWays,
        Metric::WriteLatency,
        Metric::WriteBandwidth,
        Metric::ReadLatency,
        Metric::ReadBandwidth,
        Metric::AtomicLatency,
        Metric::AtomicRate,
        Metric::Registration,
        Metric::Deregistration,
        Metric::Cpu,
        Metric::ManyVis,
        Metric::ViMemory,
        Metric::PeersLatency,
        Metric::PeersRate,
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
            Metric::AtomicLatency => "Atomics: time of one request",
            Metric::AtomicRate => "Atomics: rate of a stream",
            Metric::Registration => "Registration of memory",
            Metric::Deregistration => "Deregistration of memory",
            Metric::Cpu => "Processor use while streaming, of one processor",
            Metric::ManyVis => "Many VIs, ten of them active: half round trip of 8 bytes",
            Metric::ViMemory => "Many VIs: resident memory per idle VI",
            Metric::PeersLatency => "Many peers, one of them active: half round trip of 8 bytes",
            Metric::PeersRate => "Many peers, one of them active: message rate, 8 bytes",
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
            Metric::Rate | Metric::Pairs | Metric::PeersRate | Metric::AtomicRate => "msg/s",
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
            Metric::PeersLatency | Metric::PeersRate => "peers",
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
