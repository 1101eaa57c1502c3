// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world by itself: turns, crash and restart, and the coverage of a digest.

use bellwire_sim::{Duration, Happened, LinkSpec, NodeId, Topology, World, WorldConfig};
use bellwire_via::{Reliability, ViAttributes, ViHandle, ViState};

fn world(nodes: usize, faults: &str, seed: u64) -> World {
    World::new(Topology::star(nodes, LinkSpec::default()).unwrap(), &faults.parse().unwrap(), WorldConfig::default(), seed).unwrap()
}

/// Connects a new VI of each of two nodes.
fn join(world: &mut World, a: usize, b: usize) -> [ViHandle; 2] {
    let attributes = ViAttributes { reliability: Reliability::ReliableDelivery, ..ViAttributes::default() };
    let vis = [a, b].map(|nic| world.with(nic, |e| e.create_vi(&attributes, None, None, None)).unwrap());
    let [here, there] = [a, b].map(|nic| world.address(nic, b"join"));
    let [until_a, until_b] = [a, b].map(|nic| world.after(nic, Duration::from_secs(5)));
    world.with(a, |e| e.peer_request(vis[0], &here, &there, until_a)).unwrap();
    world.with(b, |e| e.peer_request(vis[1], &there, &here, until_b)).unwrap();
    let deadline = world.now() + Duration::from_secs(5);
    assert!(world.run_until(deadline, |w| state(w, a, vis[0]) == ViState::Connected && state(w, b, vis[1]) == ViState::Connected));
    vis
}

fn state(world: &World, nic: usize, vi: ViHandle) -> ViState {
    world.engine(nic).unwrap().query_vi(vi).unwrap().0
}

#[test]
fn who_has_nothing_to_do_has_no_turn() {
    let mut world = world(4, "skew=~100ppm/3600s", 1);
    assert_eq!(world.step(world.now() + Duration::from_secs(1)), Happened::Quiet);
    join(&mut world, 0, 1);
    let deadline = world.now() + Duration::from_secs(100);
    loop {
        match world.step(deadline) {
            Happened::Turn(nic) => assert!(nic < 2, "node {nic} has nothing to do"),
            Happened::Limit => break,
            other => panic!("{other:?}"),
        }
    }
    // Signs of life, once a second, and not much more.
    assert!((200..2_000).contains(&world.turns()), "{} turns", world.turns());
}

#[test]
fn a_crash_is_noticed_and_a_restart_is_another_life() {
    let mut world = world(2, "", 2);
    let [vi, _] = join(&mut world, 0, 1);
    world.fabric_mut().crash(NodeId(1));
    assert_eq!(world.step(world.now()), Happened::Crashed(1));
    assert!(!world.lives(1) && world.lives(0));
    let deadline = world.now() + Duration::from_secs(14);
    assert!(world.run_until(deadline, |w| state(w, 0, vi) == ViState::Error), "the peer is unreachable");
    world.fabric_mut().restart(NodeId(1));
    assert_eq!(world.step(world.now()), Happened::Restarted(1));
    assert_eq!((world.life(0), world.life(1)), (1, 2));
    join(&mut world, 0, 1);
    // This time it is back at once: its first packets tell of the new life.
    let before = world.now();
    world.fabric_mut().crash(NodeId(1));
    world.fabric_mut().restart(NodeId(1));
    assert_eq!((world.step(before), world.step(before)), (Happened::Crashed(1), Happened::Restarted(1)));
    join(&mut world, 1, 0);
    assert!(world.now().0 - before.0 < 1_000_000_000, "a new life is known at once");
}

#[test]
fn the_digest_is_of_packets_and_of_what_was_seen() {
    let run = |seed, faults: &str, note| {
        let mut world = world(3, faults, seed);
        join(&mut world, 0, 2);
        world.note(note);
        world.digest()
    };
    let usual = run(5, "loss=0.05", 1);
    assert_eq!(usual, run(5, "loss=0.05", 1));
    for other in [run(6, "loss=0.05", 1), run(5, "loss=0.05,delay=1us", 1), run(5, "loss=0.05", 2)] {
        assert_ne!(usual, other);
    }
}
