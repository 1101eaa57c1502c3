// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting: spins, completion queues in epoll, more busy threads than processors, idleness with
//! sleepers of every kind.

mod nic_common;

use bellwire_memory::atomic::{AtomicBool, AtomicU64, Ordering};
use bellwire_memory::processors;
use bellwire_via::nic::{NicConfig, SPIN_MAX, Spin};
use bellwire_via::wire::shm::ProtectionMode::{self, Guarded, Mapped};
use bellwire_via::{CqHandle, Error, Nic, Reliability};
use nic_common::*;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const RELIABLE: Reliability = Reliability::ReliableDelivery;

fn is_readable(fd: &OwnedFd, ms: i64) -> bool {
    let time = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&time)).unwrap() == 1
}

/// Two connected ends; the first one's queues are bound to a completion queue that has a
/// descriptor.
fn watched<'a>(a: &'a Nic, b: &'a Nic) -> (CqHandle, OwnedFd, End<'a>, End<'a>) {
    a.ignore_errors();
    b.ignore_errors();
    let cq = a.with(|e| e.create_cq(64)).unwrap();
    let (x, y) = pair(a, b, Some(cq));
    (cq, a.cq_fd(cq).unwrap(), x, y)
}

#[test]
fn a_descriptor_is_readable_exactly_when_an_entry_came_after_arming() {
    for mode in [Mapped, Guarded] {
        let (a, b) = (open(mode), open(mode));
        let other = a.with(|e| e.create_cq(8)).unwrap();
        assert_eq!(a.cq_arm(other).unwrap_err(), Error::InvalidState);
        let (cq, fd, x, y) = watched(&a, &b);
        assert!(!is_readable(&fd, 0));
        let mut took = Vec::new();
        for round in 0..200u64 {
            x.post_receive(0, 64);
            // A program that polls for a while before it sleeps: peers do not ring meanwhile.
            (0..40).for_each(|_| assert!(a.cq_done(cq).unwrap().is_none()));
            assert!(a.cq_arm(cq).unwrap(), "round {round}");
            assert!(!is_readable(&fd, 0), "round {round}");
            if round % 20 == 0 {
                // The helper goes to sleep.
                std::thread::sleep(Duration::from_millis(12));
            }
            let began = Instant::now();
            y.send_now(0, 8);
            assert!(is_readable(&fd, 5000), "round {round}");
            took.push(began.elapsed());
            // One entry, told once; a second arming finds it, too.
            assert!(!a.cq_arm(cq).unwrap());
            assert!(is_readable(&fd, 0));
            assert!(a.cq_done(cq).unwrap().is_some());
            assert!(a.receive_done(x.vi).unwrap().is_some());
            assert!(a.cq_done(cq).unwrap().is_none());
        }
        // By a ring, not by a tick of the helper's. (The fastest tenth: a busy machine may hold up
        // most.)
        took.sort_unstable();
        println!("{mode:?}: readable {:?} after the send (median)", took[took.len() / 2]);
        assert!(took[took.len() / 10] < Duration::from_millis(1), "{took:?}");
        assert_eq!(a.cq_fd(CqHandle::from_raw(777)).unwrap_err(), Error::InvalidParameter);
        a.cq_fd(other).unwrap();
        assert!(a.cq_arm(other).unwrap());
        a.destroy_cq(other).unwrap();
        assert_eq!(a.cq_arm(other).unwrap_err(), Error::InvalidParameter);
    }
}

