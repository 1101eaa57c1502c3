// SPDX-License-Identifier: MIT OR Apache-2.0
//! Authenticated sessions: with which keys there is one, that an attacker on the network can do
//! nothing to one, and what travels, byte for byte.

mod common;

use bellwire_proto::packet::header::AUTH;
use bellwire_proto::packet::{Close, Kind, Nack, Packet, Ping, Reset};
use bellwire_proto::seal::{Cipher, Host, Keys, Limits, SecretKey};
use bellwire_proto::{Config, DownReason, Duration, Event, FailReason, Instant, Refusal, Transport};
use common::{Faults, Load, World, address, config, keyed};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

const LOAD: Load = Load { frames: 300, streams: 3, payload_max: 600, refused: 0, refused_for_good: 0 };

fn with(which: usize, keys: Option<Keys>) -> Config {
    Config { keys: keys.map(Arc::new), ..config(which) }
}

/// A host's own key, and the peer's.
fn of_host(which: usize, peer: usize) -> Keys {
    let secret = |which: usize| SecretKey::new([which as u8 + 1; 32]);
    Keys::of_host(secret(which), vec![Host { address: Some(address(peer).ip()), key: secret(peer).public() }])
}

/// The reason for which a session does not come up, and after how long.
fn failure(configs: [Config; 2]) -> (FailReason, Duration) {
    let mut w = World::new(5, Faults::NONE, LOAD, configs);
    w.nodes[0].transport.connect(w.now, address(1), 7).unwrap();
    let began = w.now;
    loop {
        // Without `World::pump`, which would take the events.
        let mut moved = false;
        for which in 0..2 {
            while let Some(t) = w.nodes[which].transport.poll_transmit(w.now) {
                let packet = t.bytes.to_vec();
                w.nodes[1 - which].transport.handle_packet(w.now, address(which), packet);
                moved = true;
            }
        }
        match w.nodes[0].transport.poll_event() {
            Some(Event::Failed { context: 7, reason }) => return (reason, w.now.since(began)),
            Some(other) => panic!("{other:?}"),
            None if moved => {}
            None => w.now = w.nodes[0].transport.next_timeout().max(w.now),
        }
        assert!(w.now.since(began) < Duration::from_secs(20));
        w.nodes[0].transport.handle_timeout(w.now);
    }
}

/// 0.1 speaks version 1 alone. The next one speaks it too, and 2; one of later 2 alone.
#[test]
fn two_versions_agree_on_the_highest_that_both_speak() {
    //= P-HAND-8
    let ranges = [[1, 1], [1, 2], [2, 2], [1, 15], [3, 4]];
    for (first, second) in ranges.iter().flat_map(|a| ranges.map(|b| (*a, b))) {
        for has_keys in [false, true] {
            let plain = |which, versions| Config { versions, ..config(which) };
            let configs = [plain(0, first), plain(1, second)].map(|c| if has_keys { keyed(c) } else { c });
            let common = first[1].min(second[1]);
            if common < first[0].max(second[0]) {
                assert_eq!(failure(configs).0, FailReason::Version, "{first:?} {second:?} {has_keys}");
                continue;
            }
            let mut w = World::new(7, Faults::NONE, LOAD, configs);
            w.connect(0);
            assert!(w.run_until_settled(Duration::from_secs(10)), "{first:?} {second:?} {has_keys}");
            assert_eq!(w.delivered(), 600);
            for n in &w.nodes {
                assert_eq!(n.transport.session_info(n.session.unwrap()).unwrap().version, common, "{first:?} {second:?} {has_keys}");
            }
        }
    }
}

#[test]
fn both_need_the_key_and_each_is_told_what_is_missing() {
    //= P-AUTH-3
    let shared = |byte| Some(Keys::shared([byte; 32]));
    let soon = Duration::from_millis(1);
    let at_most = Duration::from_millis(1100);
    assert!(matches!(failure([with(0, None), with(1, shared(1))]), (FailReason::PeerWantsKey, time) if time < soon));
    assert!(matches!(failure([with(0, shared(1)), with(1, None)]), (FailReason::PeerHasNoKey, time) if time < at_most));
    assert!(matches!(failure([with(0, shared(1)), with(1, shared(2))]), (FailReason::OtherKey, time) if time < at_most));
    assert!(matches!(failure([with(0, shared(1)), with(1, Some(of_host(1, 0)))]), (FailReason::OtherKey, time) if time < at_most));
    assert!(matches!(failure([with(0, Some(of_host(0, 1))), with(1, Some(of_host(1, 5)))]), (FailReason::OtherKey, time) if time < at_most));
}

