// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random programs on a random network under random faults, all from one seed, and checkers of what
//! they see. Run by the tests and by `bellwire sim`.
//!
//! - `draw.rs`: what a seed stands for: topology, faults, settings of the transport, channels
//!   between nodes.
//! - `end.rs`: one end of a channel: a VI with its memory and what is posted.
//! - `content.rs`: messages describe themselves: sender, connection, number.
//! - `drive.rs`: the programs: connect, send, write, read, disconnect; crashes and partitions.
//! - `collect.rs`: completions, and the checkers.
//! - `finish.rs`: after all faults have healed: everything works again, everything completes,
//!   nothing is left.
//!
//! Checked
//! - T1: each posted request completes once, in order, with a reason.
//! - T2: a connection's messages come from one connection of the channel's other end, in order; at
//!   the reliable levels without a gap, at the unreliable one not twice. No connection's messages
//!   reach two connections.
//! - T3: content is what was sent; what an RDMA write has put there is whole when the message after
//!   it arrives, and is put there once; a read gets what is there.
//! - T4: a send that succeeded at Reliable Reception has arrived.
//! - T5: after the faults, all channels work within a bounded time.
//! - T6: sessions and what they keep are bounded at all times; at the end nothing is kept, and all
//!   objects can be destroyed.
//! - T7: corrupted packets, and no others, are found by the checksum; with keys, by their tags.

mod collect;
mod content;
mod draw;
mod drive;
mod end;
mod finish;

use crate::{FabricError, FaultPlan, NodeId, Topology, World};
use bellwire_faults::Random;
use bellwire_time::{Duration, Instant};
use draw::Drawn;
use end::Channel;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

/// Settings in place of those that the seed would draw.
#[derive(Default)]
pub struct Options {
    /// The network.
    pub topology: Option<Topology>,
    /// The faults. Without a seed in it, they are drawn from the trial's.
    pub faults: Option<FaultPlan>,
    /// Packets are authenticated and encrypted, with keys that change often, and have no checksum.
    pub keys: bool,
    /// Where a line for each event goes.
    pub trace: Option<Box<dyn Write>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("topology", &self.topology).field("faults", &self.faults).finish_non_exhaustive()
    }
}

/// What a trial did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Of every packet and of all that programs saw.
    pub digest: u64,
    /// Nodes of the network.
    pub nodes: usize,
    /// Packets sent.
    pub packets: u64,
    /// Messages received.
    pub messages: u64,
    /// RDMA writes and reads that succeeded.
    pub transfers: u64,
    /// Connections made, counted at each end.
    pub connections: u64,
    /// Connections that broke, counted at each end.
    pub breaks: u64,
    /// Nodes crashed.
    pub crashes: u64,
    /// Virtual time.
    pub time: Duration,
    /// The error, if there was one: a sentence.
    pub violation: Option<String>,
}

/// A node, as programs see it.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    ptag: Option<bellwire_via::PtagHandle>,
    /// When it crashed last.
    crashed_at: Option<Instant>,
}

/// How many of a connection's messages have been received, and by which connection.
#[derive(Clone, Copy, Debug)]
struct Received {
    by: u64,
    count: u64,
}

struct Trial {
    world: World,
    random: Random,
    nodes: Vec<Node>,
    channels: Vec<Channel>,
    /// By the sender's connection.
    ledger: BTreeMap<u64, Received>,
    next_connection: u64,
    next_context: u64,
    /// Partitions made by hand, and nodes crashed by hand.
    cuts: u32,
    unplugged: Vec<NodeId>,
    outcome: Outcome,
}

/// Runs the trial of a seed.
///
/// # Errors
/// The topology or the plan of the options is wrong.
pub fn run(seed: u64, options: Options) -> Result<Outcome, FabricError> {
    let Drawn { topology, plan, config, channels, operations, between, random } = Drawn::new(seed, options.topology, options.faults, options.keys);
    let mut world = World::new(topology, &plan, config, seed)?;
    if let Some(trace) = options.trace {
        world.fabric_mut().trace_to(trace);
    }
    let nodes = world.nics();
    let mut trial = Trial {
        world,
        random,
        nodes: vec![Node::default(); nodes],
        channels,
        ledger: BTreeMap::new(),
        next_connection: 1,
        next_context: 1,
        cuts: 0,
        unplugged: Vec::new(),
        outcome: Outcome { seed, nodes, ..Outcome::default() },
    };
    let result = trial.all(operations, between);
    let Trial { mut world, mut outcome, channels, .. } = trial;
    outcome.violation = result.err().map(|why| format!("at {} ns: {why}", world.now().0));
    outcome.digest = world.digest();
    outcome.packets = world.fabric().statistics().sent;
    outcome.time = Duration(world.now().0);
    let _ = world.fabric_mut().end_trace();
    // Engines go before the memory that they know of.
    drop(world);
    drop(channels);
    Ok(outcome)
}

impl Trial {
    fn all(&mut self, operations: u64, between: Duration) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            self.begin_node(node)?;
        }
        self.ask_all();
        for _ in 0..operations {
            let pause = Duration(self.random.below(2 * between.0) + 1);
            self.let_pass(pause)?;
            self.operate()?;
        }
        self.finish()
    }
}
