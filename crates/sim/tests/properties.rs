// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties for any topology, plan and traffic: packets are conserved, flows stay in order,
//! queues that hold lose nothing, one seed tells one story.

mod common;

use bellwire_sim::{AttachError, Duration, FabricEvent, FaultPlan, LinkSpec, NodeId, Routing, Topology, WhenFull};
use common::{Arrival, Net};
use proptest::prelude::*;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

fn spec() -> impl Strategy<Value = LinkSpec> {
    let rate = prop_oneof![Just(0), Just(10_000_000_000_u64), 1_000_000..100_000_000_000_u64];
    (0..10_000_u64, rate, prop_oneof![Just(0), 1..20_000_u64], any::<bool>(), prop_oneof![Just(0), Just(1_000_u32)]).prop_map(
        |(latency, bits_per_second, queue_bytes, holds, mtu_bytes)| LinkSpec {
            latency: Duration(latency),
            bits_per_second,
            queue_bytes,
            when_full: if holds { WhenFull::Hold } else { WhenFull::Drop },
            mtu_bytes,
        },
    )
}

/// Ways that go up and down, so that what holds does not lock.
fn topology() -> impl Strategy<Value = Topology> {
    topology_of(spec())
}

fn topology_of(spec: impl Strategy<Value = LinkSpec>) -> impl Strategy<Value = Topology> {
    (spec, 0..6_usize, prop_oneof![Just(0), 1..5_000_u64], any::<bool>()).prop_map(|(spec, which, inbox, shortest)| {
        let mut topology = match which {
            0 => Topology::mesh(4, spec),
            1 => Topology::star(5, spec),
            2 => Topology::line(4, spec),
            3 => Topology::fat_tree(4, spec),
            4 => Topology::torus(&[3, 2], spec),
            _ => Topology::torus(&[5], spec),
        }
        .unwrap();
        topology.inbox_bytes = inbox;
        let locks = spec.when_full == WhenFull::Hold && which > 3;
        topology.routing = if shortest && !locks { Routing::Shortest } else { Routing::UpDown };
        topology
    })
}

fn holding(spec: LinkSpec) -> LinkSpec {
    LinkSpec { when_full: WhenFull::Hold, mtu_bytes: 0, ..spec }
}

/// Sender and receiver, bytes, time after the one before.
type Traffic = Vec<(usize, usize, usize, u64)>;

fn traffic() -> impl Strategy<Value = Traffic> {
    proptest::collection::vec((0..64_usize, 0..64_usize, 8..1_200_usize, 0..5_000_u64), 1..200)
}

