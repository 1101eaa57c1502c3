// SPDX-License-Identifier: MIT OR Apache-2.0
//! A parallel machine: nodes with NIs of one design, and a program on each.

use std::rc::Rc;

use crate::am::Am;
use crate::engine::{Engine, Stuck};
use crate::machine::Parameters;
use crate::network::Network;
use crate::ni::Design;
use crate::node::Node;
use crate::node::bus::Traffic;
use crate::node::cpu::Cpu;
use crate::time::Time;

/// What a run was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When the last program ended.
    pub time: Time,
    /// Events that were simulated.
    pub events: u64,
    /// Of each node: the transactions on its bus.
    pub traffic: Vec<Traffic>,
    /// Of each node: messages of the network sent, taken, returned.
    pub messages: Vec<(u64, u64, u64)>,
    /// Messages sent, by size with header in bytes.
    pub sizes: std::collections::BTreeMap<u64, u64>,
}

/// Runs a program on each node of a machine: `program` is called once for each node and gives what
/// that node does.
///
/// # Errors
/// If the programs wait for each other, or have not ended by `limit`.
///
/// # Panics
/// If the machine cannot be built ([`Parameters::check`]), or an invariant of the model does not
/// hold.
pub fn run<R>(parameters: &Parameters, design: &Design, limit: Time, program: impl Fn(Am) -> R) -> Result<Outcome, Stuck>
where
    R: Future<Output = ()> + 'static,
{
    parameters.check().unwrap_or_else(|error| panic!("{error}"));
    let (engine, parameters) = (Rc::new(Engine::default()), Rc::new(parameters.clone()));
    let network = Network::new(engine.clone(), parameters.clone());
    let nodes: Vec<Rc<Node>> = (0..parameters.nodes).map(|id| Rc::new(Node::new(id, engine.clone(), parameters.clone()))).collect();
    network.attach(nodes.clone());
    let layers: Vec<Am> = nodes.iter().map(|node| Am::new(Cpu(node.clone()), (design.make)(node, &network))).collect();
    for layer in &layers {
        let (run, cpu) = (program(layer.clone()), layer.cpu().clone());
        engine.spawn(true, async move {
            run.await;
            cpu.sync().await;
        });
    }
    let ended = engine.run(limit);
    let mut sizes = std::collections::BTreeMap::new();
    layers.iter().flat_map(Am::sizes).for_each(|(size, count)| *sizes.entry(size).or_default() += count);
    let outcome = Outcome {
        time: engine.now(),
        events: engine.happened(),
        traffic: nodes.iter().map(|node| node.bus.traffic.get()).collect(),
        messages: nodes.iter().map(|node| node.flow.counts()).collect(),
        sizes,
    };
    if ended.is_ok() {
        engine.settle();
        network.check();
    }
    // Programs, handlers and layers refer to each other.
    layers.iter().for_each(Am::clear);
    network.detach();
    engine.clear();
    ended.map(|()| outcome)
}
