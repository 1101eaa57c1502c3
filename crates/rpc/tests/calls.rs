// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of all sizes and ends between two nodes, over shared memory, UDP, and UDP that loses
//! packets.

mod common;

use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_rpc::{CallError, Error, Failure, Limits, Node, Peer, Procedure, Responder};
use common::{PATIENCE, device, pattern, served, udp_device};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ADD: Procedure<[u32; 2], u32> = Procedure::new("add", 1);
const ECHO: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("echo", 1);
const LATER: Procedure<Vec<u8>, Vec<u8>> = Procedure::new("echo later", 1);
const FAIL: Procedure<i32, ()> = Procedure::new("fail", 1);
const HOLD: Procedure<u32, u32> = Procedure::new("hold", 1);

fn server(node: &Node) {
    node.serve(&ADD, |[a, b], _| Ok(a.wrapping_add(b))).unwrap();
    node.serve(&ECHO, |data, _| Ok(data)).unwrap();
    node.serve_later(&LATER, |data, responder| responder.reply(Ok(data))).unwrap();
    node.serve(&FAIL, |code, _| Err(Failure::new(code, "as asked"))).unwrap();
}

fn all_sizes((one, other): (Node, Node)) {
    server(&other);
    let peer = one.connect(&other.address()).unwrap();
    served(&other, || {
        for i in 0..300u32 {
            assert_eq!(one.call(peer, &ADD, &[i, 5]), Ok(i + 5));
        }
        for size in [0, 1, 27, 28, 29, 56, 57, 1000, 63_990, 64_000, 64_001, 200_000, 3_000_000] {
            let data = pattern(size, size);
            assert!(one.call(peer, &ECHO, &data).as_ref() == Ok(&data), "{size} bytes");
            assert!(one.call(peer, &LATER, &data).as_ref() == Ok(&data), "{size} bytes, later");
        }
        assert_eq!(one.call(peer, &FAIL, &-7), Err(CallError::Failed(Failure::new(-7, "as asked"))));
        let calls: Vec<_> = (0..500u32).map(|i| one.start(peer, &ADD, &[i, i], None).unwrap()).collect();
        for (i, call) in (0..).zip(calls) {
            assert_eq!(call.wait(), Ok(2 * i));
        }
    });
}

#[test]
fn over_shared_memory() {
    all_sizes((Node::on(&device()).unwrap(), Node::on(&device()).unwrap()));
}

#[test]
fn over_udp() {
    all_sizes((Node::on(&udp_device(21, None)).unwrap(), Node::on(&udp_device(22, None)).unwrap()));
}

#[test]
fn over_udp_that_loses_packets() {
    let plan = Some("loss=0.02,dup=0.02,reorder=0.02:300us,corrupt=0.01,seed=5");
    all_sizes((Node::on(&udp_device(23, plan)).unwrap(), Node::on(&udp_device(24, plan)).unwrap()));
}

#[test]
fn a_node_calls_itself() {
    let node = Node::on(&device()).unwrap();
    server(&node);
    let peer = node.connect(&node.address()).unwrap();
    assert_eq!(node.call(peer, &ADD, &[1, 2]), Ok(3));
    let data = pattern(1, 500_000);
    assert!(node.call(peer, &LATER, &data).as_ref() == Ok(&data));
}

fn pair() -> (Node, Node, Peer) {
    let (one, other) = (Node::on(&device()).unwrap(), Node::on(&device()).unwrap());
    server(&other);
    let peer = one.connect(&other.address()).unwrap();
    (one, other, peer)
}

