// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine against what it promises: directed cases, and random programs on links that lose
//! messages.

mod world;

use bellwire_cm::{Channel, Error, Event, EventBody, EventKind, IdOption, Parameters, QpKind, Space};
use proptest::prelude::*;
use std::collections::BTreeMap;
use world::{MS, SECOND, World, address, gid};

const PORT: u16 = 7471;

fn listener(w: &mut World, p: usize, channel: Channel, space: Space, kind: QpKind, backlog: u32) -> u32 {
    let id = w.on(p, |cm, _, _| cm.create_id(channel, 1000, space, kind)).unwrap();
    w.on(p, |cm, host, _| cm.bind(host, channel, id, "0.0.0.0:7471".parse().unwrap(), false)).unwrap();
    w.on(p, |cm, host, _| cm.listen(host, channel, id, backlog)).unwrap();
    id
}

fn asks(w: &mut World, p: usize, channel: Channel, to: usize, space: Space, kind: QpKind, data: &[u8]) -> u32 {
    let id = w.on(p, |cm, _, _| cm.create_id(channel, 2000, space, kind)).unwrap();
    let found = Ok((address(p, 0).ip(), gid(to)));
    w.on(p, |cm, host, _| cm.resolve_address(host, channel, id, address(to, PORT), found)).unwrap();
    assert_eq!(w.event(p, channel).unwrap().kind, EventKind::AddressResolved);
    w.on(p, |cm, host, _| cm.resolve_route(host, channel, id)).unwrap();
    assert_eq!(w.event(p, channel).unwrap().kind, EventKind::RouteResolved);
    let parameters =
        Parameters { qp: 77, responder_resources: 3, initiator_depth: 5, retry_count: 6, rnr_retry_count: 4, data: data.to_vec(), ..Default::default() };
    w.on(p, |cm, host, now| cm.connect(host, channel, id, parameters, now)).unwrap();
    id
}

fn next(w: &mut World, p: usize, channel: Channel, kind: EventKind) -> Event {
    let event = w.event(p, channel).unwrap_or_else(|| panic!("no event, but {kind:?} is due"));
    assert_eq!(event.kind, kind, "{event:?}");
    event
}

fn connection(event: &Event) -> &Parameters {
    match &event.body {
        EventBody::Connection(p) => p,
        other => panic!("{other:?}"),
    }
}

fn pair(loss: u64) -> (World, Channel, Channel) {
    let mut w = World::new(4, 9, loss);
    let (a, b) = (w.cms[0].create_channel(), w.cms[2].create_channel());
    (w, a, b)
}

/// A connection between process 0, which asks, and 2.
fn connected() -> (World, Channel, Channel, u32, u32) {
    let (mut w, a, b) = pair(0);
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    let id = asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, b"hello");
    w.run(MS);
    let request = next(&mut w, 2, b, EventKind::ConnectRequest);
    assert_eq!((request.uid, &connection(&request).data[..5], connection(&request).data.len()), (1000, &b"hello"[..], 56));
    // What one side issues the other serves.
    assert_eq!((connection(&request).responder_resources, connection(&request).initiator_depth, connection(&request).qp), (5, 3, 77));
    let rts = w.cms[2].attributes(b, request.id, 3).unwrap();
    let answer = Parameters { qp: 88, data: b"yes".to_vec(), responder_resources: 5, initiator_depth: 3, rnr_retry_count: 2, ..Default::default() };
    w.on(2, |cm, host, now| cm.accept(host, b, request.id, Some((3000, answer)), now)).unwrap();
    w.run(MS);
    let response = next(&mut w, 0, a, EventKind::ConnectResponse);
    assert_eq!((&connection(&response).data[..3], connection(&response).data.len()), (&b"yes"[..], 196));
    let (mine, theirs) = (w.cms[0].attributes(a, id, 2).unwrap(), w.cms[2].attributes(b, request.id, 2).unwrap());
    assert_eq!((mine.peer, theirs.peer, mine.gid, theirs.gid), (88, 77, gid(2), gid(0)));
    // The numbers of packets agree, also with what was told before the acceptance.
    assert_eq!((mine.receive_number, theirs.receive_number), (rts.send_number, w.cms[0].attributes(a, id, 3).unwrap().send_number));
    assert_eq!((rts.retries, w.cms[0].attributes(a, id, 3).unwrap().retries), (6, 6));
    w.on(0, |cm, host, now| cm.accept(host, a, id, None, now)).unwrap();
    w.run(MS);
    assert_eq!(next(&mut w, 2, b, EventKind::Established).uid, 3000);
    (w, a, b, id, request.id)
}

