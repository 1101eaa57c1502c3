// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving half, told packets by hand: order, duplicates, bounds, acknowledgements, refusals.

mod common;

use bellwire_proto::packet::{Ack, Packet};
use bellwire_proto::{Config, Duration, Error, Refusal, Transport};
use common::config;
use common::puppet::{Puppet, bytes, frame};

fn puppet(config: Config) -> Puppet {
    Puppet::connected(Transport::new(config, 1))
}

/// Sends packet number `first + n`.
fn say(p: &mut Puppet, n: u32, back: u16, ordered: bool, word: u64) {
    let frames = frame(word, b"payload");
    let mut data = p.data(back, ordered, &frames);
    data.psn = p.psn.wrapping_add(n);
    p.say(&Packet::Data(data));
}

fn acks(packets: &[Vec<u8>]) -> Vec<Ack> {
    let ack = |p: &Vec<u8>| if let Ok(Packet::Ack(a)) = Packet::parse(p) { Some(a) } else { None };
    packets.iter().filter_map(ack).collect()
}

#[test]
fn streams_wait_for_their_own_packets_alone() {
    //= P-DATA-1
    //= P-DATA-2
    //= P-DATA-4
    let mut p = puppet(config(0));
    say(&mut p, 1, 1, false, 11); // after 0
    say(&mut p, 2, 0, false, 22); // a stream of its own
    assert_eq!(p.delivered(), [22]);
    say(&mut p, 4, 2, false, 24); // after 2
    assert_eq!(p.delivered(), [24]);
    say(&mut p, 5, 0, true, 99); // after everything
    say(&mut p, 6, 1, false, 66); // after that
    assert_eq!(p.delivered(), []);
    say(&mut p, 0, 0, false, 10);
    assert_eq!(p.delivered(), [10, 11]);
    say(&mut p, 3, 0, false, 33);
    assert_eq!(p.delivered(), [33, 99, 66]);
}

#[test]
fn duplicates_are_acknowledged_and_dropped() {
    //= P-DATA-5
    let mut p = puppet(config(0));
    say(&mut p, 0, 0, false, 1);
    say(&mut p, 2, 0, false, 3);
    assert_eq!(p.delivered(), [1, 3]);
    p.hear();
    for n in [0, 2] {
        say(&mut p, n, 0, false, 77);
        assert_eq!(p.delivered(), []);
        assert_eq!(acks(&p.hear()).len(), 1);
    }
    assert_eq!(p.transport.statistics().duplicates, 2);
}

#[test]
fn nothing_outside_the_window() {
    //= P-DATA-6
    let mut p = puppet(config(0));
    say(&mut p, 1024, 0, false, 1);
    say(&mut p, 1 << 31, 0, false, 1);
    say(&mut p, 5, 1024, false, 1);
    assert_eq!(p.delivered(), []);
    let s = p.transport.statistics();
    assert_eq!((s.out_of_window, s.duplicates, s.implausible), (1, 1, 1));
    say(&mut p, 1023, 0, false, 7);
    assert_eq!(p.delivered(), [7]);
}

#[test]
fn acknowledgements_tell_what_has_arrived() {
    //= P-ACK-3
    //= P-ACK-4
    let mut p = puppet(config(0));
    let first = p.psn;
    say(&mut p, 0, 0, false, 1);
    p.delivered();
    assert!(acks(&p.hear()).is_empty(), "one packet in order can wait");
    let late = acks(&p.wait(Duration::from_micros(110)));
    assert_eq!((late.len(), late[0].ack, late[0].words), (1, first.wrapping_add(1), 0));
    (1..17).for_each(|n| say(&mut p, n, 0, false, 1));
    p.delivered();
    assert_eq!(acks(&p.hear())[0].ack, first.wrapping_add(17), "sixteen cannot");
    say(&mut p, 18, 0, false, 1);
    say(&mut p, 100, 0, false, 1);
    p.delivered();
    let gap = acks(&p.hear());
    assert_eq!((gap.len(), gap[0].ack, gap[0].words), (1, first.wrapping_add(17), 2));
    assert_eq!((gap[0].bitmap[0], gap[0].bitmap[1]), (1 << 1, 1 << (83 - 64)));
    let frames = frame(1, &[]);
    let mut now = p.data(0, false, &frames);
    (now.psn, now.ack_now) = (first.wrapping_add(17), true);
    p.say(&Packet::Data(now));
    p.delivered();
    assert_eq!(acks(&p.hear())[0].ack, first.wrapping_add(19));
}

#[test]
fn only_what_is_accepted_is_acknowledged_for_good() {
    //= P-ACK-1
    let mut p = puppet(config(0));
    let first = p.psn;
    (0..16).for_each(|n| say(&mut p, n, 0, false, 1));
    let ack = acks(&p.hear())[0];
    assert_eq!((ack.ack, ack.words, ack.bitmap[0]), (first, 1, 0xffff), "arrived, not accepted");
    assert_eq!(p.delivered().len(), 16);
    assert_eq!(acks(&p.wait(Duration::from_micros(110)))[0].ack, first.wrapping_add(16));
}