#[test]
fn each_kind_of_key_carries_frames_and_a_nic_reaches_itself() {
    //= P-AUTH-1
    //= P-AUTH-2
    for (a, b, ciphers) in [
        (Keys::shared([1; 32]), Keys::shared([1; 32]), [Cipher::Aes128Gcm, Cipher::Aes128Gcm]),
        (of_host(0, 1), of_host(1, 0), [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305]),
        (of_host(0, 1).and_shared([1; 32]), of_host(1, 0).and_shared([1; 32]), [Cipher::ChaCha20Poly1305; 2]),
    ] {
        let configs = [Config { cipher: ciphers[0], ..with(0, Some(a)) }, Config { cipher: ciphers[1], ..with(1, Some(b)) }];
        let mut w = World::new(5, Faults::NONE, LOAD, configs);
        w.connect(0);
        assert!(w.run_until_settled(Duration::from_secs(5)));
        let cipher = w.nodes[0].session.and_then(|s| w.nodes[0].transport.session_info(s)).unwrap().cipher;
        let both_aes = ciphers == [Cipher::Aes128Gcm; 2];
        assert_eq!(cipher, Some(if both_aes { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 }));
        assert!(w.nodes.iter().all(|n| n.transport.statistics().forged == 0 && n.transport.statistics().replayed == 0));
    }
    let mut t: Transport<Vec<u8>> = Transport::new(with(0, Some(of_host(0, 1))), 3);
    let mut now = bellwire_proto::Instant(1000);
    t.connect(now, address(0), 1).unwrap();
    let mut ups = 0;
    for _ in 0..50 {
        let mut out = Vec::new();
        while let Some(p) = t.poll_transmit(now) {
            out.push(p.bytes.to_vec());
        }
        now = now + Duration(10_000);
        out.into_iter().for_each(|p| t.handle_packet(now, address(0), p));
        t.handle_timeout(now);
        ups += core::iter::from_fn(|| t.poll_event()).filter(|e| matches!(e, Event::Up { .. })).count();
    }
    assert_eq!(ups, 2, "both ends of a session with itself");
}

/// A session in the middle of its work, and all that has travelled.
fn at_work(seed: u64) -> World {
    let mut w = World::new(seed, Faults::NONE, Load { frames: 700, ..LOAD }, [keyed(config(0)), keyed(config(1))]);
    w.recorded = Some(Vec::new());
    w.connect(0);
    w.run_for(Duration::from_micros(150));
    assert!(w.nodes.iter().all(|n| n.session.is_some()));
    w
}

/// Everything that was sent has arrived once, nothing broke, and nothing came back.
fn goes_well(mut w: World) -> World {
    assert!(w.run_until_settled(Duration::from_secs(20)));
    assert!(w.ledger.values().all(|f| f.delivered == 1 && f.returns == 0));
    assert!(w.nodes.iter().all(|n| n.downs.is_empty() && n.ups == 1));
    w
}

fn emitted(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = vec![0; 2000];
    let n = packet.emit(&mut out);
    out.truncate(n);
    out
}

#[test]
fn what_travels_says_nothing_of_names_and_content() {
    //= P-AUTH-4
    let w = at_work(3);
    let recorded = w.recorded.as_ref().unwrap();
    for (_, _, packet) in recorded {
        for nic in [1u8, 2] {
            assert!(!packet.windows(16).any(|part| part == [nic; 16]), "the name of a NIC: {packet:?}");
        }
        assert!(packet[1] & AUTH != 0, "all packets are authenticated");
        // Heads of frames hold the words 5, 6, 7 one after the other.
        let words: Vec<u8> = [5u64, 6].iter().flat_map(|w| w.to_le_bytes()).collect();
        assert!(!packet.windows(16).any(|part| part == words));
    }
    goes_well(w);
}

