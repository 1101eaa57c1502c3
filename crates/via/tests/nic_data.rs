// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two NICs in one process: messages by polling and by waiting, timeouts, many threads.

mod nic_common;

use bellwire_via::wire::shm::ProtectionMode::{self, Guarded, Mapped};
use bellwire_via::{Error, Operation, Reliability, SendRequest, WorkFlags};
use nic_common::*;
use std::time::{Duration, Instant};

fn ping_pong(mode: ProtectionMode, waiting: bool, rounds: usize, size: usize) {
    let (a, b) = (open(mode), open(mode));
    let (x, y) = pair(&a, &b, None);
    let receive = |end: &End<'_>| if waiting { end.nic.receive_wait(end.vi, LONG).unwrap() } else { end.poll_receive() };
    y.post_receive(0, size);
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..rounds {
                let c = receive(&y);
                assert!(!c.status.is_error() && c.length as usize == size, "{c:?}");
                assert_eq!(y.read(0, size), vec![i as u8; size]);
                y.post_receive(0, size);
                y.write(size, &vec![!(i as u8); size]);
                y.send_now(size, size);
            }
        });
        for i in 0..rounds {
            x.post_receive(0, size);
            x.write(size, &vec![i as u8; size]);
            x.send_now(size, size);
            let c = receive(&x);
            assert!(!c.status.is_error() && c.length as usize == size, "{c:?}");
            assert_eq!(x.read(0, size), vec![!(i as u8); size]);
        }
    });
}

#[test]
fn ping_pong_by_polling() {
    ping_pong(Mapped, false, 5_000, 32);
    ping_pong(Guarded, false, 5_000, 1000);
}

#[test]
fn ping_pong_by_waiting() {
    ping_pong(Mapped, true, 2_000, 32);
    ping_pong(Guarded, true, 2_000, 1000);
}

#[test]
fn ping_pong_of_large_messages_by_waiting() {
    ping_pong(Mapped, true, 50, 300_000);
    ping_pong(Guarded, true, 50, 300_000);
}

#[test]
fn waits_end_in_time() {
    let a = open(Mapped);
    let end = End::new(&a, Reliability::ReliableDelivery, None);
    let cq = a.with(|e| e.create_cq(8)).unwrap();
    for ms in [0u64, 1, 30] {
        let timeout = Some(Duration::from_millis(ms));
        at_last("four waits end in their time", || {
            let began = Instant::now();
            assert_eq!(a.receive_wait(end.vi, timeout).unwrap_err(), Error::Timeout);
            assert_eq!(a.send_wait(end.vi, timeout).unwrap_err(), Error::Timeout);
            assert_eq!(a.cq_wait(cq, timeout).unwrap_err(), Error::Timeout);
            assert_eq!(a.connect_wait(&address(), timeout).unwrap_err(), Error::Timeout);
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(4 * ms), "{took:?}");
            took < Duration::from_millis(4 * ms + 200)
        });
    }
    at_last("requests end in their time", || {
        let began = Instant::now();
        let answer = a.connect_request(end.vi, &address(), &address(), Some(Duration::ZERO));
        assert_eq!(answer.unwrap_err(), Error::NoMatch);
        let answer = a.connect_request(end.vi, &address(), &address(), Some(Duration::from_millis(30)));
        assert_eq!(answer.unwrap_err(), Error::NoMatch);
        began.elapsed() < Duration::from_millis(300)
    });
}

#[test]
fn a_completion_made_by_one_thread_wakes_another() {
    // The waiter sleeps; what it waits for is completed by a call of another thread of the same
    // NIC: the flush by disconnect.
    let (a, b) = (open(Mapped), open(Mapped));
    let (x, _y) = pair(&a, &b, None);
    let mut took = Vec::new();
    for _ in 0..20 {
        x.post_receive(0, 64);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| (a.receive_wait(x.vi, LONG).unwrap(), Instant::now()));
            std::thread::sleep(Duration::from_millis(3));
            let at = Instant::now();
            a.with(|e| e.disconnect(x.vi)).unwrap();
            let (c, woke) = waiter.join().unwrap();
            assert!(c.status.is_error());
            took.push(woke.duration_since(at));
        });
    }
    let took = median(took);
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn a_wait_ends_when_its_object_is_destroyed() {
    let a = open(Mapped);
    let end = End::new(&a, Reliability::ReliableDelivery, None);
    let cq = a.with(|e| e.create_cq(8)).unwrap();
    std::thread::scope(|s| {
        let waiters = [s.spawn(|| a.receive_wait(end.vi, LONG).unwrap_err()), s.spawn(|| a.cq_wait(cq, LONG).unwrap_err())];
        std::thread::sleep(Duration::from_millis(20));
        let began = Instant::now();
        a.with(|e| e.destroy_vi(end.vi)).unwrap();
        a.with(|e| e.destroy_cq(cq)).unwrap();
        for w in waiters {
            assert_eq!(w.join().unwrap(), Error::InvalidParameter);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "not by a timeout");
    });
}

#[test]
fn many_threads_on_one_nic() {
    const PAIRS: usize = 6;
    const ROUNDS: usize = 300;
    let (a, b) = (open(Mapped), open(Mapped));
    let ends: Vec<_> = (0..PAIRS).map(|_| (End::new(&a, Reliability::ReliableReception, None), End::new(&b, Reliability::ReliableReception, None))).collect();
    ends.iter().for_each(|(x, y)| connect(x, y));
    std::thread::scope(|s| {
        for (x, y) in &ends {
            y.post_receive(0, 64);
            s.spawn(|| {
                for i in 0..ROUNDS {
                    let c = y.nic.receive_wait(y.vi, LONG).unwrap();
                    assert!(!c.status.is_error(), "{c:?}");
                    if i + 1 < ROUNDS {
                        y.post_receive(0, 64);
                    }
                    y.send_now(128, 16);
                }
            });
            s.spawn(|| {
                for i in 0..ROUNDS {
                    x.post_receive(0, 64);
                    x.write(128, &[i as u8; 16]);
                    x.send_now(128, 16);
                    let c = x.nic.receive_wait(x.vi, LONG).unwrap();
                    assert!(!c.status.is_error(), "{c:?}");
                }
            });
        }
    });
}

