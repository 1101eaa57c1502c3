// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a seed stands for. Each choice is there or not, so that many seeds meet the combinations.

use super::end::{Channel, End};
use crate::{FaultPlan, LinkSpec, Topology, WhenFull, WorldConfig};
use bellwire_faults::{Random, Span};
use bellwire_proto::Config;
use bellwire_proto::seal::{Cipher, Keys, Limits};
use bellwire_time::{Duration, Instant};
use bellwire_via::Reliability;
use std::sync::Arc;

pub(super) struct Drawn {
    pub topology: Topology,
    pub plan: FaultPlan,
    pub config: WorldConfig,
    pub channels: Vec<Channel>,
    pub operations: u64,
    /// Mean time between two operations.
    pub between: Duration,
    pub random: Random,
}

impl Drawn {
    pub fn new(seed: u64, topology: Option<Topology>, plan: Option<FaultPlan>, keys: bool) -> Self {
        let mut random = Random::new(seed, 0x7_21a1);
        let drawn_topology = draw_topology(&mut random);
        let topology = topology.unwrap_or(drawn_topology);
        let operations = random.within(50, 400);
        let between = Duration::from_micros(one_of(&mut random, &[20, 100, 500, 3_000]));
        let mut plan = plan.unwrap_or_else(|| FaultPlan::draw(seed));
        if plan.during.is_none() {
            plan.during = Some(Span { from: Instant(0), to: Instant(operations * between.0) });
        }
        let mut config =
            WorldConfig { turn: Duration(one_of(&mut random, &[100, 200, 1_000, 10_000])), transport: draw_joining(seed, draw_transport(&mut random)) };
        if keys {
            config.transport = draw_keys(seed, config.transport);
        }
        let channels = draw_channels(&mut random, topology.nodes());
        Self { topology, plan, config, channels, operations, between, random }
    }
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn coin(random: &mut Random) -> bool {
    random.below(2) == 0
}

fn draw_topology(random: &mut Random) -> Topology {
    let link = LinkSpec {
        latency: Duration(one_of(random, &[500, 5_000, 100_000, 1_000_000])),
        bits_per_second: one_of(random, &[100_000_000, 1_000_000_000, 10_000_000_000, 0]),
        queue_bytes: one_of(random, &[16 * 1024, 256 * 1024]),
        when_full: if random.below(4) == 0 { WhenFull::Hold } else { WhenFull::Drop },
        mtu_bytes: one_of(random, &[0, 0, 1200, 1472, 4000]),
    };
    let nodes = random.within(2, 6) as usize;
    let topology = match random.below(3) {
        0 => Topology::star(nodes, link),
        1 => Topology::line(nodes, link),
        _ => Topology::mesh(nodes, link),
    };
    topology.expect("a few nodes")
}

/// Small windows, rings and limits besides the usual ones; times short enough that peers are given
/// up in a trial.
fn draw_transport(random: &mut Random) -> Config {
    let usual = Config::default();
    let mut config = Config {
        unreachable_after: Duration::from_millis(one_of(random, &[50, 500, 10_000])),
        rto_max: Duration::from_millis(one_of(random, &[20, 100, 1_000])),
        keepalive_idle: Duration::from_millis(one_of(random, &[20, 1_000])),
        handshake_retry: Duration::from_millis(one_of(random, &[5, 50])),
        ack_packets: one_of(random, &[1, 2, 16]),
        probe_path: random.below(4) != 0,
        ..usual
    };
    if !config.probe_path {
        config.datagram_max = 1200;
    }
    if coin(random) {
        config.window_packets = one_of(random, &[8, 16, 64]);
        config.window_packets_initial = one_of(random, &[2, 8]);
    }
    if random.below(4) == 0 {
        config.ring_bytes = 1 << 16;
        config.ring_bytes_initial = 1 << 12;
    }
    if random.below(4) == 0 {
        config.kept_packets_max = one_of(random, &[1, 4, 16]);
    }
    config
}

/// Whether short frames wait to share packets, and for how long: longer than some paths are, too.
/// Drawn apart, so that seeds mean otherwise what they meant before there was this.
fn draw_joining(seed: u64, config: Config) -> Config {
    let mut random = Random::new(seed, 0x6a01);
    Config { join_delay: Duration(one_of(&mut random, &[0, 5_000, 5_000, 200_000])), join_bytes_max: one_of(&mut random, &[256, 4096]), ..config }
}

/// One key for all nodes, and how soon those of sessions change. Drawn apart.
fn draw_keys(seed: u64, config: Config) -> Config {
    let mut random = Random::new(seed, 0xae_ad01);
    let limits = Limits { packets: one_of(&mut random, &[1, 10, 100, 1 << 22]), ..Limits::default() };
    let cipher = one_of(&mut random, &[Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305]);
    Config { keys: Some(Arc::new(Keys::shared([7; 32]))), key_limits: limits, cipher, ..config }
}

fn draw_channels(random: &mut Random, nodes: usize) -> Vec<Channel> {
    let count = random.within(1, 6);
    let channel = |random: &mut Random| {
        let level = one_of(random, &[Reliability::Unreliable, Reliability::ReliableDelivery, Reliability::ReliableReception]);
        // Now and then a node with itself.
        let ends = [0; 2].map(|_| End::new(random.below(nodes as u64) as usize));
        Channel { level, rnr_wait: level.is_reliable() && coin(random), served: coin(random), ends }
    };
    (0..count).map(|_| channel(random)).collect()
}
