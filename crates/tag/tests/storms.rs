// SPDX-License-Identifier: MIT OR Apache-2.0
//! Much at once: thousands of operations, wildcards, receives that are taken back while messages
//! come, huge messages, receives that endpoints share.

mod common;

use bellwire_tag::{Access, Error, Failure, Notes, Region, RemoteFlags, RemoteRequest, SendFlags, SharedReceives, Want};
use common::{PATIENCE, Side, bytes, memory, pair, run, turn};
use std::time::Instant;

/// Sends, polling both while there is no room.
fn insist(sides: &mut [Side; 2], from: usize, message: &mut [u8], tag: Option<u64>, context: usize) {
    let begun = Instant::now();
    while sides[from].send(message, tag, context, SendFlags::empty()) == Err(Error::Again) {
        turn(sides);
        assert!(begun.elapsed() < PATIENCE, "no room for {context}");
    }
}

#[test]
fn ten_thousand_operations_under_way() {
    const MANY: usize = 10_000;
    let mut sides = pair();
    let (mut from, mut to) = (bytes(20_000, 1), vec![0; 20_000]);
    // Long messages wait at their sender, all of them, until somebody wants them, in another order;
    // receives wait for short ones.
    for i in 0..MANY {
        insist(&mut sides, 0, &mut from, Some(i as u64), i);
        let want = sides[0].want(&mut [], Some((MANY - i) as u64), i);
        let [a, _] = &mut sides;
        a.endpoint.receive(&want).expect("room");
    }
    for i in (0..MANY).rev() {
        sides[1].receive(&mut to, Some(i as u64), i);
        insist(&mut sides, 1, &mut [], Some(i as u64 + 1), i);
    }
    run(&mut sides, "all", |s| s.iter().all(|s| s.done().len() == 2 * MANY));
    for side in &sides {
        let mut seen = [vec![0; MANY], vec![0; MANY]];
        side.done().iter().for_each(|c| seen[usize::from(c.notes.contains(Notes::RECEIVE))][c.context] += usize::from(c.failure.is_none()));
        assert!(seen.iter().flatten().all(|n| *n == 1), "each once");
    }
    assert_eq!(to, from);
}

#[test]
fn wildcards_keep_the_order_of_each_sender() {
    const STORM: u64 = 3000;
    let (mut sides, mut third) = (pair(), pair());
    // Two senders to one receiver, which takes any of them with any tag, now and then one of them
    // alone, or some tags.
    let name = sides[1].endpoint.name();
    third[0].endpoint.learn(99, name);
    third[0].other = 99;
    let name = third[0].endpoint.name();
    sides[1].endpoint.learn(7, name);
    let mut to = vec![[0u8; 8]; 2 * STORM as usize];
    let mut next = [0u64; 2];
    let (mut posted, mut heard, begun) = (0, Vec::new(), Instant::now());
    while heard.len() < to.len() {
        assert!(begun.elapsed() < PATIENCE, "{} of {}", heard.len(), to.len());
        for (who, sender) in [&mut sides[0], &mut third[0]].into_iter().enumerate() {
            // By turns a few and many, so that now messages wait for receives, now the other way.
            let burst = if heard.len() / 500 % 2 == who { 7 } else { 1 };
            for _ in 0..burst {
                let number = next[who];
                if number < STORM && sender.send(&mut number.to_ne_bytes(), Some(number % 4), 1, SendFlags::INJECT).is_ok() {
                    next[who] += 1;
                }
            }
            sender.endpoint.poll().unwrap();
        }
        for _ in 0..4 {
            if posted < to.len() {
                let mut want = sides[1].want(&mut to[posted], Some(posted as u64 % 4), posted);
                (want.ignore, want.source) = if posted % 10 == 0 { (3, Some([41, 7][posted / 10 % 2])) } else { (u64::MAX, None) };
                // At the end whatever is left of either is taken.
                if posted + 1000 > to.len() {
                    want.source = None;
                }
                let b = &mut sides[1];
                b.endpoint.receive(&want).unwrap();
                posted += 1;
            }
        }
        let b = &mut sides[1];
        b.endpoint.poll().unwrap();
        heard.append(&mut b.done());
    }
    // Receives in the order posted, of each sender: messages in the order sent.
    heard.sort_by_key(|c| c.context);
    for source in [41, 7] {
        let numbers: Vec<u64> = heard.iter().filter(|c| c.source == source).map(|c| u64::from_ne_bytes(to[c.context])).collect();
        assert_eq!(numbers, (0..STORM).collect::<Vec<_>>(), "from {source}");
    }
}

#[test]
fn receives_that_are_taken_back_while_messages_come() {
    const RACES: usize = 4000;
    let mut sides = pair();
    let [a, b] = &mut sides;
    let mut to = vec![0u8; 20_000];
    let (mut came, mut taken_back) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut short, mut long) = (bytes(8, 1), bytes(20_000, 2));
            let (mut sent, begun) = (0, Instant::now());
            while a.done().len() < RACES {
                let message = if sent % 3 == 0 { &mut long } else { &mut short };
                if sent < RACES && a.send(message, Some(1), sent, SendFlags::empty()).is_ok() {
                    sent += 1;
                }
                a.endpoint.poll().unwrap();
                assert!(begun.elapsed() < PATIENCE, "{sent} sent");
            }
        });
        // One receive at a time: it is taken back at once, or after some looks; it ends once, and
        // no message is lost.
        let begun = Instant::now();
        while came < RACES {
            assert!(begun.elapsed() < PATIENCE, "{came} came, {taken_back} taken back");
            b.receive(&mut to, Some(1), 5);
            for _ in 0..(came + taken_back) % 3 {
                b.endpoint.poll().unwrap();
            }
            let was_taken_back = b.endpoint.cancel(5);
            while b.done().is_empty() {
                b.endpoint.poll().unwrap();
            }
            assert_eq!(b.done().len(), 1);
            let end = b.done().pop().unwrap();
            assert_eq!((end.context, end.failure), (5, was_taken_back.then_some(Failure::Canceled)));
            taken_back += usize::from(was_taken_back);
            came += usize::from(!was_taken_back);
        }
    });
}