#[test]
fn several_threads_share_a_completion_queue() {
    const MESSAGES: usize = 2_000;
    let (a, b) = (open(Mapped), open(Mapped));
    let cq = a.with(|e| e.create_cq(8192)).unwrap();
    let (x, y) = (End::new(&a, Reliability::ReliableDelivery, Some(cq)), End::new(&b, Reliability::ReliableDelivery, None));
    (0..MESSAGES).for_each(|_| x.post_receive(0, 64));
    connect(&x, &y);
    let total: usize = std::thread::scope(|s| {
        let takers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let mut n = 0;
                    while a.cq_wait(cq, Some(Duration::from_millis(400))).is_ok() {
                        assert!(a.receive_done(x.vi).unwrap().is_some());
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        for i in 0..MESSAGES {
            y.send_now(0, 8);
            if i % 97 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        takers.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(total, MESSAGES);
}

#[test]
fn a_computing_peer_serves_reads_and_acknowledgements() {
    // The target never polls. Guarded: its helper has the duty. Mapped, acknowledged sends: it is
    // kicked.
    let (a, b) = (open(Guarded), open(Guarded));
    let (x, y) = pair(&a, &b, None);
    y.write(4096, &[7; 100_000]);
    let mut took = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        x.post_read(0, 100_000, y.base + 4096, y.memory.raw());
        let c = a.send_wait(x.vi, LONG).unwrap();
        assert!(!c.status.is_error(), "{c:?}");
        took.push(began.elapsed());
        assert_eq!(x.read(0, 100_000), vec![7; 100_000]);
    }
    let took = median(took);
    assert!(took < Duration::from_millis(200), "{took:?}");
    let (a, b) = (open(Mapped), open(Mapped));
    let (x, y) = (End::new(&a, Reliability::ReliableReception, None), End::new(&b, Reliability::ReliableReception, None));
    connect(&x, &y);
    let mut took = Vec::new();
    for _ in 0..20 {
        y.post_receive(0, 64);
        let began = Instant::now();
        x.send_now(0, 64);
        took.push(began.elapsed());
    }
    let took = median(took);
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[test]
fn work_left_by_a_post_moves_without_further_calls() {
    let (a, b) = (open(Mapped), open(Mapped));
    let (x, y) = pair(&a, &b, None);
    y.post_receive(0, 900_000);
    x.write(0, &[9; 900_000]);
    x.post_send(0, 900_000);
    // `a` makes no call now; its helper moves the bytes.
    let c = b.receive_wait(y.vi, LONG).unwrap();
    assert!(!c.status.is_error() && c.length == 900_000, "{c:?}");
    assert_eq!(y.read(0, 900_000), vec![9; 900_000]);
}

#[test]
fn a_nic_talks_to_itself() {
    let a = open(Mapped);
    let (x, y) = (End::new(&a, Reliability::ReliableReception, None), End::new(&a, Reliability::ReliableReception, None));
    connect(&x, &y);
    for i in 0..200u8 {
        y.post_receive(0, 4096);
        x.write(0, &[i; 4096]);
        let request = SendRequest {
            operation: Operation::Send,
            flags: WorkFlags::IMMEDIATE,
            immediate: u32::from(i),
            segments: &[x.segment(0, 4096)],
            ..SendRequest::default()
        };
        a.post_send(x.vi, &request).unwrap();
        let c = a.receive_wait(y.vi, LONG).unwrap();
        assert_eq!((c.length, c.immediate), (4096, u32::from(i)));
        assert!(!a.send_wait(x.vi, LONG).unwrap().status.is_error());
        assert_eq!(y.read(0, 4096), vec![i; 4096]);
    }
}

/// Reading and changing a peer's memory where it lies: permitted while it is registered, with the
/// rights that it has, within it; and nothing where peers map nothing.
#[test]
fn remote_memory_in_place() {
    let (a, b) = (open(Mapped), open(Mapped));
    let (x, y) = pair(&a, &b, None);
    let reach = |address: u64, length: u64, write: bool, value: u8| {
        a.with(|e| {
            e.with_remote_memory(x.vi, (address, y.memory.raw()), length, write, |at| {
                // SAFETY: the engine gives `length` bytes.
                unsafe { at.write_bytes(value, length as usize) };
            })
        })
    };
    // The first wish asks for the mapping.
    let end = Instant::now() + Duration::from_secs(30);
    while !reach(y.base + 8, 8, true, 7) {
        assert!(Instant::now() < end, "it is never mapped");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(y.read(0, 24), [[0; 8], [7; 8], [0; 8]].concat());
    assert!(!reach(y.base + AREA as u64 - 4, 8, true, 9), "beyond the end");
    assert!(!reach(y.base - 1, 8, true, 9), "before the beginning");
    assert!(!reach(y.base, 0, true, 9), "nothing");
    b.with(|e| e.deregister(y.base, y.memory)).unwrap();
    assert!(!reach(y.base, 8, true, 9), "after its registration has ended");

    let (c, d) = (open(Guarded), open(Guarded));
    let (x, y) = pair(&c, &d, None);
    let done = c.with(|e| e.with_remote_memory(x.vi, (y.base, y.memory.raw()), 8, true, |_| panic!("guarded")));
    assert!(!done);
}
