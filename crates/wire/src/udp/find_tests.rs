// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::udp::find::directory::{ASKED_MAX, ASKED_TIME, Place};
use crate::udp::packet::{self, FIND_BYTES, FOUND_BYTES};
use crate::xdp::XdpMode;

/// A NIC of this test: a data socket on an address of the loopback network, and its finder.
struct Side {
    socket: UdpSocket,
    finder: Finder,
}

/// Addresses and ports of this test alone: the last two bytes of the address and the directory's
/// port by process and number.
fn side(last: u8, directory: u16) -> Side {
    side_with(last, directory, None)
}

fn side_with(last: u8, directory: u16, keys: Option<Arc<Keys>>) -> Side {
    let ip = Ipv4Addr::new(127, 77, std::process::id() as u8, last);
    let socket = UdpSocket::bind((ip, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let own = socket.local_addr().unwrap();
    let config = UdpConfig {
        address: own,
        directory_port: directory,
        seed: u64::from(last).into(),
        faults: None,
        tap: None,
        allow: Allow::NOBODY,
        keys,
        xdp: XdpMode::Off,
    };
    let mut finder = Finder::new(own, &config, Instant(1)).unwrap();
    finder.asks_directory = true;
    Side { socket, finder }
}

fn address(side: &Side, discriminator: &[u8]) -> NetAddress {
    let IpAddr::V4(ip) = side.socket.local_addr().unwrap().ip() else { unreachable!() };
    NetAddress::new(&ip.octets(), discriminator).unwrap()
}

fn turn(sides: &mut [&mut Side], now: Instant) {
    for s in sides {
        s.finder.handle_ready(now);
        let mut bytes = [0; 128];
        while let Ok((n, from)) = s.socket.recv_from(&mut bytes) {
            assert!(packet::is_ours(&bytes[..n]));
            s.finder.handle_packet(now, from, &bytes[..n]);
        }
        s.finder.handle_timeout(now, &s.socket);
    }
}

/// Turns until the first side has an answer.
fn answer(sides: &mut [&mut Side], now: &mut Instant) -> (u64, Result<SocketAddr, LinkFailure>) {
    for _ in 0..2000 {
        turn(sides, *now);
        if let Some(found) = sides[0].finder.poll_found() {
            return found;
        }
        *now = *now + Duration::from_micros(500);
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    panic!("no answer");
}

#[test]
fn who_waits_is_found_and_who_does_not_is_not() {
    let mut now = Instant(1);
    let (mut a, mut b) = (side(1, 30_001), side(2, 30_001));
    let here = address(&b, b"here");
    assert!(b.finder.listen(now, &here));
    let asker = address(&a, b"");
    a.finder.locate(now, &a.socket, 1, Rendezvous::Client, &asker, &here);
    assert_eq!(answer(&mut [&mut a, &mut b], &mut now), (1, Ok(b.socket.local_addr().unwrap())));
    let nowhere = address(&b, b"nowhere");
    a.finder.locate(now, &a.socket, 2, Rendezvous::Client, &asker, &nowhere);
    assert_eq!(answer(&mut [&mut a, &mut b], &mut now), (2, Err(LinkFailure::NobodyThere)));
    b.finder.unlisten(&here);
    a.finder.locate(now, &a.socket, 3, Rendezvous::Client, &asker, &here);
    assert_eq!(answer(&mut [&mut a, &mut b], &mut now), (3, Err(LinkFailure::NobodyThere)));
    // A host without any NIC: the question is repeated, then given up.
    let empty = NetAddress::new(&[127, 77, std::process::id() as u8, 99], b"here").unwrap();
    let began = now;
    a.finder.locate(now, &a.socket, 4, Rendezvous::Client, &asker, &empty);
    assert_eq!(answer(&mut [&mut a, &mut b], &mut now), (4, Err(LinkFailure::NobodyThere)));
    assert!(now.since(began) >= Duration(FIND_PERIOD.0 * u64::from(FIND_TRIES)));
    assert_eq!(a.finder.next_timeout(), Instant::NEVER);
}

#[test]
fn with_keys_only_those_who_have_them_find_and_are_found() {
    //= P-AUTH-3
    //= P-AUTH-11
    let mut now = Instant(1);
    let keys = |byte| Some(Arc::new(Keys::shared([byte; 32])));
    let mut b = side_with(20, 30_011, keys(1));
    let mut plain = side_with(21, 30_011, None);
    let (at_b, at_plain) = (address(&b, b"here"), address(&plain, b"here"));
    assert!(b.finder.listen(now, &at_b) && plain.finder.listen(now, &at_plain));
    let mut request = 0;
    let mut ask = |asker: &mut Side, of: &mut Side, at: &NetAddress, now: &mut Instant| {
        request += 1;
        let own = address(asker, b"");
        asker.finder.locate(*now, &asker.socket, request, Rendezvous::Client, &own, at);
        let (of_request, found) = answer(&mut [asker, of], now);
        assert_eq!(of_request, request);
        found
    };
    let mut friend = side_with(22, 30_011, keys(1));
    assert_eq!(ask(&mut friend, &mut b, &at_b, &mut now), Ok(b.socket.local_addr().unwrap()));
    let nowhere = address(&b, b"nowhere");
    assert_eq!(ask(&mut friend, &mut b, &nowhere, &mut now), Err(LinkFailure::NobodyThere));
    assert_eq!(ask(&mut friend, &mut plain, &at_plain, &mut now), Err(LinkFailure::KeyMissing));
    let mut other = side_with(23, 30_011, keys(2));
    assert_eq!(ask(&mut other, &mut b, &at_b, &mut now), Err(LinkFailure::KeyOther));
    let mut keyless = side_with(24, 30_011, None);
    assert_eq!(ask(&mut keyless, &mut b, &at_b, &mut now), Err(LinkFailure::KeyWanted));
    assert_eq!(ask(&mut keyless, &mut plain, &at_plain, &mut now), Ok(plain.socket.local_addr().unwrap()));
    // An attacker answers at once, before the directory does, and is not believed.
    let own = address(&friend, b"");
    friend.finder.locate(now, &friend.socket, 99, Rendezvous::Client, &own, &at_b);
    let question = friend.finder.questions[&99].bytes.clone();
    let to = friend.finder.questions[&99].to;
    for lie in [
        Found { nonce: 0, name: names::hash_of(&[&at_b]), user: 0, port: 666 }.store().to_vec(),
        packet::store_no_key(&question, packet::NoKey::Other),
        packet::seal_found(
            &Keys::shared([9; 32]),
            &mut bellwire_proto::Seed::from(1).stream(Purpose::Datagrams),
            to.ip(),
            Found { nonce: 0, name: 0, user: 0, port: 666 },
        )
        .unwrap(),
    ] {
        friend.finder.handle_packet(now, to, &lie);
    }
    assert_eq!(answer(&mut [&mut friend, &mut b], &mut now), (99, Ok(b.socket.local_addr().unwrap())));
}

#[test]
fn the_directory_is_succeeded_when_it_ends() {
    let mut now = Instant(1);
    let mut a = side(3, 30_002);
    let first = side(4, 30_002);
    let mut second = side(4, 30_002);
    assert!(matches!(first.finder.place, Place::Directory { .. }) && matches!(second.finder.place, Place::Heir(_)));
    let here = address(&second, b"x");
    assert!(second.finder.listen(now, &here));
    drop(first);
    let asker = address(&a, b"");
    a.finder.locate(now, &a.socket, 1, Rendezvous::Client, &asker, &here);
    assert_eq!(answer(&mut [&mut a, &mut second], &mut now), (1, Ok(second.socket.local_addr().unwrap())));
    assert!(matches!(second.finder.place, Place::Directory { .. }));
}

#[test]
fn two_peers_find_each_other_and_leave_nothing() {
    let mut now = Instant(1);
    let (mut a, mut b) = (side(5, 30_003), side(6, 30_003));
    let (at_a, at_b) = (address(&a, b"a"), address(&b, b"b"));
    b.finder.locate(now, &b.socket, 10, Rendezvous::Peer, &at_b, &at_a);
    for _ in 0..50 {
        turn(&mut [&mut b, &mut a], now);
        now = now + Duration::from_millis(10);
    }
    assert!(b.finder.poll_found().is_none() && b.finder.waits.len() == 1, "it waits for the other, however long that takes");
    a.finder.locate(now, &a.socket, 1, Rendezvous::Peer, &at_a, &at_b);
    a.finder.locate(now, &a.socket, 2, Rendezvous::Peer, &at_a, &at_b);
    let there = Ok(b.socket.local_addr().unwrap());
    let mut got = [answer(&mut [&mut a, &mut b], &mut now), answer(&mut [&mut a, &mut b], &mut now)];
    got.sort_by_key(|(request, _)| *request);
    assert_eq!(got, [(1, there), (2, there)]);
    a.finder.cancel(1);
    assert_eq!(a.finder.waits.len(), 1, "the other request still waits");
    a.finder.cancel(2);
    b.finder.cancel(10);
    assert!(a.finder.waits.is_empty() && b.finder.waits.is_empty());
}

#[test]
fn strangers_are_counted_and_bounded() {
    let now = Instant(1);
    let mut b = side(8, 30_004);
    let here = address(&b, b"x");
    assert!(b.finder.listen(now, &here));
    let stranger = UdpSocket::bind((Ipv4Addr::new(127, 77, 0, 200), 0)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let directory = SocketAddr::new(b.finder.own.ip(), 30_004);
    stranger.send_to(&[0xf1; FIND_BYTES], directory).unwrap();
    stranger.send_to(&[0xf1; 3], directory).unwrap();
    for nonce in 0..200 {
        stranger.send_to(&Find { nonce, name: names::hash_of(&[&here]) }.store(), directory).unwrap();
    }
    // The one that waits never says its port: no turn of its own.
    for _ in 0..20 {
        b.finder.take_questions(now);
    }
    b.finder.note_timeouts();
    assert_eq!((b.finder.malformed, b.finder.asked.len()), (2, ASKED_MAX));
    b.finder.handle_timeout(now + ASKED_TIME, &b.socket);
    assert!(b.finder.asked.is_empty());
    let mut bytes = [0; 128];
    let (mut answers, mut nothing) = (0, 0);
    while let Ok((n, _)) = stranger.recv_from(&mut bytes) {
        assert_eq!(n, FOUND_BYTES);
        answers += 1;
        nothing += u32::from(Found::load(&bytes[..n]).unwrap().port == 0);
    }
    // Those that found its backlog full were told so at once; the dropped ones will ask again.
    assert!((ASKED_MAX..200).contains(&answers) && nothing == answers as u32, "{answers} answers, {nothing} of them 'nobody'");
    // An answer that nobody asked for.
    b.finder.handle_packet(now, directory, &Found { nonce: 1, name: 1, user: 0, port: 1 }.store());
    assert!(b.finder.poll_found().is_none());
}

/// Release 0.1.0 asked and answered in another form.
#[test]
fn release_0_1_0_asks_and_is_asked() {
    let now = Instant(1);
    let mut b = side(9, 30_005);
    let here = address(&b, b"x");
    assert!(b.finder.listen(now, &here));
    let old = UdpSocket::bind((Ipv4Addr::new(127, 77, 0, 201), 0)).unwrap();
    let directory = SocketAddr::new(b.finder.own.ip(), 30_005);
    // Its question, and its answer: no user in it.
    let question = packet::old_find(&Find { nonce: 9, name: 1 }.store()).unwrap();
    assert_eq!((question[..2].to_vec(), question.len()), (vec![0xf1, 1], FIND_BYTES));
    old.send_to(&question, directory).unwrap();
    b.finder.take_questions(now);
    let mut bytes = [0; 128];
    assert_eq!((old.recv_from(&mut bytes).unwrap().0, bytes[..2].to_vec()), (FOUND_BYTES, vec![0xf2, 1]));
    assert!(bytes[4..8] == [0; 4]);
    let answer = packet::old_found(Found { nonce: 9, name: 1, user: 1000, port: 7 });
    assert_eq!(Found::load(&answer), Some(Found { nonce: 9, name: 1, user: 0, port: 7 }));
    assert_eq!(Found::load(&[&answer[..4], &[1], &answer[5..]].concat()), None);
    // It is asked: the second question is in its form.
    let directory = UdpSocket::bind((Ipv4Addr::new(127, 77, 0, 202), 30_006)).unwrap();
    let mut a = side(10, 30_006);
    a.finder.locate(
        now,
        &a.socket,
        5,
        Rendezvous::Client,
        &NetAddress::new(&[127, 0, 0, 1], b"a").unwrap(),
        &NetAddress::new(&[127, 77, 0, 202], b"x").unwrap(),
    );
    a.finder.handle_timeout(now + FIND_PERIOD, &a.socket);
    let asked = [0, 1].map(|_| {
        let (n, from) = directory.recv_from(&mut bytes).unwrap();
        (bytes[..n].to_vec(), from)
    });
    assert_eq!((asked[0].0[1], asked[1].0[1]), (2, 1));
    let find = Find::load(&asked[1].0).unwrap();
    directory.send_to(&packet::old_found(Found { nonce: find.nonce, name: find.name, user: 0, port: 77 }), asked[1].1).unwrap();
    a.socket.set_nonblocking(false).unwrap();
    let (n, from) = a.socket.recv_from(&mut bytes).unwrap();
    a.finder.handle_packet(now, from, &bytes[..n]);
    assert_eq!(a.finder.poll_found(), Some((5, Ok(SocketAddr::from(([127, 77, 0, 202], 77))))));
}

#[test]
fn addresses_with_and_without_a_port() {
    assert_eq!(ip_and_port(&[10, 0, 0, 1]), Some((IpAddr::from([10, 0, 0, 1]), None)));
    assert_eq!(ip_and_port(&[10, 0, 0, 1, 0x1b, 0xce]), Some((IpAddr::from([10, 0, 0, 1]), Some(7118))));
    let mut v6 = [0u8; 18];
    (v6[15], v6[17]) = (1, 9);
    assert_eq!(ip_and_port(&v6[..16]), Some((IpAddr::V6(Ipv6Addr::LOCALHOST), None)));
    assert_eq!(ip_and_port(&v6), Some((IpAddr::V6(Ipv6Addr::LOCALHOST), Some(9))));
    assert!(ip_and_port(&[1, 2, 3]).is_none() && ip_and_port(&[]).is_none() && ip_and_port(&[10, 0, 0, 1, 0, 0]).is_none());
}