#[test]
fn the_echo_is_the_latest_timestamp_and_its_age() {
    //= P-ACK-6
    let mut p = puppet(config(0));
    say(&mut p, 0, 0, false, 1);
    let time = (p.now.0 >> 6) as u32;
    p.delivered();
    let ack = acks(&p.wait(Duration::from_micros(110)))[0];
    let (echo, delay) = ack.echo.unwrap();
    assert_eq!(echo, time);
    assert!((97..=110).contains(&delay), "{delay}");
}

#[test]
fn memory_is_bounded_and_the_first_missing_packet_finds_room() {
    //= P-LIMIT-1
    //= P-LIMIT-2
    let mut p = puppet(Config { kept_packets_max: 4, ..config(0) });
    for n in 1..10 {
        say(&mut p, n, n as u16, false, n.into());
    }
    assert_eq!(p.transport.statistics().no_memory, 5);
    assert_eq!(p.delivered(), []);
    say(&mut p, 0, 0, false, 100);
    assert_eq!(p.delivered(), [100, 1, 2, 3, 4]);
    let ack = acks(&p.hear())[0];
    assert_eq!((ack.ack, ack.words), (p.psn.wrapping_add(5), 0), "what was dropped is not acknowledged");
    let mut p = puppet(Config { kept_bytes_total_max: 200, ..config(0) });
    (0..20).for_each(|n| say(&mut p, n, 0, false, n.into()));
    assert!(p.delivered().len() < 5 && p.transport.statistics().no_memory > 15);
}

#[test]
fn a_refused_packet_comes_again_and_what_follows_waits() {
    //= P-NACK-3
    let mut p = puppet(config(0));
    say(&mut p, 0, 0, false, 10);
    say(&mut p, 1, 1, false, 11);
    say(&mut p, 2, 0, false, 20);
    let id = p.id();
    let delivery = p.transport.poll_deliver(id).unwrap();
    assert_eq!(delivery.frames().next().unwrap().head[0], 10);
    p.transport.refuse(p.now, delivery, 0, Refusal::NotResident).unwrap();
    let nacks = p.hear();
    assert!(
        nacks
            .iter()
            .any(|n| matches!(Packet::parse(n), Ok(Packet::Nack(n)) if n.psn == p.psn && n.reason == Refusal::NotResident && n.echo == (p.now.0 >> 6) as u32))
    );
    assert_eq!(p.delivered(), [20], "11 follows 10 on its stream");
    say(&mut p, 0, 0, false, 10);
    assert_eq!(p.delivered(), [], "the same transmission again");
    p.now = p.now + Duration::from_micros(1);
    say(&mut p, 0, 0, false, 10);
    assert_eq!(p.delivered(), [10, 11]);
}

#[test]
fn frames_consumed_before_a_refusal_are_not_shown_again() {
    let mut p = puppet(config(0));
    let frames: Vec<u8> = (1..5).flat_map(|n| frame(n, b"x")).collect();
    let mut consumed = 0;
    for expected in [vec![1, 2, 3, 4], vec![2, 3, 4], vec![4]] {
        let data = p.data(0, true, &frames);
        p.say(&Packet::Data(data));
        let id = p.id();
        let delivery = p.transport.poll_deliver(id).unwrap();
        assert_eq!(delivery.frames().map(|f| f.head[0]).collect::<Vec<_>>(), expected);
        consumed += 1;
        if consumed < 3 {
            p.transport.refuse(p.now, delivery, consumed, Refusal::Busy).unwrap();
            p.now = p.now + Duration::from_micros(1);
        }
    }
    assert_eq!(p.delivered(), []);
}

#[test]
fn void_frames_are_not_shown() {
    //= P-FRAME-3
    let mut p = puppet(config(0));
    let frames = [frame(0, b"void"), frame(7, b""), frame(0, b""), frame(8, b"y")].concat();
    let data = p.data(0, false, &frames);
    p.say(&Packet::Data(data));
    assert_eq!(p.delivered(), [7, 8]);
}

#[test]
fn it_can_be_too_late_to_refuse() {
    let mut p = puppet(config(0));
    (0..3).for_each(|n| say(&mut p, n, 0, false, n.into()));
    let id = p.id();
    let first = p.transport.poll_deliver(id).unwrap();
    let second = p.transport.poll_deliver(id).unwrap();
    assert_eq!(p.transport.refuse(p.now, first, 0, Refusal::Busy), Err(Error::TooLate));
    p.wait(Duration::from_micros(200));
    assert_eq!(p.transport.refuse(p.now, second, 0, Refusal::Busy), Err(Error::TooLate));
    assert_eq!(p.delivered(), [2]);
}

#[test]
fn empty_packets_are_passed_over() {
    let mut p = puppet(config(0));
    say(&mut p, 1, 1, false, 5);
    let data = p.data(0, false, &[]);
    p.transport.handle_packet(p.now, p.address, bytes(&Packet::Data(data)));
    assert_eq!(p.delivered(), [5]);
    assert_eq!(acks(&p.hear())[0].ack, p.psn.wrapping_add(2));
}
