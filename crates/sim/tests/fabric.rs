// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fabric, case by case: exact times, full queues, outages, crashes, clocks.

mod common;

use bellwire_sim::{
    AttachError, DropCause, Duration, FabricError, FabricEvent, Instant, LinkSpec, NodeId, Place, Routing, SendError, SwitchId, Topology, WhenFull,
};
use common::Net;

/// 8 Gbit/s: a byte takes a nanosecond.
const BYTE_A_NS: LinkSpec = LinkSpec { latency: Duration(1_000), bits_per_second: 8_000_000_000, queue_bytes: 10_000, when_full: WhenFull::Drop, mtu_bytes: 0 };
const HOLDS: LinkSpec = LinkSpec { when_full: WhenFull::Hold, ..BYTE_A_NS };

const fn node(n: u32) -> Place {
    Place::Node(NodeId(n))
}

fn times(arrived: &[(u64, usize, Vec<u8>)]) -> Vec<u64> {
    arrived.iter().map(|a| a.0).collect()
}

#[test]
fn latency_and_bandwidth_are_exact() {
    for spec in [BYTE_A_NS, HOLDS] {
        let mut net = Net::new(Topology::star(3, spec).unwrap(), "", 1);
        for _ in 0..5 {
            net.send(0, 1, vec![0; 100], 50).unwrap();
        }
        // Two links store and forward; the second is the bottleneck of nothing.
        let wanted: Vec<u64> = (1..=5).map(|i| 50 + i * 100 + 1_000 + 100 + 1_000).collect();
        assert_eq!(times(&net.run(u64::MAX)), wanted);
    }
    // Seven bits per 10 ns do not divide: over 1000 packets not a nanosecond is lost.
    for when_full in [WhenFull::Drop, WhenFull::Hold] {
        let spec = LinkSpec { bits_per_second: 700_000_000, queue_bytes: 0, when_full, ..BYTE_A_NS };
        let mut net = Net::new(Topology::mesh(2, spec).unwrap(), "", 1);
        for _ in 0..1_000 {
            net.send(0, 1, vec![0; 99], 0).unwrap();
        }
        let arrived = times(&net.run(u64::MAX));
        for (i, at) in (1..).zip(&arrived) {
            assert_eq!(*at, i * 99 * 8_000_000_000 / 700_000_000 + 1_000);
        }
        assert_eq!(arrived.len(), 1_000);
    }
}

#[test]
fn links_of_unlimited_bandwidth_take_only_time() {
    for when_full in [WhenFull::Drop, WhenFull::Hold] {
        let spec = LinkSpec { bits_per_second: 0, when_full, ..BYTE_A_NS };
        let mut net = Net::new(Topology::line(2, spec).unwrap(), "", 1);
        (0..100).for_each(|_| net.send(0, 1, vec![0; 5_000], 7).unwrap());
        assert_eq!(times(&net.run(u64::MAX)), vec![3_007; 100]);
    }
}

#[test]
fn a_full_queue_drops_what_comes() {
    let mut net = Net::new(Topology::mesh(2, BYTE_A_NS).unwrap(), "", 1);
    // 10 packets fit; after 1500 ns one has left and another is half gone, but counts.
    (0..15).for_each(|_| net.send(0, 1, vec![1; 1_000], 0).unwrap());
    (0..5).for_each(|_| net.send(0, 1, vec![2; 1_000], 1_500).unwrap());
    let arrived = net.run(u64::MAX);
    assert_eq!((arrived.len(), net.fabric.statistics().dropped(DropCause::QueueFull)), (11, 9));
    assert_eq!(arrived[10].2[0], 2);
    let link = net.fabric.link_statistics(node(0), node(1)).unwrap();
    assert_eq!((link.packets, link.bytes, link.dropped, link.queue_bytes_peak), (11, 11_000, 9, 10_000));
}

#[test]
fn an_empty_queue_takes_a_packet_of_any_size_but_not_past_the_mtu() {
    for spec in [BYTE_A_NS, HOLDS] {
        let mut net = Net::new(Topology::star(2, LinkSpec { queue_bytes: 10, mtu_bytes: 1_500, ..spec }).unwrap(), "", 1);
        net.send(0, 1, vec![0; 1_500], 0).unwrap();
        net.send(0, 1, vec![0; 1_501], 50_000).unwrap();
        assert_eq!(net.run(u64::MAX).len(), 1);
        assert_eq!(net.fabric.statistics().dropped(DropCause::TooBig), 1);
    }
}