#[test]
fn what_is_not_served_says_so() {
    let (one, other, peer) = pair();
    other.serve_bytes("odd", ADD.signature(), |_| ()).unwrap();
    served(&other, || {
        assert_eq!(one.call(peer, &Procedure::<(), ()>::new("nothing", 1), &()), Err(CallError::UnknownProcedure));
        assert_eq!(one.call(peer, &Procedure::<[u32; 2], u64>::new("add", 1), &[1, 2]), Err(CallError::WrongType));
        assert_eq!(one.call(peer, &Procedure::<[u32; 2], u32>::new("add", 2), &[1, 2]), Err(CallError::WrongType));
        assert_eq!(one.call(peer, &Procedure::<[u32; 2], u32>::new("odd", 1), &[1, 2]), Err(CallError::Dropped));
        assert_eq!(one.call(peer, &ADD, &[1, 2]), Ok(3));
        assert_eq!(other.serve(&ADD, |_, _| Ok(0)), Err(Error::BadName), "it is served");
        other.withdraw("add").unwrap();
        assert_eq!(one.call(peer, &ADD, &[1, 2]), Err(CallError::UnknownProcedure), "by number");
        other.serve(&ADD, |[a, b], _| Ok(a * b)).unwrap();
        assert_eq!(one.call(peer, &ADD, &[3, 4]), Ok(12));
        assert_eq!(one.call(peer, &Procedure::<(), ()>::new("", 1), &()), Err(CallError::NotStarted(Error::BadName)));
    });
    let mut wrong = other.address().to_bytes();
    wrong[50] ^= 1;
    let stranger = one.connect(&bellwire_rpc::Address::from_bytes(&wrong).unwrap()).unwrap();
    // A returned message is reported at once; a call that nobody hears of would end by its time.
    served(&other, || {
        let call = one.start(stranger, &ADD, &[1, 2], Some(PATIENCE)).unwrap();
        assert_eq!(call.wait(), Err(CallError::Incompatible), "the secret is another");
    });
    one.disconnect(peer).unwrap();
    assert_eq!(one.call(peer, &ADD, &[1, 2]), Err(CallError::NotStarted(Error::BadPeer)));
}

type Held = Arc<Mutex<Vec<(u32, Responder<u32>)>>>;

/// A server that keeps the right to answer, for the test to use.
fn holder(node: &Node) -> Held {
    let held = Held::default();
    let keeps = Arc::clone(&held);
    node.serve_later(&HOLD, move |number, responder| keeps.lock().unwrap().push((number, responder))).unwrap();
    held
}

fn until(nodes: &[&Node], what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        for node in nodes {
            node.poll().unwrap();
        }
        assert!(Instant::now() < end, "{what}");
    }
}

#[test]
fn calls_are_cancelled() {
    let (one, other, peer) = pair();
    let held = holder(&other);
    let mut calls: Vec<_> = (0..10u32).map(|i| one.start(peer, &HOLD, &i, None).unwrap()).collect();
    until(&[&one, &other], "all are held", || held.lock().unwrap().len() == 10);
    calls[3].cancel();
    drop(calls.pop());
    until(&[&one, &other], "the server hears of it", || held.lock().unwrap().iter().filter(|(_, responder)| responder.is_cancelled()).count() == 2);
    assert!(held.lock().unwrap().iter().all(|(i, responder)| responder.is_cancelled() == [3, 9].contains(i)));
    for (i, responder) in held.lock().unwrap().drain(..) {
        responder.reply(Ok(i * 10));
    }
    until(&[&one, &other], "all are over", || calls.iter().all(|call| call.is_done()));
    for (i, call) in (0..).zip(calls) {
        assert_eq!(call.wait(), if i == 3 { Err(CallError::Cancelled) } else { Ok(i * 10) });
    }
}

#[test]
fn what_is_cancelled_before_it_leaves_never_runs() {
    const CALLS: u32 = 600;
    let (one, other, peer) = pair();
    one.set_limits(Limits { window: CALLS, ..Limits::default() });
    let ran = Arc::new(AtomicU32::new(0));
    let counts = Arc::clone(&ran);
    const COUNT: Procedure<u32, u32> = Procedure::new("count", 1);
    other
        .serve(&COUNT, move |number, _| {
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(number)
        })
        .unwrap();
    // The server does not poll: more calls than it takes at a time wait here. The last ones are
    // cancelled.
    let mut calls: Vec<_> = (0..CALLS).map(|i| one.start(peer, &COUNT, &i, None).unwrap()).collect();
    let kept = CALLS / 2;
    drop(calls.split_off(kept as usize));
    until(&[&one, &other], "the others are over", || calls.iter().all(|call| call.is_done()));
    assert!(calls.into_iter().zip(0..).all(|(call, i)| call.wait() == Ok(i)));
    // Something behind them all.
    served(&other, || assert_eq!(one.call(peer, &ADD, &[1, 2]), Ok(3)));
    assert_eq!(ran.load(Ordering::SeqCst), kept);
}

