// SPDX-License-Identifier: MIT OR Apache-2.0
//! Topologies: the output of generators, the meaning of files, refusals and their messages, and the
//! ways that packets take.

mod common;

use bellwire_sim::{Duration, LinkSpec, NodeId, Place, Routing, Topology, WhenFull};
use common::Net;

/// Hops of a packet from one node to another, each link 1 us and nothing else.
fn hops(topology: &Topology, from: usize, to: usize, seed: u64) -> u64 {
    let mut net = Net::new(topology.clone(), "", seed);
    net.send(from, to, vec![], 0).unwrap();
    net.run(u64::MAX)[0].0 / 1_000
}

#[test]
fn generators_make_what_their_names_say() {
    let spec = LinkSpec::default();
    let farthest = |t: &Topology| (1..t.nodes()).map(|to| hops(t, 0, to, 1)).max().unwrap();
    for (name, topology, nodes, wanted) in [
        ("mesh", Topology::mesh(6, spec), 6, 1),
        ("star", Topology::star(6, spec), 6, 2),
        ("line", Topology::line(6, spec), 6, 7),
        ("fat tree", Topology::fat_tree(4, spec), 16, 6),
        ("torus", Topology::torus(&[4, 4], spec), 16, 6),
        ("torus of three dimensions", Topology::torus(&[3, 2, 4], spec), 24, 6),
        ("ring", Topology::torus(&[7], spec), 7, 5),
    ] {
        let mut topology = topology.unwrap();
        topology.check().unwrap();
        assert_eq!((topology.nodes(), farthest(&topology)), (nodes, wanted), "{name}");
        topology.routing = Routing::UpDown;
        assert!(farthest(&topology) >= wanted, "{name}");
        assert_eq!(topology.place("n3"), Some(Place::Node(NodeId(3))));
        assert_eq!(topology.address(NodeId(3)).to_string(), "10.0.0.4");
    }
    for wrong in
        [Topology::fat_tree(3, spec), Topology::fat_tree(0, spec), Topology::torus(&[], spec), Topology::torus(&[4, 0], spec), Topology::mesh(800, spec)]
    {
        assert!(wrong.is_err());
    }
}

#[test]
fn flows_spread_over_equal_ways_and_each_keeps_its_own() {
    // Two nodes of different pods of a fat tree of 4 ports: 4 ways through 4 cores.
    let topology = Topology::fat_tree(4, LinkSpec::default()).unwrap();
    let mut net = Net::new(topology, "", 1);
    let mut count = [0_u64; 4];
    for port in 1..=200 {
        let from = net.fabric.attach(format!("10.0.0.1:{port}").parse().unwrap()).unwrap();
        let before = cores(&net);
        for _ in 0..3 {
            let now = net.fabric.now();
            net.fabric.send(from, net.addresses[15], vec![0], now).unwrap();
        }
        net.run(u64::MAX);
        let used: Vec<usize> = (0..4).filter(|&c| cores(&net)[c] != before[c]).collect();
        assert_eq!(used.len(), 1, "one flow, one way");
        count[used[0]] += 1;
    }
    assert!(count.iter().all(|&c| c > 20), "{count:?}");
}

fn cores(net: &Net) -> [u64; 4] {
    let topology = net.fabric.topology();
    [0, 1, 2, 3].map(|core| {
        let uppers = (4..20).map(|s| topology.place(&format!("s{s}")).unwrap());
        let core = topology.place(&format!("s{core}")).unwrap();
        uppers.filter_map(|upper| net.fabric.link_statistics(upper, core)).map(|s| s.packets).sum()
    })
}

#[test]
fn the_manuals_example() {
    let manual = include_str!("../../../docs/simulator.md");
    let mut read = 0;
    for example in manual.split("```toml\n").skip(1) {
        let text = example.split("```").next().unwrap();
        text.parse::<Topology>().unwrap_or_else(|e| panic!("{e}\n{text}"));
        read += 1;
    }
    for example in manual.split("```faults\n").skip(1) {
        for line in example.split("```").next().unwrap().lines().filter(|l| !l.is_empty()) {
            line.parse::<bellwire_sim::FaultPlan>().unwrap_or_else(|e| panic!("{e}\n{line}"));
            read += 1;
        }
    }
    assert!(read > 8, "{read} examples");
}