#[test]
fn a_full_queue_that_holds_stops_the_sender_and_says_when_it_goes_on() {
    let mut net = Net::new(Topology::star(3, LinkSpec { latency: Duration(0), ..HOLDS }).unwrap(), "", 1);
    let (mut sent, mut received) = (0, 0);
    // Two senders at twice what the last link carries.
    for sender in [0, 1] {
        while net.send(sender, 2, vec![0; 1_000], 0).is_ok() {
            sent += 1;
        }
    }
    assert!(matches!(net.send(0, 2, vec![7; 1_000], 0), Err(SendError::Full(bytes)) if bytes == [7; 1_000]));
    let mut turns = [0_u32; 2];
    while received < 2_000 {
        let next = net.fabric.next_event();
        assert_ne!(next, Instant::NEVER, "stuck after {received}");
        net.fabric.advance_to(next);
        let mut arrived = Vec::new();
        net.take(&mut arrived);
        received += arrived.len();
        while let Some(port) = net.fabric.poll_writable() {
            let sender = net.ports.iter().position(|p| *p == port).unwrap();
            while sent < 2_000 && net.send(sender, 2, vec![0; 1_000], next.0).is_ok() {
                (sent, turns[sender]) = (sent + 1, turns[sender] + 1);
            }
        }
    }
    assert_eq!((sent, net.fabric.statistics().dropped_in_all()), (2_000, 0));
    assert!(net.fabric.statistics().held > 900, "{:?}", net.fabric.statistics());
    // The bottleneck was never idle, and waiting lanes are served in turn.
    assert_eq!(net.fabric.now(), Instant(2_001 * 1_000));
    assert!(turns[0].abs_diff(turns[1]) < 20, "{turns:?}");
}

#[test]
fn a_held_packet_holds_up_those_behind_it() {
    // n0 sends to n1 (whose owner sleeps) and then to n2: the second waits behind the first.
    let mut topology = Topology::star(3, HOLDS).unwrap();
    topology.inbox_bytes = 1_000;
    let mut net = Net::new(topology, "", 1);
    (0..40).for_each(|i| net.send(0, 1, vec![0; 1_000], i * 10_000).unwrap_or(()));
    let behind = (0..100).find(|i| net.send(0, 2, vec![0; 100], 400_000 + i).is_err());
    assert!(behind.is_some(), "n0's queue fills up");
    net.fabric.advance_to(Instant(10_000_000));
    assert!(net.fabric.poll(net.ports[2], Instant(10_000_000)).is_none());
    // An innocent bystander gets through.
    net.send(1, 2, vec![0; 100], 10_000_000).unwrap();
    net.fabric.advance_to(Instant(10_100_000));
    assert_eq!(net.fabric.poll(net.ports[2], Instant(10_100_000)).map(|d| d.from), Some(net.addresses[1]));
    // As soon as n1 takes what it has, all goes on, and nothing was lost.
    let arrived = net.run(u64::MAX);
    assert!(arrived.iter().filter(|a| a.1 == 2).count() > 20);
    let s = net.fabric.statistics();
    assert_eq!((s.dropped_in_all(), s.delivered, net.fabric.in_flight()), (0, s.sent, 0));
}

#[test]
fn a_full_inbox_drops_behind_a_link_that_drops() {
    let mut topology = Topology::star(2, BYTE_A_NS).unwrap();
    topology.inbox_bytes = 250;
    let mut net = Net::new(topology, "", 1);
    (0..5).for_each(|_| net.send(0, 1, vec![0; 100], 0).unwrap());
    // To itself, too.
    (0..5).for_each(|_| net.send(0, 0, vec![0; 100], 0).unwrap());
    net.fabric.advance_to(Instant(100_000));
    assert_eq!((net.fabric.statistics().delivered, net.fabric.statistics().dropped(DropCause::InboxFull)), (4, 6));
}

