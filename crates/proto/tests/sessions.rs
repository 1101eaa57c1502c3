// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions made, crossed, replaced, closed, kept alive; and the size of their packets. Both ends
//! are real.

mod common;

use bellwire_proto::packet::Packet;
use bellwire_proto::{Config, DownReason, Duration, Event, FailReason, Instant, NicId, Sent, Transport};
use common::{Faults, Load, World, address, config};

const NO_LOAD: Load = Load { frames: 0, streams: 1, payload_max: 0, refused: 0, refused_for_good: 0 };
const SOME: Load = Load { frames: 100, streams: 4, payload_max: 300, ..NO_LOAD };

fn world(load: Load) -> World {
    World::new(7, Faults::NONE, load, [config(0), config(1)])
}

#[test]
fn one_side_begins() {
    //= P-HAND-10
    let known_path = |c: Config| Config { probe_path: false, ..c };
    let mut w = World::new(7, Faults::NONE, NO_LOAD, [known_path(config(0)), known_path(config(1))]);
    w.connect(0);
    w.run_for(Duration::from_millis(1));
    assert!(w.nodes.iter().all(|n| n.ups == 1 && n.session.is_some()), "the responder knows although nothing was sent");
    let info = [0, 1].map(|i| w.nodes[i].transport.session_info(w.nodes[i].session.unwrap()).unwrap());
    assert_eq!((info[0].incoming, info[1].incoming), (false, true));
    assert_eq!((info[0].peer, info[1].peer), (NicId([2; 16]), NicId([1; 16])));
    // A second connect gives the same session.
    let session = w.nodes[0].session;
    let again = w.nodes[0].transport.connect(w.now, address(1), 99).unwrap();
    assert_eq!(Some(again), session);
    assert_eq!(w.nodes[0].transport.poll_event(), Some(Event::Up { session: again, context: Some(99), peer: NicId([2; 16]), incoming: false }));
}

#[test]
fn both_begin_and_have_one_session() {
    //= P-HAND-7
    for second_at in 0..120 {
        for first in 0..2 {
            let mut w = world(SOME);
            w.connect(first);
            w.run_for(Duration::from_micros(second_at));
            w.connect(1 - first);
            assert!(w.run_until_settled(Duration::from_secs(10)));
            for n in &w.nodes {
                assert!(n.downs.is_empty(), "{second_at} {first}");
            }
            w.run_for(Duration::from_secs(10));
            assert!(w.nodes.iter().all(|n| n.transport.sessions() == 1 && n.transport.statistics().sessions_up == 1), "{second_at} {first}");
            assert_eq!(w.delivered(), 200);
        }
    }
}

#[test]
fn one_session_per_pair_of_nics_whatever_the_address() {
    //= P-HAND-9
    let mut w = world(NO_LOAD);
    w.connect(0);
    w.run_for(Duration::from_millis(1));
    let session = w.nodes[0].session.unwrap();
    // The other NIC under a second address.
    let other = "10.0.1.2:7000".parse().unwrap();
    let opening = w.nodes[0].transport.connect(w.now, other, 5).unwrap();
    assert_ne!(opening, session);
    for _ in 0..4 {
        let mut packets = Vec::new();
        while let Some(t) = w.nodes[0].transport.poll_transmit(w.now) {
            packets.push((t.to, t.bytes.to_vec()));
        }
        packets.into_iter().for_each(|(_, p)| w.nodes[1].transport.handle_packet(w.now, address(0), p));
        let mut answers = Vec::new();
        while let Some(t) = w.nodes[1].transport.poll_transmit(w.now) {
            answers.push(t.bytes.to_vec());
        }
        for a in answers {
            let from = if matches!(Packet::parse(&a), Ok(Packet::Cookie(_))) { other } else { address(1) };
            w.nodes[0].transport.handle_packet(w.now, from, a);
        }
    }
    assert_eq!(w.nodes[0].transport.poll_event(), Some(Event::Up { session, context: Some(5), peer: NicId([2; 16]), incoming: false }));
    assert_eq!(w.nodes[0].transport.sessions(), 1);
}

