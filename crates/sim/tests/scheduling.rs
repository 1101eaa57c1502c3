// SPDX-License-Identifier: MIT OR Apache-2.0
//! One NIC sends for several VIs: what one of them sends does not keep the others waiting for long,
//! and all get their share.

use bellwire_sim::scenario::cluster::{Cluster, EndId, HostCosts};
use bellwire_sim::{Duration, LinkSpec, Topology, WhenFull, WorldConfig};
use bellwire_via::limits::TURN_BYTES_DEFAULT as TURN;
use bellwire_via::{ViAttributes, WorkQueueKind};

const LARGE: u32 = 256 << 10;
const SMALL: u32 = 64;

fn cluster(connections: usize) -> (Cluster, Vec<[EndId; 2]>) {
    let link = LinkSpec { latency: Duration::from_micros(1), bits_per_second: 10_000_000_000, queue_bytes: 64 << 10, when_full: WhenFull::Hold, mtu_bytes: 0 };
    let topology = Topology::mesh(2, link).expect("a topology");
    let mut cluster = Cluster::new(topology, &"".parse().expect("a plan"), WorldConfig::default(), HostCosts::default(), LARGE, 1).expect("a cluster");
    let ends = cluster.connect(&vec![(0, 1); connections], &ViAttributes { rnr_wait: true, ..ViAttributes::default() }).expect("connected");
    (cluster, ends)
}

/// Round trips of small messages, in microseconds: mean and longest, while `bulk` other VIs of the
/// NIC send large ones.
fn round_trips(bulk: usize) -> (f64, f64) {
    let (mut cluster, ends) = cluster(bulk + 1);
    let [asks, answers] = ends[bulk];
    for [from, to] in &ends[..bulk] {
        for _ in 0..8 {
            cluster.receive(*to, 0).expect("posted");
            cluster.send(*from, LARGE, 0).expect("posted");
        }
    }
    [asks, answers].into_iter().for_each(|end| cluster.receive(end, 0).expect("posted"));
    cluster.send(asks, SMALL, 0).expect("posted");
    let (start, mut asked) = (cluster.now() + Duration::from_millis(20), cluster.now());
    let mut times = Vec::new();
    while let Some(done) = cluster.next(start + Duration::from_millis(50)).expect("all is well") {
        match (done.kind, done.end) {
            (WorkQueueKind::Send, end) if end != asks && end != answers => cluster.send(end, LARGE, 0).expect("posted"),
            (WorkQueueKind::Send, _) => {}
            (WorkQueueKind::Receive, end) => {
                cluster.receive(end, 0).expect("posted");
                if end == asks {
                    if cluster.now() > start {
                        times.push(cluster.now().since(asked).0 as f64 / 1e3);
                    }
                    asked = cluster.now();
                }
                if end == asks || end == answers {
                    cluster.send(end, SMALL, 0).expect("posted");
                }
            }
        }
    }
    (times.iter().sum::<f64>() / times.len() as f64, times.iter().fold(0.0, |a, b| b.max(a)))
}

#[test]
fn a_small_message_does_not_wait_behind_large_ones() {
    let alone = round_trips(0);
    assert!(alone.1 < 4.0, "{alone:?}");
    for bulk in [1, 4] {
        // The bytes in front of it: those that the transport has written (128 KiB), and queue and
        // buffer of the link (64 KiB each), at 1.25 bytes a nanosecond.
        let (mean, longest) = round_trips(bulk);
        println!("{bulk} others: {mean:.1} us, longest {longest:.1} us");
        assert!(mean < 230.0 && longest < 260.0, "{bulk} others: {mean} us, longest {longest} us");
    }
}

/// Bytes that came over each connection in 20 ms; all send messages of their size all the time, so
/// many outstanding.
fn shares(senders: &[(u32, u8)], outstanding: usize, turn: u32) -> Vec<u64> {
    let (mut cluster, ends) = cluster(senders.len());
    cluster.world_mut().with(0, |engine| engine.set_turn_bytes(turn));
    for ([from, to], &(bytes, weight)) in ends.iter().zip(senders) {
        let vi = cluster.vi(*from);
        cluster.world_mut().with(0, |engine| engine.set_weight(vi, weight)).expect("a weight");
        for _ in 0..outstanding {
            cluster.receive(*to, 0).expect("posted");
            cluster.send(*from, bytes, 0).expect("posted");
        }
    }
    let mut came = vec![0; senders.len()];
    let (start, end) = (cluster.now() + Duration::from_millis(5), cluster.now() + Duration::from_millis(25));
    while let Some(done) = cluster.next(end).expect("all is well") {
        let pair = done.end.0 / 2;
        if done.kind == WorkQueueKind::Send {
            cluster.send(done.end, senders[pair].0, 0).expect("posted");
        } else {
            cluster.receive(done.end, 0).expect("posted");
            came[pair] += if cluster.now() > start { u64::from(done.completion.length) } else { 0 };
        }
    }
    came
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[test]
fn senders_of_large_and_of_small_messages_get_the_same() {
    let came = shares(&[(LARGE, 1), (512, 1), (16 << 10, 1)], 512, TURN);
    println!("{came:?}");
    assert!(came.iter().sum::<u64>() > 22_000_000, "the link is full: {came:?}");
    // A small message costs its head beside its bytes.
    assert!(ratio(came[0], came[2]) > 0.9 && ratio(came[0], came[2]) < 1.1 && ratio(came[1], came[0]) > 0.8, "{came:?}");
}

#[test]
fn weights_are_shares() {
    let came = shares(&[(LARGE, 3), (LARGE, 1), (4096, 2)], 64, TURN / 2);
    println!("{came:?}");
    assert!(ratio(came[0], came[1]) > 2.6 && ratio(came[0], came[1]) < 3.4 && ratio(came[2], came[1]) > 1.6 && ratio(came[2], came[1]) < 2.4, "{came:?}");
}

#[test]
fn who_sends_now_and_then_keeps_the_rest_of_its_turn() {
    // One message of 1 KiB outstanding: the queue is empty after each, and the next goes at once,
    // before what the others have waiting.
    let few = shares(&[(1024, 1), (LARGE, 1), (LARGE, 1)], 1, TURN);
    println!("{few:?}");
    assert!(few[0] > 20_000_000 / 280_000 * 1024, "a message in each 280 us: {few:?}");
}
