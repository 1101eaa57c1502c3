// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames taken back while the session goes on: only those whose fate is known, told by the latest
//! refusal.

mod common;

use bellwire_proto::packet::data::Data;
use bellwire_proto::packet::{Ack, Nack, Packet};
use bellwire_proto::{Config, Duration, Recalled, Refusal, ReturnReason, Sent, Transport};
use common::config;
use common::puppet::Puppet;

/// A head is not zero.
const HEAD: u64 = 1 << 32;

fn puppet() -> Puppet {
    Puppet::connected(Transport::new(Config { probe_path: false, ..config(0) }, 1))
}

fn send(p: &mut Puppet, word: u64) {
    let (now, id) = (p.now, p.id());
    let sent = p.transport.send(now, id, 1, &[word | HEAD], 8, |b| {
        b.fill(word as u8);
        true
    });
    assert_eq!(sent, Sent::Yes);
}

fn data(packet: &[u8]) -> Data<'_> {
    let Ok(Packet::Data(d)) = Packet::parse(packet) else { panic!("not data") };
    d
}

fn refuse(p: &mut Puppet, packet: &[u8], consumed: u16) {
    let (psn, echo) = (data(packet).psn, data(packet).timestamp);
    p.say(&Packet::Nack(Nack { session: p.session, psn, reason: Refusal::NotResident, echo, consumed }));
}

fn recall(p: &mut Puppet, wanted: &[u64]) -> Recalled {
    let (now, id) = (p.now, p.id());
    p.transport.recall(now, id, |head| wanted.contains(&(head[0] & !HEAD))).unwrap()
}

fn words(recalled: &Recalled) -> Vec<u64> {
    assert!(recalled.frames.iter().all(|f| f.reason == ReturnReason::Recalled && f.payload == [f.head[0] as u8; 8]));
    recalled.frames.iter().map(|f| f.head[0] & !HEAD).collect()
}

/// Heads of the frames of a packet that are not void.
fn shown(packet: &[u8]) -> Vec<u64> {
    bellwire_proto::Frames::of_packet(packet).map(|f| f.head[0] & !HEAD).collect()
}

#[test]
fn what_was_refused_comes_back_and_the_packet_goes_on_empty_at_once() {
    //= P-NACK-6
    let mut p = puppet();
    send(&mut p, 1);
    let out = p.hear();
    let open = recall(&mut p, &[1]);
    assert_eq!((words(&open), open.open), (vec![], 1), "in flight: nobody knows");
    refuse(&mut p, &out[0], 0);
    let back = recall(&mut p, &[1]);
    assert_eq!((words(&back), back.open), (vec![1], 0));
    assert_eq!(recall(&mut p, &[1]).frames.len(), 0, "once");
    let on = p.wait(Duration::from_micros(10));
    assert_eq!((on.len(), data(&on[0]).psn, data(&on[0]).count), (1, p.their_psn, 0));
}

#[test]
fn a_refusal_of_an_earlier_transmission_gives_nothing_back() {
    //= P-NACK-6
    //= P-NACK-1
    let mut p = puppet();
    send(&mut p, 1);
    let first = p.hear();
    let again = p.wait(Duration::from_millis(70));
    assert_eq!(data(&again[0]).psn, data(&first[0]).psn, "sent again after a timeout");
    refuse(&mut p, &first[0], 0);
    let recalled = recall(&mut p, &[1]);
    assert_eq!((words(&recalled), recalled.open), (vec![], 1), "the second may have been taken");
    refuse(&mut p, again.last().unwrap(), 0);
    assert_eq!(words(&recall(&mut p, &[1])), [1]);
}

#[test]
fn once_it_has_left_again_its_fate_is_open_again() {
    //= P-NACK-6
    let mut p = puppet();
    send(&mut p, 1);
    let out = p.hear();
    refuse(&mut p, &out[0], 0);
    let again = p.wait(Duration::from_micros(60));
    assert_eq!(data(&again[0]).count, 1);
    assert_eq!(recall(&mut p, &[1]).open, 1);
    p.say(&Packet::Ack(Ack { session: p.session, ack: p.their_psn.wrapping_add(1), echo: None, bitmap: [0; 16], words: 0 }));
    let recalled = recall(&mut p, &[1]);
    assert_eq!((recalled.frames.len(), recalled.open), (0, 0), "accepted");
}

#[test]
fn frames_of_others_and_those_consumed_stay() {
    //= P-NACK-6
    //= P-FRAME-3
    let mut p = puppet();
    (0..4).for_each(|word| send(&mut p, word));
    let out = p.hear();
    assert_eq!((out.len(), shown(&out[0])), (1, vec![0, 1, 2, 3]));
    refuse(&mut p, &out[0], 1);
    let recalled = recall(&mut p, &[0, 2]);
    assert_eq!((words(&recalled), recalled.open), (vec![2], 0), "the peer has consumed 0");
    let again = p.wait(Duration::from_micros(60));
    assert_eq!((shown(&again[0]), again[0].len()), (vec![0, 1, 3], out[0].len()));
    refuse(&mut p, &again[0], 2);
    assert_eq!(words(&recall(&mut p, &[1, 3])), [3]);
    assert_eq!(data(&p.wait(Duration::from_micros(10))[0]).count, 0);
}

#[test]
fn what_has_not_left_comes_back_too() {
    //= P-NACK-6
    let mut p = puppet();
    send(&mut p, 5);
    send(&mut p, 6);
    assert_eq!(words(&recall(&mut p, &[5])), [5]);
    assert_eq!(shown(&p.hear()[0]), [6]);
}