#[test]
fn a_session_with_oneself_has_two_ends() {
    //= P-HAND-9
    let mut t: Transport<Vec<u8>> = Transport::new(config(0), 3);
    let mut now = Instant(1_000);
    t.connect(now, address(0), 1).unwrap();
    let mut ends = Vec::new();
    let mut heard = Vec::new();
    for turn in 0..400 {
        now = now + Duration::from_micros(50);
        t.handle_timeout(now);
        let mut packets = Vec::new();
        while let Some(out) = t.poll_transmit(now) {
            let size = out.segment.unwrap_or(out.bytes.len());
            packets.extend(out.bytes.chunks(size).map(<[u8]>::to_vec));
        }
        packets.into_iter().for_each(|p| t.handle_packet(now, address(0), p));
        while let Some(Event::Up { session, incoming, .. }) = t.poll_event() {
            ends.push((session, incoming));
        }
        while let Some(session) = t.next_delivery() {
            while let Some(d) = t.poll_deliver(session) {
                heard.extend(d.frames().map(|f| (session, f.head[0])));
            }
        }
        if turn % 10 == 9 && ends.len() == 2 {
            ends.iter().for_each(|(s, _)| assert_eq!(t.send(now, *s, 1, &[turn + 1], 0, |_| true), Sent::Yes));
        }
    }
    assert_eq!(ends.len(), 2);
    assert_ne!(ends[0].1, ends[1].1);
    assert!([0, 1].iter().all(|i| heard.iter().filter(|(s, _)| *s == ends[*i].0).count() >= 38));
    // Asking again gives the end that began.
    let began = ends.iter().find(|e| !e.1).unwrap().0;
    assert_eq!(t.connect(now, address(0), 2), Ok(began));
    t.close(now, began).unwrap();
    for _ in 0..100 {
        now = now + Duration::from_micros(50);
        t.handle_timeout(now);
        while let Some(session) = t.next_delivery() {
            while t.poll_deliver(session).is_some() {}
        }
        while let Some(out) = t.poll_transmit(now) {
            let p = out.bytes.to_vec();
            t.handle_packet(now, address(0), p);
        }
        while let Some(event) = t.poll_event() {
            if let Event::Down { session, .. } = event {
                while t.poll_returned(session).is_some() {}
            }
        }
    }
    assert_eq!(t.sessions(), 0);
}

#[test]
fn nobody_answers() {
    let mut w = world(NO_LOAD);
    w.cut = [true; 2];
    let begin = w.now;
    w.connect(0);
    let mut failed = None;
    while failed.is_none() && w.step(begin + Duration::from_secs(20)) {
        // `pump` has fetched the event; the place is free.
        failed = (w.nodes[0].transport.sessions() == 0).then(|| w.now.since(begin).0);
    }
    assert!((5_000_000_000..5_100_000_000).contains(&failed.unwrap()));
}

#[test]
fn refusals_to_begin_have_reasons() {
    //= P-HAND-8
    let fails = |change: Config| {
        let mut a: Transport<Vec<u8>> = Transport::new(config(0), 1);
        let mut b: Transport<Vec<u8>> = Transport::new(change, 2);
        let now = Instant(1_000);
        // Takes b's only place, if it has one only.
        let _ = b.connect(now, "10.7.7.7:7".parse().unwrap(), 0);
        a.connect(now, address(1), 1).unwrap();
        for _ in 0..6 {
            while let Some(t) = a.poll_transmit(now) {
                let p = t.bytes.to_vec();
                b.handle_packet(now, address(0), p);
            }
            while let Some(t) = b.poll_transmit(now) {
                let (to, p) = (t.to, t.bytes.to_vec());
                if to == address(0) {
                    a.handle_packet(now, address(1), p);
                }
            }
        }
        a.poll_event()
    };
    assert_eq!(fails(Config { accept: false, ..config(1) }), Some(Event::Failed { context: 1, reason: FailReason::NotAccepting }));
    assert_eq!(fails(Config { sessions_max: 1, ..config(1) }), Some(Event::Failed { context: 1, reason: FailReason::PeerFull }));
    let mut t: Transport<Vec<u8>> = Transport::new(config(0), 1);
    let id = t.connect(Instant(0), address(1), 4).unwrap();
    t.close(Instant(0), id).unwrap();
    assert_eq!(t.poll_event(), Some(Event::Failed { context: 4, reason: FailReason::Closed }));
}

