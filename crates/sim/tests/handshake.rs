// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections under heavy loss: 36 % of all packets, both sides asking at the same moment, so that
//! their HELLOs cross.
//!
//! `BELLWIRE_HANDSHAKE_SEEDS=N` sets how many seeds there are (300).

use bellwire_sim::{Duration, Instant, LinkSpec, NodeId, Topology, World, WorldConfig};
use bellwire_via::{Reliability, ViAttributes, ViHandle, ViState};

/// Of so many packets one is lost; a question and its answer both arrive with (16/25)^2 = 41 %.
const LOSS: &str = "loss=0.36";
/// All connections are up after this, ..
const ALL_UP: Duration = Duration::from_secs(10);
/// .. and 99 of 100 after this.
const MOST_UP: Duration = Duration::from_millis(2_500);

fn world(faults: &str, seed: u64) -> World {
    World::new(Topology::mesh(2, LinkSpec::default()).unwrap(), &faults.parse().unwrap(), WorldConfig::default(), seed).unwrap()
}

fn state(world: &World, nic: usize, vi: ViHandle) -> ViState {
    world.engine(nic).unwrap().query_vi(vi).unwrap().0
}

/// Two VIs whose NICs ask each other at once, with `time` for it.
fn ask(world: &mut World, time: Duration) -> [ViHandle; 2] {
    let attributes = ViAttributes { reliability: Reliability::ReliableDelivery, ..ViAttributes::default() };
    let vis = [0, 1].map(|nic| world.with(nic, |e| e.create_vi(&attributes, None, None, None)).unwrap());
    for nic in [0, 1] {
        let [here, there] = [nic, 1 - nic].map(|n| world.address(n, b"lossy"));
        let until = world.after(nic, time);
        world.with(nic, |e| e.peer_request(vis[nic], &here, &there, until)).unwrap();
    }
    vis
}

fn seeds() -> u64 {
    std::env::var("BELLWIRE_HANDSHAKE_SEEDS").map_or(300, |text| text.parse().expect("a number"))
}

#[test]
fn crossed_connections_come_up_although_a_third_of_the_packets_is_lost() {
    //= P-HAND-11
    let mut took: Vec<u64> = (1..=seeds())
        .map(|seed| {
            let mut world = world(LOSS, seed);
            let vis = ask(&mut world, ALL_UP);
            let deadline = world.now() + ALL_UP;
            let up = world.run_until(deadline, |w| [0, 1].iter().all(|nic| state(w, *nic, vis[*nic]) == ViState::Connected));
            assert!(up, "seed {seed}: not connected after {} ms", ALL_UP.0 / 1_000_000);
            world.now().0
        })
        .collect();
    took.sort_unstable();
    let at = |hundredths: usize| took[(took.len() - 1) * hundredths / 100];
    println!("connected after {} ms (half), {} ms (99 of 100), {} ms (all of {})", at(50) / 1_000_000, at(99) / 1_000_000, at(100) / 1_000_000, took.len());
    assert!(at(99) <= MOST_UP.0, "99 of 100 connected after {} ms", at(99) / 1_000_000);
}

#[test]
fn connections_that_do_not_come_up_leave_nothing() {
    for seed in 1..=100 {
        // Hardly anything arrives: handshakes stop half way, on both sides.
        let mut world = world("loss=0.9", seed);
        let vis = ask(&mut world, Duration::from_millis(700));
        world.run_until(Instant(700_000_000), |_| false);
        for nic in [0, 1] {
            world.with(nic, |e| e.disconnect(vis[nic]).and_then(|()| e.destroy_vi(vis[nic]))).unwrap();
        }
        world.fabric_mut().cut(&[NodeId(0)], &[NodeId(1)], true);
        // Handshakes under way are given up after 5 s, sessions after 10 to 12 s.
        world.run_until(Instant(20_000_000_000), |_| false);
        for nic in [0, 1] {
            let engine = world.engine(nic).unwrap();
            let left = (engine.wire().transport().sessions(), engine.usage().links, engine.usage().vis, engine.next_timeout());
            assert_eq!(left, (0, 0, 0, Instant::NEVER), "seed {seed}, NIC {nic}: sessions, links, VIs, next timeout");
        }
    }
}
