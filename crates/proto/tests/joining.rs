// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short frames that wait to share a packet: when they do, when they do no longer, and that nothing
//! is lost, changed or out of order by it; rule by rule, and against a model.

mod common;

use bellwire_proto::packet::ack::BITMAP_WORDS_MAX;
use bellwire_proto::packet::data::Data;
use bellwire_proto::packet::{Ack, Packet};
use bellwire_proto::{Config, Duration, Frames, Sent, Transport};
use common::config;
use common::puppet::Puppet;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const DELAY: Duration = Duration::from_micros(5);
const BYTES_MAX: usize = 2000;
/// Bytes in front of a packet's frames, and of a frame with one word of head.
const HEADER: usize = 32;
const FRAME: usize = 12;

fn puppet(change: Config) -> Puppet {
    Puppet::connected(Transport::new(Config { probe_path: false, join_delay: DELAY, join_bytes_max: BYTES_MAX, window_packets_initial: 64, ..change }, 1))
}

fn send(p: &mut Puppet, stream: u32, word: u64, payload: usize) {
    let id = p.id();
    let sent = p.transport.send(p.now, id, stream, &[word], payload, |bytes| {
        bytes.fill(word as u8);
        true
    });
    assert_eq!(sent, Sent::Yes);
}

/// First words of the frames in each packet that leaves now.
fn hear(p: &mut Puppet) -> Vec<Vec<u64>> {
    let is_data = |packet: &Vec<u8>| matches!(Packet::parse(packet), Ok(Packet::Data(_)));
    p.hear().iter().filter(|packet| is_data(packet)).map(|packet| Frames::of_packet(packet).map(|f| f.head[0]).collect()).collect()
}

/// Acknowledges the first `n` packets, and those in `bits` behind them.
fn ack(p: &mut Puppet, n: u32, bits: u64) {
    let mut bitmap = [0; BITMAP_WORDS_MAX];
    bitmap[0] = bits;
    p.say(&Packet::Ack(Ack { session: p.session, ack: p.their_psn.wrapping_add(n), echo: None, bitmap, words: usize::from(bits != 0) }));
}

/// Two packets are under way, with the frames 1 and 2, and the frames 3 and 4 wait.
fn waiting(change: Config) -> Puppet {
    let mut p = puppet(change);
    for word in 1..=2 {
        send(&mut p, 1, word, 8);
        assert_eq!(hear(&mut p), [[word]], "the way is idle, or nearly");
    }
    for word in 3..=4 {
        send(&mut p, 1, word, 8);
        assert_eq!(hear(&mut p).len(), 0);
    }
    assert!(p.transport.is_joining());
    p
}

#[test]
fn what_is_written_while_packets_are_under_way_shares_one() {
    //= P-JOIN-1
    let mut p = waiting(config(0));
    assert!(p.transport.next_timeout() <= p.now + DELAY, "somebody is to look then");
    p.now = p.now + DELAY;
    p.transport.handle_timeout(p.now);
    assert_eq!(hear(&mut p), [[3, 4]]);
    assert!(!p.transport.is_joining());

    // A sender with nothing in flight, or not much, does not wait, however soon.
    ack(&mut p, 3, 0);
    for word in 5..=6 {
        send(&mut p, 1, word, 8);
        assert_eq!(hear(&mut p), [[word]]);
    }
    // The time counts from when packets left, not from when the first waits.
    p.now = p.now + DELAY;
    send(&mut p, 1, 7, 8);
    assert_eq!(hear(&mut p), [[7]]);
}

#[test]
fn a_look_is_enough_without_an_alarm() {
    //= P-JOIN-1
    let mut p = waiting(config(0));
    p.now = p.now + Duration(DELAY.0 - 1);
    assert_eq!(hear(&mut p).len(), 0);
    p.now = p.now + Duration(1);
    assert_eq!(hear(&mut p), [[3, 4]]);
}

#[test]
fn it_leaves_when_an_acknowledgement_comes() {
    //= P-JOIN-2
    let mut p = waiting(config(0));
    ack(&mut p, 1, 0);
    assert_eq!(hear(&mut p), [[3, 4]]);
}

