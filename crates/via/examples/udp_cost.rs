// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between two NICs of one process over UDP on the loopback interface, for
//! `scripts/udp-cost.sh`, which counts the instructions of the functions marked *counted*.
//!
//! ```text
//! cargo run --release -p bellwire-via --example udp_cost message|write COUNT
//! ```
//!
//! Prints how often each was called, and the packets that left.

#[path = "../tests/nic_common/mod.rs"]
mod nic_common;

use bellwire_via::{Operation, SendRequest};
use nic_common::{AREA, End, join_udp, open_udp};
use std::time::{Duration, Instant};

/// Bytes of one message, and of one write.
const MESSAGE: usize = 8;
const WRITE: usize = AREA / 4;

/// A message has arrived after this.
const FLIGHT: Duration = Duration::from_micros(10);

// One function for each side and thing, not inlined, so that they can be told apart from outside.

#[inline(never)]
fn counted_send(end: &End<'_>) {
    end.post_send(0, MESSAGE);
}

#[inline(never)]
fn counted_take(end: &End<'_>) -> bool {
    end.nic.receive_done(end.vi).unwrap().is_some()
}

#[inline(never)]
fn counted_initiator(end: &End<'_>) -> bool {
    end.nic.send_done(end.vi).unwrap().is_some()
}

#[inline(never)]
fn counted_target(end: &End<'_>) -> bool {
    end.nic.receive_done(end.vi).unwrap().is_some()
}

/// There and back; the answer carries the acknowledgement.
fn messages(a: &End<'_>, b: &End<'_>, count: usize) {
    for _ in 0..count {
        for (from, to) in [(a, b), (b, a)] {
            to.post_receive(4096, 64);
            counted_send(from);
            // So that it is there; else a poll that finds nothing would be counted now and then.
            let left = Instant::now();
            while left.elapsed() < FLIGHT {}
            while !counted_take(to) {}
            while from.nic.send_done(from.vi).unwrap().is_none() {}
        }
    }
    println!("send {} take {}", 2 * count, 2 * count);
}

/// Writes before those that are counted: the path's largest datagram is found meanwhile.
const WARM: usize = 64;

fn writes(a: &End<'_>, b: &End<'_>, count: usize) {
    let packets = |end: &End<'_>| end.nic.with(|e| e.wire().packet().map_or(0, |p| p.transport().statistics().data_out));
    let mut before = 0;
    for i in 0..count + WARM {
        let is_warm = i >= WARM;
        if i == WARM {
            before = packets(a);
        }
        let segments = [a.segment(0, WRITE)];
        let (remote_address, remote_handle) = (b.base + (AREA / 2) as u64, b.memory.raw());
        let write = SendRequest { operation: Operation::RdmaWrite, segments: &segments, remote_address, remote_handle, ..SendRequest::default() };
        a.nic.post_send(a.vi, &write).unwrap();
        while !(if is_warm { counted_initiator(a) } else { a.nic.send_done(a.vi).unwrap().is_some() }) {
            let _ = if is_warm { counted_target(b) } else { b.nic.receive_done(b.vi).unwrap().is_some() };
        }
    }
    println!("packets {} writes {count}", packets(a) - before);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, count] = &arguments[..] else { panic!("what and how often?") };
    let count = count.parse().expect("a number");
    let (one, two) = (open_udp(1, ""), open_udp(2, ""));
    let (b, a) = join_udp(&two, &one, (2, 1));
    match &what[..] {
        "message" => messages(&a, &b, count),
        "write" => writes(&a, &b, count),
        other => panic!("{other}: message or write"),
    }
}
