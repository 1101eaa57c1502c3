// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending half, answered by hand: packets and their order, acknowledgements that may be lies,
//! refusals, losses, timeouts, the end.

mod common;

use bellwire_proto::packet::ack::BITMAP_WORDS_MAX;
use bellwire_proto::packet::data::Data;
use bellwire_proto::packet::{Ack, Nack, Packet};
use bellwire_proto::{Config, DownReason, Duration, Event, Refusal, ReturnReason, Sent, Transport};
use common::config;
use common::puppet::Puppet;

fn puppet(change: Config) -> Puppet {
    // Joining is tested in joining.rs.
    Puppet::connected(Transport::new(Config { probe_path: false, join_delay: Duration(0), ..change }, 1))
}

/// A head is not zero.
const HEAD: u64 = 1 << 32;

fn send(p: &mut Puppet, stream: u32, word: u64, payload: usize) -> Sent {
    let id = p.id();
    p.transport.send(p.now, id, stream, &[word | HEAD], payload, |b| {
        b.fill(7);
        true
    })
}

/// Sends frames, each in a packet of its own.
fn send_each(p: &mut Puppet, count: u64) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for n in 0..count {
        assert_eq!(send(p, 1, n, 8), Sent::Yes);
        out.extend(p.hear());
    }
    out
}

fn data(packet: &[u8]) -> Option<Data<'_>> {
    if let Ok(Packet::Data(d)) = Packet::parse(packet) { Some(d) } else { None }
}

fn numbers(packets: &[Vec<u8>]) -> Vec<u32> {
    packets.iter().filter_map(|p| data(p)).map(|d| d.psn).collect()
}

/// Acknowledges everything before `first + n`, and of the packets from there those in `bits`.
fn ack(p: &mut Puppet, n: u32, bits: u64, echo: Option<u32>) {
    let mut bitmap = [0; BITMAP_WORDS_MAX];
    bitmap[0] = bits;
    let packet = Ack { session: p.session, ack: p.their_psn.wrapping_add(n), echo: echo.map(|e| (e, 0)), bitmap, words: usize::from(bits != 0) };
    p.say(&Packet::Ack(packet));
}

fn nack(p: &mut Puppet, packet: &[u8], reason: Refusal, consumed: u16) {
    let d = data(packet).unwrap();
    let (psn, echo) = (d.psn, d.timestamp);
    p.say(&Packet::Nack(Nack { session: p.session, psn, reason, echo, consumed }));
}

#[test]
fn what_could_not_be_filled_travels_void() {
    //= P-FRAME-3
    let mut p = puppet(config(0));
    let id = p.id();
    let sent = p.transport.send(p.now, id, 1, &[HEAD, 5], 3, |b| {
        b.fill(7);
        false
    });
    assert_eq!(sent, Sent::Unfilled);
    assert_eq!(send(&mut p, 1, 2, 0), Sent::Yes);
    let out = p.hear();
    let frames = data(&out[0]).unwrap().frames;
    assert_eq!(&frames[..4 + 16 + 3], [&[2, 0, 3, 0][..], &[0; 19]].concat());
}

#[test]
fn packets_are_numbered_and_chained_by_stream() {
    //= P-DATA-1
    //= P-DATA-2
    let mut p = puppet(config(0));
    let mut out = Vec::new();
    for stream in [1, 2, 1, 1, 2] {
        assert_eq!(send(&mut p, stream, 0, 2000), Sent::TooLong);
        assert_eq!(send(&mut p, stream, 0, 8), Sent::Yes);
        out.extend(p.hear());
    }
    let seen: Vec<_> = out.iter().map(|b| data(b).unwrap()).map(|d| (d.psn.wrapping_sub(p.their_psn), d.stream_back, d.ordered)).collect();
    assert_eq!(seen, [(0, 0, false), (1, 0, false), (2, 2, false), (3, 1, false), (4, 3, false)]);
    ack(&mut p, 4, 0, None);
    assert_eq!(send(&mut p, 1, 0, 8), Sent::Yes);
    let next = p.hear();
    assert_eq!(data(&next[0]).unwrap().stream_back, 0, "its predecessor is accepted");
}