#[test]
fn it_leaves_when_there_is_enough() {
    //= P-JOIN-2
    let mut p = waiting(config(0));
    // Two packets, for both do not fit into one.
    let before = 2 * HEADER + 2 * (FRAME + 8) + 2 * FRAME;
    send(&mut p, 1, 5, 900);
    send(&mut p, 1, 6, BYTES_MAX - 1 - before - 900);
    assert_eq!(hear(&mut p).len(), 0);
    send(&mut p, 1, 7, 0);
    assert_eq!(hear(&mut p), [vec![3, 4, 5], vec![6, 7]]);
}

#[test]
fn it_leaves_with_what_is_long_or_part_of_something_long() {
    //= P-JOIN-2
    let mut p = waiting(Config { coalesce_bytes_max: 100, ..config(0) });
    send(&mut p, 1, 5, 100);
    assert_eq!(hear(&mut p), [[3, 4, 5]]);
    let mut p = waiting(config(0));
    let id = p.id();
    p.transport.set_more(id, true);
    send(&mut p, 1, 5, 8);
    assert_eq!(hear(&mut p).len(), 0, "whole runs (P-CONG-6)");
    p.transport.set_more(id, false);
    send(&mut p, 1, 6, 8);
    assert_eq!(hear(&mut p), [[3, 4, 5, 6]], "the end of a message does not wait for the next");
    send(&mut p, 1, 7, 8);
    assert_eq!(hear(&mut p).len(), 0);
}

#[test]
fn it_leaves_when_nobody_may_look_again() {
    //= P-JOIN-2
    let mut p = waiting(config(0));
    p.transport.hurry();
    assert_eq!(hear(&mut p), [[3, 4]]);
    send(&mut p, 1, 5, 8);
    assert_eq!(hear(&mut p).len(), 0, "that was once");
    let (now, id) = (p.now, p.id());
    p.transport.close(now, id).unwrap();
    assert_eq!(hear(&mut p), [[5]]);
}

#[test]
fn it_leaves_while_something_may_be_lost() {
    //= P-JOIN-2
    let mut p = waiting(config(0));
    send(&mut p, 1, 5, 8);
    p.transport.hurry();
    hear(&mut p);
    send(&mut p, 1, 6, 8);
    assert_eq!(hear(&mut p).len(), 0);
    ack(&mut p, 0, 0b10);
    assert_eq!(hear(&mut p), [[6]], "it may show that the first is lost");
    send(&mut p, 1, 7, 8);
    assert_eq!(hear(&mut p), [[7]]);
}

#[test]
fn without_a_delay_nothing_waits() {
    //= P-JOIN-1
    let config = Config { probe_path: false, join_delay: Duration(0), ..config(0) };
    let mut p = Puppet::connected(Transport::new(config, 1));
    for word in 1..10 {
        send(&mut p, 1, word, 8);
        assert_eq!(hear(&mut p), [[word]]);
    }
}

/// Packets of a whole run.
const RUN: u64 = 4;

/// What the rule says, kept apart from how it is done.
#[derive(Default)]
struct Model {
    /// Frames of packets in flight.
    flying: Vec<u64>,
    /// Frames that have not left: word and bytes.
    waiting: Vec<(u64, usize)>,
    departed: u64,
    before: u64,
    fresh: bool,
    long: bool,
    asked: bool,
}

impl Model {
    /// Bytes that wait, packets' headers included; and the packets.
    fn unsent(&self) -> (usize, u64) {
        let (mut total, mut last, mut packets) = (0, usize::MAX, 0);
        for &(_, bytes) in &self.waiting {
            if last.saturating_add(bytes) > 1200 {
                (total, last, packets) = (total + HEADER, HEADER, packets + 1);
            }
            (total, last) = (total + bytes, last + bytes);
        }
        (total, packets)
    }