#[test]
fn connects_and_leaves() {
    let (mut w, a, b, active, passive) = connected();
    w.on(0, |cm, host, now| cm.disconnect(host, a, active, now)).unwrap();
    w.run(MS);
    next(&mut w, 2, b, EventKind::Disconnected);
    assert_eq!(w.event(0, a), None, "the peer has not confirmed");
    w.on(2, |cm, host, now| cm.disconnect(host, b, passive, now)).unwrap();
    w.run(MS);
    next(&mut w, 0, a, EventKind::Disconnected);
    w.run(SECOND);
    next(&mut w, 0, a, EventKind::TimewaitExit);
    next(&mut w, 2, b, EventKind::TimewaitExit);
    assert_eq!(w.on(0, |cm, host, _| cm.destroy_id(host, a, active)), Ok(5));
    // Nothing is left but the listener, and nothing happens any more.
    w.on(2, |cm, host, _| cm.destroy_id(host, b, passive)).unwrap();
    w.run(60 * SECOND);
    assert_eq!((w.cms[0].ids(), w.cms[2].ids(), w.net.link_ends()), (0, 1, 0));
}

/// The peer's last answer comes before the end of the connection, and the program sees it so.
#[test]
fn the_end_comes_behind_completions() {
    for is_killed in [false, true] {
        for is_taken in [true, false] {
            let (mut w, a, b, active, passive) = connected();
            w.net.untaken.insert((2, 88));
            if is_killed {
                w.kill(0);
            } else {
                w.on(0, |cm, host, now| cm.disconnect(host, a, active, now)).unwrap();
            }
            w.run(100 * MS);
            assert_eq!(w.event(2, b), None, "it has completions to take");
            if is_taken {
                w.net.untaken.clear();
                w.run(2 * MS);
            } else {
                // A program that takes none hears of it all the same.
                w.run(150 * MS);
            }
            next(&mut w, 2, b, EventKind::Disconnected);
            let _ = w.on(2, |cm, host, now| cm.disconnect(host, b, passive, now));
            w.run(SECOND);
            if !is_killed {
                next(&mut w, 0, a, EventKind::Disconnected);
            }
        }
    }
}

#[test]
fn a_connection_is_three_messages() {
    // Each wakes a thread of the peer.
    let (w, ..) = connected();
    assert_eq!(w.net.messages, 3);
}

#[test]
fn both_leave_at_once() {
    let (mut w, a, b, active, passive) = connected();
    w.on(0, |cm, host, now| cm.disconnect(host, a, active, now)).unwrap();
    w.on(2, |cm, host, now| cm.disconnect(host, b, passive, now)).unwrap();
    w.run(MS);
    next(&mut w, 0, a, EventKind::Disconnected);
    next(&mut w, 2, b, EventKind::Disconnected);
}

#[test]
fn an_identifier_that_ends_takes_the_connection_along() {
    let (mut w, a, b, active, _) = connected();
    w.on(0, |cm, host, _| cm.destroy_id(host, a, active)).unwrap();
    w.run(MS);
    next(&mut w, 2, b, EventKind::Disconnected);
}

#[test]
fn a_killed_peer_is_noticed() {
    for (dies, other) in [(0, 2), (2, 0)] {
        let (mut w, a, b, ..) = connected();
        w.kill(dies);
        w.run(MS);
        next(&mut w, other, if other == 0 { a } else { b }, EventKind::Disconnected);
    }
}