#[test]
fn time_ends() {
    let (one, other, peer) = pair();
    let held = holder(&other);
    let left = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&left);
    const LEFT: Procedure<(), ()> = Procedure::new("left", 1);
    other
        .serve(&LEFT, move |(), context| {
            *seen.lock().unwrap() = context.time_left();
            Ok(())
        })
        .unwrap();
    served(&other, || {
        // On a busy machine the time may be over before the call has left.
        while held.lock().unwrap().is_empty() {
            assert_eq!(one.call_within(peer, &HOLD, &1, Duration::from_millis(20)), Err(CallError::Deadline));
        }
        until(&[&one], "the server hears of it", || held.lock().unwrap().iter().all(|(_, responder)| responder.is_cancelled()));
        assert_eq!(one.call_within(peer, &LEFT, &(), Duration::from_secs(100)), Ok(()));
        assert!(left.lock().unwrap().is_some_and(|left| left > Duration::from_secs(50) && left <= Duration::from_secs(100)));
        assert_eq!(one.call(peer, &LEFT, &()), Ok(()));
        assert_eq!(*left.lock().unwrap(), None);
        assert_eq!(one.call_within(peer, &ADD, &[1, 1], Duration::from_secs(100)), Ok(2));
    });
    // A server that is there but takes nothing: all calls end, also those that never left.
    one.set_limits(Limits { window: 300, ..Limits::default() });
    let calls: Vec<_> = (0..300).map(|i| one.start(peer, &ADD, &[i, 0], Some(Duration::from_millis(50))).unwrap()).collect();
    assert!(calls.into_iter().all(|call| call.wait() == Err(CallError::Deadline)));
    served(&other, || assert_eq!(one.call(peer, &ADD, &[1, 2]), Ok(3), "and the next goes well"));
}

#[test]
fn handlers_that_do_not_answer() {
    let (one, other, peer) = pair();
    let held = holder(&other);
    const PANIC: Procedure<(), ()> = Procedure::new("panic", 1);
    let panics = AtomicU32::new(0);
    other.serve(&PANIC, |(), _| panic!("as it must")).unwrap();
    let call = one.start(peer, &PANIC, &(), None).unwrap();
    let mut poll = || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| other.poll().unwrap())).is_err() {
            panics.fetch_add(1, Ordering::SeqCst);
        }
        call.is_done()
    };
    until(&[&one], "the panic", &mut poll);
    assert_eq!((call.wait(), panics.load(Ordering::SeqCst)), (Err(CallError::Dropped), 1));
    let call = one.start(peer, &HOLD, &1, None).unwrap();
    until(&[&one, &other], "it is held", || held.lock().unwrap().len() == 1);
    held.lock().unwrap().clear();
    until(&[&one, &other], "it is over", || call.is_done());
    assert_eq!(call.wait(), Err(CallError::Dropped));
}

#[test]
fn limits_hold() {
    let (one, other, peer) = pair();
    let held = holder(&other);
    other.set_limits(Limits { served: 5, memory: 100_000, ..Limits::default() });
    one.set_limits(Limits { window: 10, memory: 300_000, ..Limits::default() });
    let calls: Vec<_> = (0..10).map(|i| one.start(peer, &HOLD, &i, None).unwrap()).collect();
    assert!(matches!(one.try_start(peer, &HOLD, &10, None), Err(Error::Busy)));
    until(&[&one, &other], "five are refused", || calls.iter().filter(|call| call.is_done()).count() == 5);
    held.lock().unwrap().drain(..).for_each(|(i, responder)| responder.reply(Ok(i)));
    until(&[&one, &other], "all are over", || calls.iter().all(|call| call.is_done()));
    let ends: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
    assert!(ends.iter().zip(0..).all(|(end, i)| *end == if i < 5 { Ok(i) } else { Err(CallError::Overloaded) }), "{ends:?}");
    const GROW: Procedure<u64, Vec<u8>> = Procedure::new("grow", 1);
    other.serve(&GROW, |bytes, _| Ok(vec![7; bytes as usize])).unwrap();
    served(&other, || {
        assert_eq!(one.call(peer, &ECHO, &vec![1; 100_001]), Err(CallError::Overloaded), "more than the server takes");
        assert_eq!(one.call(peer, &ECHO, &vec![1; 100_000]).map(|data| data.len()), Ok(100_000));
        assert_eq!(one.call(peer, &GROW, &300_001), Err(CallError::TooLarge), "more than the client takes");
        assert_eq!(one.call(peer, &GROW, &300_000).map(|data| data.len()), Ok(300_000));
    });
}