    fn leaves(&self, now: u64) -> bool {
        let (bytes, packets) = self.unsent();
        // Long ones wait only in a stream of runs, while less than a whole run waits.
        let last = if self.departed == now { self.before } else { self.departed };
        let may_wait = if self.long { packets < RUN && !self.fresh && now - last < 50_000 } else { bytes < BYTES_MAX };
        let waits = self.flying.len() >= 2 && !self.asked && may_wait && now < self.departed + DELAY.0;
        !self.waiting.is_empty() && !waits
    }
}

#[test]
fn what_a_stream_of_long_messages_leaves_over_of_whole_runs_waits_for_the_next() {
    //= P-JOIN-3
    let mut p = puppet(Config { run_packets_max: 4, ..config(0) });
    let (id, mut acked) = (p.id(), 0);
    let full = p.transport.payload_max(id, 1);
    // A message of five packets; how many of them leave.
    let mut message = |p: &mut Puppet, first: u64| {
        for i in 0..5 {
            p.transport.set_more(id, i < 4);
            send(p, 1, first + i, full);
        }
        let left = p.hear().len() as u32;
        acked += left;
        (left, acked)
    };
    assert_eq!(message(&mut p, 10).0, 5, "one alone");
    p.now = p.now + Duration::from_micros(20);
    assert_eq!(message(&mut p, 20).0, 4, "one upon another: the fifth waits");
    p.now = p.now + Duration::from_micros(2);
    assert_eq!(message(&mut p, 30).0, 4, "and leaves with the next");
    assert!(p.transport.next_timeout() <= p.now + DELAY);
    p.now = p.now + DELAY;
    assert_eq!(p.hear().len(), 2, "but not for long");
    let (left, acked) = message(&mut p, 40);
    assert_eq!(left, 4);
    ack(&mut p, acked + 1, 0);
    assert_eq!(p.hear().len(), 1, "hardly anything is in flight that it could wait for");
    ack(&mut p, acked + 3, 0);
    p.now = p.now + Duration::from_micros(10);
    assert_eq!(message(&mut p, 50).0, 5, "all before it has been answered");
    p.now = p.now + Duration::from_micros(60);
    assert_eq!(message(&mut p, 60).0, 5, "no stream any more");
}

/// Frames of all lengths, time, acknowledgements and looks at random; after each, exactly what the
/// model says has left, in order.
#[test]
fn what_waits_and_leaves_is_what_the_model_says() {
    //= P-JOIN-1
    //= P-JOIN-2
    //= P-JOIN-3
    let (mut joined, mut seen) = (0, 0);
    for seed in 0..2000u64 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = |n: u64| rng.next_u64() % n;
        let mut p = puppet(Config { run_packets_max: RUN as usize, ..config(0) });
        let (mut m, mut word, mut acked) = (Model::default(), 0, 0u32);
        for _ in 0..40 {
            match draw(8) {
                0..4 => {
                    word += 1;
                    let payload = [8, 8, 56, 300, 900, 1100][draw(6) as usize];
                    send(&mut p, 1, word, payload);
                    m.long |= FRAME + payload > 1024;
                    m.waiting.push((word, FRAME + payload));
                }
                4..6 => p.now = p.now + Duration(draw(DELAY.0)),
                6 => {
                    let n = draw(m.flying.len() as u64 + 1) as usize;
                    acked += n as u32;
                    m.flying.drain(..n);
                    ack(&mut p, acked, 0);
                }
                _ => {
                    p.transport.hurry();
                    m.asked |= !m.waiting.is_empty();
                }
            }
            let leaves = m.leaves(p.now.0);
            assert!(leaves || m.waiting.is_empty() || p.transport.next_timeout().0 <= m.departed + DELAY.0, "seed {seed}: somebody looks in time");
            let left = hear(&mut p);
            let packets = m.unsent().1;
            let due: Vec<u64> = if leaves { m.waiting.drain(..).map(|(word, _)| word).collect() } else { Vec::new() };
            assert_eq!(left.concat(), due, "seed {seed}");
            if leaves {
                assert_eq!(left.len() as u64, packets, "seed {seed}: as few packets as hold them");
                joined += due.len() - left.len();
                if m.departed != p.now.0 {
                    (m.before, m.departed, m.fresh) = (m.departed, p.now.0, m.flying.is_empty());
                }
                m.flying.extend(left.iter().map(|frames| frames[0]));
                (m.long, m.asked) = (false, false);
            }
            seen += due.len();
        }
    }
    assert!(joined > seen / 5, "{joined} of {seen}");
}

