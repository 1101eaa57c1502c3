// SPDX-License-Identifier: MIT OR Apache-2.0
//! This measures the time that an event takes:
//! `BELLWIRE_TRACE=folder cargo run --release -p bellwire-trace --example cost`.

use bellwire_trace::{Kind, here};
use std::time::Instant;

const EVENTS: u64 = 1_000_000;

fn main() {
    if !here::is_on() {
        eprintln!("BELLWIRE_TRACE names no folder");
        std::process::exit(1);
    }
    let time = |what: &str, note: fn(u64)| {
        let mut least = f64::INFINITY;
        for _ in 0..11 {
            let begin = Instant::now();
            (0..EVENTS).for_each(note);
            least = least.min(begin.elapsed().as_nanos() as f64 / EVENTS as f64);
        }
        println!("{what}: {least:.1} ns an event, the least of eleven");
    };
    time("two fields", |n| here::note(Kind::Sent, 1, [n, n]));
    time("seven fields", |n| here::note_more(Kind::PostSend, 1, [n; 2], &[n; 5]));
    time("a call's name", |n| here::note_text(Kind::QuickCall, 0, [n, n], "gas_bulk_put"));
    time("an empty look", |_| here::note_empty_look());
}
