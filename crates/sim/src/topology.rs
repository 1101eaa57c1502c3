// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a fabric is made of: nodes, switches, links, routes. Plain data with checks; `fabric` runs
//! it.
//!
//! - `generate.rs`: mesh, star, line, fat tree, torus.
//! - `file.rs`: the TOML form.
//! - `routes.rs`: which way packets go.
//!
//! Only switches forward; a packet's way begins and ends at nodes and has none between.

mod file;
mod generate;
mod routes;

pub(crate) use routes::Routes;

use bellwire_time::Duration;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

/// Limits, so that a mistake in a file is an error and not a machine without memory.
const PLACES_MAX: usize = 1 << 16;
const LINKS_MAX: usize = 1 << 18;

/// A node, by its place in the topology: 0, 1, 2 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A switch, by its place in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// Either end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Packets begin and end here.
    Node(NodeId),
    /// Packets are forwarded here.
    Switch(SwitchId),
}

/// What a full queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Drops what comes (drop-tail).
    #[default]
    Drop,
    /// Holds what comes where it is: the link it came over stops when its buffer is full, and so on
    /// back to the sender. Nothing is lost, and a packet that waits holds up those behind it,
    /// wherever they go (as on Myrinet).
    Hold,
}

/// One direction of a link, with the queue in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Time that a bit travels.
    pub latency: Duration,
    /// Bandwidth; 0 for no limit.
    pub bits_per_second: u64,
    /// Bytes that may wait or be under transmission; 0 for no limit. An empty queue takes a packet
    /// of any size.
    pub queue_bytes: u64,
    /// What a full queue does.
    pub when_full: WhenFull,
    /// Largest packet, bytes; larger ones are dropped. 0 for no limit.
    pub mtu_bytes: u32,
}

impl Default for LinkSpec {
    /// 1 us, 10 Gbit/s, a queue of 256 KiB that drops.
    fn default() -> Self {
        Self { latency: Duration(1_000), bits_per_second: 10_000_000_000, queue_bytes: 256 * 1024, when_full: WhenFull::Drop, mtu_bytes: 0 }
    }
}

/// How ways are found where none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// A shortest way; flows are spread over equal ones by a hash under the seed.
    #[default]
    Shortest,
    /// A shortest way; among equal ones the target's number decides, digit by digit: in a fat tree,
    /// flows to different nodes never share a link on the way down, and a shift of all nodes fills
    /// it.
    ByTarget,
    /// A shortest way among those that never turn up again after going down the tree of switches.
    /// Queues that hold cannot wait for each other in a circle.
    UpDown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub name: String,
    pub address: IpAddr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub ends: [Place; 2],
    /// From the first end to the second, and back.
    pub specs: [LinkSpec; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub from: NodeId,
    pub to: NodeId,
    pub via: Vec<SwitchId>,
}

/// Nodes, switches and links. Made by a generator, from a file, or piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) switches: Vec<String>,
    pub(crate) links: Vec<Link>,
    pub(crate) routes: Vec<Route>,
    places: BTreeMap<String, Place>,
    /// How ways are found where none is given.
    pub routing: Routing,
    /// Bytes that wait at a port until they are taken; 0 for no limit. Beyond that, packets are
    /// dropped, or held if their last link holds.
    pub inbox_bytes: u64,
}

/// Why a topology cannot be: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError(pub(crate) String);

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topology: {}", self.0)
    }
}

impl std::error::Error for TopologyError {}

fn fail<T>(why: impl Into<String>) -> Result<T, TopologyError> {
    Err(TopologyError(why.into()))
}

