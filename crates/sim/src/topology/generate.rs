// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generators of the usual topologies. Nodes are `n0`, `n1`, ... with addresses 10.0.0.1, 10.0.0.2,
//! ...; switches `s0`, `s1`, ...

use super::{LinkSpec, NodeId, Place, SwitchId, Topology, TopologyError, fail};

impl Topology {
    fn with(nodes: usize, switches: usize) -> Result<Self, TopologyError> {
        let mut topology = Self::new();
        for i in 0..nodes {
            topology.add_node(&format!("n{i}"), None)?;
        }
        for i in 0..switches {
            topology.add_switch(&format!("s{i}"))?;
        }
        Ok(topology)
    }

    fn join_node(&mut self, node: usize, switch: usize, spec: LinkSpec) -> Result<(), TopologyError> {
        self.add_link(Place::Node(NodeId(node as u32)), Place::Switch(SwitchId(switch as u32)), spec)
    }

    fn join_switches(&mut self, a: usize, b: usize, spec: LinkSpec) -> Result<(), TopologyError> {
        self.add_link(Place::Switch(SwitchId(a as u32)), Place::Switch(SwitchId(b as u32)), spec)
    }

    /// Each node joined to each other by a link of its own: the usual choice where the network is
    /// not what is looked at.
    ///
    /// # Errors
    /// Too many links: 724 nodes are the limit.
    pub fn mesh(nodes: usize, spec: LinkSpec) -> Result<Self, TopologyError> {
        let mut topology = Self::with(nodes, 0)?;
        for a in 0..nodes as u32 {
            for b in a + 1..nodes as u32 {
                topology.add_link(Place::Node(NodeId(a)), Place::Node(NodeId(b)), spec)?;
            }
        }
        Ok(topology)
    }

    /// All nodes around one switch.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn star(nodes: usize, spec: LinkSpec) -> Result<Self, TopologyError> {
        let mut topology = Self::with(nodes, 1)?;
        for i in 0..nodes {
            topology.join_node(i, 0, spec)?;
        }
        Ok(topology)
    }

    /// A chain of switches, each with one node.
    ///
    /// # Errors
    /// Too many nodes.
    pub fn line(nodes: usize, spec: LinkSpec) -> Result<Self, TopologyError> {
        let mut topology = Self::with(nodes, nodes)?;
        for i in 0..nodes {
            topology.join_node(i, i, spec)?;
            if i > 0 {
                topology.join_switches(i - 1, i, spec)?;
            }
        }
        Ok(topology)
    }

    /// The fat tree of switches with `ports` ports each: `ports` pods of `ports / 2` edge and as
    /// many upper switches, `(ports / 2)^2` cores, `ports^3 / 4` nodes, full bisection bandwidth.
    /// The cores are the first switches.
    ///
    /// # Errors
    /// `ports` is odd or less than 2; too many places.
    pub fn fat_tree(ports: usize, spec: LinkSpec) -> Result<Self, TopologyError> {
        if ports < 2 || !ports.is_multiple_of(2) || ports > 1024 {
            return fail(format!("a fat tree needs an even number of ports, 2 to 1024, not {ports}"));
        }
        let half = ports / 2;
        let cores = half * half;
        let mut topology = Self::with(ports * cores, cores + ports * ports)?;
        for pod in 0..ports {
            let upper = |i| cores + pod * ports + i;
            let edge = |i| cores + pod * ports + half + i;
            for i in 0..half {
                for j in 0..half {
                    topology.join_switches(upper(i), i * half + j, spec)?;
                    topology.join_switches(edge(i), upper(j), spec)?;
                    topology.join_node(pod * cores + i * half + j, edge(i), spec)?;
                }
            }
        }
        Ok(topology)
    }

    /// A torus of any number of dimensions: a switch with one node at each point, joined to its
    /// neighbours in each direction, around the ends too.
    ///
    /// # Errors
    /// No dimensions, an empty one, or too many places.
    pub fn torus(dimensions: &[usize], spec: LinkSpec) -> Result<Self, TopologyError> {
        let size = dimensions.iter().try_fold(1_usize, |size, &d| size.checked_mul(d));
        let Some(size) = size.filter(|&s| s > 0 && !dimensions.is_empty()) else {
            return fail("a torus needs dimensions of at least 1 each");
        };
        let mut topology = Self::with(size, size)?;
        for point in 0..size {
            topology.join_node(point, point, spec)?;
            let mut stride = 1;
            for &length in dimensions {
                let here = point / stride % length;
                let next = point - here * stride + (here + 1) % length * stride;
                // Two points have one link between them, not one each way around.
                if length > 2 || length == 2 && here == 0 {
                    topology.join_switches(point, next, spec)?;
                }
                stride *= length;
            }
        }
        Ok(topology)
    }
}
