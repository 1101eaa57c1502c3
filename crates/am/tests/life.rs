// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that end, move, take nothing; handlers that panic; waiting for events; short and
//! medium messages over UDP.

mod common;

use bellwire_am::{Bundle, Error, Status};
use bellwire_memory::atomic::{AtomicU64, Ordering};
use common::{PATIENCE, Side, TAG, device, pattern, poll_until, served, udp_device};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ECHO: u8 = 1;
const ECHOED: u8 = 2;

/// Two sides; one echoes short and medium messages, the other's answers and returns are logged.
type Answers = Arc<Mutex<Vec<(Vec<i32>, Vec<u8>)>>>;
type Returns = Arc<Mutex<Vec<(Status, Vec<i32>)>>>;

fn echoes(side: &Side) {
    let echo = |m: &mut bellwire_am::Message<'_>| {
        let (args, data) = (m.args().to_vec(), m.payload().to_vec());
        if m.is_short() { m.reply(ECHOED, &args) } else { m.reply_medium(ECHOED, &data, &args) }.expect("it waits");
    };
    side.bundle.set_handler(side.endpoint, ECHO, echo).unwrap();
}

fn listens(side: &Side) -> (Answers, Returns) {
    let (answers, returns) = (Answers::default(), Returns::default());
    let (a, r) = (Arc::clone(&answers), Arc::clone(&returns));
    side.bundle.set_handler(side.endpoint, ECHOED, move |m| a.lock().unwrap().push((m.args().to_vec(), m.payload().to_vec()))).unwrap();
    side.bundle.set_error_handler(side.endpoint, move |back| r.lock().unwrap().push((back.status, back.args().to_vec()))).unwrap();
    (answers, returns)
}

fn short_and_medium([one, other]: [Side; 2]) {
    echoes(&other);
    one.map(&other);
    let (answers, returns) = listens(&one);
    served(&other.bundle, || {
        let mut sent = Vec::new();
        for i in 0..300usize {
            let args = vec![i as i32; i % 17];
            let data = if i % 2 == 0 { Vec::new() } else { pattern(i, (i * 211) % 10_000) };
            if i % 2 == 0 {
                one.bundle.request(one.endpoint, 0, ECHO, &args).unwrap();
            } else {
                one.bundle.request_medium(one.endpoint, 0, ECHO, &data, &args).unwrap();
            }
            sent.push((args, data));
        }
        poll_until(&[&one.bundle], "all answers", || answers.lock().unwrap().len() == sent.len());
        assert!(*answers.lock().unwrap() == sent, "each once, in order");
    });
    assert!(returns.lock().unwrap().is_empty());
}

#[test]
fn messages_over_udp() {
    short_and_medium([Side::new(&udp_device(11, None)), Side::new(&udp_device(12, None))]);
}

#[test]
fn messages_over_udp_that_loses_packets() {
    let plan = Some("loss=0.03,dup=0.03,reorder=0.03:300us,corrupt=0.01,seed=5");
    short_and_medium([Side::new(&udp_device(13, plan)), Side::new(&udp_device(14, plan))]);
}

/// Requests that an endpoint has not handled when it ends come back, and those that follow too,
/// each once.
#[test]
fn an_endpoint_ends() {
    let (one, other) = (Side::new(&device()), Side::new(&device()));
    echoes(&other);
    one.map(&other);
    let (answers, returns) = listens(&one);
    for i in 0..10 {
        if i == 5 {
            poll_until(&[&one.bundle, &other.bundle], "some answers", || answers.lock().unwrap().len() == 5);
        }
        poll_until(&[&other.bundle], "a connection", || one.bundle.counters(one.endpoint).is_ok());
        served_briefly(&other.bundle, i == 0, || one.bundle.request(one.endpoint, 0, ECHO, &[i]).unwrap());
    }
    other.bundle.destroy_endpoint(other.endpoint).unwrap();
    one.bundle.request(one.endpoint, 0, ECHO, &[10]).unwrap();
    poll_until(&[&one.bundle], "what came back", || returns.lock().unwrap().len() == 6);
    assert_eq!(*returns.lock().unwrap(), (5..11).map(|i| (Status::BadEndpoint, vec![i])).collect::<Vec<_>>());
    assert_eq!(
        one.bundle.destroy_endpoint(other.endpoint).map(|()| one.bundle.name(other.endpoint)),
        Ok(Err(Error::BadArgument)),
        "the first of each bundle has the same id"
    );
}