/// Rings of queues that hold can wait for each other for ever; ways that go up and then down
/// cannot.
#[test]
fn up_down_routing_does_not_lock_a_torus() {
    let run = |routing| {
        let mut topology = Topology::torus(&[8], LinkSpec { queue_bytes: 1_000, latency: Duration(10), ..HOLDS }).unwrap();
        topology.routing = routing;
        let mut net = Net::new(topology, "", 1);
        for round in 0..200 {
            for n in 0..8 {
                let _ = net.send(n, (n + 3) % 8, vec![0; 1_000], round);
            }
        }
        net.run(u64::MAX);
        net.fabric.in_flight()
    };
    assert_eq!(run(Routing::UpDown), 0);
    assert!(run(Routing::Shortest) > 0, "this test shows something only if the other way locks");
}

#[test]
fn partitions_are_one_way_if_said_so() {
    let mut net = Net::new(Topology::star(3, BYTE_A_NS).unwrap(), "partition=1ms..2ms:n0>n1,partition=3ms..4ms:n0<>n1", 1);
    let mut passes = |from, to, at: u64| {
        net.send(from, to, vec![0; 10], at).unwrap();
        net.run(at + 10_000).len() == 1
    };
    let mut got = [[true; 5]; 3];
    for (column, at) in [0, 1_000_000, 2_000_000, 3_990_000, 4_000_000].into_iter().enumerate() {
        for (row, (from, to)) in [(0, 1), (1, 0), (0, 2)].into_iter().enumerate() {
            got[row][column] = passes(from, to, at + row as u64 * 3_000);
        }
    }
    assert_eq!(got, [[true, false, true, false, true], [true, true, true, false, true], [true; 5]]);
    assert_eq!(net.fabric.statistics().dropped(DropCause::Partition), 3);
    // Packets in flight when it begins do not arrive either.
    net.send(0, 1, vec![0; 10], 5_000_000).unwrap();
    net.fabric.cut(&[NodeId(0)], &[NodeId(1)], false);
    assert_eq!(net.run(u64::MAX), []);
    net.fabric.mend();
    net.send(0, 1, vec![0; 10], 6_000_000).unwrap();
    assert_eq!(net.run(u64::MAX).len(), 1);
}

#[test]
fn a_link_that_is_down_loses_what_is_on_it() {
    // Transmission 100 ns, latency 1000 ns: an outage of 10 ns in the middle strikes what is on the
    // link, not what waits.
    let mut net = Net::new(Topology::mesh(2, BYTE_A_NS).unwrap(), "down=500ns..510ns:n0>n1", 1);
    (0..10).for_each(|i| net.send(0, 1, vec![i; 100], 0).unwrap());
    (0..10).for_each(|i| net.send(1, 0, vec![i; 100], 0).unwrap());
    let arrived = net.run(u64::MAX);
    let at = |node| arrived.iter().filter(|a| a.1 == node).map(|a| a.2[0]).collect::<Vec<_>>();
    // Packets 0 to 4 had left by 500 ns (the fifth just then); the sixth was still leaving.
    assert_eq!(at(1), [5, 6, 7, 8, 9]);
    assert_eq!(at(0).len(), 10);
    assert_eq!(net.fabric.statistics().dropped(DropCause::LinkDown), 5);
    assert!(!net.fabric.set_link(node(0), node(1), true), "it is up");
    assert!(net.fabric.set_link(node(0), node(1), false));
    net.send(0, 1, vec![0; 100], 1_000_000).unwrap();
    assert_eq!(net.run(u64::MAX), []);
    assert!(net.fabric.set_link(node(0), node(1), true));
    net.send(0, 1, vec![0; 100], 2_000_000).unwrap();
    assert_eq!(net.run(u64::MAX).len(), 1);
    // A hand that is quicker than the plan.
    let mut net = Net::new(Topology::mesh(2, BYTE_A_NS).unwrap(), "down=1us..9us", 1);
    net.fabric.advance_to(Instant(2_000));
    assert!(net.fabric.set_link(node(0), node(1), true));
    net.fabric.advance_to(Instant(10_000));
    assert!(net.fabric.set_link(node(0), node(1), false));
}

