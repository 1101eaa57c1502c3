// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sleeping for what comes from other hosts: on an only peer's socket, on all of them, and until a
//! time.

mod nic_common;

use bellwire_via::nic::Spin;
use bellwire_via::{Completion, Error};
use nic_common::*;
use std::time::{Duration, Instant};

const AT_ONCE: Spin = Spin::For(Duration::ZERO);
/// A thread that has begun to wait is asleep after this, or at least it is likely to be.
const ASLEEP: Duration = Duration::from_millis(30);

fn sleep_for(end: &End<'_>, time: Duration) -> Result<Completion, Error> {
    end.nic.receive_wait_with(end.vi, Some(time), AT_ONCE)
}

#[test]
fn both_sides_sleep_in_turn() {
    let (one, two) = (open_udp(31, ""), open_udp(32, ""));
    let (b, a) = join_udp(&two, &one, (32, 31));
    const ROUNDS: u64 = 3000;
    let side = |end: &End<'_>, first: bool| {
        for round in 0..ROUNDS {
            end.post_receive(64, 8);
            if first {
                end.write(0, &round.to_le_bytes());
                end.send_now(0, 8);
            }
            assert!(!sleep_for(end, LONG.unwrap()).unwrap().status.is_error());
            assert_eq!(end.read(64, 8), round.to_le_bytes());
            if !first {
                end.write(0, &round.to_le_bytes());
                end.send_now(0, 8);
            }
        }
    };
    b.post_receive(64, 8);
    std::thread::scope(|s| {
        s.spawn(|| side(&b, false));
        side(&a, true);
    });
}

/// Whatever the alarm was set to for an earlier sleep.
#[test]
fn sleeps_end_in_time() {
    let (one, two) = (open_udp(33, ""), open_udp(34, ""));
    let (b, a) = join_udp(&two, &one, (34, 33));
    for ms in [20, 300, 5, 50, 1, 100] {
        let (time, began) = (Duration::from_millis(ms), Instant::now());
        assert_eq!(sleep_for(&b, time).unwrap_err(), Error::Timeout);
        assert!(began.elapsed() >= time);
    }
    // One that was to be long, and ended early, leaves its alarm behind.
    b.post_receive(0, 8);
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(ASLEEP);
            a.send_now(0, 8);
        });
        assert!(sleep_for(&b, Duration::from_secs(600)).is_ok());
    });
    let began = Instant::now();
    assert_eq!(sleep_for(&b, ASLEEP).unwrap_err(), Error::Timeout);
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[test]
fn who_sleeps_on_its_only_peer_hears_of_others() {
    let (one, two) = (open_udp(41, ""), open_udp(42, ""));
    let (x, a) = join_udp(&two, &one, (42, 41));
    for round in 0..4 {
        x.post_receive(0, 8);
        std::thread::scope(|s| {
            let sleeper = s.spawn(|| sleep_for(&x, LONG.unwrap()));
            std::thread::sleep(ASLEEP);
            // A stranger, whose packets come to the first socket; then a second peer with a socket
            // of its own.
            let three = open_udp(43 + round, "");
            let (y, c) = join_udp(&two, &three, (42, 43 + round));
            y.post_receive(64, 8);
            let second = s.spawn(move || sleep_for(&y, LONG.unwrap()).map(|done| done.length));
            std::thread::sleep(ASLEEP);
            c.send_now(0, 8);
            assert_eq!(second.join().unwrap(), Ok(8));
            if round % 2 == 0 {
                // Gone again, while the first sleeps.
                let vi = c.vi;
                three.with(|e| e.disconnect(vi)).unwrap();
                std::thread::sleep(ASLEEP);
            }
            assert!(!sleeper.is_finished());
            a.send_now(0, 8);
            assert!(sleeper.join().unwrap().is_ok(), "round {round}");
        });
    }
}

/// A program that sends now and then finds each send complete at once, so it never looks at the
/// wire. The helper takes the acknowledgements, or the sends would wait for each other.
#[test]
fn sends_far_apart_are_acknowledged_one_by_one() {
    const SENDS: usize = 300;
    let (one, two) = (open_udp(51, ""), open_udp(52, ""));
    let (b, a) = join_udp(&two, &one, (52, 51));
    (0..SENDS).for_each(|i| b.post_receive(8 * i, 8));
    let mut settled = 0;
    for _ in 0..SENDS {
        settled += usize::from(!one.with(|e| e.wire().has_outstanding()));
        a.send_now(0, 8);
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..SENDS).for_each(|_| assert!(!b.poll_receive().status.is_error()));
    // Each look of the program found it so, about one in 64 sends.
    assert!(settled > SENDS / 12, "{settled} of {SENDS} sends found those before acknowledged");
}