/// Between its listening and its answer: there is no link yet that could break.
#[test]
fn a_peer_that_is_killed_while_the_link_is_made_is_noticed() {
    let (mut w, _, b) = pair(0);
    let c = w.cms[3].create_channel();
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    w.net.is_stuck = true;
    asks(&mut w, 3, c, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(SECOND);
    assert_eq!(w.event(3, c), None, "it may still answer");
    w.kill(2);
    w.run(SECOND);
    assert_eq!(next(&mut w, 3, c, EventKind::Rejected).status, 8);
}

#[test]
fn a_hung_peer_is_given_up() {
    // It does not even say that it has the request.
    let (mut w, a, b) = pair(1000);
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(30 * SECOND);
    assert_eq!(next(&mut w, 0, a, EventKind::Unreachable).status, -110);
    // It has it, and never answers.
    let (mut w, a, b) = pair(0);
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(30 * SECOND);
    assert_eq!(w.event(0, a), None);
    w.run(60 * SECOND);
    assert_eq!(next(&mut w, 0, a, EventKind::Unreachable).status, -110);
    // It does not confirm the end.
    let (mut w, a, _, active, _) = connected();
    w.net.loss = 1000;
    w.on(0, |cm, host, now| cm.disconnect(host, a, active, now)).unwrap();
    w.run(10 * SECOND);
    assert_eq!(next(&mut w, 0, a, EventKind::Disconnected).status, -110);
}

#[test]
fn refusals_have_their_reasons() {
    let (mut w, a, b) = pair(0);
    // Nobody listens: on the other host, on this one.
    for to in [2, 0] {
        asks(&mut w, 0, a, to, Space::Tcp, QpKind::Reliable, &[]);
        w.run(SECOND);
        assert_eq!(next(&mut w, 0, a, EventKind::Rejected).status, 8);
    }
    // The program refuses, with words.
    let listens = listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 1);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(MS);
    let request = next(&mut w, 2, b, EventKind::ConnectRequest);
    w.on(2, |cm, host, _| cm.reject(host, b, request.id, 0, b"no")).unwrap();
    w.run(MS);
    let rejected = next(&mut w, 0, a, EventKind::Rejected);
    assert_eq!((rejected.status, &connection(&rejected).data[..2], connection(&rejected).data.len()), (28, &b"no"[..], 148));
    // Too many wait for the program.
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(MS);
    assert_eq!(next(&mut w, 0, a, EventKind::Rejected).status, 28);
    // The listener ends with a request that the program never saw.
    w.on(2, |cm, host, _| cm.destroy_id(host, b, listens)).unwrap();
    w.run(MS);
    assert_eq!(next(&mut w, 0, a, EventKind::Rejected).status, 28);
    assert_eq!(w.event(0, a), None);
}

#[test]
fn a_request_waits_for_a_listener_that_is_about_to_be() {
    let (mut w, a, b) = pair(0);
    for from in [0, 1, 3] {
        let channel = if from == 0 { a } else { w.cms[from].create_channel() };
        asks(&mut w, from, channel, 2, Space::Tcp, QpKind::Reliable, &[]);
    }
    w.run(100 * MS);
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    w.run(50 * MS);
    for _ in 0..3 {
        next(&mut w, 2, b, EventKind::ConnectRequest);
    }
}

#[test]
fn a_service_that_moved_is_found() {
    let (mut w, a, b) = pair(0);
    let first = listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(MS);
    next(&mut w, 2, b, EventKind::ConnectRequest);
    w.on(2, |cm, host, _| cm.destroy_id(host, b, first)).unwrap();
    let c = w.cms[3].create_channel();
    listener(&mut w, 3, c, Space::Tcp, QpKind::Reliable, 4);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(50 * MS);
    next(&mut w, 3, c, EventKind::ConnectRequest);
}

