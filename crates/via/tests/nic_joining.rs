// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small messages between hosts share packets while some are under way; none waits for a look that
//! never comes, and the thread that has looked after them rests again.

mod nic_common;

use nic_common::*;
use std::time::Duration;

const MESSAGE: usize = 8;
/// Receives posted.
const WINDOW: usize = 64;
const RECEIVES_AT: usize = AREA / 2;

fn packets(end: &End<'_>) -> u64 {
    end.nic.with(|e| e.wire().packet().map_or(0, |p| p.transport().statistics().data_out))
}

fn post_receives(end: &End<'_>) {
    (0..WINDOW).for_each(|i| end.post_receive(RECEIVES_AT + i * MESSAGE, MESSAGE));
}

/// As many messages as there are receives, without a look of the sender; numbered from `first`.
fn post(end: &End<'_>, first: u64) {
    for i in 0..WINDOW {
        end.write(i * MESSAGE, &(first + i as u64).to_le_bytes());
        end.post_send(i * MESSAGE, MESSAGE);
    }
}

/// All of them have arrived, in order.
fn take(end: &End<'_>, first: u64) {
    for i in 0..WINDOW {
        let done = end.nic.receive_wait(end.vi, LONG).unwrap();
        assert_eq!((done.length as usize, done.status.is_error()), (MESSAGE, false));
        assert_eq!(end.read(done.context as usize, MESSAGE), (first + i as u64).to_le_bytes());
    }
}

fn collect(end: &End<'_>) {
    (0..WINDOW).for_each(|_| assert!(!end.nic.send_wait(end.vi, LONG).unwrap().status.is_error()));
}

fn share_packets_and_are_not_forgotten() {
    let (one, two) = (open_udp(1, ""), open_udp(2, ""));
    let (b, a) = join_udp(&two, &one, (2, 1));
    // How many share a packet depends on who runs when: one that was stopped between two posts
    // finds the way free again. The best round shows that they do share.
    let fewest = (0..200).map(|round| {
        let before = packets(&a);
        post_receives(&b);
        post(&a, round);
        // Nobody looks at this side until all have arrived: messages that wait are the helper's
        // business.
        take(&b, round);
        collect(&a);
        packets(&a) - before
    });
    let fewest = fewest.min().unwrap();
    assert!(fewest <= WINDOW as u64 / 4, "{fewest} packets for {WINDOW} messages in the best round");

    at_last("the helper does not go on looking for ever", || {
        std::thread::sleep(Duration::from_millis(300));
        let idle = cpu_time();
        std::thread::sleep(Duration::from_millis(500));
        cpu_time() - idle < Duration::from_millis(5)
    });

    // And is there again when it is needed.
    post_receives(&b);
    post(&a, 7);
    take(&b, 7);
    collect(&a);
}

/// Loss, reordering and duplication: the same messages, in the same order.
fn arrive_once_and_in_order_whatever_the_network_does() {
    let faults = "loss=0.05,dup=0.05,reorder=0.1,seed=11";
    let (one, two) = (open_udp(3, faults), open_udp(4, faults));
    let (b, a) = join_udp(&two, &one, (4, 3));
    for round in 0..100 {
        post_receives(&b);
        post(&a, round);
        take(&b, round);
        collect(&a);
    }
}

/// One after the other, since the processor time of the process is measured.
#[test]
fn small_messages() {
    arrive_once_and_in_order_whatever_the_network_does();
    share_packets_and_are_not_forgotten();
}
