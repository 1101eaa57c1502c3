// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short ways: they do what the long ones do; and what waits at one of several links is found
//! by the poll that could find it.

mod common;

use bellwire_tag::{Endpoint, Failure, Queue, SendFlags, SendOne, SharedRegions, WantOne};
use bellwire_via::nic::NicConfig;
use common::{PATIENCE, Side, bytes, open, pair, piece, run};
use std::time::Instant;

fn want_one(to: &mut [u8], tag: Option<u64>, context: usize) -> WantOne {
    WantOne { tagged: tag.is_some(), source: None, tag: tag.unwrap_or(0), ignore: 0, to: piece(to), context, silent: false }
}

fn send_one(side: &mut Side, from: &mut [u8], tag: Option<u64>, data: Option<u64>, flags: SendFlags) {
    let send = SendOne { peer: side.other, tag, data, from: piece(from), context: 5, flags };
    side.endpoint.send_one(&send).expect("room");
}

/// Everything that a receive tells, for all lengths about those of a line, by both ways on either
/// side.
#[test]
fn short_ways_tell_what_long_ones_tell() {
    let mut sides = pair();
    let told = |sides: &mut [Side; 2], n: usize, tag: Option<u64>, data: Option<u64>, short: (bool, bool), room: usize| {
        let (mut from, mut to) = (bytes(n, n as u8), vec![0; room]);
        if short.1 {
            let want = want_one(&mut to, tag, 7);
            let side = &mut sides[1];
            side.endpoint.receive_one(&want).unwrap();
        } else {
            sides[1].receive(&mut to, tag, 7);
        }
        if short.0 {
            send_one(&mut sides[0], &mut from, tag, data, SendFlags::empty());
        } else {
            let send = bellwire_tag::SendOut { peer: sides[0].other, tag, data, from: common::memory(&mut from), context: 5, flags: SendFlags::empty() };
            let side = &mut sides[0];
            side.endpoint.send(&send).unwrap();
        }
        run(sides, "a message", |s| !s[1].done().is_empty() && !s[0].done().is_empty());
        assert_eq!(to[..n.min(room)], from[..n.min(room)]);
        let mut got = sides[1].done().remove(0);
        let sent = sides[0].done().remove(0);
        assert_eq!(std::mem::take(&mut got.buffer), to.as_ptr().addr());
        assert!(sides.iter().all(|s| s.done().is_empty()));
        format!("{got:?} {sent:?}")
    };
    for n in [0usize, 1, 7, 8, 24, 32, 33, 39, 40, 41, 47, 48, 49, 55, 56, 57, 200] {
        for (tag, data) in [(None, None), (None, Some(3)), (Some(u64::MAX - 9), None), (Some(2), Some(u64::MAX))] {
            for room in [n, n + 9, n.saturating_sub(1)] {
                let long = told(&mut sides, n, tag, data, (false, false), room);
                for short in [(true, false), (false, true), (true, true)] {
                    assert_eq!(told(&mut sides, n, tag, data, short, room), long, "{n} bytes, {tag:?}, {data:?}, room {room}");
                }
            }
        }
    }
}

#[test]
fn what_waits_is_found_by_the_short_way_and_others_are_left() {
    let mut sides = pair();
    let mut from = bytes(8, 1);
    send_one(&mut sides[0], &mut from, Some(1), Some(11), SendFlags::INJECT);
    send_one(&mut sides[0], &mut from, Some(2), Some(22), SendFlags::INJECT | SendFlags::COUNTED);
    send_one(&mut sides[0], &mut from, Some(3), Some(33), SendFlags::INJECT);
    // Of the injected ones only that which is counted is told.
    assert_eq!(sides[0].done().iter().filter(|c| !c.silent).count(), 1);
    let mut to = [[0u8; 8]; 3];
    for (i, tag) in [3u64, 1, 2].into_iter().enumerate() {
        let want = want_one(&mut to[i], Some(tag), i);
        let side = &mut sides[1];
        side.endpoint.receive_one(&want).unwrap();
        run(&mut sides, "a message", |s| s[1].done().len() == i + 1);
        let got = sides[1].done()[i];
        assert_eq!((got.context, got.tag, got.data, got.failure), (i, tag, 11 * tag, None));
    }
    assert_eq!(to, [<[u8; 8]>::try_from(&from[..]).unwrap(); 3]);
    // A peer that is not there.
    let nobody = SendOne { peer: 99, tag: None, data: None, from: piece(&mut from[..8]), context: 0, flags: SendFlags::empty() };
    let side = &mut sides[0];
    assert_eq!(side.endpoint.send_one(&nobody), Err(bellwire_tag::Error::BadArgument));
}

#[test]
fn a_cut_message_says_so() {
    let mut sides = pair();
    let (mut from, mut to) = (bytes(8, 1), [0u8; 4]);
    let want = want_one(&mut to, None, 7);
    let side = &mut sides[1];
    side.endpoint.receive_one(&want).unwrap();
    send_one(&mut sides[0], &mut from, None, None, SendFlags::empty());
    run(&mut sides, "a message", |s| !s[1].done().is_empty());
    let got = sides[1].done()[0];
    assert_eq!((got.failure, got.length, got.excess), (Some(Failure::Truncated), 4, 4));
}

/// One endpoint, and two that send to it.
fn three() -> (Endpoint, [Endpoint; 2]) {
    let open = || open(NicConfig::default(), SharedRegions::default());
    let (to, from) = (open(), [open(), open()]);
    let mut received = 0;
    let mut word = [0u8; 8];
    for (i, one) in from.iter().enumerate() {
        assert!(one.learn(1, to.name()) && to.learn(i as u64, one.name()));
        to.receive_one(&want_one(&mut word, Some(100), 0)).unwrap();
        send_to(one, 100, &mut word);
        let begun = Instant::now();
        while received == i {
            one.poll().unwrap();
            received += read(&to);
            assert!(begun.elapsed() < PATIENCE, "no connection");
        }
    }
    (to, from)
}

/// As a program that reads a queue: a look is over when something was received.
fn read(endpoint: &Endpoint) -> usize {
    endpoint.read_completions(Queue::Receives, 100, 64, |_| {}).unwrap().taken
}

fn send_to(one: &Endpoint, tag: u64, word: &mut [u8; 8]) {
    let send = SendOne { peer: 1, tag: Some(tag), data: None, from: piece(word), context: 0, flags: SendFlags::INJECT };
    one.send_one(&send).unwrap();
}

/// Ranks that let others run after each poll in vain pay a turn of the scheduler for each that
/// misses what is there.
#[test]
fn a_poll_does_not_miss_what_is_there() {
    let (to, from) = three();
    let mut word = [0u8; 8];
    let mut missed = 0;
    for round in 0..200u64 {
        let which = (round % 2) as usize;
        // One that nobody has asked for is at the other link.
        send_to(&from[1 - which], 1000 + round, &mut word);
        send_to(&from[which], round, &mut word);
        to.receive_one(&want_one(&mut word, Some(round), 0)).unwrap();
        let (mut polls, mut received, begun) = (0, 0, Instant::now());
        while received == 0 {
            received = read(&to);
            polls += 1;
            assert!(begun.elapsed() < PATIENCE, "round {round}");
        }
        missed += u32::from(polls > 1);
        // And an empty one, after which a link that only receives is not left out; and credits are
        // heard of.
        read(&to);
        from.iter().for_each(|one| _ = one.poll().unwrap());
    }
    // The helper thread may have taken something away for a moment.
    assert!(missed <= 10, "{missed} of 200 were missed");
}