#[test]
fn frames_share_a_packet_until_it_leaves() {
    //= P-DATA-4
    let mut p = puppet(Config { coalesce_bytes_max: 100, ..config(0) });
    for (stream, length) in [(1, 8), (1, 200), (2, 8), (3, 8), (4, 200), (4, 8)] {
        assert_eq!(send(&mut p, stream, stream.into(), length), Sent::Yes);
    }
    let out = p.hear();
    let seen: Vec<_> = out.iter().map(|b| data(b).unwrap()).map(|d| (d.count, d.ordered, d.stream_back)).collect();
    assert_eq!(seen, [(4, true, 0), (2, false, 0)]);
    assert_eq!(send(&mut p, 3, 0, 8), Sent::Yes);
    let next = p.hear();
    assert_eq!(data(&next[0]).unwrap().stream_back, 2, "the shared packet is its predecessor");
}

#[test]
fn equal_packets_leave_in_runs() {
    let mut p = puppet(config(0));
    let id = p.id();
    let full = p.transport.payload_max(id, 1);
    for length in [full, full, full, 100, full] {
        assert_eq!(send(&mut p, 1, 0, length), Sent::Yes);
    }
    let first = p.transport.poll_transmit(p.now).unwrap();
    assert_eq!((first.packets(), first.segment, first.bytes.len()), (4, Some(1200), 3 * 1200 + 144));
    let second = p.transport.poll_transmit(p.now).unwrap();
    assert_eq!((second.packets(), second.segment), (1, None));
}

#[test]
fn whoever_is_stopped_asks_for_an_answer() {
    //= P-DATA-7
    let mut p = puppet(Config { window_packets: 8, window_packets_initial: 8, coalesce_bytes_max: 0, ..config(0) });
    let id = p.id();
    let full = p.transport.payload_max(id, 1);
    let mut sent = 0;
    while send(&mut p, 1, 0, full) == Sent::Yes {
        sent += 1;
    }
    assert_eq!(sent, 8);
    let out = p.hear();
    let asks: Vec<bool> = out.iter().map(|b| data(b).unwrap().ack_now).collect();
    assert_eq!(asks, [false, false, false, false, false, false, false, true]);
    assert!(p.events().is_empty());
    ack(&mut p, 1, 0, None);
    assert_eq!(p.events(), [Event::Room { session: p.id() }]);
}

#[test]
fn no_more_bytes_fly_than_the_peer_has_room_for() {
    //= P-CONG-5
    let mut p = Puppet::connected_with(Transport::new(Config { probe_path: false, ..config(0) }, 1), 5000);
    let id = p.id();
    let full = p.transport.payload_max(id, 1);
    (0..10).for_each(|_| assert_eq!(send(&mut p, 1, 0, full), Sent::Yes));
    assert_eq!(numbers(&p.hear()).len(), 4);
    ack(&mut p, 1, 0, None);
    assert_eq!(numbers(&p.hear()).len(), 1);
    ack(&mut p, 1, 0b1110, None);
    assert_eq!(numbers(&p.hear()), [1, 5, 6, 7].map(|n| p.their_psn.wrapping_add(n)), "what arrived does not fly");
}