#[test]
fn datagrams_find_their_service() {
    let (mut w, a, b) = pair(0);
    listener(&mut w, 2, b, Space::Udp, QpKind::Datagram, 4);
    for (accepts, kind) in [(true, EventKind::Established), (false, EventKind::Unreachable)] {
        asks(&mut w, 0, a, 2, Space::Udp, QpKind::Datagram, b"who");
        w.run(MS);
        let request = next(&mut w, 2, b, EventKind::ConnectRequest);
        let EventBody::Datagram(from, p) = &request.body else { panic!("{request:?}") };
        assert_eq!((*from, &p.data[..3], p.data.len()), (gid(0), &b"who"[..], 180));
        let outcome = w.on(2, |cm, host, now| match accepts {
            true => cm.accept(host, b, request.id, Some((1, Parameters { qp: 99, ..Default::default() })), now),
            false => cm.reject(host, b, request.id, 0, b"no"),
        });
        outcome.unwrap();
        w.run(MS);
        let answer = next(&mut w, 0, a, kind);
        let EventBody::Datagram(to, p) = &answer.body else { panic!("{answer:?}") };
        assert!(!accepts || (*to, p.qp, p.qkey, answer.status) == (gid(2), 99, bellwire_cm::UDP_QKEY, 0));
        assert!(accepts || answer.status == 2);
    }
}

#[test]
fn ports_belong_to_one() {
    let (mut w, a, b) = pair(0);
    listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    // Another process of the host, another identifier of the process, another space, another host.
    let c = w.cms[3].create_channel();
    let bind = |w: &mut World, p: usize, ch: Channel, space, at: &str, options: &[IdOption]| {
        let id = w.on(p, |cm, _, _| cm.create_id(ch, 1, space, QpKind::Reliable)).unwrap();
        options.iter().for_each(|o| w.cms[p].set_option(ch, id, *o).unwrap());
        w.on(p, |cm, host, _| cm.bind(host, ch, id, at.parse().unwrap(), false)).map(|()| id)
    };
    assert_eq!(bind(&mut w, 3, c, Space::Tcp, "0.0.0.0:7471", &[]), Err(Error::InUse));
    assert_eq!(bind(&mut w, 2, b, Space::Tcp, "10.0.0.2:7471", &[]), Err(Error::InUse));
    assert_eq!(bind(&mut w, 2, b, Space::Tcp, "[::]:7471", &[]), Err(Error::InUse));
    assert!(bind(&mut w, 2, b, Space::Tcp, "[::]:7471", &[IdOption::FamilyOnly(true)]).is_ok());
    assert!(bind(&mut w, 2, b, Space::Udp, "0.0.0.0:7471", &[]).is_ok() && bind(&mut w, 0, a, Space::Tcp, "0.0.0.0:7471", &[]).is_ok());
    // Twice, if both want it; one of them listens.
    let twice: Vec<u32> = (0..2).map(|_| bind(&mut w, 0, a, Space::Tcp, "0.0.0.0:7500", &[IdOption::ReuseAddress(true)]).unwrap()).collect();
    assert_eq!(w.on(0, |cm, host, _| cm.listen(host, a, twice[0], 0)), Ok(()));
    assert_eq!(w.on(0, |cm, host, _| cm.listen(host, a, twice[1], 0)), Err(Error::InUse));
    // Any: chosen.
    let id = bind(&mut w, 0, a, Space::Tcp, "0.0.0.0:0", &[]).unwrap();
    assert!(w.cms[0].route(a, id).unwrap().source.unwrap().port() >= 32_768);
}

#[test]
fn identifiers_move_with_their_events() {
    let (mut w, a, b) = pair(0);
    let listens = listener(&mut w, 2, b, Space::Tcp, QpKind::Reliable, 4);
    asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(MS);
    let c = w.cms[2].create_channel();
    assert_eq!(w.on(2, |cm, host, _| cm.migrate(host, b, listens, c)), Ok(0));
    assert_eq!(w.event(2, b), None);
    let request = next(&mut w, 2, c, EventKind::ConnectRequest);
    assert_eq!(w.on(2, |cm, host, _| cm.destroy_id(host, b, request.id)), Err(Error::Invalid));
    assert_eq!(w.on(2, |cm, host, _| cm.destroy_id(host, c, request.id)), Ok(0));
    assert_eq!(w.on(2, |cm, host, _| cm.destroy_id(host, c, listens)), Ok(1));
}

