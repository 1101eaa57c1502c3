// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strangers, liars and echoes from the past: no state without a cookie, nothing amplified, nothing
//! of an earlier session delivered, nothing without a bound.

mod common;

use bellwire_proto::packet::{Close, Hello, Kind, Packet, Ping, Reset};
use bellwire_proto::{Config, Duration, Event, Instant, NicId, Transport};
use common::puppet::{Puppet, bytes, frame};
use common::{Faults, Load, World, address, config};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[test]
fn strangers_leave_no_state_and_get_no_more_than_they_gave() {
    //= P-HAND-1
    //= P-HAND-3
    let mut p = Puppet::strange(Transport::new(config(0), 1));
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let (mut given, mut got) = (0, 0);
    for n in 0..20_000u32 {
        p.address.set_port(rng.next_u32() as u16);
        let (nonce, cookie) = (rng.next_u64(), if n % 2 == 0 { [0; 16] } else { core::array::from_fn(|_| rng.next_u32() as u8) });
        let hello = Packet::Hello(Hello { timestamp: n, party: p.party, nonce, versions: [1, 1], cookie });
        let ping = Packet::Ping(Ping { session: rng.next_u64(), token: n, timestamp: 0, length: 32 });
        let packet = bytes(if n % 3 == 0 { &ping } else { &hello });
        given += packet.len();
        let answers = p.ask(&packet);
        let answered: usize = answers.iter().map(Vec::len).sum();
        assert!(answers.len() <= 1 && answered <= packet.len());
        got += answered;
        p.now = p.now + Duration::from_micros(1);
    }
    assert!(got < given);
    assert_eq!((p.transport.sessions(), p.transport.next_timeout(), p.events().len()), (0, Instant::NEVER, 0));
    assert!(p.transport.statistics().cookies_bad > 1000);
}

#[test]
fn half_sessions_are_bounded_and_pass() {
    //= P-HAND-4
    //= P-HAND-5
    let mut p = Puppet::strange(Transport::new(config(0), 1));
    let mut welcomed = 0;
    for n in 0..1000u16 {
        p.party.nic = NicId(core::array::from_fn(|i| (n >> (i % 2 * 8)) as u8 ^ 0x55));
        welcomed += u32::from(p.shake_hands());
    }
    assert_eq!((welcomed, p.transport.sessions()), (64, 64));
    assert_eq!(p.transport.statistics().sessions_refused, 936);
    assert!(p.events().is_empty(), "nobody is told of half a session");
    // Those that have had their time make room for others, one by one, ..
    p.wait(Duration::from_secs(6));
    for n in 0..10u8 {
        p.party.nic = NicId([n | 0x80; 16]);
        assert!(p.shake_hands());
    }
    assert_eq!(p.transport.sessions(), 64);
    // .. and go when their peers would have gone.
    p.wait(Duration::from_secs(10));
    assert_eq!(p.transport.sessions(), 10);
    p.wait(Duration::from_secs(6));
    assert_eq!(p.transport.sessions(), 0);
    // The same HELLO again: the same session, and nothing more.
    assert!(p.shake_hands());
    let first = (p.session, p.their_psn);
    assert!(p.shake_hands());
    assert_eq!((p.session, p.their_psn, p.transport.sessions()), (first.0, first.1, 1));
}

#[test]
fn half_a_session_is_kept_for_a_peer_that_is_late() {
    //= P-HAND-5
    let mut p = Puppet::strange(Transport::new(config(0), 1));
    assert!(p.shake_hands());
    p.wait(Duration::from_secs(14));
    p.say(&Packet::Data(p.data(0, false, &[])));
    assert!(matches!(p.events()[..], [Event::Up { .. }]));
}