/// Entries come in bursts while the reader is anywhere between taking, arming and sleeping.
#[test]
fn no_wake_up_is_lost_edge_triggered() {
    let (a, b) = (open(Mapped), open(Mapped));
    let (cq, fd, x, y) = watched(&a, &b);
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&set, &fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN | epoll::EventFlags::ET).unwrap();
    const MESSAGES: usize = 20_000;
    const WINDOW: usize = 32;
    (0..WINDOW).for_each(|i| x.post_receive(i * 64, 64));
    let room = AtomicU64::new(WINDOW as u64);
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..MESSAGES as u64 {
                // Acquire: pairs with the release by the reader; the receive is posted.
                while room.load(Ordering::Acquire) <= i {
                    std::thread::yield_now();
                }
                y.send_now(0, 8);
                // From nothing to some microseconds, in no pattern.
                (0..(i * 2_654_435_761) % 1500).for_each(|_| std::hint::spin_loop());
            }
        });
        let (mut got, mut sleeps) = (0, 0);
        while got < MESSAGES {
            while a.cq_done(cq).unwrap().is_some() {
                assert!(a.receive_done(x.vi).unwrap().is_some());
                got += 1;
                x.post_receive(0, 64);
                // Release: pairs with the sender's acquire.
                room.fetch_add(1, Ordering::Release);
            }
            if got < MESSAGES && a.cq_arm(cq).unwrap() {
                sleeps += 1;
                let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 1];
                let n = epoll::wait(&set, &mut events[..], Some(&Timespec { tv_sec: 5, tv_nsec: 0 })).unwrap();
                assert_eq!(n, 1, "a wake-up was lost after {got} messages and {sleeps} sleeps");
            }
        }
        println!("{got} messages, {sleeps} sleeps");
    });
}

#[test]
fn spins_are_set_by_nic_and_by_call() {
    let nic = Nic::open(NicConfig { spin: Duration::from_micros(7), ..NicConfig::default() }).unwrap();
    assert_eq!(nic.spin(), Duration::from_micros(7));
    nic.set_spin(Duration::from_secs(9));
    assert_eq!(nic.spin(), SPIN_MAX);
    nic.set_spin(Duration::ZERO);
    let end = End::new(&nic, RELIABLE, None);
    let used = |spin| {
        let before = cpu_time();
        assert_eq!(nic.receive_wait_with(end.vi, Some(Duration::from_millis(100)), spin).unwrap_err(), Error::Timeout);
        cpu_time() - before
    };
    let (spinning, sleeping, as_set) = (used(Spin::For(SPIN_MAX)), used(Spin::For(Duration::ZERO)), used(Spin::Nic));
    println!("processor time of a wait of 100 ms: spinning {spinning:?}, sleeping {sleeping:?}, as set {as_set:?}");
    // (On a busy machine it spins and lets others run: then it is displaced.)
    at_last("a wait spins as it is told", || {
        let displaced = processors::times_displaced();
        used(Spin::For(SPIN_MAX)) > Duration::from_millis(10) || processors::times_displaced() > displaced + 2
    });
}