#[test]
fn groups() {
    let (mut w, a, _) = pair(0);
    let id = w.on(0, |cm, _, _| cm.create_id(a, 5, Space::Udp, QpKind::Datagram)).unwrap();
    let join = |w: &mut World| w.on(0, |cm, host, _| cm.join(host, a, id, 6, [0xff; 16]));
    assert_eq!(join(&mut w), Err(Error::Invalid));
    w.on(0, |cm, host, _| cm.bind(host, a, id, address(0, 0), true)).unwrap();
    let (first, second) = (join(&mut w).unwrap().number, join(&mut w).unwrap().number);
    let event = next(&mut w, 0, a, EventKind::MulticastJoin);
    assert_eq!((event.uid, event.id), (6, first));
    assert_eq!(w.on(0, |cm, host, _| cm.leave(host, a, first)), Ok(1));
    assert_eq!(w.on(0, |cm, host, _| cm.leave(host, a, second)), Ok(0));
    assert_eq!((w.event(0, a), w.on(0, |cm, host, _| cm.leave(host, a, second))), (None, Err(Error::Missing)));
    assert_eq!(w.on(0, |cm, host, _| cm.destroy_id(host, a, id)), Ok(1));
}

/// What each side of a connection was told, by its identifier.
type Told = BTreeMap<(usize, u32), Vec<EventKind>>;

/// Random programs: each end that the program did not end hears how it ends, in an order that makes
/// sense, within the bounds.
fn random(seed: u64, loss: u64, steps: usize, kills: bool) {
    let mut w = World::new(6, seed, loss);
    let channels: Vec<Channel> = (0..6).map(|p| w.cms[p].create_channel()).collect();
    let mut told = Told::new();
    // Identifiers that the program has: process, number, whether it asked.
    let mut open: Vec<(usize, u32, bool)> = Vec::new();
    let mut dead = [false; 6];
    for p in [1, 3, 5] {
        listener(&mut w, p, channels[p], Space::Tcp, QpKind::Reliable, 8);
    }
    for _ in 0..steps {
        let p = (w.net.draw() % 6) as usize;
        let channel = channels[p];
        if dead[p] {
            continue;
        }
        match w.net.draw() % 10 {
            0..3 => {
                let to = [1, 3, 5][(w.net.draw() % 3) as usize];
                let id = w.on(p, |cm, _, _| cm.create_id(channel, 7, Space::Tcp, QpKind::Reliable)).unwrap();
                let found = Ok((address(p, 0).ip(), gid(to)));
                w.on(p, |cm, host, _| cm.resolve_address(host, channel, id, address(to, PORT), found)).unwrap();
                w.on(p, |cm, host, _| cm.resolve_route(host, channel, id)).unwrap();
                w.on(p, |cm, host, now| cm.connect(host, channel, id, Parameters::default(), now)).unwrap();
                open.push((p, id, true));
            }
            3 if !open.is_empty() => {
                let at = w.net.draw() as usize % open.len();
                let (p, id, _) = open[at];
                if !dead[p] {
                    let _ = w.on(p, |cm, host, now| cm.disconnect(host, channels[p], id, now));
                }
            }
            4 if !open.is_empty() => {
                let at = w.net.draw() as usize % open.len();
                let (p, id, _) = open.swap_remove(at);
                if !dead[p] {
                    let given = told.remove(&(p, id)).map_or(0, |t| t.len() as u32);
                    let reported = w.on(p, |cm, host, _| cm.destroy_id(host, channels[p], id)).unwrap();
                    assert_eq!(reported, given, "each event that was given is counted once");
                }
            }
            5 if kills && w.net.draw().is_multiple_of(40) => {
                dead[p] = true;
                w.kill(p);
                open.retain(|(q, ..)| *q != p);
            }
            _ => {
                let time = w.net.draw() % (200 * MS);
                w.run(time);
            }
        }
        for p in (0..6).filter(|p| !dead[*p]) {
            while let Some(event) = w.event(p, channels[p]) {
                hear(&mut w, p, channels[p], &event, &mut told, &mut open);
            }
        }
    }
    // Everything ends within the bounds, whatever was lost.
    for _ in 0..200 {
        w.run(SECOND);
        for p in (0..6).filter(|p| !dead[*p]) {
            while let Some(event) = w.event(p, channels[p]) {
                hear(&mut w, p, channels[p], &event, &mut told, &mut open);
            }
        }
    }
    for (p, id, asked) in open {
        let story = told.get(&(p, id)).cloned().unwrap_or_default();
        let last = story.iter().rfind(|k| !matches!(k, EventKind::AddressResolved | EventKind::RouteResolved));
        assert!(last.is_some() || !asked, "process {p}, identifier {id}: no event tells how its request ended");
    }
}