/// The first request needs somebody who accepts the connection.
fn served_briefly(bundle: &Bundle, needed: bool, f: impl FnOnce()) {
    if needed { served(bundle, f) } else { f() }
}

/// An endpoint moves between bundles while others talk to it: nothing is lost, doubled or out of
/// order.
#[test]
fn an_endpoint_moves() {
    let there = device();
    let (one, other) = (Side::new(&device()), Side::new(&there));
    let second = Bundle::new(&there).unwrap();
    echoes(&other);
    one.map(&other);
    let (answers, returns) = listens(&one);
    let moves = AtomicU64::new(0);
    let count = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut at, mut id) = (&other.bundle, other.endpoint);
            let mut to = &second;
            let end = Instant::now() + PATIENCE;
            while answers.lock().unwrap().len() < count && Instant::now() < end {
                for _ in 0..50 {
                    at.poll().unwrap();
                }
                id = at.move_endpoint(id, to).expect("it moves");
                (at, to) = (to, at);
                moves.fetch_add(1, Ordering::SeqCst);
            }
        });
        for i in 0..count {
            one.bundle.request(one.endpoint, 0, ECHO, &[i as i32]).unwrap();
        }
        poll_until(&[&one.bundle], "all answers", || answers.lock().unwrap().len() == count);
    });
    assert!(answers.lock().unwrap().iter().map(|(args, _)| args[0]).eq(0..count as i32) && returns.lock().unwrap().is_empty());
    assert!(moves.load(Ordering::SeqCst) > 10);
    assert_eq!(other.bundle.move_endpoint(one.endpoint, &Bundle::new(&device()).unwrap()), Err(Error::BadArgument), "another device");
}

/// A client moves with requests out.
#[test]
fn a_client_moves() {
    let here = device();
    let (one, other) = (Side::new(&here), Side::new(&device()));
    let second = Bundle::new(&here).unwrap();
    echoes(&other);
    one.map(&other);
    let (answers, _) = listens(&one);
    served(&other.bundle, || {
        let (mut at, mut to, mut id) = (&one.bundle, &second, one.endpoint);
        for i in 0..2_000 {
            at.request(id, 0, ECHO, &[i]).unwrap();
            if i % 7 == 0 {
                id = at.move_endpoint(id, to).expect("it moves");
                (at, to) = (to, at);
            }
        }
        poll_until(&[at, to], "all answers", || answers.lock().unwrap().len() == 2_000);
    });
    assert!(answers.lock().unwrap().iter().map(|(args, _)| args[0]).eq(0..2_000));
}

/// Threads send through one endpoint, all of them polling; each request is answered once, and those
/// of a thread in order.
#[test]
fn threads_share_a_bundle() {
    const THREADS: i32 = 4;
    const EACH: i32 = 500;
    let (one, other) = (Side::new(&device()), Side::new(&device()));
    echoes(&other);
    one.map(&other);
    let (answers, returns) = listens(&one);
    served(&other.bundle, || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let one = &one;
                scope.spawn(move || (0..EACH).for_each(|i| one.bundle.request(one.endpoint, 0, ECHO, &[thread, i]).unwrap()));
            }
        });
        poll_until(&[&one.bundle], "all answers", || answers.lock().unwrap().len() as i32 == THREADS * EACH);
    });
    assert!(returns.lock().unwrap().is_empty());
    let answers = answers.lock().unwrap();
    for thread in 0..THREADS {
        assert!(answers.iter().filter(|(args, _)| args[0] == thread).map(|(args, _)| args[1]).eq(0..EACH));
    }
}

