// SPDX-License-Identifier: MIT OR Apache-2.0
//! A message that is told as sent needs its sender no more: a program that knows of the end may
//! look elsewhere for as long as it likes.

mod common;

use bellwire_tag::{EAGER_BYTES_MAX, Error, SendFlags};
use common::{PATIENCE, Side, bytes, pair_by_packets, run};
use std::time::Instant;

/// Polls one side only until `until` is true.
fn alone(side: &mut Side, what: &str, until: impl Fn(&Side) -> bool) {
    let begun = Instant::now();
    while !until(side) {
        side.endpoint.poll().expect("not forked");
        assert!(begun.elapsed() < PATIENCE, "{what}: {} have come", side.done().len());
    }
}

#[test]
fn short_messages_that_fill_the_wire() {
    const MOST: usize = 100;
    // Lost packets make the wire narrow; the longest messages do not fit one packet.
    for seed in 0..6 {
        let length = [EAGER_BYTES_MAX, EAGER_BYTES_MAX - 100, 5000][seed % 3];
        let mut sides = pair_by_packets(0, &format!("loss=0.3,seed={seed}"));
        // One message, so that there is a connection.
        let (mut from, mut first) = (bytes(length, 1), vec![0; length]);
        sides[1].receive(&mut first, Some(1), 7);
        sides[0].send(&mut from, Some(1), 7, SendFlags::empty()).unwrap();
        run(&mut sides, "the first", |s| s.iter().all(|s| s.done().len() == 1));
        let mut to = vec![vec![0; length]; MOST];
        to.iter_mut().for_each(|to| sides[1].receive(to, Some(2), 8));
        let mut sent = 0;
        while sent < MOST {
            match sides[0].send(&mut from, Some(2), 8, SendFlags::empty()) {
                Ok(()) => sent += 1,
                Err(Error::Again) => break,
                Err(e) => panic!("{e:?}"),
            }
        }
        let told = sides[0].done().len();
        assert!(told > 1, "some have left");
        alone(&mut sides[1], "what is told as sent", |s| s.done().len() >= told);
        run(&mut sides, "all", |s| s.iter().all(|s| s.done().len() == 1 + sent));
        assert!(to[..sent].iter().all(|to| *to == from));
    }
}

#[test]
fn long_messages_through_a_full_wire() {
    let mut sides = pair_by_packets(1, "loss=0.1,dup=0.05,reorder=0.05:300us,seed=5");
    for i in 0..24 {
        let length = 300_000 + i * 7001;
        let (mut from, mut to) = (bytes(length, i as u8), vec![0; length]);
        sides[1].receive(&mut to, Some(1), 7);
        sides[0].send(&mut from, Some(1), 7, SendFlags::empty()).unwrap();
        let begun = Instant::now();
        while sides[0].done().is_empty() {
            for poll in 0..40 {
                let side = &mut sides[usize::from(poll == 0)];
                side.endpoint.poll().expect("not forked");
                if !sides[0].done().is_empty() {
                    break;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "a message leaves");
        }
        alone(&mut sides[1], "all of a message", |s| !s.done().is_empty());
        assert_eq!(to, from, "{length} bytes");
        sides.iter_mut().for_each(|s| s.done().clear());
    }
}