/// Sends all that is taken, with a number in front of each packet, reading as it goes if asked;
/// then gives what arrived.
fn play(net: &mut Net, traffic: &Traffic, read: bool) -> (Vec<(usize, usize)>, Vec<Arrival>) {
    let count = net.ports.len();
    let (mut now, mut taken, mut arrived) = (0, Vec::new(), Vec::new());
    for (number, &(from, to, bytes, gap)) in traffic.iter().enumerate() {
        now += gap;
        let mut packet = vec![0; bytes];
        packet[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let (from, to) = (from % count, to % count);
        while let Some(event) = net.fabric.poll_event() {
            if let FabricEvent::Restarted(NodeId(node)) = event
                && !net.fabric.is_crashed(NodeId(node))
            {
                // It may have been restarted twice since we looked.
                match net.fabric.attach(net.addresses[node as usize]) {
                    Ok(port) => net.ports[node as usize] = port,
                    Err(why) => assert_eq!(why, AttachError::Taken),
                }
            }
        }
        if net.send(from, to, packet, now).is_ok() {
            taken.push((from, to));
        }
        if read {
            net.take(&mut arrived);
        }
        assert!(net.conserved(), "{:?}, {} in flight", net.fabric.statistics(), net.fabric.in_flight());
    }
    arrived.extend(net.run(now + 1_000_000_000));
    (taken, arrived)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// A plan of this seed whose outages fit into the short time of a test.
fn short_plan(seed: u64) -> FaultPlan {
    let mut plan = FaultPlan::draw(seed);
    if seed.is_multiple_of(3) {
        plan.outages = "partition=50us/30us,down=40us/20us,crash=60us/30us".parse::<FaultPlan>().unwrap().outages;
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300), ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved(topology in topology(), plan in any::<u64>(), seed: u64, traffic in traffic()) {
        let mut net = Net::planned(topology, &short_plan(plan), seed);
        play(&mut net, &traffic, plan % 2 == 0);
        prop_assert!(net.conserved());
        // Once healed and read, nothing stays behind.
        net.fabric.heal();
        net.run(u64::MAX);
        prop_assert_eq!(net.fabric.in_flight(), 0);
        prop_assert!(net.conserved());
    }

    #[test]
    fn flows_stay_in_order_without_reordering(topology in topology(), seed: u64, traffic in traffic()) {
        let mut net = Net::new(topology, "loss=0.05,dup=0.1,delay=1us,jitter=20us,down=100us/10us,during=0..300us", seed);
        let (_, arrived) = play(&mut net, &traffic, true);
        let mut last = std::collections::BTreeMap::new();
        for (_, node, bytes) in &arrived {
            let (from, ..) = traffic[number(bytes) as usize];
            let before = last.insert((from % net.ports.len(), *node), number(bytes));
            prop_assert!(before.is_none_or(|b| b <= number(bytes)), "{before:?} then {}", number(bytes));
        }
    }

    #[test]
    fn queues_that_hold_lose_nothing(topology in topology_of(spec().prop_map(holding)), seed: u64, traffic in traffic()) {
        let mut net = Net::new(topology, "jitter=3us,delay=500ns", seed);
        let (taken, arrived) = play(&mut net, &traffic, seed % 2 == 0);
        // To itself no link can hold it.
        let to_others = taken.iter().filter(|(a, b)| a != b).count();
        let from_others = arrived.iter().filter(|(_, node, bytes)| traffic[number(bytes) as usize].0 % net.ports.len() != *node).count();
        prop_assert_eq!(from_others, to_others, "{:?}", net.fabric.statistics());
    }

    #[test]
    fn a_lane_never_carries_more_than_its_bandwidth(rate in 1_000_000..10_000_000_000_u64, holds: bool, traffic in traffic()) {
        let when_full = if holds { WhenFull::Hold } else { WhenFull::Drop };
        let spec = LinkSpec { latency: Duration(77), bits_per_second: rate, queue_bytes: 5_000, when_full, mtu_bytes: 0 };
        let mut net = Net::new(Topology::mesh(2, spec).unwrap(), "", 1);
        let (mut now, mut free) = (0_u64, 0_u128);
        let (mut wanted, mut arrived) = (Vec::new(), Vec::new());
        for &(_, _, bytes, gap) in &traffic {
            now += gap;
            arrived.extend(net.run(now));
            let before = net.fabric.statistics().dropped_in_all();
            if net.send(0, 1, vec![0; bytes], now).is_ok() && net.fabric.statistics().dropped_in_all() == before {
                // In units of 1 ns / rate, so that nothing is rounded.
                free = free.max(u128::from(now) * u128::from(rate)) + bytes as u128 * 8_000_000_000;
                wanted.push((free / u128::from(rate)) as u64 + 77);
            }
        }
        arrived.extend(net.run(u64::MAX));
        let times: Vec<u64> = arrived.iter().map(|a| a.0).collect();
        prop_assert_eq!(times.len(), wanted.len());
        for (got, wanted) in times.iter().zip(&wanted) {
            // A busy period begins at a whole nanosecond.
            prop_assert!(got.abs_diff(*wanted) <= 1, "{got} {wanted}");
        }
    }

    #[test]
    fn one_seed_one_story(topology in topology(), plan in any::<u64>(), seed: u64, traffic in traffic()) {
        let story = |seed| {
            let mut net = Net::planned(topology.clone(), &short_plan(plan), seed);
            let trace = Trace::default();
            net.fabric.trace_to(Box::new(trace.clone()));
            let (_, arrived) = play(&mut net, &traffic, true);
            net.fabric.end_trace().unwrap();
            let untraced = { let mut net = Net::planned(topology.clone(), &short_plan(plan), seed); play(&mut net, &traffic, true); net.fabric.digest() };
            assert_eq!(untraced, net.fabric.digest(), "the trace is only a look");
            (net.fabric.digest(), arrived, trace.0.take())
        };
        prop_assert_eq!(story(seed), story(seed));
    }
}

#[derive(Clone, Default)]
struct Trace(Rc<RefCell<Vec<u8>>>);

impl io::Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_differs_has_another_digest() {
    let run = |plan: &str, seed, byte: u8, gap: u64| {
        let mut net = Net::new(Topology::fat_tree(4, LinkSpec::default()).unwrap(), plan, seed);
        (0..50).for_each(|i| net.send(i % 16, (i + 5) % 16, vec![byte; 64], i as u64 * gap).unwrap());
        net.run(u64::MAX);
        net.fabric.digest()
    };
    let faults = "loss=0.2,seed=1";
    let all = [run(faults, 1, 0, 10), run(faults, 1, 1, 10), run(faults, 1, 0, 11), run("loss=0.2,seed=2", 1, 0, 10), run("", 1, 0, 10), run("", 2, 0, 10)];
    for (i, a) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|b| a != b), "{all:x?}");
    }
    // The same on every machine; changing it knowingly makes recorded digests worthless.
    assert_eq!(all[0], 3_555_637_257_570_138_571);
}

#[test]
fn the_trace_has_a_line_for_each_event() {
    let mut net = Net::new(Topology::star(2, LinkSpec::default()).unwrap(), "n0>s0:dup=1", 1);
    let trace = Trace::default();
    net.fabric.trace_to(Box::new(trace.clone()));
    net.send(0, 1, b"abc".to_vec(), 5).unwrap();
    net.run(u64::MAX);
    net.fabric.end_trace().unwrap();
    let text = String::from_utf8(trace.0.take()).unwrap();
    let words: Vec<Vec<&str>> = text.lines().map(|l| l.split(' ').take(3).collect()).collect();
    let wanted = [
        ["5", "10.0.0.1:4791>10.0.0.2:4791", "sent"],
        ["5", "n0>s0", "passed"],
        ["5", "n0>s0", "duplicated"],
        ["1007", "s0>n1", "passed"],
        ["1007", "s0>n1", "passed"],
        ["2009", "10.0.0.2:4791", "delivered"],
        ["2011", "10.0.0.2:4791", "delivered"],
    ];
    assert_eq!(words, wanted, "{text}");
}