/// A receiver that is there but takes nothing.
#[test]
fn patience_ends() {
    let (one, other) = (Side::new(&device()), Side::new(&device()));
    echoes(&other);
    one.map(&other);
    let (answers, returns) = listens(&one);
    served(&other.bundle, || {
        one.bundle.request(one.endpoint, 0, ECHO, &[-1]).unwrap();
        poll_until(&[&one.bundle], "an answer", || !answers.lock().unwrap().is_empty());
    });
    one.bundle.set_patience(Some(Duration::from_millis(20)));
    let mut sent = 0;
    while returns.lock().unwrap().is_empty() {
        one.bundle.request(one.endpoint, 0, ECHO, &[sent]).unwrap();
        one.bundle.poll().unwrap();
        sent += 1;
    }
    assert_eq!(*returns.lock().unwrap(), [(Status::Congestion, vec![sent - 1])], "after all credits are used");
    poll_until(&[&one.bundle, &other.bundle], "the others", || answers.lock().unwrap().len() as i32 == sent);
}

/// A handler that panics has handled its request; the bundle goes on.
#[test]
fn a_handler_panics() {
    let device = device();
    let side = Side::new(&device);
    side.map(&side);
    side.bundle.set_credits(side.endpoint, 1).unwrap();
    side.bundle
        .set_handler(side.endpoint, ECHO, |m| {
            assert!(m.args()[0] != 13, "as it must");
            m.reply(ECHOED, &[0]).unwrap();
        })
        .unwrap();
    let (answers, _) = listens(&side);
    let mut panics = 0;
    for i in [1, 13, 13, 2] {
        side.bundle.request(side.endpoint, 0, ECHO, &[i]).unwrap();
        let before = answers.lock().unwrap().len();
        let end = Instant::now() + PATIENCE;
        while answers.lock().unwrap().len() == before && Instant::now() < end {
            let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| side.bundle.poll().unwrap()));
            if polled.is_err() {
                panics += 1;
                break;
            }
        }
    }
    assert_eq!((panics, answers.lock().unwrap().len()), (2, 2));
}

#[test]
fn events_wake_who_waits() {
    let (one, other) = (Side::new(&device()), Side::new(&device()));
    echoes(&other);
    one.map(&other);
    let (answers, _) = listens(&one);
    assert_eq!(other.bundle.wait_for_event(), Err(Error::BadArgument), "nothing is in the mask");
    other.bundle.set_event_mask(true);
    assert!(other.bundle.event_mask());
    let handled = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + PATIENCE;
            while handled.load(Ordering::SeqCst) < 5 && Instant::now() < end {
                other.bundle.wait_for_event().unwrap();
                while other.bundle.poll().unwrap() != 0 {}
            }
        });
        for i in 0..5 {
            std::thread::sleep(Duration::from_millis(5));
            one.bundle.request(one.endpoint, 0, ECHO, &[i]).unwrap();
            poll_until(&[&one.bundle], "an answer", || answers.lock().unwrap().len() as i32 == i + 1);
            handled.fetch_add(1, Ordering::SeqCst);
        }
        one.bundle.request(one.endpoint, 0, ECHO, &[5]).unwrap();
    });
}

#[test]
fn tables_are_kept() {
    let side = Side::new(&device());
    let (b, e) = (&side.bundle, side.endpoint);
    let name = b.name(e).unwrap();
    assert_eq!(b.map_any(e, name, 5), Ok(0));
    b.map(e, 255, name, 6).unwrap();
    assert_eq!(b.map(e, 256, name, 6), Err(Error::BadArgument));
    assert_eq!((b.translation(e, 0), b.translation(e, 1), b.translation(e, 255)), (Ok(Some((name, 5))), Ok(None), Ok(Some((name, 6)))));
    assert_eq!(b.set_translations(e, 100), Err(Error::InUse));
    b.unmap(e, 255).unwrap();
    b.set_translations(e, 100).unwrap();
    assert_eq!((b.translations(e), b.translation(e, 100)), (Ok(100), Err(Error::BadArgument)));
    b.set_translations(e, 1).unwrap();
    assert_eq!(b.map_any(e, name, TAG), Err(Error::Resource));
    b.set_handler(e, 1, |_| ()).unwrap();
    assert_eq!(b.set_handler_any(e, |_| ()), Ok(2));
}