#[test]
fn a_crash_takes_queue_inbox_and_ports() {
    for spec in [BYTE_A_NS, HOLDS] {
        let mut net = Net::new(Topology::star(2, spec).unwrap(), "crash=3us..5us:n0", 1);
        net.send(1, 0, vec![9; 100], 0).unwrap();
        (0..10).for_each(|i| net.send(0, 1, vec![i; 1_000], 0).unwrap());
        // Arrives at n0 while that is down; the next after its restart, to a port that is there
        // again.
        net.send(1, 0, vec![8; 100], 2_000).unwrap();
        net.fabric.advance_to(Instant(3_000));
        assert_eq!(net.fabric.poll_event(), Some(FabricEvent::Crashed(NodeId(0))));
        assert_eq!(net.fabric.attach(net.addresses[0]), Err(AttachError::Crashed));
        assert!(matches!(net.send(0, 1, vec![], 3_000), Err(SendError::Closed(_))));
        assert_eq!(net.fabric.poll(net.ports[0], Instant(3_000)), None);
        net.send(1, 0, vec![7; 100], 4_000).unwrap();
        net.fabric.advance_to(Instant(5_000));
        assert_eq!((net.fabric.poll_event(), net.fabric.poll_event()), (Some(FabricEvent::Restarted(NodeId(0))), None));
        let old = net.ports[0];
        net.ports[0] = net.fabric.attach(net.addresses[0]).unwrap();
        assert_ne!(net.ports[0], old);
        let arrived = net.run(u64::MAX);
        // Three packets of 1 us each had left n0; and the one that was on its way when n0 came
        // back.
        assert_eq!(arrived.iter().map(|a| (a.1, a.2[0])).collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 2), (0, 7)]);
        let s = *net.fabric.statistics();
        assert_eq!((s.dropped(DropCause::Crash), s.dropped(DropCause::NodeDown), s.unread), (7, 1, 1));
        assert!(net.conserved());
        // The link is free at once: nothing of the first life stands in front.
        let now = net.fabric.now().0;
        net.send(0, 1, vec![1; 1_000], now).unwrap();
        assert_eq!(times(&net.run(u64::MAX)), [now + 4_000]);
    }
}

#[test]
fn a_crash_frees_those_who_were_held_for_it() {
    let mut topology = Topology::star(3, HOLDS).unwrap();
    topology.inbox_bytes = 100;
    let mut net = Net::new(topology, "", 1);
    (0..30).for_each(|_| net.send(0, 1, vec![0; 1_000], 0).unwrap_or(()));
    net.send(2, 1, vec![0; 10], 0).unwrap();
    net.fabric.advance_to(Instant(1_000_000));
    assert!(net.fabric.in_flight() > 5);
    net.fabric.crash(NodeId(1));
    net.run(u64::MAX);
    assert_eq!(net.fabric.in_flight(), 0);
    net.fabric.restart(NodeId(1));
    let closing = net.fabric.attach(net.addresses[1]).unwrap();
    net.send(0, 1, vec![0; 90], 2_000_000).unwrap();
    net.send(0, 1, vec![0; 90], 2_000_000).unwrap();
    net.fabric.advance_to(Instant(3_000_000));
    assert_eq!(net.fabric.in_flight(), 1);
    net.fabric.detach(closing);
    assert_eq!((net.fabric.in_flight(), net.conserved()), (0, true));
}

#[test]
fn healing_ends_everything() {
    let faults = "loss=1,partition=0..,down=0..:n0<>s0,crash=0..:n2,skew=100ppm:n0";
    let mut net = Net::new(Topology::star(3, BYTE_A_NS).unwrap(), faults, 1);
    net.fabric.advance_to(Instant(10));
    net.fabric.crash(NodeId(2));
    net.fabric.cut(&[NodeId(1)], &[NodeId(0)], true);
    net.send(0, 1, vec![0], 10).unwrap();
    assert_eq!(net.run(u64::MAX), []);
    net.fabric.heal();
    assert!(!net.fabric.is_crashed(NodeId(2)));
    net.ports[2] = net.fabric.attach(net.addresses[2]).unwrap();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        net.send(from, to, vec![0; 10], 20_000).unwrap();
    }
    assert_eq!((net.run(u64::MAX).len(), net.fabric.next_event()), (3, Instant::NEVER));
}

