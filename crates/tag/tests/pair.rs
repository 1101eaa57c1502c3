// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints in one process, each on a NIC of its own: messages of all lengths, expected and not,
//! remote memory, atomics, floods, and a peer that goes away.

mod common;

use bellwire_tag::{
    Access, AtomicOp, AtomicRequest, Counter, DataType, EAGER_BYTES_MAX, Error, Failure, Form, Gather, Gone, NOBODY, Notes, Peek, ReceiveFlags, Region,
    RemoteFlags, RemoteRequest, SendFlags, Want, WantOne,
};
use common::{PATIENCE, Side, bytes, memory, pair, piece, run, turn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The failure of operations with a peer that has closed its endpoint.
const CLOSED: Failure = Failure::ConnectionLost(Gone::ENDED_THERE);

#[test]
fn messages_of_all_lengths_expected_and_not() {
    let mut sides = pair();
    for (round, n) in [0, 1, 8, 40, 41, 56, 1000, 4096, EAGER_BYTES_MAX, EAGER_BYTES_MAX + 1, 100_000, 3_000_001].into_iter().enumerate() {
        for expected in [true, false] {
            for tag in [None, Some(u64::MAX - round as u64)] {
                let (mut from, mut to) = (bytes(n, round as u8), vec![0; n]);
                if expected {
                    sides[1].receive(&mut to, tag, 7);
                }
                sides[0].send(&mut from, tag, 5, SendFlags::empty()).unwrap();
                if !expected {
                    // Something behind it shows that it is there.
                    sides[0].send(&mut [], Some(1), 6, SendFlags::empty()).unwrap();
                    let mut none = [];
                    sides[1].receive(&mut none, Some(1), 8);
                    run(&mut sides, "the one behind", |s| s[1].done().iter().any(|c| c.context == 8));
                    sides[1].receive(&mut to, tag, 7);
                }
                run(&mut sides, "a message", |s| s[1].done().iter().any(|c| c.context == 7) && s[0].done().iter().any(|c| c.context == 5));
                assert_eq!(to, from, "{n} bytes");
                let got = sides[1].done().iter().find(|c| c.context == 7).copied().unwrap();
                assert_eq!((got.length, got.data, got.source, got.failure), (n, 5, 41, None));
                assert_eq!((got.tag, got.notes.contains(Notes::DATA)), (tag.unwrap_or(0), true));
                sides.iter_mut().for_each(|s| s.done().clear());
            }
        }
    }
}

#[test]
fn too_long_for_the_receive_and_delivery_complete() {
    let mut sides = pair();
    for n in [100, 50_000] {
        let (mut from, mut to) = (bytes(n, 3), vec![0; 60]);
        sides[0].send(&mut from, Some(9), 1, SendFlags::DELIVERY).unwrap();
        (0..1000).for_each(|_| turn(&mut sides));
        assert!(sides[0].done().is_empty(), "not delivered yet");
        sides[1].receive(&mut to, Some(9), 2);
        run(&mut sides, "both", |s| s[0].done().len() == 1 && s[1].done().len() == 1);
        let got = sides[1].done()[0];
        assert_eq!((got.failure, got.length, got.excess), (Some(Failure::Truncated), 60, n - 60));
        assert_eq!((&to[..], sides[0].done()[0].failure), (&from[..60], None));
        sides.iter_mut().for_each(|s| s.done().clear());
    }
}

#[test]
fn a_flood_is_held_back_and_comes_in_order() {
    let mut sides = pair();
    const FLOOD: u64 = 20_000;
    let mut from: Vec<Vec<u8>> = (0..FLOOD).map(|i| i.to_ne_bytes().repeat(1 + (i as usize % 3) * 600)).collect();
    let (mut sent, begun) = (0, Instant::now());
    while sent < FLOOD as usize {
        match sides[0].send(&mut from[sent], Some(4), sent, SendFlags::empty()) {
            Ok(()) => sent += 1,
            Err(Error::Again) if begun.elapsed() < PATIENCE => turn(&mut sides),
            Err(e) => panic!("{e:?}"),
        }
        if sent.is_multiple_of(64) {
            turn(&mut sides);
        }
    }
    let mut to = vec![0u8; 20_000];
    for i in 0..FLOOD {
        sides[1].receive(&mut to, Some(4), 1);
        run(&mut sides, "the next", |s| !s[1].done().is_empty());
        assert_eq!(to[..8], i.to_ne_bytes());
        sides[1].done().clear();
    }
    run(&mut sides, "all sent", |s| s[0].done().len() == FLOOD as usize);
}

#[test]
fn peeking_claiming_cancelling() {
    let mut sides = pair();
    let (mut from, mut to) = (bytes(30_000, 1), vec![0; 30_000]);
    let look = sides[1].want(&mut to, Some(3), 70);
    let [a, b] = &mut sides;
    b.endpoint.peek(&look, Peek::Look).unwrap();
    assert_eq!(b.done().pop().unwrap().failure, Some(Failure::NoMessage));
    a.send(&mut from, Some(3), 1, SendFlags::empty()).unwrap();
    a.send(&mut from[..10], Some(3), 2, SendFlags::empty()).unwrap();
    let begun = Instant::now();
    loop {
        a.endpoint.poll().unwrap();
        b.endpoint.peek(&look, Peek::Claim).unwrap();
        let found = b.done().pop().unwrap();
        if found.failure.is_none() {
            assert_eq!((found.length, found.notes.contains(Notes::CLAIMED)), (30_000, true));
            break;
        }
        assert!(begun.elapsed() < PATIENCE);
    }
    // The claimed one is nobody else's.
    let mut second = vec![0; 100];
    sides[1].receive(&mut second, Some(3), 71);
    run(&mut sides, "the second", |s| s[1].done().iter().any(|c| c.context == 71 && c.length == 10));
    let [_, b] = &mut sides;
    b.endpoint.take_claimed(&look, false).unwrap();
    assert_eq!(b.endpoint.take_claimed(&look, false), Err(Error::BadArgument));
    run(&mut sides, "the claimed one", |s| s[1].done().iter().any(|c| c.context == 70) && s[0].done().len() == 2);
    assert_eq!(to, from);
    sides[1].receive(&mut second, Some(5), 72);
    let [_, b] = &mut sides;
    assert!(b.endpoint.cancel(72) && !b.endpoint.cancel(72));
    assert_eq!(b.done().last().unwrap().failure, Some(Failure::Canceled));
}

#[test]
fn one_buffer_for_several_messages() {
    let mut sides = pair();
    sides[1].endpoint.set_multi_receive_min(1000);
    let mut buffer = vec![0; 60_000];
    let mut want = sides[1].want(&mut buffer, None, 9);
    want.flags = ReceiveFlags::MULTI;
    let [_, b] = &mut sides;
    b.endpoint.receive(&want).unwrap();
    let mut from: Vec<Vec<u8>> = [100, 40_000, 18_950, 5].iter().enumerate().map(|(i, n)| bytes(*n, i as u8)).collect();
    for f in &mut from {
        sides[0].send(f, None, 1, SendFlags::empty()).unwrap();
    }
    run(&mut sides, "three of them", |s| s[1].done().len() == 3);
    let start = buffer.as_ptr().expose_provenance();
    for (n, at) in [(100, 0), (40_000, 100), (18_950, 40_100)] {
        let got = sides[1].done().iter().find(|c| c.length == n).copied().unwrap();
        assert_eq!(got.buffer - start, at);
    }
    assert_eq!((&buffer[100..40_100], &buffer[40_100..59_050]), (&from[1][..], &from[2][..]));
    let released: Vec<bool> = sides[1].done().iter().map(|c| c.notes.contains(Notes::RELEASED)).collect();
    assert_eq!(released, [false, false, true], "by the last one that completes");
}

#[test]
fn remote_memory_and_atomics() {
    let mut sides = pair();
    let mut window = bytes(200_000, 0);
    let region = Region { start: window.as_mut_ptr().expose_provenance(), length: window.len(), base: 1 << 40, access: Access::all() };
    // SAFETY: R1: the memory outlives the endpoints' work.
    assert!(unsafe { sides[1].regions.lock().insert(6, region) });
    let touched = [Access::READ, Access::WRITE].map(|how| {
        let counter = Arc::new(Counter::default());
        assert!(sides[1].regions.lock().watch(6, &counter, how));
        counter
    });
    let base = 1 << 40;
    let finish = |sides: &mut [Side; 2], what| {
        run(sides, what, |s| !s[0].done().is_empty());
        sides[0].done().pop().unwrap().failure
    };
    for (n, at) in [(0, 0), (8, 3), (EAGER_BYTES_MAX, 9), (150_000, 50_000)] {
        let (mut from, mut back) = (bytes(n, 9), vec![0; n]);
        for (write, local) in [(true, &mut from), (false, &mut back)] {
            let target = sides[0].target(6, base + at);
            let r = RemoteRequest { target, local: memory(local), data: write.then_some(5), context: 1, flags: RemoteFlags::empty() };
            let [a, _] = &mut sides;
            let asked = if write { a.endpoint.write(&r) } else { a.endpoint.read(&RemoteRequest { data: None, ..r }) };
            asked.unwrap();
            assert_eq!(finish(&mut sides, "remote memory"), None, "{n} bytes");
        }
        assert_eq!(back, from);
        assert!(sides[1].done().iter().all(|c| c.data == 5 && c.notes.contains(Notes::REMOTE_WRITE)) && !sides[1].done().is_empty());
    }
    assert_eq!(touched.each_ref().map(|counter| counter.value()), [4, 4]);
    for (key, address) in [(6, base + 199_999), (7, base), (6, base - 1), (6, 0)] {
        for n in [2, 40_000] {
            let mut local = vec![1; n];
            let r = RemoteRequest { target: sides[0].target(key, address), local: memory(&mut local), data: None, context: 1, flags: RemoteFlags::empty() };
            let [a, _] = &mut sides;
            a.endpoint.write(&r).unwrap();
            assert_eq!(finish(&mut sides, "a refusal"), Some(Failure::RemoteAccess));
            let [a, _] = &mut sides;
            a.endpoint.read(&r).unwrap();
            assert_eq!(finish(&mut sides, "a refusal"), Some(Failure::RemoteAccess));
        }
    }
    window[..8].copy_from_slice(&40u64.to_ne_bytes());
    let (mut v, mut c, mut old) = (2u64.to_ne_bytes(), 42u64.to_ne_bytes(), [0; 8]);
    for (op, form) in [(AtomicOp::Sum, Form::Plain), (AtomicOp::SwapIfEqual, Form::Compare), (AtomicOp::Read, Form::Fetch)] {
        let a = AtomicRequest {
            target: sides[0].target(6, base),
            data_type: DataType::U64,
            op,
            form,
            count: 1,
            operands: if op == AtomicOp::Read { Gather::NONE } else { memory(&mut v) },
            compare: if form == Form::Compare { memory(&mut c) } else { Gather::NONE },
            result: if form == Form::Plain { Gather::NONE } else { memory(&mut old) },
            context: 1,
            flags: RemoteFlags::empty(),
        };
        let [s, _] = &mut sides;
        s.endpoint.atomic(&a).unwrap();
        assert_eq!(finish(&mut sides, "an atomic"), None);
        if form == Form::Compare {
            assert_eq!(u64::from_ne_bytes(old), 42);
        }
    }
    assert_eq!(u64::from_ne_bytes(old), 2, "swapped");
}

#[test]
fn a_peer_that_goes_takes_its_operations_along() {
    let mut sides = pair();
    let (mut from, mut to) = (bytes(100_000, 1), vec![0; 10]);
    sides[0].send(&mut from, Some(1), 1, SendFlags::empty()).unwrap();
    let mut want = sides[0].want(&mut to, Some(2), 2);
    want.source = Some(sides[0].other);
    let [a, _] = &mut sides;
    a.endpoint.receive(&want).unwrap();
    let mut none = [];
    sides[1].receive(&mut none, Some(7), 3);
    sides[0].send(&mut [], Some(7), 4, SendFlags::empty()).unwrap();
    run(&mut sides, "connected", |s| s[1].done().len() == 1);
    let [mut a, b] = sides;
    drop(b);
    let begun = Instant::now();
    while a.done().iter().filter(|c| c.failure.is_some()).count() < 2 {
        a.endpoint.wait(Some(Duration::from_millis(10)), || false).unwrap();
        a.endpoint.poll().unwrap();
        assert!(begun.elapsed() < PATIENCE, "{:?}", a.done());
    }
    assert!(a.done().iter().filter_map(|c| c.failure).all(|failure| failure == CLOSED), "{:?}", a.done());
    // Receives that are posted later fail too: none waits for ever.
    assert_eq!(a.send(&mut from, Some(1), 5, SendFlags::empty()), Err(Error::Unreachable));
    a.done().clear();
    for (context, flags) in [(6, ReceiveFlags::empty()), (7, ReceiveFlags::SILENT), (8, ReceiveFlags::MULTI)] {
        a.endpoint.receive(&Want { context, flags, ..want }).unwrap();
        assert_eq!(a.done().pop().map(|c| (c.context, c.failure)), Some((context, Some(CLOSED))));
    }
    let one = WantOne { tagged: true, source: Some(a.other), tag: 3, ignore: 0, to: piece(&mut to), context: 9, silent: true };
    a.endpoint.receive_one(&one).unwrap();
    assert_eq!(a.done().pop().map(|c| (c.context, c.failure)), Some((9, Some(CLOSED))));
    // A receive from anybody waits for others.
    a.receive(&mut to, Some(2), 10);
    assert!(a.done().is_empty() && a.endpoint.cancel(10));
}

#[test]
fn a_peer_that_goes_gives_buffers_for_several_messages_back() {
    let mut sides = pair();
    let mut buffers = [vec![0; 4000], vec![0; 4000]];
    // One is for this peer alone; the other for anybody, and what has come into it stays the
    // program's.
    for (context, buffer) in (1..).zip(&mut buffers) {
        let tag = if context == 1 { Some(1) } else { None };
        let mut want = sides[0].want(buffer, tag, context);
        (want.flags, want.source) = (ReceiveFlags::MULTI, tag.map(|_| sides[0].other));
        let [a, _] = &mut sides;
        a.endpoint.receive(&want).unwrap();
    }
    sides[1].send(&mut bytes(100, 1), Some(1), 5, SendFlags::empty()).unwrap();
    sides[1].send(&mut bytes(100, 2), None, 6, SendFlags::empty()).unwrap();
    run(&mut sides, "both", |s| s[0].done().len() == 2);
    let [a, b] = sides;
    drop(b);
    let begun = Instant::now();
    while a.done().len() < 3 {
        a.endpoint.wait(Some(Duration::from_millis(10)), || false).unwrap();
        a.endpoint.poll().unwrap();
        assert!(begun.elapsed() < PATIENCE, "{:?}", a.done());
    }
    let last = |a: &Side| a.done().last().map(|c| (c.context, c.failure, c.notes.contains(Notes::RELEASED)));
    assert_eq!(last(&a), Some((1, Some(CLOSED), true)));
    a.endpoint.give_receives_back();
    assert_eq!(last(&a), Some((2, Some(Failure::ConnectionLost(Gone::ENDED_HERE)), true)));
}

#[test]
fn to_itself_and_from_somebody_unknown() {
    let mut sides = pair();
    let name = sides[0].endpoint.name();
    // It has three numbers, one of which it keeps; that of the other one is its own, too, and
    // nobody's in the end.
    [3, 4, 40, 4].into_iter().for_each(|address| assert!(sides[0].endpoint.learn(address, name)));
    [4, 40, 40].into_iter().for_each(|address| sides[0].endpoint.forget(address));
    sides[0].other = 3;
    let (mut from, mut to) = (bytes(70_000, 1), vec![0; 70_000]);
    sides[0].receive(&mut to, Some(1), 1);
    sides[0].send(&mut from, Some(1), 2, SendFlags::empty()).unwrap();
    run(&mut sides, "to itself", |s| s[0].done().len() == 2);
    assert_eq!((&to, sides[0].done().iter().find(|c| c.context == 1).unwrap().source), (&from, 3));
    // The other one is not known here by any name.
    sides[0].receive(&mut to, Some(2), 3);
    sides[1].send(&mut from, Some(2), 4, SendFlags::empty()).unwrap();
    run(&mut sides, "from somebody", |s| s[0].done().len() == 3);
    assert_eq!(sides[0].done()[2].source, NOBODY);
    sides[0].other = 40;
    assert_eq!(sides[0].send(&mut from, Some(1), 5, SendFlags::empty()), Err(Error::BadArgument));
}

#[test]
fn the_last_words_of_an_endpoint_are_heard() {
    for round in 0..100 {
        let [mut a, mut b] = pair();
        // Each says something and waits to hear something, then goes; both connect at once.
        let life = |side: &mut Side| {
            let mut to = [0u8; 8];
            side.receive(&mut to, Some(1), 1);
            side.send(&mut [7; 8], Some(1), 2, SendFlags::INJECT).unwrap();
            let begun = Instant::now();
            while !side.done().iter().any(|c| c.context == 1) {
                side.endpoint.poll().unwrap();
                assert!(begun.elapsed() < PATIENCE, "round {round}: {:?}", side.done());
            }
            assert_eq!((to, side.done().iter().find_map(|c| c.failure)), ([7; 8], None));
            side.endpoint.close();
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                life(&mut a);
                drop(a);
            });
            life(&mut b);
            drop(b);
        });
    }
}