#[test]
fn a_file_says_everything() {
    let text = r#"
        routing = "up-down"
        inbox = "4M"
        [link_defaults]
        latency = "2us"
        rate = "1G"
        queue = "64k"
        when_full = "hold"
        [[node]]
        name = "a"
        address = "fd00::1"
        [[node]]
        name = "b"
        [[switch]]
        name = "left"
        [[switch]]
        name = "right"
        [[link]]
        between = ["a", "left"]
        [[link]]
        between = ["b", "left"]
        mtu = 1500
        back = { rate = "1M", when_full = "drop", queue = 0 }
        [[link]]
        between = ["left", "right"]
        [[link]]
        between = ["right", "b"]
        latency = "30us"
        [[route]]
        from = "a"
        to = "b"
        via = ["left", "right"]
    "#;
    let read: Topology = text.parse().unwrap();
    let mut made = Topology::new();
    let spec = LinkSpec { latency: Duration(2_000), bits_per_second: 1_000_000_000, queue_bytes: 65_536, when_full: WhenFull::Hold, mtu_bytes: 0 };
    let a = made.add_node("a", Some("fd00::1".parse().unwrap())).unwrap();
    let b = made.add_node("b", None).unwrap();
    let (left, right) = (made.add_switch("left").unwrap(), made.add_switch("right").unwrap());
    let [pa, pb, pl, pr] = [Place::Node(a), Place::Node(b), Place::Switch(left), Place::Switch(right)];
    made.add_link(pa, pl, spec).unwrap();
    let there = LinkSpec { mtu_bytes: 1_500, ..spec };
    made.add_link_each_way(pb, pl, there, LinkSpec { bits_per_second: 1_000_000, when_full: WhenFull::Drop, queue_bytes: 0, ..there }).unwrap();
    made.add_link(pl, pr, spec).unwrap();
    made.add_link(pr, pb, LinkSpec { latency: Duration(30_000), ..spec }).unwrap();
    made.add_route(a, b, vec![left, right]).unwrap();
    made.routing = Routing::UpDown;
    made.inbox_bytes = 4 << 20;
    assert_eq!(read, made);
    assert_eq!((hops(&read, 0, 1, 1), hops(&read, 1, 0, 1)), (34, 4), "the given way there, the shortest back");
}

#[test]
fn errors_are_plain() {
    let two = "[[node]]\nname=\"a\"\n[[node]]\nname=\"b\"\n";
    let joined = format!("{two}[[link]]\nbetween=[\"a\",\"b\"]\n");
    for (text, wanted) in [
        ("[generate]\nstarr = 3".into(), "unknown variant `starr`"),
        ("[generate]\nfat-tree = 3".into(), "an even number of ports"),
        ("nodes = 3".into(), "unknown field `nodes`"),
        (two.into(), "no way leads from a to b"),
        (format!("{joined}[[node]]\nname=\"a\""), "two places are called a"),
        (format!("{joined}[[node]]\nname=\"c>d\""), "is no name"),
        (format!("{joined}[[link]]\nbetween=[\"a\",\"x\"]"), "no node or switch is called x"),
        (format!("{joined}[[link]]\nbetween=[\"a\",\"a\"]"), "from a to itself"),
        (format!("{joined}rate=\"fast\""), "link between a and b: fast: a rate is"),
        (format!("{joined}latency=5"), "a time is a number with ns, us, ms or s"),
        (format!("{joined}[[switch]]\nname=\"s\"\n[[route]]\nfrom=\"a\"\nto=\"b\"\nvia=[\"s\"]"), "from a to s, but no link does"),
        (format!("{joined}[[route]]\nfrom=\"a\"\nto=\"b\"\nvia=[\"b\"]"), "b is a node"),
        ("[[node]]\nname=\"a\"\naddress=\"10.0.0.2\"\n[[node]]\nname=\"b\"\n[[link]]\nbetween=[\"a\",\"b\"]".into(), "a and b have one address, 10.0.0.2"),
    ] {
        let error = text.parse::<Topology>().expect_err(&text).to_string();
        assert!(error.starts_with("topology: ") && error.contains(wanted), "{text}\ngives: {error}");
    }
}
