// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TOML form of a topology (docs/simulator.md). Reads it into the same calls that a program
//! makes.

use super::{LinkSpec, Place, Routing, Topology, TopologyError, WhenFull, fail};
use bellwire_faults::units;
use core::net::IpAddr;
use core::str::FromStr;
use serde::Deserialize;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    routing: RoutingName,
    inbox: Option<Quantity>,
    link_defaults: SpecFields,
    generate: Option<Generate>,
    node: Vec<NodeFields>,
    switch: Vec<SwitchFields>,
    link: Vec<LinkFields>,
    route: Vec<RouteFields>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RoutingName {
    #[default]
    Shortest,
    ByTarget,
    UpDown,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Generate {
    Mesh(usize),
    Star(usize),
    Line(usize),
    FatTree(usize),
    Torus(Vec<usize>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeFields {
    name: String,
    address: Option<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchFields {
    name: String,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct SpecFields {
    latency: Option<Quantity>,
    rate: Option<Quantity>,
    queue: Option<Quantity>,
    when_full: Option<WhenFullName>,
    mtu: Option<Quantity>,
}

/// The fields of one direction stand beside the ends, so that a plain link is one flat table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFields {
    between: [String; 2],
    latency: Option<Quantity>,
    rate: Option<Quantity>,
    queue: Option<Quantity>,
    when_full: Option<WhenFullName>,
    mtu: Option<Quantity>,
    back: Option<SpecFields>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum WhenFullName {
    Drop,
    Hold,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteFields {
    from: String,
    to: String,
    via: Vec<String>,
}

/// `"10G"`, or a plain number.
#[derive(Deserialize, Clone)]
#[serde(untagged, expecting = "a number, or a text like \"10G\"")]
enum Quantity {
    Number(u64),
    Text(String),
}

impl Quantity {
    fn read(&self, parse: impl Fn(&str) -> Result<u64, String>) -> Result<u64, TopologyError> {
        match self {
            Self::Number(n) => parse(&n.to_string()),
            Self::Text(text) => parse(text),
        }
        .map_err(TopologyError)
    }
}

impl SpecFields {
    /// These fields over others.
    fn over(&self, below: LinkSpec) -> Result<LinkSpec, TopologyError> {
        let mut spec = below;
        if let Some(latency) = &self.latency {
            spec.latency = bellwire_time::Duration(latency.read(|t| units::parse_time(t).map(|d| d.0))?);
        }
        if let Some(rate) = &self.rate {
            spec.bits_per_second = rate.read(units::parse_rate)?;
        }
        if let Some(queue) = &self.queue {
            spec.queue_bytes = queue.read(units::parse_bytes)?;
        }
        if let Some(when_full) = self.when_full {
            spec.when_full = match when_full {
                WhenFullName::Drop => WhenFull::Drop,
                WhenFullName::Hold => WhenFull::Hold,
            };
        }
        if let Some(mtu) = &self.mtu {
            let Ok(bytes) = u32::try_from(mtu.read(units::parse_bytes)?) else { return fail("an mtu is less than 4G") };
            spec.mtu_bytes = bytes;
        }
        Ok(spec)
    }
}

impl FromStr for Topology {
    type Err = TopologyError;

    /// Reads the TOML form and checks the whole.
    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let file: File = toml::from_str(text).map_err(|e| TopologyError(e.to_string().trim_end().into()))?;
        let usual = file.link_defaults.over(LinkSpec::default())?;
        let mut topology = match &file.generate {
            None => Self::new(),
            Some(Generate::Mesh(nodes)) => Self::mesh(*nodes, usual)?,
            Some(Generate::Star(nodes)) => Self::star(*nodes, usual)?,
            Some(Generate::Line(nodes)) => Self::line(*nodes, usual)?,
            Some(Generate::FatTree(ports)) => Self::fat_tree(*ports, usual)?,
            Some(Generate::Torus(dimensions)) => Self::torus(dimensions, usual)?,
        };
        topology.routing = match file.routing {
            RoutingName::Shortest => Routing::Shortest,
            RoutingName::ByTarget => Routing::ByTarget,
            RoutingName::UpDown => Routing::UpDown,
        };
        topology.inbox_bytes = file.inbox.map_or(Ok(0), |q| q.read(units::parse_bytes))?;
        for node in file.node {
            topology.add_node(&node.name, node.address)?;
        }
        for switch in file.switch {
            topology.add_switch(&switch.name)?;
        }
        for link in file.link {
            topology.read_link(link, usual)?;
        }
        for route in file.route {
            topology.read_route(&route)?;
        }
        topology.check()?;
        Ok(topology)
    }
}

impl Topology {
    fn read_link(&mut self, link: LinkFields, usual: LinkSpec) -> Result<(), TopologyError> {
        let LinkFields { between: [a, b], latency, rate, queue, when_full, mtu, back } = link;
        let there = SpecFields { latency, rate, queue, when_full, mtu }.over(usual);
        let inside = |e: TopologyError| TopologyError(format!("link between {a} and {b}: {}", e.0));
        let there = there.map_err(inside)?;
        let back = back.map_or(Ok(there), |fields| fields.over(there)).map_err(inside)?;
        let (a, b) = (self.named(&a)?, self.named(&b)?);
        self.add_link_each_way(a, b, there, back)
    }

    fn read_route(&mut self, route: &RouteFields) -> Result<(), TopologyError> {
        let node = |name: &str| match self.named(name)? {
            Place::Node(id) => Ok(id),
            Place::Switch(_) => fail(format!("a route begins and ends at nodes; {name} is a switch")),
        };
        let switch = |name: &String| match self.named(name)? {
            Place::Switch(id) => Ok(id),
            Place::Node(_) => fail(format!("a route goes through switches; {name} is a node")),
        };
        let (from, to) = (node(&route.from)?, node(&route.to)?);
        let via = route.via.iter().map(switch).collect::<Result<_, _>>()?;
        self.add_route(from, to, via)
    }

    fn named(&self, name: &str) -> Result<Place, TopologyError> {
        self.place(name).map_or_else(|| fail(format!("no node or switch is called {name}")), Ok)
    }
}