#[test]
fn an_attacker_who_hears_everything_and_says_anything_disturbs_nothing() {
    //= P-AUTH-6
    //= P-AUTH-7
    //= P-AUTH-10
    for seed in 0..4 {
        let mut w = at_work(seed);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..400 {
            let heard = w.recorded.as_ref().unwrap().clone();
            let (from, to, packet) = &heard[rng.next_u64() as usize % heard.len()];
            let (mut from, mut to, mut packet) = (*from, *to, packet.clone());
            let session = u64::from_le_bytes(packet[8..16].try_into().unwrap());
            let word = u32::from_le_bytes(packet[4..8].try_into().unwrap());
            match rng.next_u64() % 10 {
                // Again, changed, cut, back to its sender.
                0 => {}
                1 => {
                    let at = rng.next_u64() as usize % packet.len();
                    packet[at] ^= 1 << (rng.next_u64() % 8);
                }
                2 => packet.truncate(rng.next_u64() as usize % packet.len()),
                3 => (from, to) = (to, from),
                // Packets that are believed where there are no keys.
                4 => packet = emitted(&Packet::Close(Close { session, psn: word, own: rng.next_u64() })),
                5 => {
                    (from, to) = (to, from);
                    packet = emitted(&Packet::Reset(Reset { kind: Kind::Data, word, unknown: session }));
                }
                6 => packet = emitted(&Packet::Nack(Nack { session, psn: word, reason: Refusal::NoStream, echo: 0, consumed: 0 })),
                7 => packet = emitted(&Packet::Ping(Ping { session, token: 1, timestamp: 0, length: 32 })),
                // As it would be without a key.
                8 => packet[1] &= !AUTH,
                _ => {
                    let which = usize::from(to == address(1));
                    w.nodes[which].transport.handle_refused(w.now, from);
                    continue;
                }
            }
            let which = usize::from(to == address(1));
            w.nodes[which].transport.handle_packet(w.now, from, packet);
            w.pump(which);
            w.run_for(Duration::from_micros(5));
        }
        let counted: u64 = w.nodes.iter().map(|n| n.transport.statistics().forged + n.transport.statistics().replayed).sum();
        assert!(counted > 50, "{counted}");
        let w = goes_well(w);
        let updates: u64 = w.nodes.iter().filter_map(|n| n.transport.session_info(n.session?)).map(|i| i.key_updates).sum();
        assert!(updates > 4, "the keys changed meanwhile: {updates}");
    }
}

#[test]
fn a_peer_that_has_forgotten_is_found_out_although_resets_are_not_believed() {
    //= P-AUTH-10
    let mut w = goes_well(at_work(9));
    w.restart(1);
    let session = w.nodes[0].session.unwrap();
    w.nodes[0].transport.set_depended(w.now, session, true);
    w.pump(0);
    w.run_for(Duration::from_millis(900));
    assert!(w.nodes[0].downs.is_empty(), "not at the first RESET");
    w.run_for(Duration::from_millis(2500));
    assert_eq!(w.nodes[0].downs, [DownReason::PeerForgot]);
    // And one that asks anew is believed at once.
    let mut w = goes_well(at_work(10));
    w.restart(1);
    w.connect(1);
    w.run_for(Duration::from_millis(5));
    assert_eq!(w.nodes[0].downs, [DownReason::PeerRestarted]);
}

#[test]
fn handshakes_that_are_said_again_lead_nowhere() {
    //= P-AUTH-2
    let mut w = goes_well(at_work(11));
    let before: Vec<_> = w.nodes.iter().map(|n| n.session).collect();
    let recorded = w.recorded.take().unwrap();
    for _ in 0..3 {
        for (from, to, packet) in &recorded {
            for from in [*from, "10.0.0.9:7".parse().unwrap()] {
                let which = usize::from(*to == address(1));
                w.nodes[which].transport.handle_packet(w.now, from, packet.clone());
                w.pump(which);
            }
        }
    }
    w.run_for(Duration::from_secs(8));
    assert_eq!(w.nodes.iter().map(|n| n.session).collect::<Vec<_>>(), before);
    assert!(w.nodes.iter().all(|n| n.transport.sessions() == 1 && n.downs.is_empty()));
}

/// The number of its key, and its counter.
fn nonce(packet: &[u8]) -> (u8, u64) {
    let word = u64::from_le_bytes(packet[packet.len() - 24..][..8].try_into().unwrap());
    ((word >> 56) as u8 & 15, word & ((1 << 56) - 1))
}

#[test]
fn a_key_that_the_peer_never_sees_seals_no_more_than_it_may() {
    //= P-AUTH-12
    const LAST: u64 = 40;
    for seed in 0..20 {
        let limits = Limits { packets: 10, packets_max: LAST, ..Limits::default() };
        let configs = [0, 1].map(|which| Config { key_limits: limits, run_packets_max: 4, ..keyed(config(which)) });
        let mut w = World::new(seed, Faults::NONE, Load { frames: 5000, ..LOAD }, configs);
        w.recorded = Some(Vec::new());
        w.connect(0);
        // Some keys later, nothing of the peer's comes any more.
        w.run_for(Duration::from_micros(300));
        w.cut[1] = true;
        w.run_for(Duration::from_secs(10));
        assert_eq!(w.nodes[0].downs, [DownReason::KeySpent], "seed {seed}");
        let mut sealed: BTreeMap<u64, u8> = BTreeMap::new();
        for (from, _, packet) in w.recorded.as_ref().unwrap() {
            if *from == address(0) && packet[1] & AUTH != 0 && packet[0] & 15 != Kind::Hello as u8 {
                let (key, counter) = nonce(packet);
                assert!(sealed.insert(counter, key).is_none(), "a counter came twice");
            }
        }
        let last = *sealed.last_key_value().unwrap().1;
        let with_last = sealed.values().rev().take_while(|key| **key == last).count() as u64;
        assert!((LAST..LAST + 4).contains(&with_last), "seed {seed}: {with_last} packets by the last key, at most a run too many");
        assert!(sealed.values().any(|key| *key != last), "seed {seed}: it had others before");
        // Each frame has arrived or comes back.
        assert!(w.ledger.values().all(|f| f.delivered == 1 || f.returns == 1));
    }
}

