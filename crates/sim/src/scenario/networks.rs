// SPDX-License-Identifier: MIT OR Apache-2.0
//! The networks of scenarios, for a number of nodes: a star, a fat tree, and three subclusters with
//! few cables between them, of the kind that the paper on virtual network transport protocols
//! measured on.

use super::ScenarioError;
use crate::{LinkSpec, NodeId, Place, Routing, SwitchId, Topology};

/// Their names, as options.
pub(super) const NAMES: &[&str] = &["star", "fat-tree", "fat-tree-hash", "subclusters"];

/// Subclusters.
const SUBCLUSTERS: usize = 3;
/// Nodes at an edge switch of a subcluster, of its 8 ports; the others lead up.
const NODES_PER_EDGE: usize = 5;
/// Upper switches of a subcluster. Each has a cable to each edge switch, and one to its like in
/// each other subcluster.
const UPPERS: usize = 3;

/// A network with at least so many nodes; those that are asked for are the first.
///
/// # Errors
/// Too many nodes.
pub(super) fn network(name: &str, nodes: usize, link: LinkSpec) -> Result<Topology, ScenarioError> {
    Ok(match name {
        "star" => Topology::star(nodes, link)?,
        // Ways by target, which fill it; or by a hash of the flow, as switches usually do it, where
        // some flows meet on one link and others lie idle.
        "fat-tree" | "fat-tree-hash" => {
            let ports = (2..).step_by(2).find(|ports: &usize| ports.pow(3) / 4 >= nodes).unwrap_or(2);
            let mut topology = Topology::fat_tree(ports, link)?;
            topology.routing = if name == "fat-tree" { Routing::ByTarget } else { Routing::Shortest };
            topology
        }
        _ => subclusters(nodes, link)?,
    })
}

fn subclusters(nodes: usize, link: LinkSpec) -> Result<Topology, ScenarioError> {
    let per_subcluster = nodes.div_ceil(SUBCLUSTERS);
    let edges = per_subcluster.div_ceil(NODES_PER_EDGE);
    let switches = SUBCLUSTERS * (UPPERS + edges);
    let upper = |subcluster: usize, i: usize| Place::Switch(SwitchId((subcluster * (UPPERS + edges) + i) as u32));
    let edge = |subcluster: usize, i: usize| upper(subcluster, UPPERS + i);
    let mut topology = Topology::new();
    (0..nodes).try_for_each(|i| topology.add_node(&format!("n{i}"), None).map(drop))?;
    (0..switches).try_for_each(|i| topology.add_switch(&format!("s{i}")).map(drop))?;
    for node in 0..nodes {
        let (subcluster, place) = (node / per_subcluster, node % per_subcluster);
        topology.add_link(Place::Node(NodeId(node as u32)), edge(subcluster, place / NODES_PER_EDGE), link)?;
    }
    for subcluster in 0..SUBCLUSTERS {
        for i in 0..UPPERS {
            (0..edges).try_for_each(|e| topology.add_link(edge(subcluster, e), upper(subcluster, i), link))?;
            topology.add_link(upper(subcluster, i), upper((subcluster + 1) % SUBCLUSTERS, i), link)?;
        }
    }
    // Links that hold must not wait for each other around the triangle.
    topology.routing = Routing::UpDown;
    topology.check()?;
    Ok(topology)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_a_way_between_any_two_nodes() {
        for name in NAMES {
            for nodes in [3, 4, 16, 100] {
                let topology = network(name, nodes, LinkSpec::default()).unwrap();
                assert!(topology.nodes() >= nodes && topology.check().is_ok(), "{name} {nodes}");
            }
        }
    }
}