#[test]
fn runs_are_not_cut_short_while_an_answer_is_on_its_way() {
    //= P-CONG-6
    let config = Config { probe_path: false, run_packets_max: 4, ..config(0) };
    let mut p = Puppet::connected_with(Transport::new(config, 1), 16 * 1200);
    let id = p.id();
    let full = p.transport.payload_max(id, 1);
    let whole = |p: &mut Puppet| assert_eq!(send(p, 1, 0, full), Sent::Yes);
    (0..17).for_each(|_| whole(&mut p));
    let out = p.hear();
    assert_eq!(out.len(), 16);
    assert!(data(&out[15]).unwrap().ack_now, "it waits for that");
    ack(&mut p, 1, 0, None);
    assert_eq!(p.hear().len(), 1, "all that there is");
    (0..8).for_each(|_| whole(&mut p));
    ack(&mut p, 4, 0, None);
    assert_eq!(p.hear().len(), 0, "room for three, and eight are waiting");
    ack(&mut p, 5, 0, None);
    assert_eq!(p.hear().len(), 4);
    ack(&mut p, 21, 0, None);
    assert_eq!(p.hear().len(), 4, "nothing is in flight");
    p.transport.set_more(id, true);
    whole(&mut p);
    assert_eq!(p.hear().len(), 0, "more comes soon");
    ack(&mut p, 25, 0, None);
    assert_eq!(p.hear().len(), 1, "but nothing is waited for in vain");
    (0..3).for_each(|_| whole(&mut p));
    assert_eq!(p.hear().len(), 0);
    p.transport.set_more(id, false);
    whole(&mut p);
    assert_eq!(p.hear().len(), 4);
    p.transport.set_more(id, true);
    ack(&mut p, 26, 0b10, None);
    whole(&mut p);
    assert_eq!(p.hear().len(), 1, "a packet is missing");
}

#[test]
fn lies_about_arrival_are_counted() {
    //= P-ACK-5
    let mut p = puppet(config(0));
    send_each(&mut p, 4);
    ack(&mut p, 5, 0, None);
    ack(&mut p, 1000, 0, None);
    assert_eq!(p.transport.statistics().implausible, 2);
    ack(&mut p, 0, !0, None);
    let info = p.transport.session_info(p.id()).unwrap();
    assert_eq!((info.outstanding, info.in_flight), (4, 0), "arrived, not accepted");
    ack(&mut p, 4, 0, None);
    ack(&mut p, 2, 0, None);
    assert_eq!(p.transport.session_info(p.id()).unwrap().outstanding, 0);
}

#[test]
fn only_the_latest_refusal_counts() {
    //= P-NACK-1
    //= P-NACK-2
    let mut p = puppet(config(0));
    let out = send_each(&mut p, 1);
    p.now = p.now + Duration::from_micros(10);
    let echo = data(&out[0]).unwrap().timestamp;
    p.say(&Packet::Nack(Nack { session: p.session, psn: p.their_psn, reason: Refusal::NotResident, echo: echo + 1, consumed: 0 }));
    p.say(&Packet::Nack(Nack { session: p.session, psn: p.their_psn + 1, reason: Refusal::NotResident, echo, consumed: 0 }));
    assert_eq!(p.transport.statistics().nacks_stale, 2);
    nack(&mut p, &out[0], Refusal::NotResident, 0);
    assert_eq!(p.events(), [Event::Refused { session: p.id(), reason: Refusal::NotResident }]);
    ack(&mut p, 0, 1, None);
    let again = p.wait(Duration::from_micros(100));
    assert_eq!(numbers(&again), [p.their_psn], "a bitmap from before does not keep it from leaving again");
    assert!(data(&again[0]).unwrap().retransmitted && data(&again[0]).unwrap().ack_now);
    nack(&mut p, &out[0], Refusal::NotResident, 0);
    assert_eq!(p.transport.statistics().nacks_stale, 3);
    assert_eq!(p.transport.statistics().nacks_in, 1);
}

#[test]
fn frames_refused_for_good_return_and_the_packet_goes_on_empty() {
    //= P-NACK-4
    let mut p = puppet(config(0));
    for word in 0..3 {
        assert_eq!(send(&mut p, 1, word, 8), Sent::Yes);
    }
    let out = p.hear();
    nack(&mut p, &out[0], Refusal::Protection, 1);
    let id = p.id();
    assert!(p.events().contains(&Event::Returned { session: id }));
    let back: Vec<_> = core::iter::from_fn(|| p.transport.poll_returned(id)).collect();
    assert_eq!(back.iter().map(|r| r.head[0] & !HEAD).collect::<Vec<_>>(), [1, 2]);
    assert!(back.iter().all(|r| r.reason == ReturnReason::Refused(Refusal::Protection) && r.payload == [7; 8]));
    let again = p.wait(Duration::from_micros(50));
    assert_eq!((numbers(&again), data(&again[0]).unwrap().count), (vec![p.their_psn], 0));
    // The other way: refused again and again for a passing reason.
    let mut p = puppet(Config { refusals_max: 5, ..config(0) });
    let mut out = send_each(&mut p, 1);
    let mut waits = Vec::new();
    while p.transport.poll_returned(p.id()).is_none() {
        nack(&mut p, &out[0], Refusal::NoReceive, 0);
        let from = p.now;
        out = Vec::new();
        while out.is_empty() {
            out = p.wait(Duration(4096));
        }
        waits.push(p.now.since(from).0);
    }
    assert_eq!(waits.len(), 6);
    assert!(waits[..5].windows(2).all(|w| w[1] > w[0] * 3 / 2) && waits[0] >= 50_000, "{waits:?}");
}

