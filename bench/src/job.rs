// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the controller tells the two measuring processes to do, and what they answer. One JSON
//! object a line, over a socket pair.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::am::AmJob;
use crate::bench::payload::Touch;
use crate::crowd::Layer;
use crate::error::Error;
use crate::ladder::{LadderJob, LoadJob, Rung, Wait};
use crate::mapped::{Carrier, MappedJob};
use crate::splitc::{SplitcJob, Vis};
use crate::verbs::measure::Operation;

/// First line to a new measuring process; the shared memory's descriptor travels before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// Whether this is the first process, the one that measures.
    pub first: bool,
    /// Processor to run on, if pinned.
    pub cpu: Option<usize>,
    /// Library asked for with `--lib`.
    pub library: Option<PathBuf>,
    /// Device name for `VipOpenNic`.
    pub device: String,
    /// `VIP_SERVICE_*` level of all VIs.
    pub reliability: Reliability,
    /// How completions are awaited.
    pub waiting: Waiting,
    /// Addresses, if the processes reach each other by UDP.
    pub ends: Option<Ends>,
}

/// The IP addresses of the two processes, as one of them sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// Its own.
    pub own: IpAddr,
    /// The other one's.
    pub other: IpAddr,
}

/// The three levels of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// `VIP_SERVICE_UNRELIABLE`.
    Unreliable,
    /// `VIP_SERVICE_RELIABLE_DELIVERY`.
    ReliableDelivery,
    /// `VIP_SERVICE_RELIABLE_RECEPTION`.
    ReliableReception,
}

impl Reliability {
    /// The value in the C interface.
    pub fn bits(self) -> u16 {
        match self {
            Reliability::Unreliable => 1,
            Reliability::ReliableDelivery => 2,
            Reliability::ReliableReception => 4,
        }
    }

    /// As it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Reliability::Unreliable => "Unreliable",
            Reliability::ReliableDelivery => "Reliable Delivery",
            Reliability::ReliableReception => "Reliable Reception",
        }
    }
}

/// How a process awaits completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// `VipSendDone` and `VipRecvDone` in a loop.
    Poll,
    /// `VipSendWait` and `VipRecvWait`.
    Block,
}

/// One thing to do, given to both processes at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Rises by one per request; names meetings and connections.
    pub epoch: u64,
    /// Unique to this run on this machine; part of the connections' discriminators.
    pub run: u64,
    /// What to do.
    pub job: Job,
}