/// A message, a write and a read of `BELLWIRE_TAG_BYTES` bytes (usually 16 MiB; in the long tests
/// more than 2 GiB).
#[test]
fn huge_messages() {
    let n = std::env::var("BELLWIRE_TAG_BYTES").map_or(16 << 20, |n| n.parse().expect("a number"));
    let mut sides = pair();
    let (mut from, mut to) = (vec![0u8; n], vec![0u8; n]);
    // A pattern at places far apart; all of it would take longer than to send it.
    let places = || (0..n).step_by(65_521).chain([n - 1]);
    places().for_each(|at| from[at] = (at >> 7) as u8 | 1);
    let is_same = |to: &[u8], from: &[u8]| places().for_each(|at| assert_eq!(to[at], from[at], "byte {at}"));
    let clear = |of: &mut [u8]| places().for_each(|at| of[at] = 0);
    let begun = Instant::now();
    let finish = |sides: &mut [Side; 2], expected: usize| {
        while sides.iter().map(|s| s.done().len()).sum::<usize>() < expected {
            turn(sides);
            assert!(begun.elapsed() < 20 * PATIENCE, "{n} bytes");
        }
        sides.iter_mut().flat_map(|s| s.done().split_off(0)).for_each(|c| assert_eq!(c.failure, None));
    };
    sides[1].receive(&mut to, Some(1), 1);
    sides[0].send(&mut from, Some(1), 2, SendFlags::empty()).unwrap();
    finish(&mut sides, 2);
    is_same(&to, &from);
    clear(&mut to);
    let region = Region { start: to.as_mut_ptr().expose_provenance(), length: n, base: 0, access: Access::all() };
    // SAFETY: R1: the memory outlives the endpoints' work.
    assert!(unsafe { sides[1].regions.lock().insert(6, region) });
    for is_write in [true, false] {
        let r = RemoteRequest { target: sides[0].target(6, 0), local: memory(&mut from), data: None, context: 3, flags: RemoteFlags::empty() };
        let a = &mut sides[0];
        let asked = if is_write { a.endpoint.write(&r) } else { a.endpoint.read(&r) };
        asked.unwrap();
        finish(&mut sides, 1);
        is_same(&to, &from);
        // What is written comes back.
        clear(&mut from);
    }
}

#[test]
fn endpoints_that_share_their_receives() {
    let (mut first, mut second) = (pair(), pair());
    let shared = SharedReceives::default();
    for sides in [&mut first, &mut second] {
        sides[1].endpoint.share(shared.clone());
        // The same number is another peer's here and there.
        let name = sides[0].endpoint.name();
        sides[1].endpoint.learn(7, name);
    }
    assert_eq!(first[1].endpoint.receive(&first[1].want(&mut [], None, 1)), Err(Error::BadArgument));
    // Short and long ones wait in one of them, in order, before anybody wants them.
    let mut from: Vec<Vec<u8>> = (0..40).map(|i| bytes(if i % 3 == 0 { 30_000 } else { 100 }, i)).collect();
    for (i, from) in from.iter_mut().take(20).enumerate() {
        first[0].send(from, Some(1), i, SendFlags::empty()).unwrap();
    }
    (0..2000).for_each(|_| turn(&mut first));
    let mut to = vec![vec![0; 30_000]; 40];
    for (context, to) in to.iter_mut().enumerate() {
        // The odd ones are for tag 2, which the second endpoint's peer sends later on.
        let tag = 1 + (context as u64 & 1);
        shared.post(&Want { source: (tag == 2).then_some(7), ..first[1].want(to, Some(tag), context) });
    }
    first[1].endpoint.serve_shared().unwrap();
    run(&mut first, "those that have waited", |s| s[1].done().len() == 20 && s[0].done().len() == 20);
    for (i, from) in from.iter_mut().skip(20).enumerate() {
        second[0].send(from, Some(2), i, SendFlags::empty()).unwrap();
    }
    run(&mut second, "those that find it", |s| s[1].done().len() == 20 && s[0].done().len() == 20);
    // In the order sent, to the receives in the order posted.
    assert!((0..20).all(|i| to[2 * i][..100] == from[i][..100] && to[2 * i + 1][..100] == from[20 + i][..100]));
    assert!(second[1].done().iter().all(|c| c.source == 7) && !shared.cancel(39));
    // What comes later stays behind what waits.
    for (tag, context) in [(3, 50), (3, 51)] {
        first[0].send(&mut bytes(10, context as u8), Some(tag), context, SendFlags::empty()).unwrap();
        (0..2000).for_each(|_| turn(&mut first));
        if context == 50 {
            shared.post(&first[1].want(&mut to[0], Some(3), 60));
        }
    }
    run(&mut first, "the first of two", |s| s[1].done().len() == 21);
    assert_eq!((first[1].done()[20].data, &to[0][..10]), (50, &bytes(10, 50)[..]));
}