#[test]
fn an_older_handshake_or_another_host_does_not_replace_a_session() {
    //= P-HAND-6
    let mut p = Puppet::connected(Transport::new(config(0), 1));
    let say = |p: &mut Puppet, boot, attempt, address: &str| {
        p.address = address.parse().unwrap();
        (p.party.boot, p.party.attempt) = (boot, attempt);
        p.shake_hands()
    };
    assert!(!say(&mut p, 5, 1, "10.9.9.9:9"), "the same");
    assert!(!say(&mut p, 5, 0, "10.9.9.9:9"), "an older one");
    assert!(!say(&mut p, 4, 9, "10.9.9.9:9"), "an earlier life");
    assert!(!say(&mut p, 6, 1, "10.9.9.8:9"), "another host");
    assert!(p.events().is_empty());
    assert!(say(&mut p, 5, 2, "10.9.9.9:10"));
    assert!(p.events().is_empty(), "half a session ends none");
    p.say(&Packet::Data(p.data(0, false, &[])));
    assert!(matches!(p.events()[..], [Event::Down { .. }, Event::Up { .. }]));
    assert!(say(&mut p, 6, 1, "10.9.9.9:10"));
}

#[test]
fn a_session_belongs_to_its_address_and_its_id() {
    //= P-HEAD-3
    let mut p = Puppet::connected(Transport::new(config(0), 1));
    let frames = frame(1, b"");
    let good = bytes(&Packet::Data(p.data(0, false, &frames)));
    for byte in 8..16 {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            p.transport.handle_packet(p.now, p.address, bad);
        }
    }
    let address = p.address;
    p.transport.handle_packet(p.now, "10.9.9.9:10".parse().unwrap(), good.clone());
    assert_eq!(p.delivered(), []);
    assert_eq!((p.transport.statistics().unknown_session, p.transport.statistics().implausible), (64, 1));
    p.transport.handle_packet(p.now, address, good);
    assert_eq!(p.delivered(), [1]);
}

#[test]
fn resets_are_few_small_and_hard_to_forge() {
    //= P-RESET-1
    //= P-RESET-2
    //= P-RESET-3
    let mut p = Puppet::connected(Transport::new(config(0), 1));
    let mut resets = 0;
    for n in 0..10_000u64 {
        let ping = bytes(&Packet::Ping(Ping { session: 0x77 << 32 | n, token: 0, timestamp: 0, length: 32 }));
        resets += p.ask(&ping).len();
        p.now = p.now + Duration::from_micros(10);
    }
    // A tenth of a second, and a burst.
    assert!((100..=165).contains(&resets), "{resets}");
    let (known, next) = (p.party.session, p.their_psn);
    let reset = |kind, word, unknown| Packet::Reset(Reset { kind, word, unknown });
    p.say(&reset(Kind::Data, next.wrapping_add(1), known));
    p.say(&reset(Kind::Data, next.wrapping_sub(3000), known));
    p.say(&reset(Kind::Ping, 0, known ^ 1 << 40));
    p.say(&reset(Kind::Ping, 0, p.session));
    let close = |p: &Puppet, psn: u32, own| Packet::Close(Close { session: p.session, psn, own });
    p.say(&close(&p, p.psn.wrapping_add(1), known));
    p.say(&close(&p, p.psn, known + 1));
    assert!(p.events().is_empty());
    p.say(&reset(Kind::Data, next.wrapping_sub(1), known));
    assert!(matches!(p.events()[..], [Event::Down { .. }]));
}