#[test]
fn the_first_packet_is_asked_about_even_if_it_arrived() {
    //= P-NACK-5
    let mut p = puppet(config(0));
    send_each(&mut p, 1);
    ack(&mut p, 0, 1, None);
    assert_eq!(numbers(&p.wait(Duration::from_millis(70))), [p.their_psn, p.their_psn]);
}

#[test]
fn overtaken_packets_leave_again() {
    //= P-TIME-4
    let mut p = puppet(config(0));
    let out = send_each(&mut p, 6);
    let echo = data(&out[0]).unwrap().timestamp;
    p.now = p.now + Duration::from_micros(100);
    ack(&mut p, 1, 0b0110, Some(echo));
    assert!(numbers(&p.hear()).is_empty(), "two are not enough");
    ack(&mut p, 1, 0b1110, Some(echo));
    assert_eq!(numbers(&p.hear()), [p.their_psn + 1]);
    // The last of all: asked about after two round trips, long before a timeout.
    let mut p = puppet(Config { rto_min: Duration::from_millis(50), ..config(0) });
    let out = send_each(&mut p, 1);
    p.now = p.now + Duration::from_millis(1);
    ack(&mut p, 1, 0, Some(data(&out[0]).unwrap().timestamp));
    send_each(&mut p, 3);
    let asked = p.wait(Duration::from_millis(3));
    assert_eq!(numbers(&asked), [p.their_psn + 3]);
    assert_eq!((p.transport.statistics().tail_probes, p.transport.statistics().timeouts), (1, 0));
    // Those that left later by more than the tolerance.
    p.now = p.now + Duration::from_millis(1);
    let probe = data(&asked[0]).unwrap().timestamp;
    ack(&mut p, 1, 0b100, Some(probe));
    assert_eq!(numbers(&p.hear()), [p.their_psn + 1, p.their_psn + 2]);
}

/// A puppet that has sent 20 packets at one instant, of which 1 and 3 are lost and have left again
/// at another; round trips take 100 us.
fn two_sent_again() -> (Puppet, u32) {
    let mut p = puppet(Config { window_packets_initial: 64, ..config(0) });
    let out = send_each(&mut p, 20);
    p.now = p.now + Duration::from_micros(100);
    let echo = data(&out[0]).unwrap().timestamp;
    ack(&mut p, 1, 0b1111_1010, Some(echo));
    let again = p.hear();
    assert_eq!(numbers(&again), [p.their_psn + 1, p.their_psn + 3]);
    (p, data(&again[0]).unwrap().timestamp)
}

#[test]
fn what_leaves_behind_another_is_not_late_because_that_one_arrived() {
    //= P-TIME-4
    let (mut p, echo) = two_sent_again();
    // A slow link, or a long queue: the first of the two takes twice the usual time, and the second
    // comes behind it.
    p.now = p.now + Duration::from_micros(200);
    ack(&mut p, 3, 0b1_1111, Some(echo));
    assert!(numbers(&p.hear()).is_empty());
    p.now = p.now + Duration::from_micros(100);
    ack(&mut p, 20, 0, Some(echo));
    assert!(numbers(&p.hear()).is_empty());
    assert_eq!((p.transport.statistics().retransmitted, p.transport.statistics().spurious), (2, 0));
}