#[test]
fn closing_delivers_first() {
    //= P-CLOSE-1
    //= P-CLOSE-2
    //= P-CLOSE-3
    for loss in [0, 200] {
        let mut w = World::new(11, Faults { loss, ..Faults::NONE }, Load { frames: 300, ..SOME }, [config(0), config(1)]);
        w.nodes[1].left = 0;
        w.connect(0);
        while w.nodes[0].left > 0 {
            w.step(Instant(60_000_000_000));
        }
        let session = w.nodes[0].session.unwrap();
        w.nodes[0].transport.close(w.now, session).unwrap();
        assert_eq!(w.nodes[0].transport.send(w.now, session, 1, &[1], 0, |_| true), Sent::Broken);
        w.pump(0);
        w.run_for(Duration::from_secs(30));
        assert_eq!(w.delivered(), 300);
        assert_eq!(w.nodes[0].downs, [DownReason::Closed]);
        assert_eq!(w.nodes[1].downs, [DownReason::PeerClosed]);
        assert!(w.nodes.iter().all(|n| n.transport.sessions() == 0 && n.transport.next_timeout() == Instant::NEVER));
    }
    // Nobody is there to take it.
    let mut w = world(SOME);
    w.connect(0);
    w.run_until_settled(Duration::from_secs(1));
    w.run_for(Duration::from_millis(10));
    w.cut = [true; 2];
    let (session, begin) = (w.nodes[0].session.unwrap(), w.now);
    w.nodes[0].transport.close(begin, session).unwrap();
    w.pump(0);
    while w.nodes[0].downs.is_empty() {
        assert!(w.step(begin + Duration::from_secs(20)));
    }
    assert_eq!(w.nodes[0].downs, [DownReason::CloseTimeout]);
    assert!((3_000_000_000..3_010_000_000).contains(&w.now.since(begin).0));
}

#[test]
fn a_restarted_nic_gets_a_new_session_at_once() {
    //= P-HAND-6
    for which in 0..2 {
        let mut w = world(SOME);
        w.reconnect = true;
        w.connect(0);
        assert!(w.run_until_settled(Duration::from_secs(1)));
        w.run_for(Duration::from_millis(10));
        w.restart(which);
        w.run_for(Duration::from_millis(5));
        let survivor = &w.nodes[1 - which];
        assert_eq!(survivor.downs, [DownReason::PeerRestarted]);
        assert!(w.nodes.iter().all(|n| n.session.is_some() && n.transport.sessions() == 1));
    }
}

#[test]
fn a_nic_that_forgot_says_so() {
    //= P-RESET-1
    //= P-RESET-3
    let mut w = world(SOME);
    w.connect(0);
    assert!(w.run_until_settled(Duration::from_secs(1)));
    w.restart(1);
    // The survivor has something to say to a peer that knows nothing of it.
    w.nodes[0].left = 5;
    w.pump(0);
    w.run_for(Duration::from_millis(5));
    assert_eq!(w.nodes[0].downs, [DownReason::PeerForgot]);
    assert_eq!((w.nodes[0].transport.statistics().resets_in, w.nodes[1].transport.statistics().resets_out > 0), (1, true));
    assert!(w.is_settled(), "its frames came back");
}