impl Topology {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node. Without an address it gets 10.0.0.0 plus its number counted from 1.
    ///
    /// # Errors
    /// The name or the address is taken, or the name is none; too many places.
    pub fn add_node(&mut self, name: &str, address: Option<IpAddr>) -> Result<NodeId, TopologyError> {
        let number = self.nodes.len() as u32;
        let address = address.unwrap_or_else(|| Ipv4Addr::from_bits(0x0a00_0001 + number).into());
        let id = NodeId(number);
        self.add_place(name, Place::Node(id))?;
        self.nodes.push(Node { name: name.into(), address });
        Ok(id)
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// The name is taken or none; too many places.
    pub fn add_switch(&mut self, name: &str) -> Result<SwitchId, TopologyError> {
        let id = SwitchId(self.switches.len() as u32);
        self.add_place(name, Place::Switch(id))?;
        self.switches.push(name.into());
        Ok(id)
    }

    fn add_place(&mut self, name: &str, place: Place) -> Result<(), TopologyError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(fits) {
            return fail(format!("{name:?} is no name: letters, digits, dots, underscores and hyphens make one"));
        }
        if self.places.len() >= PLACES_MAX {
            return fail(format!("more than {PLACES_MAX} nodes and switches"));
        }
        if self.places.insert(name.into(), place).is_some() {
            return fail(format!("two places are called {name}"));
        }
        Ok(())
    }

    /// Adds a link that is alike in both directions.
    ///
    /// # Errors
    /// As [`Topology::add_link_each_way`].
    pub fn add_link(&mut self, a: Place, b: Place, spec: LinkSpec) -> Result<(), TopologyError> {
        self.add_link_each_way(a, b, spec, spec)
    }

    /// Adds a link, from `a` to `b` and back. There may be several between two places.
    ///
    /// # Errors
    /// Both ends are one place, an end does not exist, or there are too many links.
    pub fn add_link_each_way(&mut self, a: Place, b: Place, there: LinkSpec, back: LinkSpec) -> Result<(), TopologyError> {
        let exists = |place| match place {
            Place::Node(NodeId(n)) => (n as usize) < self.nodes.len(),
            Place::Switch(SwitchId(n)) => (n as usize) < self.switches.len(),
        };
        if !exists(a) || !exists(b) {
            return fail("a link ends at a place that is not there");
        }
        if a == b {
            return fail(format!("a link leads from {} to itself", self.name(a)));
        }
        if self.links.len() >= LINKS_MAX {
            return fail(format!("more than {LINKS_MAX} links"));
        }
        self.links.push(Link { ends: [a, b], specs: [there, back] });
        Ok(())
    }

    /// Gives the way from one node to another: the switches in between, in order. The way back is
    /// not meant.
    ///
    /// # Errors
    /// A way between these two is given already, or the two are one.
    pub fn add_route(&mut self, from: NodeId, to: NodeId, via: Vec<SwitchId>) -> Result<(), TopologyError> {
        if from == to {
            return fail("a route leads from a node to itself");
        }
        if self.routes.iter().any(|r| r.from == from && r.to == to) {
            return fail(format!("two routes lead from {} to {}", self.name(Place::Node(from)), self.name(Place::Node(to))));
        }
        self.routes.push(Route { from, to, via });
        Ok(())
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The address of a node. Panics if there is no such node.
    pub fn address(&self, node: NodeId) -> IpAddr {
        self.nodes[node.0 as usize].address
    }

    /// The name of a place. Panics if there is no such place.
    pub fn name(&self, place: Place) -> &str {
        match place {
            Place::Node(NodeId(n)) => &self.nodes[n as usize].name,
            Place::Switch(SwitchId(n)) => &self.switches[n as usize],
        }
    }

    /// The place of this name.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.places.get(name).copied()
    }

    /// The place by number: nodes first, then switches.
    pub(crate) fn number(&self, place: Place) -> u32 {
        match place {
            Place::Node(NodeId(n)) => n,
            Place::Switch(SwitchId(n)) => self.nodes.len() as u32 + n,
        }
    }

    /// Checks what can be checked only when all is there: distinct addresses, given routes that
    /// exist, a way between any two nodes.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), TopologyError> {
        let mut taken = BTreeMap::new();
        for node in &self.nodes {
            if let Some(other) = taken.insert(node.address, &node.name) {
                return fail(format!("{other} and {} have one address, {}", node.name, node.address));
            }
        }
        let routes = Routes::new(self, 0);
        for route in &self.routes {
            routes.given(self, route)?;
        }
        if let Some((a, b)) = routes.parted() {
            return fail(format!("no way leads from {} to {}", self.nodes[a as usize].name, self.nodes[b as usize].name));
        }
        Ok(())
    }
}