/// The benchmarks. Sizes are in bytes; what the first process answers is listed with each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Job {
    /// Limit: `[half round trip ns of the median chunk, mean]`.
    Exchange { count: u64, words: usize },
    /// Limit: `[GB/s]`.
    Copy { size: usize, count: u64, touch: Touch },
    /// Limit: `[GB/s]`, private memory to private memory by way of shared memory.
    Bounce { size: usize, count: u64 },
    /// Limit: `[GB/s]` of `process_vm_readv`.
    Attach { size: usize, count: u64 },
    /// Limit: `[ns from ringing to running again]`, on an eventfd; each side computes for
    /// `pause_us` before it rings, so that the other sleeps.
    Eventfd { count: u64, pause_us: u64 },
    /// Limit: the same on a futex.
    Futex { count: u64, pause_us: u64 },
    /// Limit: `[messages/s]`.
    Ring { count: u64, words: usize },
    /// Limit: `[half round trip ns, less the pause]` over a bare socket, spinning or sleeping.
    Socket { kind: Socket, size: usize, count: u64, blocking: bool, pause_us: u64 },
    /// Limit: the second process answers `[GB/s, % of datagrams lost, messages/s]`: `count` times
    /// `size` bytes one way, in datagrams of at most `datagram` bytes.
    DatagramStream { size: usize, count: u64, datagram: usize },
    /// Limit: the second process answers `[GB/s]`: `count` times `size` bytes one way over TCP.
    ByteStream { size: usize, count: u64 },
    /// Load the library and open the NIC: `[]`, with a description.
    Open,
    /// `[half round trip ns]`.
    Latency { size: usize, count: u64, touch: Touch },
    /// `[ticks of a round trip, ticks of each leg of its way ..]`, the legs if it is watched: see
    /// [`crate::breakdown::path`].
    Steps { size: usize, batches: usize, watched: bool },
    /// `[ticks of a mark]`: see [`crate::marks`].
    Mark,
    /// `[ticks of a look that finds nothing]`.
    EmptyPolls { count: u64 },
    /// `[p50, p90, p99, p99.9, max]` of half round trips in ns.
    Percentiles { size: usize, count: u64 },
    /// `[GB/s]`; both ways: the sum. Also the processor shares of a side in per cent: `[GB/s, %]`,
    /// the second process `[%]`.
    Bandwidth { size: usize, count: u64, touch: Touch, both_ways: bool },
    /// `[messages/s]`.
    Rate { size: usize, count: u64 },
    /// The same, sent without descriptors (`VipxSendInline`).
    RateInline { size: usize, count: u64 },
    /// `[half round trip ns]`, both sides polling their memory.
    WriteLatency { count: u64 },
    /// `[GB/s]`.
    WriteBandwidth { size: usize, count: u64, touch: Touch },
    /// `[ns per read]`.
    ReadLatency { size: usize, count: u64 },
    /// `[GB/s]`.
    ReadBandwidth { size: usize, count: u64 },
    /// `[ns to register, ns to deregister]`; user memory, or the engine's.
    Registration { size: usize, count: u64, engine_memory: bool },
    /// `[ns]`: half round trip of 8 bytes less the pause; each side computes for `pause_us` before
    /// it answers, so that the other sleeps if it ever does.
    Wake { count: u64, pause_us: u64 },
    /// `[messages/s]` of one ping-pong among several, for this many milliseconds.
    PingPong { millis: u64 },
    /// Another job, with descriptors and data in memory of the process instead of the engine's.
    InUserMemory(Box<Job>),
    /// LogP: `[o_send, o_recv, upkeep]` in ns.
    Overhead { size: usize, bursts: u64 },
    /// LogP: `[ns between two requests]` of bursts of `burst`, a delay after each request.
    Signature { size: usize, burst: u64, delay_ns: u64, bursts: u64 },
    /// Of the layer of Active Messages: see [`AmJob`].
    Am(AmJob),
    /// Active Messages on the calls of libvipl, with so many credits: see [`MappedJob`].
    Mapped { carrier: Carrier, credits: u16, job: MappedJob },
    /// Split-C's operations on the calls of libvipl: see [`SplitcJob`].
    Splitc { vis: Vis, job: SplitcJob },
    /// A message-passing library on a rung of a ladder: see [`LadderJob`].
    Ladder { rung: Rung, wait: Wait, job: LadderJob },
    /// Processor time of messages at a fixed rate: see [`LoadJob`].
    Load(LoadJob),
    /// AMVIA as in its paper: `[half round trip ns]`, or streamed `[ns between two requests]` with
    /// replies.
    Amvia { layout: Layout, count: u64, streamed: bool },
    /// A message-passing library's protocols: `[half round trip ns]`, or `[ns]` of an exchange: see
    /// [`crate::bench::ablation`].
    Ablation { how: Ablated, exchanged: Exchanged, size: usize, count: u64 },
    /// Connect this many VIs and keep them: both answer `[resident bytes per VI]`.
    ScalingOpen { vis: usize, active: usize },
    /// `[half round trip ns]` over the active VIs in turn.
    ScalingLatency { count: u64 },
    /// `[half round trip ns, messages/s]` with so many peers, one of them active: see
    /// [`crate::crowd`].
    Peers { layer: Layer, peers: usize, count: u64 },
    /// A figure of a queue pair: see [`crate::verbs::measure`].
    Verbs { operation: Operation, size: usize, count: u64, stream: bool },
}

/// How a message-passing library uses a VI: see [`crate::bench::ablation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablated {
    /// Copies through segments alone.
    Segments,
    /// RDMA, registering and deregistering for each message.
    Registering,
    /// RDMA, and registrations are kept.
    Cached,
    /// The same, and short messages are written to one of so many places that the receiver polls.
    Polled(usize),
}

impl Ablated {
    /// Places that are polled.
    pub fn places(self) -> usize {
        if let Ablated::Polled(places) = self { places } else { 0 }
    }
}

/// What two processes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exchanged {
    /// A message there, one back.
    PingPong,
    /// Both send and receive.
    Sendrecv,
}

/// How AMVIA lays a pair of endpoints over VIs: see [`crate::bench::amvia`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Three VIs.
    V1,
    /// One.
    V3,
}

/// A bare socket of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Socket {
    /// UDP, connected.
    Udp,
    /// TCP without delay.
    Tcp,
}

/// The answer of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Figures as listed at [`Job`], and a remark for people.
    Done {
        /// The figures.
        values: Vec<f64>,
        /// The remark; mostly empty.
        note: String,
    },
    /// [`Error::Unsupported`].
    Unsupported(String),
    /// [`Error::Failed`].
    Failed(String),
}

impl From<Result<(Vec<f64>, String), Error>> for Reply {
    fn from(result: Result<(Vec<f64>, String), Error>) -> Self {
        match result {
            Ok((values, note)) => Reply::Done { values, note },
            Err(Error::Unsupported(text)) => Reply::Unsupported(text),
            Err(Error::Failed(text)) => Reply::Failed(text),
        }
    }
}

impl From<Reply> for Result<(Vec<f64>, String), Error> {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Done { values, note } => Ok((values, note)),
            Reply::Unsupported(text) => Err(Error::Unsupported(text)),
            Reply::Failed(text) => Err(Error::Failed(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        let request = Request { epoch: 3, run: u64::MAX, job: Job::Copy { size: 4096, count: 7, touch: Touch::All } };
        let text = serde_json::to_string(&request).unwrap();
        assert!(!text.contains('\n'));
        let back: Request = serde_json::from_str(&text).unwrap();
        assert_eq!((back.epoch, back.run, back.job), (3, u64::MAX, request.job));
    }
}