/// Somebody who receives at an address asks for a session with another key; its packet with the
/// good cookie.
fn proven_stranger(now: Instant, of: &mut Transport<Vec<u8>>, at: SocketAddr) -> Vec<u8> {
    let mut stranger: Transport<Vec<u8>> = Transport::new(with(2, Some(Keys::shared([9; 32]))), 77);
    stranger.connect(now, address(1), 1).unwrap();
    let hello = stranger.poll_transmit(now).unwrap().bytes.to_vec();
    of.handle_packet(now, at, hello);
    let cookie = of.poll_transmit(now).unwrap().bytes.to_vec();
    stranger.handle_packet(now, address(1), cookie);
    stranger.poll_transmit(now).unwrap().bytes.to_vec()
}

#[test]
fn a_stranger_who_floods_with_handshakes_keeps_nobody_out() {
    //= P-AUTH-1
    let key = || Some(Keys::shared([1; 32]));
    let mut w = World::new(5, Faults::NONE, LOAD, [with(0, key()), with(1, key())]);
    let from: SocketAddr = "10.0.0.99:7".parse().unwrap();
    let bad = proven_stranger(w.now, &mut w.nodes[1].transport, from);
    let flood = |w: &mut World| {
        for _ in 0..500 {
            let now = w.now;
            w.nodes[1].transport.handle_packet(now, from, bad.clone());
        }
    };
    flood(&mut w);
    let counted = *w.nodes[1].transport.statistics();
    assert!((60..=64).contains(&counted.handshakes_forged) && counted.handshakes_limited > 400, "{counted:?}");
    w.connect(0);
    let began = w.now;
    while w.nodes[0].session.is_none() {
        assert!(w.now.since(began) < Duration::from_millis(20), "before a HELLO is said again");
        w.run_for(Duration::from_micros(5));
        flood(&mut w);
    }
}

/// HELLO, COOKIE, HELLO, WELCOME, and the first packets of the session.
#[test]
fn golden() {
    //= P-AUTH-1
    //= P-AUTH-4
    //= P-AUTH-5
    let aes = |which, keys| Config { cipher: Cipher::Aes128Gcm, ..with(which, Some(keys)) };
    let kinds = [("shared", [Keys::shared([1; 32]), Keys::shared([1; 32])]), ("hosts", [of_host(0, 1), of_host(1, 0)])];
    for (name, [a, b]) in kinds {
        let mut w = World::new(1, Faults::NONE, Load { frames: 2, streams: 1, payload_max: 8, refused: 0, refused_for_good: 0 }, [aes(0, a), aes(1, b)]);
        w.recorded = Some(Vec::new());
        w.connect(0);
        assert!(w.run_until_settled(Duration::from_secs(1)));
        let text: String = w.recorded.unwrap().iter().take(7).map(|(_, _, packet)| hex(packet)).collect();
        let path = format!("{}/tests/vectors/session_{name}.hex", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BELLWIRE_WRITE_VECTORS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.chunks(32).map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ") + "\n").collect::<String>() + "\n"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Packets that are tampered with, cut, said again, held back or reflected, in any order.
    #[test]
    fn nothing_that_is_said_between_packets_changes_anything(
        seed in 0u64..1000,
        said in proptest::collection::vec((any::<u16>(), 0u8..5, any::<u16>(), any::<u8>()), 1..80),
    ) {
        //= P-AUTH-6
        //= P-AUTH-7
        let mut w = at_work(seed);
        for (which, what, at, by) in said {
            let recorded = w.recorded.as_ref().unwrap();
            let (from, to, packet) = &recorded[usize::from(which) % recorded.len()];
            let (mut from, mut to, mut packet) = (*from, *to, packet.clone());
            let at = usize::from(at) % packet.len();
            match what {
                0 => packet[at] ^= by | 1,
                1 => packet.truncate(at),
                2 => {}
                3 => (from, to) = (to, from),
                _ => packet.extend([by; 3]),
            }
            let node = usize::from(to == address(1));
            w.nodes[node].transport.handle_packet(w.now, from, packet);
            w.pump(node);
            w.run_for(Duration::from_micros(u64::from(by) / 16));
        }
        goes_well(w);
    }
}
