// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fabric: carries opaque datagrams between ports, in virtual time, under faults.
//!
//! ```text
//!   send(port, to, bytes, now) --> queue | lane | switch | queue | lane --> inbox of the port at `to` --> poll(port, now)
//! ```
//!
//! - `ports.rs`: attach, detach, send, poll.
//! - `moving.rs`: packets move from queue to lane to queue; time moves to where something happens
//!   next.
//! - `lane.rs`: one direction of a link: bandwidth, queue, buffer.
//! - `outages.rs`: partitions, links down, crashes, clocks; from the plan or by hand.
//! - `packets.rs`, `record.rs`, `hash.rs`: storage, counts and digest, hashing.
//!
//! The caller is a harness that steps engines (or transports, or tests) and moves time to the next
//! event of anybody.
//!
//! Invariants
//! - S1: what happens is a function of topology, plan, seed and the calls: no clock, thread,
//!   address or hash order takes part.
//! - S2: packets are conserved: sent + duplicated = delivered + dropped + in flight.
//! - S3: one flow (from one address to another) takes one way; without reordering faults its
//!   packets arrive in order.
//! - S4: at one instant outages come first, then lanes by number, then late packets; calls come
//!   after what happens at their `now`.
//!
//! Cost: one event in a heap of lanes (two for a busy queue that holds) and no allocation for each
//! hop.

mod eavesdrop;
pub(crate) mod hash;
mod lane;
mod moving;
mod outages;
mod packets;
mod ports;
mod record;

pub use eavesdrop::Overheard;
pub use outages::FabricEvent;
pub use ports::{AttachError, Datagram, SendError};
pub use record::{DropCause, LinkStatistics, Statistics};

use crate::topology::{NodeId, Place, Routes, Topology, TopologyError};
use bellwire_faults::{FaultPlan, Faults, Random};
use bellwire_time::Instant;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use hash::Map;
use lane::{Flying, Lane};
use moving::{Sink, Ways};
use outages::Outages;
use packets::Packets;
use ports::PortState;
use record::Record;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Write};

/// An attached port. It is closed by `detach` and by a crash of its node; the number is then used
/// again under another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    index: u32,
    generation: u32,
}

/// A simulated network. See the module's documentation.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    now: u64,
    lanes: Vec<Lane>,
    ways: Ways,
    packets: Packets,
    /// Time and lane of events; an entry counts only if the lane still has that time in
    /// `scheduled`.
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
    /// Packets that may be overtaken, with their lanes.
    late: BinaryHeap<Reverse<(Flying, u32)>>,
    /// Queues and ports that have room again, for which somebody waits.
    relieved: VecDeque<Sink>,
    ports: Vec<PortState>,
    free_ports: Vec<u32>,
    port_at: Map<SocketAddr, u32>,
    node_at: Map<IpAddr, u32>,
    readable: VecDeque<Port>,
    writable: VecDeque<Port>,
    outages: Outages,
    record: Record,
    /// Copies of what was sent, if somebody listens.
    overheard: Option<Vec<Overheard>>,
}

/// Why a fabric cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FabricError {
    /// The topology is wrong in itself.
    Topology(TopologyError),
    /// The plan names what the topology does not have: a sentence.
    Plan(String),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(error) => error.fmt(f),
            Self::Plan(why) => write!(f, "faults: {why}"),
        }
    }
}

impl std::error::Error for FabricError {}

impl Fabric {
    /// A fabric at time 0. Faults are drawn from the plan's seed if it has one, all else from
    /// `seed`.
    ///
    /// # Errors
    /// The topology fails its checks, or the plan names places or links that are not there.
    pub fn new(topology: Topology, plan: &FaultPlan, seed: u64) -> Result<Self, FabricError> {
        topology.check().map_err(FabricError::Topology)?;
        let routes = Routes::new(&topology, seed);
        let outages = Outages::new(&topology, plan, seed)?;
        let fault_seed = plan.seed.unwrap_or(Random::mix(seed, 0xfa_017));
        let mut lanes = Vec::with_capacity(topology.links.len() * 2);
        for link in &topology.links {
            let [a, b] = link.ends.map(|end| topology.name(end));
            for (spec, from, to) in [(link.specs[0], a, b), (link.specs[1], b, a)] {
                let stream = lanes.len() as u64;
                lanes.push(Lane::new(spec, Faults::new(plan.link(from, to), plan.during, fault_seed, stream)));
            }
        }
        let node_at = topology.nodes.iter().zip(0..).map(|(node, number)| (node.address, number)).collect();
        let ways = Ways::new(routes, &topology, seed).map_err(FabricError::Topology)?;
        Ok(Self {
            topology,
            now: 0,
            lanes,
            ways,
            packets: Packets::default(),
            agenda: BinaryHeap::new(),
            late: BinaryHeap::new(),
            relieved: VecDeque::new(),
            ports: Vec::new(),
            free_ports: Vec::new(),
            port_at: Map::default(),
            node_at,
            readable: VecDeque::new(),
            writable: VecDeque::new(),
            outages,
            record: Record::default(),
            overheard: None,
        })
    }

    /// What it is made of.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The time it has come to.
    pub const fn now(&self) -> Instant {
        Instant(self.now)
    }

    /// Counts of all that has happened.
    pub const fn statistics(&self) -> &Statistics {
        &self.record.statistics
    }

    /// Packets that are in queues or on links.
    pub fn in_flight(&self) -> u64 {
        let inboxes: usize = self.ports.iter().map(|p| p.inbox.len()).sum();
        (self.packets.count() - inboxes) as u64
    }

    /// Counts of one direction between two places that a link joins; several links are added up.
    /// `None` if there is no link.
    pub fn link_statistics(&self, from: Place, to: Place) -> Option<LinkStatistics> {
        let mut lanes = self.lanes_between(|a, b| a == from && b == to).peekable();
        lanes.peek()?;
        Some(lanes.map(|lane| self.lanes[lane as usize].statistics).fold(LinkStatistics::default(), |sum, one| LinkStatistics {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
            dropped: sum.dropped + one.dropped,
            queue_bytes_peak: sum.queue_bytes_peak.max(one.queue_bytes_peak),
            held: sum.held + one.held,
        }))
    }

    /// Digest of every event so far: its time, place, kind, and the packet's length and bytes. Two
    /// runs with equal digests did the same.
    pub const fn digest(&self) -> u64 {
        self.record.digest()
    }

    /// From now on writes a line for each event: time in nanoseconds, place, what, bytes, hash of
    /// the bytes, and until when if it leads to a time.
    pub fn trace_to(&mut self, writer: Box<dyn Write>) {
        self.record.trace_to(writer);
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first line that could not be written; the trace ended there.
    pub fn end_trace(&mut self) -> io::Result<()> {
        self.record.end_trace()
    }

    /// Lanes whose ends satisfy a condition.
    fn lanes_between(&self, wanted: impl Fn(Place, Place) -> bool) -> impl Iterator<Item = u32> {
        let lanes = self.topology.links.iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
        lanes.zip(0..).filter_map(move |([a, b], lane)| wanted(a, b).then_some(lane))
    }
}

/// A lane's name, for the trace.
fn lane_name(topology: &Topology, lane: u32) -> String {
    let [a, b] = topology.links[lane as usize / 2].ends;
    let [a, b] = if lane.is_multiple_of(2) { [a, b] } else { [b, a] };
    format!("{}>{}", topology.name(a), topology.name(b))
}

/// A node's name, for the trace.
fn node_name(topology: &Topology, node: u32) -> String {
    topology.name(Place::Node(NodeId(node))).into()
}
