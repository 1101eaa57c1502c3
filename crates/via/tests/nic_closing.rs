// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closing a NIC: messages sent before arrive, also when packets are lost; and nobody waits for
//! ever for a peer that is not there.

mod nic_common;

use bellwire_via::Error;
use nic_common::*;
use std::time::{Duration, Instant};

#[test]
fn what_was_sent_before_the_end_arrives_under_loss() {
    const MESSAGES: usize = 20;
    for round in 0..10u8 {
        let faults = format!("loss=0.3,seed={round}");
        let places = (2 * round + 1, 2 * round + 2);
        let (server, client) = (open_udp(places.0, &faults), open_udp(places.1, &faults));
        let (x, y) = join_udp(&server, &client, places);
        (0..MESSAGES).for_each(|i| x.post_receive(i * 4096, 3000));
        for i in 0..MESSAGES {
            y.write(0, &[i as u8; 3000]);
            // Complete as soon as the transport has it.
            y.send_now(0, 3000);
        }
        drop(client);
        for i in 0..MESSAGES {
            let done = x.nic.receive_wait(x.vi, LONG).unwrap();
            assert!(!done.status.is_error(), "round {round}, message {i}: {:?}", done.status);
            assert_eq!(x.read(i * 4096, 3000), vec![i as u8; 3000], "round {round}, message {i}");
        }
    }
}

#[test]
fn two_that_close_at_once_do_not_wait_for_each_other() {
    let (server, client) = (open_udp(101, ""), open_udp(102, ""));
    let (x, y) = join_udp(&server, &client, (101, 102));
    for end in [&x, &y] {
        end.post_receive(0, 3000);
        end.post_send(8192, 3000);
    }
    let began = Instant::now();
    std::thread::scope(|s| {
        s.spawn(|| drop(server));
        s.spawn(|| drop(client));
    });
    assert!(began.elapsed() < Duration::from_millis(2_500), "they waited: {:?}", began.elapsed());
}

#[test]
fn a_peer_that_is_not_reached_is_waited_for_three_seconds() {
    // From the moment of its opening on the NIC's packets are lost after a second.
    let (server, client) = (open_udp(111, ""), open_udp(112, "partition=1s..100s"));
    let (x, y) = join_udp(&server, &client, (111, 112));
    x.post_receive(0, 3000);
    std::thread::sleep(Duration::from_millis(1100));
    y.post_send(0, 3000);
    let began = Instant::now();
    drop(client);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(2_500) && took < Duration::from_secs(20), "{took:?}");
    assert!(matches!(x.nic.receive_done(x.vi), Ok(None) | Err(Error::Timeout)), "nothing came");
}