fn hear(w: &mut World, p: usize, channel: Channel, event: &Event, told: &mut Told, open: &mut Vec<(usize, u32, bool)>) {
    use EventKind::{ConnectRequest, ConnectResponse, Disconnected, Established, Rejected, TimewaitExit, Unreachable};
    if event.kind == ConnectRequest {
        let accepts = !w.net.draw().is_multiple_of(5);
        let outcome = w.on(p, |cm, host, now| match accepts {
            true => cm.accept(host, channel, event.id, Some((u64::from(event.id), Parameters::default())), now),
            false => cm.reject(host, channel, event.id, 0, &[]),
        });
        if outcome.is_ok() && accepts {
            open.push((p, event.id, false));
        } else {
            w.on(p, |cm, host, _| cm.destroy_id(host, channel, event.id)).unwrap();
        }
        return;
    }
    let story = told.entry((p, event.id)).or_default();
    let before = story.iter().rfind(|k| !matches!(k, EventKind::AddressResolved | EventKind::RouteResolved)).copied();
    let makes_sense = match event.kind {
        ConnectResponse | Unreachable => before.is_none() || (event.kind == Unreachable && before == Some(ConnectResponse)),
        Rejected => matches!(before, None | Some(ConnectResponse)),
        Established => before.is_none(),
        Disconnected => matches!(before, None | Some(ConnectResponse | Established)),
        TimewaitExit => before == Some(Disconnected),
        _ => true,
    };
    assert!(makes_sense, "{event:?} after {story:?}");
    story.push(event.kind);
    if event.kind == ConnectResponse {
        // The peer's end may have come meanwhile.
        let _ = w.on(p, |cm, host, now| cm.accept(host, channel, event.id, None, now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_requests_end(seed: u64, loss in prop_oneof![Just(0u64), Just(50), Just(400)], kills: bool) {
        random(seed, loss, 300, kills);
    }

    /// A peer may say anything.
    #[test]
    fn any_bytes(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..320), 1..40), heads in any::<bool>()) {
        let (mut w, a, b, ..) = connected();
        let links: Vec<_> = (0..16).map(bellwire_cm::Link).collect();
        for mut bytes in messages {
            if heads && bytes.len() >= 84 {
                // As far as it goes, a message.
                bytes[0] = 1 + bytes[0] % 9;
                bytes[3] = 2 + bytes[3] % 3;
                bytes[4..7].fill(0);
                bytes[8..11].fill(0);
                (bytes[7], bytes[11]) = (bytes[7] % 8, bytes[11] % 8);
                bytes[12..16].copy_from_slice(&[1, 6, 0x1d, 0x2f]);
                bytes[2] = (bytes.len() - 84).min(224) as u8;
                bytes.truncate(84 + 224);
            }
            for link in &links {
                for p in [0, 2] {
                    w.on(p, |cm, host, now| cm.message(host, *link, &bytes, now));
                }
            }
        }
        w.run(SECOND);
        for (p, channel) in [(0, a), (2, b)] {
            while w.event(p, channel).is_some() {}
            w.on(p, |cm, host, _| cm.destroy_channel(host, channel));
            prop_assert_eq!(w.cms[p].ids(), 0);
        }
    }
}

#[test]
fn the_queue_pair_of_a_killed_peer_is_named() {
    let (mut w, a, ..) = connected();
    w.kill(2);
    w.run(MS);
    next(&mut w, 0, a, EventKind::Disconnected);
    assert_eq!(w.net.orphaned, [(0, 77, gid(2), 88)]);
    // One that says goodbye leaves its peer's queue pair alone.
    let (mut w, a, b, _, passive) = connected();
    w.on(2, |cm, host, now| cm.disconnect(host, b, passive, now)).unwrap();
    w.run(MS);
    w.kill(2);
    w.run(MS);
    next(&mut w, 0, a, EventKind::Disconnected);
    assert_eq!(w.net.orphaned, []);
}

#[test]
fn a_device_changes_its_address_and_is_removed() {
    let (mut w, a, b, active, passive) = connected();
    let idle = w.on(0, |cm, _, _| cm.create_id(a, 5, Space::Tcp, QpKind::Reliable)).unwrap();
    w.on(0, |cm, host, _| cm.address_changed(host));
    let told = next(&mut w, 0, a, EventKind::AddressChange);
    assert_eq!((told.id, told.uid, told.status), (active, 2000, 0));
    assert_eq!(w.event(0, a), None, "an identifier without an address is not told");
    // The connection goes on until the device is removed.
    for _ in 0..2 {
        w.on(0, |cm, host, _| cm.device_removed(host));
    }
    assert_eq!(next(&mut w, 0, a, EventKind::DeviceRemoval).id, active);
    assert_eq!(w.event(0, a), None, "each is told once");
    w.run(MS);
    assert_eq!(next(&mut w, 2, b, EventKind::Disconnected).id, passive);
    assert_eq!(w.on(0, |cm, host, now| cm.disconnect(host, a, active, now)), Err(Error::Invalid));
    assert!(w.on(0, |cm, host, _| cm.destroy_id(host, a, active)).is_ok() && w.on(0, |cm, host, _| cm.destroy_id(host, a, idle)).is_ok());
    // A listener of all addresses is told nothing, and takes no more requests here.
    w.on(2, |cm, host, _| cm.device_removed(host));
    assert_eq!(next(&mut w, 2, b, EventKind::DeviceRemoval).id, passive);
    assert_eq!(w.event(2, b), None);
    let again = asks(&mut w, 0, a, 2, Space::Tcp, QpKind::Reliable, &[]);
    w.run(SECOND);
    assert_eq!(next(&mut w, 0, a, EventKind::Rejected).id, again);
}

#[test]
fn an_identifier_moves_to_another_device_before_it_is_bound() {
    let mut w = World::new(4, 9, 0);
    let (a, b) = (w.cms[0].create_channel(), w.cms[1].create_channel());
    w.cms[0].choose_numbers(1);
    w.cms[1].choose_numbers(2);
    w.on(0, |cm, _, _| cm.create_id_as(7, a, 50, Space::Tcp, QpKind::Reliable)).unwrap();
    assert_eq!(w.on(0, |cm, _, _| cm.create_id_as(7, a, 51, Space::Tcp, QpKind::Reliable)), Err(Error::InUse));
    w.on(0, |cm, _, _| cm.set_option(a, 7, IdOption::ReuseAddress(true))).unwrap();
    let copy = w.on(0, |cm, _, _| cm.copy_unbound(a, 7)).unwrap();
    w.on(1, |cm, _, _| cm.put_unbound(b, 7, copy.clone())).unwrap();
    assert_eq!(w.on(1, |cm, _, _| cm.put_unbound(b, 7, copy.clone())), Err(Error::InUse));
    assert_eq!(w.on(1, |cm, _, _| cm.put_unbound(99, 8, copy)), Err(Error::Missing));
    // It is as it was, and its numbers are no other machine's.
    w.on(1, |cm, host, _| cm.bind(host, b, 7, "10.0.0.1:99".parse().unwrap(), true)).unwrap();
    assert_eq!(w.on(1, |cm, _, _| cm.route(b, 7)).unwrap().own, Some(gid(1)));
    assert!(w.on(1, |cm, _, _| cm.copy_unbound(b, 7)).is_err(), "it has an address");
    let chosen = [0, 1].map(|p| w.on(p, |cm, _, _| cm.create_id([a, b][p], 1, Space::Tcp, QpKind::Reliable)).unwrap());
    assert_eq!(chosen.map(bellwire_cm::Cm::range_of), [1, 2]);
}