#[test]
fn silence_is_tried_while_something_depends_on_it() {
    //= P-LIFE-1
    //= P-LIFE-2
    //= P-LIFE-4
    let mut w = world(NO_LOAD);
    w.connect(0);
    w.run_for(Duration::from_secs(100));
    let before = w.nodes[0].transport.statistics().pings_out;
    w.run_for(Duration::from_secs(100));
    assert_eq!(w.nodes[0].transport.statistics().pings_out, before, "nothing depends on it");
    let session = w.nodes[0].session.unwrap();
    w.nodes[0].transport.set_depended(w.now, session, true);
    w.pump(0);
    w.run_for(Duration::from_secs(10));
    let pings = w.nodes[0].transport.statistics().pings_out - before;
    assert!((9..=11).contains(&pings), "{pings}");
    // One way is enough to be cut off.
    for cut in [[true, false], [false, true]] {
        w.run_for(Duration::from_secs(2));
        if w.nodes[0].session.is_none() {
            w.connect(0);
            w.run_for(Duration::from_secs(5));
            let session = w.nodes[0].session.unwrap();
            w.nodes[0].transport.set_depended(w.now, session, true);
            w.pump(0);
        }
        w.nodes[0].downs.clear();
        let begin = w.now;
        w.cut = cut;
        while w.nodes[0].downs.is_empty() {
            assert!(w.step(begin + Duration::from_secs(30)));
        }
        let time = w.now.since(begin).0;
        assert!((10_000_000_000..=13_000_000_000).contains(&time), "{time}");
        assert_eq!(w.nodes[0].downs, [DownReason::Unreachable]);
        w.cut = [false; 2];
        w.nodes[1].downs.clear();
    }
}

#[test]
fn large_packets_are_tried_and_given_up() {
    //= P-MTU-1
    //= P-MTU-2
    let big = Load { frames: 2000, streams: 2, payload_max: 8000, ..NO_LOAD };
    let mut w = World::new(5, Faults { carries: 1500, ..Faults::NONE }, big, [config(0), config(1)]);
    w.nodes[1].left = 0;
    w.connect(0);
    assert!(w.run_until_settled(Duration::from_secs(20)));
    w.run_for(Duration::from_secs(1));
    let datagram = |w: &World| w.nodes[0].transport.session_info(w.nodes[0].session.unwrap()).unwrap().datagram;
    assert_eq!(datagram(&w), 1472);
    // A path that becomes narrower, with large packets on their way.
    let mut w = World::new(5, Faults { delay: 100_000, ..Faults::NONE }, big, [config(0), config(1)]);
    w.connect(0);
    w.run_for(Duration::from_millis(2));
    assert_eq!(datagram(&w), 8952);
    assert!(!w.is_settled());
    w.faults.carries = 1400;
    assert!(w.run_until_settled(Duration::from_secs(60)));
    assert!(w.nodes[0].downs.is_empty() && w.nodes[0].transport.statistics().black_holes > 0);
    assert_eq!(datagram(&w), 1200);
    // The network says so itself.
    let mut w = World::new(5, Faults::NONE, big, [config(0), config(1)]);
    w.connect(0);
    w.run_for(Duration::from_millis(1));
    w.nodes[0].transport.handle_too_big(w.now, address(1), 5000);
    assert_eq!(datagram(&w), 1200);
    w.pump(0);
    w.run_for(Duration::from_secs(1));
    assert_eq!(datagram(&w), 1472);
}

#[test]
fn a_connect_waits_for_a_session_that_is_being_closed() {
    let mut w = world(Load { frames: 50, ..SOME });
    w.nodes[1].left = 0;
    w.connect(0);
    while w.nodes[0].left > 0 {
        assert!(w.step(Instant(60_000_000_000)));
    }
    let session = w.nodes[0].session.unwrap();
    w.nodes[0].transport.close(w.now, session).unwrap();
    w.connect(0);
    w.run_for(Duration::from_secs(1));
    assert_eq!((w.delivered(), w.nodes[0].downs.as_slice()), (50, &[DownReason::Closed][..]));
    assert!(w.nodes.iter().all(|n| n.ups == 2 && n.session.is_some() && n.session != Some(session)));
}

