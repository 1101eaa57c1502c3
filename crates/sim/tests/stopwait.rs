// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stop-and-wait channels under the faults of the endpoints' trials: each packet arrives once,
//! or comes back.

use bellwire_faults::Random;
use bellwire_sim::stopwait::{Build, ChannelWorld, Channels, Config, HEADER_BYTES, Numbers, Statistics};
use bellwire_sim::{Duration, Instant, LinkSpec, Topology};
use std::collections::BTreeMap;

/// How often each packet arrived, and whether it came back.
type Fates = BTreeMap<u64, (u32, u32)>;

fn fates(world: &mut ChannelWorld, nodes: u32, fates: &mut Fates) {
    while let Some((from, to, payload)) = world.poll_arrived() {
        let id = u64::from_le_bytes(payload[..8].try_into().unwrap());
        assert_eq!((id >> 40, id >> 32 & 0xff), (from.into(), to.into()));
        fates.get_mut(&id).unwrap().0 += 1;
    }
    for nic in 0..nodes {
        while let Some((_, payload)) = world.nic(nic).poll_returned() {
            fates.get_mut(&u64::from_le_bytes(payload[..8].try_into().unwrap())).unwrap().1 += 1;
        }
    }
}

fn trial(seed: u64, faults: &str, config: Config) -> (Fates, Statistics) {
    let mut random = Random::new(seed, 3);
    let nodes = random.within(2, 4) as u32;
    let topology = Topology::star(nodes as usize, LinkSpec::default()).unwrap();
    let mut world = ChannelWorld::new(topology, &faults.parse().unwrap(), config, random.below(300), seed).unwrap();
    let mut all = Fates::new();
    for number in 0..300 {
        let from = random.below(nodes.into()) as u32;
        let to = (from + random.within(1, u64::from(nodes) - 1) as u32) % nodes;
        let id = u64::from(from) << 40 | u64::from(to) << 32 | number;
        if world.send(from, to, &id.to_le_bytes()) {
            all.insert(id, (0, 0));
        }
        let until = world.now() + Duration(random.below(300_000));
        while world.step(until) {
            fates(&mut world, nodes, &mut all);
        }
    }
    while world.step(Instant(120_000_000_000)) {
        fates(&mut world, nodes, &mut all);
    }
    let mut sum = Statistics::default();
    for nic in 0..nodes {
        assert!((0..nodes).all(|to| world.nic(nic).unacknowledged(to) == 0), "seed {seed}: a channel is still bound");
        let s = *world.nic(nic).statistics();
        (sum.sent, sum.again, sum.duplicates, sum.returned) =
            (sum.sent + s.sent, sum.again + s.again, sum.duplicates + s.duplicates, sum.returned + s.returned);
    }
    (all, sum)
}

/// Those of `resident.rs`, and an outage after which packets come back.
const FAULTS: [&str; 5] =
    ["", "loss=0.05,dup=0.1,reorder=0.2:1ms", "reorder=0.5:500us,dup=0.3", "burst=0.02:0.3,jitter=300us,reorder=0.1", "loss=0.1,dup=0.1,reorder=0.1"];

#[test]
fn each_packet_arrives_once() {
    let mut sum = Statistics::default();
    for seed in 0..40 {
        let channels = 1 + (seed % 8) as usize;
        let (all, s) = trial(seed, FAULTS[seed as usize % FAULTS.len()], Config { channels, ..Config::default() });
        for (id, fate) in &all {
            assert_eq!(*fate, (1, 0), "seed {seed}: packet {id:#x}");
        }
        (sum.again, sum.duplicates) = (sum.again + s.again, sum.duplicates + s.duplicates);
    }
    assert!(sum.again > 200 && sum.duplicates > 200, "the trials try nothing: {sum:?}");
}

#[test]
fn what_cannot_be_delivered_returns_and_the_channel_begins_anew() {
    for seed in 0..20 {
        let config = Config { tries_max: 3, timeout: Duration::from_micros(200), ..Config::default() };
        let (all, s) = trial(seed, "loss=0.3,dup=0.2,reorder=0.2:1ms", config);
        for (id, (arrived, returned)) in &all {
            // The fate of what returned is not known.
            assert!(*arrived == 1 && *returned == 0 || *arrived <= 1 && *returned == 1, "seed {seed}: packet {id:#x}: {arrived} {returned}");
        }
        assert!(s.returned > 0, "seed {seed}");
    }
}

#[test]
fn the_alternating_bit_is_enough_where_packets_stay_in_order_and_not_elsewhere() {
    let config = |numbers| Config { numbers, channels: 1, timeout: Duration::from_micros(100), ..Config::default() };
    for seed in 0..20 {
        let (all, _) = trial(seed, "loss=0.2", config(Numbers::Bit));
        assert!(all.values().all(|fate| *fate == (1, 0)), "seed {seed}");
    }
    let wrong =
        |numbers| (0..20).map(|seed| trial(seed, "dup=0.3,reorder=0.5:3ms", config(numbers)).0.values().filter(|f| **f != (1, 0)).count()).sum::<usize>();
    assert!(wrong(Numbers::Bit) > 0, "an old copy passes for a new packet");
    assert_eq!(wrong(Numbers::Word), 0);
}

#[test]
fn a_header_has_eight_bytes() {
    let topology = Topology::star(2, LinkSpec::default()).unwrap();
    let mut world = ChannelWorld::new(topology, &"".parse().unwrap(), Config::default(), 0, 1).unwrap();
    let now = world.now();
    assert!(world.nic(0).send(now, 1, b"12345678"));
    assert_eq!(world.nic(0).poll_transmit().unwrap().1.len(), HEADER_BYTES + 8);
    // Strangers' packets: nothing happens.
    for bytes in [&[][..], &[1; 7], &[9; 20], &[2; 20], &[2; 8]] {
        world.nic(0).handle_packet(1, bytes, |_| panic!("none of them carries anything"));
        world.nic(0).handle_packet(77, bytes, |_| panic!("none of them carries anything"));
    }
}

#[test]
fn a_build_without_a_part_does_without_it() {
    let config = |protection, reliability, tag| Config { build: Build { protection, reliability, timers: false }, tag, ..Config::default() };
    let taken_of = |sender: Config, receiver: Config| {
        let (mut here, mut there) = (Channels::new(sender, 2, 1), Channels::new(receiver, 2, 2));
        assert!(here.send(Instant(1), 1, b"a message"));
        let (mut taken, packet) = (0, here.poll_transmit().expect("a packet").1);
        there.handle_packet(0, &packet, |payload| {
            assert_eq!(payload, b"a message");
            taken += 1;
            true
        });
        let is_answered = there.poll_transmit().is_some();
        // Nothing is sent again without timers.
        here.handle_timeout(Instant(u64::MAX - 1));
        assert!(here.poll_transmit().is_none());
        (taken, is_answered, here.unacknowledged(1), there.statistics().foreign)
    };
    assert_eq!(taken_of(config(false, false, 0), config(false, false, 0)), (1, false, 0, 0));
    assert_eq!(taken_of(config(false, true, 0), config(false, true, 0)), (1, true, 1, 0));
    assert_eq!(taken_of(config(true, true, 7), config(true, true, 7)), (1, true, 1, 0));
    assert_eq!(taken_of(config(true, true, 7), config(true, true, 8)), (0, false, 1, 1), "another tag");
    assert_eq!(taken_of(config(false, false, 7), config(true, false, 7)), (0, false, 0, 1), "no tag");
}
