// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every frame exactly once and in order, or returned: over networks that lose, duplicate, reorder
//! and corrupt, whatever the seed.

mod common;

use bellwire_proto::{Config, DownReason, Duration, ReturnReason};
use common::{Faults, Load, World, config, keyed};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How packets travel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the window, or by so many stop-and-wait channels.
    Window,
    Channels(usize),
    /// With keys, and nothing below that finds corrupted packets.
    Keys,
}

/// Options drawn from the seed.
fn draw(seed: u64, way: Way) -> World {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let mut draw = |n: u64| rng.next_u64() % n;
    let bad = draw(4) != 0;
    let mut part = |max: u64| if bad && draw(2) == 0 { draw(max) } else { 0 };
    let faults = Faults {
        loss: part(150),
        duplication: part(150),
        reordering: part(300),
        corruption: part(50),
        checksum: way != Way::Keys,
        delay: [1_000, 20_000, 200_000, 5_000_000][draw(4) as usize],
        carries: [1300, 1500, 9000, 100_000][draw(4) as usize],
    };
    let load = Load {
        frames: 20 + draw(500),
        streams: 1 + draw(40) as u32,
        payload_max: [0, 8, 300, 20_000][draw(4) as usize],
        refused: if draw(4) == 0 { draw(200) } else { 0 },
        refused_for_good: if draw(4) == 0 { draw(50) } else { 0 },
    };
    let mut shape = |config: Config| Config {
        channels: if let Way::Channels(count) = way { count } else { 0 },
        window_packets: [8, 64, 1024][draw(3) as usize],
        window_packets_initial: [2, 64][draw(2) as usize],
        ring_bytes: 40_000 + draw(200_000) as usize,
        ring_bytes_initial: 4_000 + draw(40_000) as usize,
        kept_packets_max: [4, 1024][draw(2) as usize],
        kept_bytes_max: [20_000, 1 << 20][draw(2) as usize],
        datagram_max: [1200, 1400, 8952, 16_336][draw(4) as usize],
        receive_bytes: [20_000, 1 << 20][draw(2) as usize],
        ack_packets: 1 + draw(16) as u32,
        coalesce_bytes_max: [0, 100, 4000][draw(3) as usize],
        probe_path: true,
        join_delay: Duration([0, 5_000, 300_000][draw(3) as usize]),
        join_bytes_max: [500, 4096][draw(2) as usize],
        ..config
    };
    let of = |which| if way == Way::Keys { keyed(config(which)) } else { config(which) };
    World::new(seed, faults, load, [shape(of(0)), shape(of(1))])
}

/// Runs a seed to its end; the hash of everything that happened.
fn run(seed: u64, way: Way) -> u64 {
    let mut world = draw(seed, way);
    let kind = world.rng.next_u64() % 8;
    world.reconnect = kind >= 5;
    world.connect(0);
    if seed.is_multiple_of(3) {
        world.connect(1);
    }
    match kind {
        // A NIC restarts, or the network is cut, one way or both, for a while.
        5 => {
            let time = world.rng.next_u64() % 30_000_000;
            world.run_for(Duration(time));
            world.restart((seed % 2) as usize);
        }
        6 | 7 => {
            let time = world.rng.next_u64() % 10_000_000;
            world.run_for(Duration(time));
            world.cut = if kind == 6 { [true, true] } else { [seed.is_multiple_of(2), !seed.is_multiple_of(2)] };
            let time = [1_000_000_000, 3_000_000_000, 14_000_000_000][(world.rng.next_u64() % 3) as usize];
            world.run_for(Duration(time));
            world.cut = [false; 2];
        }
        _ => {}
    }
    let restarted = world.nodes.iter().any(|n| n.life > 0);
    let settled = world.run_until_settled(Duration::from_secs(400));
    let describe = || format!("seed {seed}, kind {kind}: {:?} {:?}", world.faults, world.load);
    if !restarted {
        assert!(
            settled,
            "{}: {} of {} delivered, left {:?}",
            describe(),
            world.delivered(),
            world.ledger.len(),
            world.nodes.iter().map(|n| n.left).collect::<Vec<_>>()
        );
        let downs: usize = world.nodes.iter().map(|n| n.downs.len()).sum();
        for fate in world.ledger.values() {
            //= P-DATA-5
            assert!(fate.delivered == 1 || fate.returned.is_some());
            assert!(downs > 0 || fate.delivered == 1 || matches!(fate.returned, Some(ReturnReason::Refused(_))), "{}", describe());
        }
        assert!(downs == 0 || kind >= 6, "{}: {:?}", describe(), world.nodes.iter().map(|n| n.downs.clone()).collect::<Vec<_>>());
    } else {
        // The survivor's frames: delivered to either life, or returned.
        assert!(world.nodes.iter().all(|n| n.left == 0), "{}", describe());
        assert!(
            world.nodes.iter().flat_map(|n| &n.downs).all(|d| matches!(d, DownReason::PeerRestarted | DownReason::PeerForgot | DownReason::Unreachable)),
            "{}",
            describe()
        );
    }
    for node in &world.nodes {
        assert!(node.transport.sessions() <= 3, "{}", describe());
        if let Some(info) = node.session.and_then(|s| node.transport.session_info(s)) {
            assert!(info.kept as usize <= node.config.kept_packets_max + 1);
        }
    }
    world.hash
}

fn range(from: u64, to: u64) {
    for seed in from..to {
        let hash = run(seed, Way::Window);
        // A double run says whether anything but the seed decides.
        if seed.is_multiple_of(10) {
            assert_eq!(hash, run(seed, Way::Window), "seed {seed} has two outcomes");
        }
    }
}

#[test]
fn seeds_1() {
    let many = std::env::var("BELLWIRE_PROTO_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    range(0, many);
}

#[test]
fn seeds_2() {
    range(1_000_000, 1_000_200);
}

#[test]
fn stop_and_wait_channels_deliver_as_well() {
    for seed in 2_000_000..2_000_120 {
        let channels = Way::Channels([1, 3, 8, 64][seed as usize % 4]);
        let hash = run(seed, channels);
        if seed.is_multiple_of(10) {
            assert_eq!(hash, run(seed, channels), "seed {seed} has two outcomes");
        }
    }
}

/// With keys a corrupted packet is found by its tag, whatever was corrupted; and the keys change
/// while all this goes on.
#[test]
fn seeds_with_keys() {
    //= P-AUTH-6
    //= P-AUTH-8
    //= P-AUTH-9
    let many = std::env::var("BELLWIRE_PROTO_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    for seed in 3_000_000..3_000_000 + many {
        let hash = run(seed, Way::Keys);
        if seed.is_multiple_of(10) {
            assert_eq!(hash, run(seed, Way::Keys), "seed {seed} has two outcomes");
        }
    }
}