#[test]
fn nothing_of_an_earlier_session_reaches_a_later_one() {
    let load = Load { frames: 200, streams: 3, payload_max: 100, refused: 0, refused_for_good: 0 };
    let mut w = World::new(21, Faults::NONE, load, [config(0), config(1)]);
    w.recorded = Some(Vec::new());
    w.connect(0);
    assert!(w.run_until_settled(Duration::from_secs(1)));
    let session = w.nodes[0].session.unwrap();
    w.nodes[0].transport.close(w.now, session).unwrap();
    w.pump(0);
    w.run_for(Duration::from_millis(10));
    assert!(w.nodes.iter().all(|n| n.transport.sessions() == 0));
    let old = w.recorded.take().unwrap();
    assert!(old.len() > 60);
    let before: Vec<_> = w.nodes.iter().map(|n| (n.transport.statistics().data_in, n.ups)).collect();
    let replay = |w: &mut World| {
        for (from, to, packet) in &old {
            let which = (0..2).find(|i| address(*i) == *to).unwrap();
            w.nodes[which].transport.handle_packet(w.now, *from, packet.clone());
            w.pump(which);
        }
    };
    // Into nothing, into a new session on the same addresses, and into restarted NICs.
    replay(&mut w);
    w.run_for(Duration::from_millis(10));
    let after: Vec<_> = w.nodes.iter().map(|n| (n.transport.statistics().data_in, n.ups)).collect();
    assert_eq!(after, before);
    // (A replayed HELLO with a cookie that is still good makes half a session, for which a connect
    // waits a little.)
    w.connect(1);
    w.run_for(Duration::from_millis(300));
    let sessions: Vec<_> = w.nodes.iter().map(|n| n.session).collect();
    assert!(sessions.iter().all(Option::is_some));
    replay(&mut w);
    w.run_for(Duration::from_secs(10));
    assert_eq!(w.nodes.iter().map(|n| n.session).collect::<Vec<_>>(), sessions, "it goes on");
    assert_eq!(w.nodes.iter().map(|n| n.transport.statistics().data_in).collect::<Vec<_>>(), before.iter().map(|b| b.0).collect::<Vec<_>>());
    for which in 0..2 {
        w.restart(which);
    }
    replay(&mut w);
    w.run_for(Duration::from_secs(10));
    assert!(w.nodes.iter().all(|n| n.transport.statistics().data_in == 0 && n.transport.sessions() == 0));
}

#[test]
fn without_a_checksum_below_there_is_nonsense_but_no_harm() {
    //= P-HEAD-5
    let mut malformed = 0;
    for seed in 0..40 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let limits = |c: Config| Config { kept_packets_max: 64, kept_bytes_max: 1 << 18, ..c };
        let mut pair = [Transport::new(limits(config(0)), rng.next_u64()), Transport::new(limits(config(1)), rng.next_u64())];
        let mut now = Instant(1000);
        let mut sessions = [None; 2];
        let mut wire: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut old: Vec<(usize, Vec<u8>)> = Vec::new();
        for turn in 0..3000u64 {
            now = now + Duration(rng.next_u64() % 100_000);
            if turn % 300 == 0 {
                let _ = pair[0].connect(now, address(1), turn);
            }
            for (to, mut p) in wire.drain(..) {
                if rng.next_u64() % 3 == 0 {
                    let at = rng.next_u64() as usize % p.len().min(48);
                    p[at] ^= 1 << (rng.next_u64() % 8);
                }
                old.push((to, p.clone()));
                pair[to].handle_packet(now, address(1 - to), p);
                let again = &old[rng.next_u64() as usize % old.len()];
                pair[again.0].handle_packet(now, address(1 - again.0), again.1.clone());
            }
            for which in 0..2 {
                let t = &mut pair[which];
                t.handle_timeout(now);
                if let Some(session) = sessions[which] {
                    let _ = t.send(now, session, turn as u32 % 5, &[turn + 1], 50, |b| {
                        b.fill(1);
                        true
                    });
                }
                while let Some(s) = t.next_delivery() {
                    while let Some(d) = t.poll_deliver(s) {
                        assert!(d.frames().count() < 10_000);
                    }
                }
                while let Some(e) = t.poll_event() {
                    match e {
                        Event::Up { session, .. } => sessions[which] = Some(session),
                        Event::Down { session, .. } => while t.poll_returned(session).is_some() {},
                        _ => {}
                    }
                }
                while let Some(out) = t.poll_transmit(now) {
                    let size = out.segment.unwrap_or(out.bytes.len());
                    wire.extend(out.bytes.chunks(size).map(|p| (1 - which, p.to_vec())));
                }
                assert!(t.sessions() < 80);
            }
            wire.truncate(500);
        }
        malformed += pair.iter().map(|t| t.statistics().malformed.iter().sum::<u64>()).sum::<u64>();
    }
    assert!(malformed > 1000, "{malformed}");
}
