// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network that loses refusals, or what would be refused: one answer tells of all others, so that
//! a burst of losses costs one timeout and not one for each packet.

mod common;

use bellwire_proto::packet::ack::BITMAP_WORDS_MAX;
use bellwire_proto::packet::data::Data;
use bellwire_proto::packet::{Ack, Nack, Packet};
use bellwire_proto::{Config, Duration, Refusal, Sent, Transport};
use common::config;
use common::puppet::Puppet;

const PACKETS: u32 = 20;

/// Packets that have left at once; each of a stream of its own.
fn sent() -> (Puppet, Vec<Vec<u8>>) {
    let (p, out) = sent_with(64);
    assert_eq!(out.len(), PACKETS as usize);
    (p, out)
}

/// As many of them as the window lets.
fn sent_with(window: usize) -> (Puppet, Vec<Vec<u8>>) {
    let config = Config { probe_path: false, coalesce_bytes_max: 0, window_packets_initial: window, ..config(0) };
    let mut p = Puppet::connected(Transport::new(config, 1));
    let id = p.id();
    for stream in 0..PACKETS {
        assert_eq!(p.transport.send(p.now, id, stream, &[1 << 32], 1, |_| true), Sent::Yes);
    }
    let out = p.hear();
    (p, out)
}

fn data(packet: &[u8]) -> Option<Data<'_>> {
    if let Ok(Packet::Data(d)) = Packet::parse(packet) { Some(d) } else { None }
}

/// Numbers of packets, from the first that was sent.
fn numbers(p: &Puppet, packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().filter_map(|packet| data(packet)).map(|d| d.psn.wrapping_sub(p.their_psn)).collect()
}

/// Nothing is accepted, and these have arrived.
fn ack(p: &mut Puppet, bits: u64, echo: u32) {
    let mut bitmap = [0; BITMAP_WORDS_MAX];
    bitmap[0] = bits;
    p.say(&Packet::Ack(Ack { session: p.session, ack: p.their_psn, echo: Some((echo, 0)), bitmap, words: usize::from(bits != 0) }));
}

fn refuse(p: &mut Puppet, packet: &[u8]) {
    let Data { psn, timestamp: echo, .. } = data(packet).unwrap();
    p.say(&Packet::Nack(Nack { session: p.session, psn, reason: Refusal::NotResident, echo, consumed: 0 }));
}

/// Until something leaves.
fn wait(p: &mut Puppet) -> Vec<Vec<u8>> {
    for _ in 0..10_000 {
        let out = p.wait(Duration::from_micros(10));
        if !numbers(p, &out).is_empty() {
            return out;
        }
    }
    panic!("nothing leaves");
}

#[test]
fn packets_that_a_newer_bitmap_does_not_show_any_more_leave_again_together() {
    //= P-NACK-5
    let (mut p, out) = sent();
    let echo = data(&out[0]).unwrap().timestamp;
    p.now = p.now + Duration::from_micros(20);
    ack(&mut p, (1 << PACKETS) - 1, echo);
    // An acknowledgement that says less, of before: it was late.
    ack(&mut p, 0b11, echo);
    let hear = p.hear();
    assert!(numbers(&p, &hear).is_empty());
    // All have been refused, and the refusals were lost. The first is asked about; the answer shows
    // one of them only.
    let asked = wait(&mut p);
    assert_eq!(numbers(&p, &asked), [0]);
    p.now = p.now + Duration::from_micros(20);
    refuse(&mut p, &asked[0]);
    ack(&mut p, 1 << 7, data(&asked[0]).unwrap().timestamp);
    let hear = p.hear();
    assert_eq!(numbers(&p, &hear), (1..PACKETS).filter(|n| *n != 7).collect::<Vec<_>>());
}

#[test]
fn a_refusal_shows_that_packets_that_left_earlier_are_lost() {
    //= P-TIME-4
    let (mut p, out) = sent();
    p.now = p.now + Duration::from_micros(20);
    // They left together: those without an answer are late after another round trip.
    refuse(&mut p, &out[3]);
    let hear = p.hear();
    assert!(numbers(&p, &hear).is_empty());
    let again = p.wait(Duration::from_micros(200));
    assert_eq!(numbers(&p, &again).iter().filter(|n| **n != 3).count(), PACKETS as usize - 1, "{:?}", numbers(&p, &again));
    // One that left later is refused: the others are lost at once.
    let (mut p, _) = sent();
    let asked = wait(&mut p);
    assert_eq!(numbers(&p, &asked).len(), 1);
    p.now = p.now + Duration::from_micros(20);
    refuse(&mut p, &asked[0]);
    let hear = p.hear();
    assert_eq!(numbers(&p, &hear).len(), PACKETS as usize - 1);
}

#[test]
fn the_window_grows_by_what_is_refused() {
    //= P-CONG-1
    let (mut p, _) = sent_with(4);
    let window = |p: &Puppet| p.transport.session_info(p.id()).unwrap().window;
    assert_eq!(window(&p), 4);
    let mut out = Vec::new();
    for _ in 0..40 {
        if numbers(&p, &out).is_empty() {
            out = wait(&mut p);
        }
        p.now = p.now + Duration::from_micros(20);
        out.iter().filter(|packet| data(packet).is_some()).for_each(|packet| refuse(&mut p, packet));
        // Packets that leave at once are answered, too: nothing is lost.
        out = p.hear();
    }
    assert!(window(&p) > 8, "{}", window(&p));
}
