// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agent's settings.

use bellwire_faults::FaultPlan;
use bellwire_memory::MemoryError;
use bellwire_time::Duration;
use bellwire_wire::agent::AGENT_PORT;
use bellwire_wire::agent::segment::Sizes;
use core::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// How an agent is opened.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its address, at which programs of other hosts reach all its endpoints; the port is the same
    /// on all hosts.
    pub address: SocketAddr,
    /// Endpoints that are served at a time; at least 2, for a sender and its receiver on one host
    /// must be resident together.
    pub frames: usize,
    /// How long an endpoint that has work keeps its frame at least; each time once to twice this.
    pub stay: Duration,
    /// Endpoints without a frame whose memory stays mapped, those that left theirs last: packets
    /// for these need not wait. The kernel's limit is 65,530 mappings of a process.
    pub mapped: usize,
    /// Bytes of packets that are kept for an endpoint which is not mapped, until it is loaded. Data
    /// beyond that is refused as not resident.
    pub parked_bytes: usize,
    /// Packets of one endpoint's turn.
    pub turn_packets: u32,
    /// Bytes of one endpoint's turn.
    pub turn_bytes: usize,
    /// Looks at an empty ring within a turn that had packets, in the hope of more.
    pub loiter: u32,
    /// How long the agent looks before it sleeps.
    pub spin: Duration,
    /// Endpoints at a time.
    pub endpoints: usize,
    /// Endpoints of one user; root's are not bounded.
    pub user_endpoints: usize,
    /// Bytes of an endpoint's rings.
    pub rings: Sizes,
    /// Where virtual networks are kept; `None`: in memory only.
    pub networks: Option<PathBuf>,
    /// Faults on purpose, for what leaves to other hosts.
    pub faults: Option<FaultPlan>,
    /// For an endpoint that is not there, packets are answered so only this long after the start:
    /// programs of the agent before have to come back first.
    pub grace: Duration,
    /// Seed of how long endpoints stay.
    pub seed: u64,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), AGENT_PORT),
            frames: 64,
            stay: Duration::from_millis(5),
            mapped: 16_384,
            parked_bytes: 16 << 10,
            turn_packets: 32,
            turn_bytes: 64 << 10,
            loiter: 2,
            spin: Duration::from_micros(20),
            endpoints: 16_384,
            user_endpoints: 4_096,
            rings: Sizes { tx: 1 << 18, rx: 1 << 18 },
            networks: None,
            faults: None,
            grace: Duration::from_millis(5_000),
            seed: 1,
        }
    }
}

/// Why an agent could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// An agent is there already: of this address, or with this port.
    Taken(SocketAddr),
    /// The UDP socket.
    Udp(SocketAddr, std::io::Error),
    /// The file of virtual networks, in a sentence.
    Networks(String),
    /// Memory, descriptors, names.
    Memory(MemoryError),
}

impl From<MemoryError> for OpenError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(address) => write!(f, "another agent serves {}: stop it first, or give --address", address.ip()),
            Self::Udp(address, error) => write!(f, "no UDP socket at {address}: {error}; --address must be an address of this host"),
            Self::Networks(error) => write!(f, "the file of virtual networks, {error}; mend it, or give another one by --networks"),
            Self::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}