/// A packet of frames from several streams is delivered after all before it; one of a single stream
/// after its own.
#[test]
fn frames_of_several_streams_that_share_a_packet_are_ordered() {
    //= P-DATA-4
    let mut p = waiting(config(0));
    send(&mut p, 2, 5, 8);
    p.now = p.now + DELAY;
    let out = p.hear();
    let Ok(Packet::Data(Data { ordered, stream_back, count, .. })) = Packet::parse(&out[0]) else { panic!("data") };
    assert_eq!((ordered, stream_back, count), (true, 0, 3));
}

/// Sends by the path for short frames that have the way for themselves, if it may be, else as
/// usual.
fn send_alone(p: &mut Puppet, word: u64) -> Vec<Vec<u8>> {
    let (now, id) = (p.now, p.id());
    if p.transport.is_idle(id)
        && let Some(packet) = p.transport.send_alone(now, id, 1, &[word, !word])
    {
        assert_eq!((packet.segment, packet.session, packet.to), (None, Some(id), p.address));
        return vec![packet.bytes.to_vec()];
    }
    assert_eq!(p.transport.send(now, id, 1, &[word, !word], 0, |_| true), Sent::Yes);
    p.hear()
}

/// Two of the same, one of which never uses the short path: whatever happens, the same packets
/// leave, byte for byte.
#[test]
fn the_short_path_does_what_the_long_one_does() {
    //= P-JOIN-1
    //= P-DATA-1
    let (mut alone, mut all) = (0, 0);
    for seed in 0..500u64 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = |n: u64| rng.next_u64() % n;
        let change = Config { window_packets_initial: [2, 64][draw(2) as usize], ..config(0) };
        let (mut short, mut long) = (puppet(change.clone()), puppet(change));
        let (mut sent, mut acked) = (0u32, 0u32);
        for word in 1..60 {
            match draw(6) {
                0..3 => {
                    let is_idle = short.transport.is_idle(short.id());
                    let one = send_alone(&mut short, word);
                    let (now, id) = (long.now, long.id());
                    assert_eq!(long.transport.send(now, id, 1, &[word, !word], 0, |_| true), Sent::Yes);
                    let other = long.hear();
                    assert_eq!(one, other, "seed {seed}");
                    alone += u32::from(is_idle && !one.is_empty());
                    sent += one.len() as u32;
                }
                3 => {
                    // Now and then so long that what is owed leaves by itself.
                    let longest = if draw(4) == 0 { 300_000 } else { 3 * DELAY.0 };
                    let time = Duration(draw(longest));
                    let (one, other) = (short.wait(time), long.wait(time));
                    assert_eq!(one, other, "seed {seed}");
                    sent += one.iter().filter(|p| matches!(Packet::parse(p), Ok(Packet::Data(d)) if !d.retransmitted)).count() as u32;
                }
                4 => {
                    acked += draw(u64::from(sent - acked) + 1) as u32;
                    let bits = if draw(4) == 0 && sent > acked + 1 { 0b10 } else { 0 };
                    for p in [&mut short, &mut long] {
                        ack(p, acked, bits);
                    }
                    assert_eq!(short.hear(), long.hear(), "seed {seed}");
                }
                _ => {
                    // Something to acknowledge, which goes along.
                    for p in [&mut short, &mut long] {
                        let frames = common::puppet::frame(word, b"x");
                        let data = p.data(0, false, &frames);
                        p.say(&Packet::Data(data));
                        p.psn = p.psn.wrapping_add(1);
                        assert_eq!(p.delivered(), [word]);
                    }
                }
            }
            all += 1;
        }
    }
    assert!(alone > all / 20, "{alone} of {all}");
}