/// Round trips of many pairs at once: the processor time that one takes. The threads count their
/// own time, so that other programs on the machine do not matter.
fn trip_of_pairs(mode: ProtectionMode, pairs: usize, waiting: bool, trips: u64) -> Duration {
    let nics: Vec<(Nic, Nic)> = (0..pairs).map(|_| (open(mode), open(mode))).collect();
    nics.iter().for_each(|(a, b)| [a, b].iter().for_each(|nic| nic.ignore_errors()));
    let (stop, count, used) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let ends: Vec<(End<'_>, End<'_>)> = nics.iter().map(|(a, b)| (End::new(a, RELIABLE, None), End::new(b, RELIABLE, None))).collect();
    ends.iter().for_each(|(x, y)| connect(x, y));
    let receive = |end: &End<'_>| match waiting {
        true => end.nic.receive_wait(end.vi, LONG).map(drop),
        false => loop {
            match end.nic.receive_done(end.vi) {
                // Relaxed: a flag to stop; nothing is read through it.
                Ok(None) if stop.load(Ordering::Relaxed) => break Err(Error::Timeout),
                Ok(None) => {}
                found => break found.map(drop),
            }
        },
    };
    std::thread::scope(|s| {
        for (x, y) in &ends {
            y.post_receive(0, 64);
            s.spawn(|| {
                while receive(y).is_ok() && y.nic.with(|e| e.query_vi(y.vi)).is_ok_and(|(state, ..)| state == bellwire_via::ViState::Connected) {
                    y.post_receive(0, 64);
                    y.post_send(64, 8);
                    // Flushed: the other has stopped meanwhile.
                    if y.nic.send_wait(y.vi, LONG).unwrap().status.is_error() {
                        break;
                    }
                }
                // Relaxed, here and below: sums, read when the threads have ended, and a flag.
                used.fetch_add(thread_time().as_nanos() as u64, Ordering::Relaxed);
            });
            s.spawn(|| {
                while count.load(Ordering::Relaxed) < trips {
                    x.post_receive(0, 64);
                    x.send_now(64, 8);
                    if receive(x).is_err() {
                        break;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
                stop.store(true, Ordering::Relaxed);
                let _ = x.nic.with(|e| e.disconnect(x.vi));
                used.fetch_add(thread_time().as_nanos() as u64, Ordering::Relaxed);
            });
        }
    });
    Duration::from_nanos(used.into_inner() / count.into_inner().max(1))
}

/// Without giving way each round trip costs two time slices of some milliseconds, whenever it is
/// measured. With it some measurements have that, too, if other processes want the processors.
#[test]
fn a_crowd_does_not_collapse() {
    for waiting in [false, true] {
        let short = (0..10).any(|_| {
            let trip = trip_of_pairs(Mapped, 8, waiting, 800);
            println!("8 pairs, {}: {trip:?} of processor time for a round trip", if waiting { "waiting" } else { "polling" });
            trip < Duration::from_micros(250)
        });
        assert!(short, "each measurement was long");
    }
}

/// The other process: measures idleness, where no other test disturbs it.
#[test]
fn idle_sleepers() {
    if peer_argument().is_none() {
        return;
    }
    for mode in [Mapped, Guarded] {
        let (a, b) = (open(mode), open(mode));
        let (cq, fd, x, y) = watched(&a, &b);
        let more: Vec<_> = (0..50).map(|_| (End::new(&a, RELIABLE, None), End::new(&b, RELIABLE, None))).collect();
        more.iter().for_each(|(x, y)| connect(x, y));
        x.post_receive(0, 64);
        y.send_now(0, 8);
        assert!(a.cq_wait(cq, LONG).is_ok());
        std::thread::scope(|s| {
            for (x, y) in &more[..4] {
                s.spawn(|| x.nic.receive_wait(x.vi, Some(Duration::from_millis(2800))));
                s.spawn(|| y.nic.receive_wait(y.vi, None.or(Some(Duration::from_millis(2900)))));
            }
            std::thread::sleep(Duration::from_millis(300));
            assert!(a.cq_arm(cq).unwrap());
            let before = cpu_time();
            assert!(!is_readable(&fd, 2000));
            let used = cpu_time() - before;
            eprintln!("{mode:?}: {used:?} of processor time in two idle seconds");
            assert!(used < Duration::from_millis(20), "{used:?}");
        });
        // And with a descriptor alone, no waiter.
        assert!(a.cq_arm(cq).unwrap());
        at_last("an idle second on a descriptor takes no processor time", || {
            let before = cpu_time();
            assert!(!is_readable(&fd, 1000));
            let used = cpu_time() - before;
            eprintln!("{mode:?}: {used:?} of processor time in an idle second on a descriptor");
            used < Duration::from_millis(2)
        });
        x.post_receive(0, 64);
        y.send_now(0, 8);
        assert!(is_readable(&fd, 5000) && fd.as_fd().try_clone_to_owned().is_ok());
    }
}

#[test]
fn sleepers_use_no_processor_time() {
    assert!(spawn_peer("idle_sleepers", "idle").wait().unwrap().success());
}