#[test]
fn clocks_run_as_the_plan_says() {
    let net = Net::new(Topology::star(4, BYTE_A_NS).unwrap(), "skew=~100ppm/1ms,skew=-50ppm/2ms:n1,seed=3", 1);
    let second = Instant(1_000_000_000);
    assert_eq!(net.fabric.local_time(NodeId(1), second), Instant(1_001_950_000));
    assert_eq!(net.fabric.global_time(NodeId(1), Instant(1_001_950_000)), second);
    let drawn: Vec<u64> = [0, 2, 3].map(|n| net.fabric.local_time(NodeId(n), second).0).to_vec();
    assert!(drawn.iter().all(|t| (998_900_000..=1_001_100_000).contains(t)), "{drawn:?}");
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2]);
}

#[test]
fn addresses_and_ports() {
    let mut net = Net::new(Topology::star(2, BYTE_A_NS).unwrap(), "", 1);
    assert_eq!(net.fabric.attach("10.9.9.9:1".parse().unwrap()), Err(AttachError::NoNode));
    assert_eq!(net.fabric.attach(net.addresses[0]), Err(AttachError::Taken));
    let any = net.fabric.attach("10.0.0.1:0".parse().unwrap()).unwrap();
    let other = net.fabric.attach("10.0.0.1:0".parse().unwrap()).unwrap();
    assert_ne!(net.fabric.address(any), net.fabric.address(other));
    assert_eq!(net.fabric.node_of(any), Some(NodeId(0)));
    for to in ["10.0.0.2:1", "10.0.0.77:1"] {
        net.fabric.send(any, to.parse().unwrap(), vec![1], Instant(0)).unwrap();
    }
    net.run(u64::MAX);
    let s = *net.fabric.statistics();
    assert_eq!((s.dropped(DropCause::NoPort), s.dropped(DropCause::NoRoute)), (1, 1));
    net.fabric.detach(any);
    assert!(matches!(net.fabric.send(any, net.addresses[1], vec![1], Instant(0)), Err(SendError::Closed(_))));
}

#[test]
fn a_plan_that_names_nobody_is_refused() {
    let star = || Topology::star(2, BYTE_A_NS).unwrap();
    for (plan, wanted) in [
        ("partition=1s..2s:n0>n7", "no node is called n7"),
        ("crash=1s..2s:s0", "no node is called s0"),
        ("down=1s..2s:n0>n1", "no link goes n0>n1"),
        ("n0>n1:loss=1", "no link goes n0>n1"),
        ("skew=1ppm:x*", "no node is called x*"),
    ] {
        let error = bellwire_sim::Fabric::new(star(), &plan.parse().unwrap(), 1).unwrap_err();
        assert_eq!(error, FabricError::Plan(wanted.into()), "{plan}");
    }
}

#[test]
fn squeezed_bandwidth_counts_where_the_plan_says_and_while_it_says() {
    let mut net = Net::new(Topology::star(2, BYTE_A_NS).unwrap(), "during=0..100us;n0>s0:rate=80M", 1);
    net.send(0, 1, vec![0; 100], 0).unwrap();
    net.send(1, 0, vec![0; 100], 0).unwrap();
    assert_eq!(times(&net.run(99_999)), [2_200, 10_000 + 1_000 + 1_100]);
    net.send(0, 1, vec![0; 100], 100_000).unwrap();
    assert_eq!(times(&net.run(u64::MAX)), [102_200]);
    let link = net.fabric.link_statistics(node(0), Place::Switch(SwitchId(0))).unwrap();
    assert_eq!(link.packets, 2);
}

#[test]
fn corruption_strikes_one_of_two_copies() {
    let mut net = Net::new(Topology::mesh(2, BYTE_A_NS).unwrap(), "corrupt=1:1,dup=1,seed=1", 1);
    net.send(0, 1, vec![0; 10], 0).unwrap();
    let bits: Vec<u32> = net.run(u64::MAX).iter().map(|a| a.2.iter().map(|b| b.count_ones()).sum()).collect();
    assert_eq!(bits, [1, 0]);
}