/// Sides that died of 200 pairs, each a minute on a path that loses `loss` of 1000 packets either
/// way. Nothing but the connection depends on it, so there are as few packets as ever.
fn deaths(loss: u64) -> usize {
    let lossy = |seed| {
        let config = |which| Config { unreachable_after: Duration::from_secs(5), retries_max: 5, ..config(which) };
        let mut w = World::new(seed, Faults::NONE, NO_LOAD, [config(0), config(1)]);
        w.connect(0);
        w.run_for(Duration::from_secs(1));
        for which in 0..2 {
            let session = w.nodes[which].session.unwrap();
            w.nodes[which].transport.set_depended(w.now, session, true);
            w.pump(which);
        }
        w.faults.loss = loss;
        w.run_for(Duration::from_secs(60));
        w.nodes.iter().map(|n| n.downs.len()).sum::<usize>()
    };
    (0..200).map(lossy).sum()
}

#[test]
fn a_living_peer_is_not_given_up_for_bad_luck() {
    //= P-LIFE-2
    assert_eq!((deaths(300), deaths(500)), (0, 0));
    assert_eq!(deaths(1000), 400, "the dead are");
}

#[test]
fn a_stopped_process_does_not_give_up_its_peers() {
    //= P-LIFE-2
    //= P-HAND-11
    let mut w = world(NO_LOAD);
    w.connect(0);
    // It asks once; then the process is stopped, and its packets are lost.
    w.wire.clear();
    w.now = w.now + Duration::from_secs(20);
    w.run_for(Duration::from_secs(1));
    let session = w.nodes[0].session.expect("it has asked again");
    w.nodes[0].transport.set_depended(w.now, session, true);
    w.pump(0);
    // In a network that is out for a moment it has asked often when it is stopped.
    w.cut = [true; 2];
    w.run_for(Duration::from_secs(6));
    w.now = w.now + Duration::from_secs(100);
    w.wire.clear();
    w.run_for(Duration::from_millis(1));
    w.cut = [false; 2];
    w.run_for(Duration::from_secs(5));
    assert_eq!((w.nodes[0].downs.len(), w.nodes[0].session), (0, Some(session)));
}

/// Time to bring over 20 MB, in us, on a path with a round trip of 100 us and no limit but the
/// protocol's.
fn bulk(loss: u64, reordering: u64) -> u64 {
    let load = Load { frames: 10_000, streams: 1, payload_max: 8_000, ..NO_LOAD };
    let mut w = World::new(3, Faults { loss, reordering, delay: 50_000, ..Faults::NONE }, load, [config(0), config(1)]);
    w.nodes[1].left = 0;
    w.connect(0);
    let begin = w.now;
    let is_done = |w: &World| w.nodes[0].left == 0 && w.nodes[0].session.is_some_and(|s| w.nodes[0].transport.session_info(s).unwrap().outstanding == 0);
    while !is_done(&w) {
        assert!(w.step(begin + Duration::from_secs(20)));
    }
    assert_eq!(w.delivered(), 10_000);
    let s = w.nodes[0].transport.statistics();
    println!(
        "loss {loss}, reordering {reordering}: {} us, again {}, timeouts {}, probes {}, needless {}",
        w.now.since(begin).0 / 1000,
        s.retransmitted,
        s.timeouts,
        s.tail_probes,
        s.spurious
    );
    w.now.since(begin).0 / 1000
}

#[test]
fn a_little_loss_costs_little() {
    let (clean, lossy, jumbled) = (bulk(0, 0), bulk(20, 0), bulk(0, 300));
    assert!(lossy < 4 * clean, "{clean} {lossy}");
    assert!(jumbled < 4 * clean, "{clean} {jumbled}");
}