#[test]
fn who_goes_is_missed() {
    const CLOSED: &str = "the peer is gone: it closed its node";
    let (one, other, peer) = pair();
    let held = holder(&other);
    served(&other, || assert_eq!(one.call(peer, &ADD, &[1, 2]), Ok(3)));
    let mut calls: Vec<_> = (0..20).map(|i| one.start(peer, &HOLD, &i, None).unwrap()).collect();
    until(&[&one, &other], "all are held", || held.lock().unwrap().len() == 20);
    calls.extend((0..20).map(|i| one.start(peer, &HOLD, &i, None).unwrap()));
    drop(other);
    for call in calls {
        assert_eq!(call.wait().unwrap_err().to_string(), CLOSED);
    }
    held.lock().unwrap().drain(..).for_each(|(i, responder)| responder.reply(Ok(i)));
    assert_eq!(one.call(peer, &ADD, &[1, 2]).unwrap_err().to_string(), CLOSED, "nobody is there any more");
    // And the other way round: the server hears that its caller is gone.
    let (one, other, peer) = pair();
    let held = holder(&other);
    let call = one.start(peer, &HOLD, &1, None).unwrap();
    until(&[&one, &other], "it is held", || held.lock().unwrap().len() == 1);
    drop(call);
    drop(one);
    until(&[&other], "its caller is gone", || held.lock().unwrap()[0].1.is_cancelled());
}

#[test]
fn threads_share_a_node() {
    let (one, other, peer) = pair();
    one.set_limits(Limits { window: 3, ..Limits::default() });
    served(&other, || {
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let one = &one;
                scope.spawn(move || (0..500).for_each(|i| assert_eq!(one.call(peer, &ADD, &[thread, i]), Ok(thread + i))));
            }
        });
    });
}

#[test]
fn answers_come_from_other_threads() {
    let (one, other, peer) = pair();
    let held = holder(&other);
    let over = AtomicBool::new(false);
    served(&other, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let taken: Vec<_> = held.lock().unwrap().drain(..).collect();
                    taken.into_iter().for_each(|(i, responder)| responder.reply(Ok(i + 1)));
                    std::thread::yield_now();
                }
            });
            for i in 0..300 {
                assert_eq!(one.call(peer, &HOLD, &i), Ok(i + 1));
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn calls_are_awaited() {
    let (one, other, peer) = pair();
    served(&other, || {
        let sum = one.block_on(async {
            let both = (one.start(peer, &ADD, &[1, 2], None).unwrap(), one.start(peer, &ADD, &[3, 4], None).unwrap());
            both.0.await.unwrap() + both.1.await.unwrap()
        });
        assert_eq!(sum, Ok(10));
    });
    assert!(matches!(one.block_on(async { 7 }), Ok(7)));
}

/// A handler starts calls, which leave when it has returned; it cannot wait for them.
#[test]
fn handlers_may_call() {
    let (one, other, peer) = pair();
    let one = Arc::new(one);
    const BACK: Procedure<Vec<u8>, ()> = Procedure::new("back", 1);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (caller, started) = (Arc::downgrade(&one), Arc::clone(&calls));
    one.serve(&BACK, move |_, _| {
        let node = caller.upgrade().expect("it polls");
        assert_eq!(node.call(peer, &ADD, &[1, 1]), Err(CallError::NotStarted(Error::WrongMoment)));
        let call = node.start_bytes(peer, ADD.name(), ADD.signature(), &[1, 0, 0, 0, 2, 0, 0, 0], None).unwrap();
        started.lock().unwrap().push(call);
        Ok(())
    })
    .unwrap();
    let back = other.connect(&one.address()).unwrap();
    let call = other.start(back, &BACK, &Vec::new(), None).unwrap();
    until(&[&one, &other], "the call is over", || call.is_done() && calls.lock().unwrap().iter().all(|call| one.is_done(*call)));
    assert_eq!(one.take(calls.lock().unwrap()[0]), Some(Ok(vec![3, 0, 0, 0])));
}