#[test]
fn a_queue_does_not_make_patient() {
    //= P-TIME-4
    let (mut p, _) = two_sent_again();
    // The queue has grown: round trips take 1 ms now.
    p.now = p.now + Duration::from_micros(30);
    let later = send_each(&mut p, 1);
    let echo = data(&later[0]).unwrap().timestamp;
    p.now = p.now + Duration::from_millis(1);
    ack(&mut p, 3, (1 << 18) - 2, Some(echo));
    assert_eq!(numbers(&p.hear()), [p.their_psn + 3], "packet 3 left before the one that arrived by more than a quarter of the smallest round trip");
}

#[test]
fn needless_retransmissions_make_patient() {
    //= P-TIME-5
    let mut p = puppet(Config { window_packets_initial: 64, ..config(0) });
    let out = send_each(&mut p, 20);
    let echo = data(&out[0]).unwrap().timestamp;
    p.now = p.now + Duration::from_micros(50);
    ack(&mut p, 0, 0b1110, Some(echo));
    assert_eq!(numbers(&p.hear()), [p.their_psn]);
    p.now = p.now + Duration::from_micros(1);
    ack(&mut p, 4, 0, Some(echo));
    assert_eq!(p.transport.statistics().spurious, 1);
    ack(&mut p, 4, 0b1110, Some(echo));
    assert!(numbers(&p.hear()).is_empty(), "three are not enough any more");
    ack(&mut p, 4, 0b111_1110, Some(echo));
    assert_eq!(numbers(&p.hear()), [p.their_psn + 4]);
}

#[test]
fn timeouts_double_and_end_in_return_to_sender() {
    //= P-TIME-3
    //= P-CONG-4
    //= P-LIFE-2
    //= P-RETURN-1
    let mut p = puppet(config(0));
    let begin = p.now;
    send_each(&mut p, 5);
    let mut times = Vec::new();
    while p.transport.session_info(p.id()).is_some() {
        if !numbers(&p.wait(Duration(1 << 20))).is_empty() {
            times.push(p.now.since(begin).0 / 1_000_000);
        }
        if times.len() == 3 {
            assert_eq!(p.transport.session_info(p.id()).unwrap().window, 1);
        }
    }
    assert!(times.len() > 10 && times.len() < 24, "{times:?}");
    assert!(times[1] - times[0] >= 38 && times[2] - times[1] >= 78 && times.windows(2).all(|w| w[1] - w[0] < 1100), "{times:?}");
    let end = p.now.since(begin).0;
    assert!((10_000_000_000..12_000_000_000).contains(&end), "{end}");
    let id = p.id();
    assert_eq!(p.events(), [Event::Down { session: id, reason: DownReason::Unreachable }]);
    assert_eq!(send(&mut p, 1, 0, 8), Sent::Broken);
    let back: Vec<_> = core::iter::from_fn(|| p.transport.poll_returned(id)).collect();
    assert_eq!(back.iter().map(|r| r.head[0] & !HEAD).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(back.iter().all(|r| r.reason == ReturnReason::Down(DownReason::Unreachable)));
    assert_eq!(p.transport.sessions(), 0, "its place is free");
    assert_eq!(p.transport.next_timeout(), bellwire_proto::Instant::NEVER);
}

#[test]
fn what_the_peer_sends_by_itself_is_no_sign_of_life() {
    //= P-LIFE-3
    let mut p = puppet(config(0));
    let out = send_each(&mut p, 1);
    let echo = data(&out[0]).unwrap().timestamp;
    ack(&mut p, 1, 0, Some(echo));
    send_each(&mut p, 1);
    let begin = p.now;
    while p.transport.session_info(p.id()).is_some() {
        p.wait(Duration::from_millis(100));
        let mut data = p.data(0, false, &[]);
        // What it heard last, again and again.
        data.answer.echo = Some((echo, u16::MAX - 1));
        p.say(&Packet::Data(data));
        p.psn = p.psn.wrapping_add(1);
        assert!(p.now.since(begin) < Duration::from_secs(33));
    }
    assert!(p.now.since(begin) >= Duration::from_secs(30), "but it is there");
    assert_eq!(p.events(), [Event::Down { session: p.id(), reason: DownReason::Unreachable }]);
}
