// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC's helper thread stands in for a program that does not look: it serves peers, completes
//! operations, and rings for a sleeper.

mod common;

use bellwire_tag::{Access, Bindings, Counter, Outlet, Queue, Region, RemoteFlags, RemoteRequest, SendFlags, Waker};
use common::{PATIENCE, Side, bytes, memory, pair, run};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Polls the first side alone until `until` is true.
fn alone(sides: &[Side; 2], what: &str, until: impl Fn() -> bool) {
    let begun = Instant::now();
    while !until() {
        sides[0].endpoint.poll().expect("not forked");
        assert!(begun.elapsed() < PATIENCE, "{what}");
    }
}

#[test]
fn peers_are_served_while_the_program_computes() {
    let mut sides = pair();
    let (mut window, mut from, mut back) = (vec![0; 100_000], bytes(100_000, 3), vec![0; 100_000]);
    let region = Region { start: window.as_mut_ptr().expose_provenance(), length: window.len(), base: 0, access: Access::all() };
    // SAFETY: R1: the memory outlives the endpoints' work.
    assert!(unsafe { sides[1].regions.lock().insert(6, region) });
    let counter = Arc::new(Counter::default());
    sides[1].regions.lock().watch(6, &counter, Access::WRITE);
    sides[1].endpoint.stand_in();
    // It connects, too, without the program.
    for round in 1..20 {
        let n = [8, 1000, 100_000][round as usize % 3];
        for is_write in [true, false] {
            let local = if is_write { memory(&mut from[..n]) } else { memory(&mut back[..n]) };
            let request = RemoteRequest { target: sides[0].target(6, 0), local, data: None, context: 1, flags: RemoteFlags::empty() };
            if is_write {
                sides[0].endpoint.write(&request).unwrap()
            } else {
                sides[0].endpoint.read(&request).unwrap()
            };
            alone(&sides, "remote memory", || !sides[0].done().is_empty());
            assert_eq!(sides[0].done().pop().unwrap().failure, None);
        }
        assert_eq!((&back[..n], counter.value()), (&from[..n], round));
    }
    // A receive that is posted ends, and its completion waits.
    let mut to = [0; 40];
    sides[1].receive(&mut to, Some(1), 7);
    sides[0].send(&mut from[..40], Some(1), 5, SendFlags::DELIVERY).unwrap();
    alone(&sides, "delivery", || !sides[0].done().is_empty());
    let done = sides[1].endpoint.take_completions(Queue::Receives);
    assert_eq!((done.len(), done[0].context, &to[..]), (1, 7, &from[..40]));
}

/// Whether a descriptor is readable within a time.
fn is_readable(waker: &Waker, within: Duration) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(waker.bell().fd(), rustix::event::PollFlags::IN)];
    let within = rustix::event::Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    rustix::event::poll(&mut fds, Some(&within)).expect("poll") != 0
}

#[test]
fn an_armed_queue_rings() {
    let mut sides = pair();
    let waker = Arc::new(Waker::create().unwrap());
    let queue = Some(Arc::new(Outlet::new(Some(Arc::clone(&waker)))));
    sides[1].endpoint.bind(Bindings { queues: [queue.clone(), queue], ..Bindings::default() });
    let (mut from, mut to) = (bytes(40, 1), vec![0; 40]);
    // A connection first.
    sides[1].receive(&mut to, Some(1), 1);
    sides[0].send(&mut from, Some(1), 1, SendFlags::empty()).unwrap();
    run(&mut sides, "connected", |s| s.iter().all(|s| !s.done().is_empty()));
    sides.iter().for_each(|s| s.done().clear());
    sides[1].endpoint.stand_in();
    for round in 0..100 {
        waker.silence();
        sides[1].receive(&mut to, Some(1), round);
        assert!(sides[1].endpoint.arm(Queue::Receives).unwrap(), "nothing waits");
        sides[0].send(&mut from, Some(1), round, SendFlags::empty()).unwrap();
        // The program sleeps on the descriptor alone.
        assert!(is_readable(&waker, PATIENCE), "round {round}");
        assert_eq!(sides[1].done().pop().map(|c| c.context), Some(round));
    }
    // One that has something is not armed.
    sides[1].receive(&mut to, Some(1), 200);
    sides[0].send(&mut from, Some(1), 200, SendFlags::empty()).unwrap();
    run(&mut sides, "one more", |s| !s[1].done().is_empty());
    let one = sides[1].done().pop().unwrap();
    sides[1].endpoint.complete(&one);
    assert!(!sides[1].endpoint.arm(Queue::Receives).unwrap());
}
