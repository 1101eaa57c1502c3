// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that takes bursts by a few polls and computes a little in between: its helper leaves
//! it alone. In a process of its own, for it counts what the helper's thread does.

mod nic_common;

use bellwire_via::wire::shm::ProtectionMode::Mapped;
use nic_common::*;
use std::time::{Duration, Instant};

const BURSTS: u64 = 1000;
const BURST: usize = 16;

/// The only helper there is; a thread gives itself its name.
fn helper() -> u64 {
    loop {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u64>().ok());
        let is_helper = |id: &u64| std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).is_ok_and(|name| name.trim() == "bellwire");
        if let Some(id) = threads.into_iter().find(is_helper) {
            return id;
        }
        std::thread::yield_now();
    }
}

/// How often a thread has slept.
fn sleeps(thread: u64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok()).unwrap()
}

fn compute(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Rung in the middle of a burst, the helper waits for the program's next poll; a second ring, a
/// microsecond later, must not have it serve in the program's place and arm the bell anew, which
/// would then ring for each burst.
#[test]
fn bursts_do_not_wake_the_helper_each_time() {
    let taker = open(Mapped);
    let helper = helper();
    let giver = open(Mapped);
    let (x, y) = pair(&taker, &giver, None);
    let mut number = 0u64;
    at_last("the helper sleeps on", || {
        // Nobody polls: the helper arms the bell and sleeps.
        std::thread::sleep(Duration::from_millis(20));
        let before = sleeps(helper);
        for _ in 0..BURSTS {
            for slot in 0..BURST {
                x.post_receive(64 * slot, 64);
            }
            for _ in 0..BURST {
                y.write(0, &number.to_ne_bytes());
                y.post_send(0, 8);
                number += 1;
                compute(Duration::from_nanos(600));
            }
            for slot in 0..BURST {
                let done = x.poll_receive();
                assert!(!done.status.is_error());
                assert_eq!(x.read(64 * slot, 8), (number - BURST as u64 + slot as u64).to_ne_bytes());
            }
            while y.nic.send_done(y.vi).unwrap().is_some() {}
            compute(Duration::from_micros(30));
        }
        let slept = sleeps(helper) - before;
        println!("the helper slept {slept} times in {BURSTS} bursts");
        slept < BURSTS / 3
    });
}
