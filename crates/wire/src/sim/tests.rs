// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network by itself: order, latency, room, ends of links; and that a seed is a run.

use super::*;
use crate::address::NetAddress;
use crate::time::Instant;
use crate::{LinkFailure, LinkId, Received, Rendezvous, Sent, Wire, WireEvent};
use bellwire_memory::line_queue::Line;

fn line(value: u64) -> Line {
    let mut line = Line::default();
    line.0[1] = value;
    line
}

fn joined(config: SimConfig) -> (SimNetwork, SimWire, SimWire, LinkId, LinkId) {
    let network = SimNetwork::new(config);
    let (mut a, mut b) = (network.attach(b"a"), network.attach(b"b"));
    let to = NetAddress::new(b"b", b"x").unwrap();
    a.resolve(7, Rendezvous::Client, &to, &to);
    network.advance_to(Instant(1_000_000));
    let Some(WireEvent::LinkUp { link: at_a, request: Some(7) }) = a.poll_event() else { panic!("no link at a") };
    let Some(WireEvent::LinkUp { link: at_b, request: None }) = b.poll_event() else { panic!("no link at b") };
    (network, a, b, at_a, at_b)
}

fn take(wire: &mut SimWire, link: LinkId) -> Option<(u64, usize)> {
    // SAFETY: F2: the frame is used before it is consumed.
    let Received::Frame(f) = (unsafe { wire.receive(link) }) else { return None };
    let found = (f.word(1), f.payload_len());
    wire.consume(link);
    Some(found)
}

#[test]
fn frames_arrive_in_order_after_latency_and_transmission() {
    // 1000 bytes and 64 of overhead take 8512 ns at 1 Gb/s.
    let (network, mut a, mut b, at_a, at_b) = joined(SimConfig { bits_per_second: 1_000_000_000, jitter: Duration(700), ..SimConfig::default() });
    let start = network.now();
    for i in 0..20 {
        assert_eq!(a.send_with_payload(at_a, &mut line(i), 1000, |_| true), Sent::Yes);
    }
    assert_eq!(take(&mut b, at_b), None);
    for i in 0..20 {
        network.advance_to(start + Duration((i + 1) * 8512 + 999));
        assert_eq!(take(&mut b, at_b), None, "frame {i} came early");
        network.advance_to(start + Duration((i + 1) * 8512 + 1700));
        assert_eq!(take(&mut b, at_b), Some((i, 1000)));
    }
    assert_eq!(network.statistics().delivered, 20);
}

#[test]
fn a_full_queue_has_no_room_until_the_receiver_has_told() {
    let (network, mut a, mut b, at_a, at_b) = joined(SimConfig { queue_frames_max: 4, ..SimConfig::default() });
    for i in 0..4 {
        assert_eq!(a.send(at_a, &mut line(i), 2), Sent::Yes);
    }
    assert_eq!(a.send(at_a, &mut line(4), 2), Sent::NoRoom);
    network.advance_to(network.next_arrival() + Duration(1_000));
    for i in 0..4 {
        assert_eq!(take(&mut b, at_b), Some((i, 0)));
        assert_eq!(a.send(at_a, &mut line(4), 2), Sent::NoRoom);
    }
    // Finding nothing more, the receiver tells; the news travels as long as a frame.
    assert_eq!(take(&mut b, at_b), None);
    assert_eq!(a.send(at_a, &mut line(4), 2), Sent::NoRoom);
    network.advance_to(network.next_arrival());
    for i in 4..8 {
        assert_eq!(a.send(at_a, &mut line(i), 2), Sent::Yes);
    }
    assert_eq!(a.send(at_a, &mut line(8), 2), Sent::NoRoom);
}

#[test]
fn nobody_there_and_ends_of_links() {
    let (network, mut a, mut b, at_a, at_b) = joined(SimConfig::default());
    let nobody = NetAddress::new(b"nobody", b"").unwrap();
    a.resolve(8, Rendezvous::Peer, &nobody, &nobody);
    assert!(a.poll_event().is_none());
    network.advance_to(network.next_arrival());
    assert!(matches!(a.poll_event(), Some(WireEvent::Unresolved { request: 8, reason: LinkFailure::NobodyThere })));
    let _ = a.send(at_a, &mut line(1), 2);
    network.crash(b.nic());
    assert_eq!(a.send(at_a, &mut line(2), 2), Sent::Broken);
    // SAFETY: F2: no frame is kept.
    assert!(matches!(unsafe { b.receive(at_b) }, Received::Broken));
    network.advance_to(network.now() + Duration::from_millis(1));
    assert!(matches!(a.poll_event(), Some(WireEvent::LinkDown { link, reason: LinkFailure::PeerDied }) if link == at_a));
    a.close(at_a);
    assert!(a.poll_event().is_none());
    // Another NIC takes the address.
    let mut c = network.attach(b"b");
    let to = NetAddress::new(b"b", b"").unwrap();
    a.resolve(9, Rendezvous::Client, &to, &to);
    network.advance_to(network.now() + Duration::from_millis(1));
    let Some(WireEvent::LinkUp { link, .. }) = a.poll_event() else { panic!("no link") };
    assert_ne!(link, at_a, "handles of links carry generations");
    assert!(matches!(c.poll_event(), Some(WireEvent::LinkUp { .. })));
    drop(c);
    network.advance_to(network.now() + Duration::from_millis(1));
    assert!(matches!(a.poll_event(), Some(WireEvent::LinkDown { reason: LinkFailure::PeerClosed, .. })));
}

#[test]
fn loopback_has_one_end() {
    let network = SimNetwork::new(SimConfig::default());
    let mut a = network.attach(b"a");
    let own = NetAddress::new(b"a", b"").unwrap();
    a.resolve(1, Rendezvous::Client, &own, &own);
    network.advance_to(Instant(10_000));
    let Some(WireEvent::LinkUp { link, request: Some(1) }) = a.poll_event() else { panic!("no link") };
    assert!(a.poll_event().is_none() && a.link_info(link).loopback);
    assert_eq!(a.send(link, &mut line(5), 2), Sent::Yes);
    network.advance_to(Instant(20_000));
    assert_eq!(take(&mut a, link), Some((5, 0)));
}
