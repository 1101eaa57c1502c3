// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an RDMA write costs beside its copy (docs/decisions/0007): requests of the engine, which
//! have no descriptors, posted and collected one by one and sixteen to a turn, beside `memcpy` of
//! the same bytes; over a NIC's link with itself, by turns. Nobody reads what is written.
//!
//! ```text
//! cargo run --release -p bellwire-via --example writes [ROUNDS]
//! ```

#[path = "../tests/nic_common/mod.rs"]
mod nic_common;

use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{Operation, SendRequest};
use nic_common::{End, LONG, open, pair};
use std::time::Instant;

const SIZES: [usize; 4] = [8, 4 << 10, 16 << 10, 64 << 10];
const BYTES: usize = 256 << 20;
const TURN: usize = 16;

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(9, |a| a.parse().expect("a number"));
    let nic = open(ProtectionMode::Mapped);
    let (target, writer) = pair(&nic, &nic, None);
    println!("{:>8}{:>12}{:>24}{:>24}", "bytes", "memcpy", "one by one", "sixteen to a turn");
    for bytes in SIZES {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..rounds {
            for n in 0..3 {
                let way = (n + round) % 3;
                times[way].push(measure(&writer, &target, way, bytes));
            }
        }
        let [copy, one, many] = times.map(|mut t| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        });
        let beside = |ns: f64| format!("{ns:.1} ns, {:.2}", copy / ns);
        println!("{bytes:>8}{:>12}{:>24}{:>24}", format!("{copy:.1} ns"), beside(one), beside(many));
    }
}

/// Nanoseconds for a write.
fn measure(writer: &End<'_>, target: &End<'_>, way: usize, bytes: usize) -> f64 {
    let (nic, vi) = (writer.nic, writer.vi);
    let count = (BYTES / bytes).clamp(2_000, 400_000) / TURN * TURN;
    let from = [writer.segment(0, bytes)];
    let request = SendRequest {
        operation: Operation::RdmaWrite,
        segments: &from,
        remote_address: target.base,
        remote_handle: target.memory.raw(),
        ..SendRequest::default()
    };
    // The first ones find the memory mapped.
    for _ in 0..100 {
        nic.post_send(vi, &request).expect("posted");
        assert!(!nic.send_wait(vi, LONG).expect("done").status.is_error());
    }
    let [out, into] = [writer.base, target.base].map(|at| core::ptr::with_exposed_provenance_mut::<u8>(at as usize));
    let begun = Instant::now();
    match way {
        0 => {
            for _ in 0..count {
                // SAFETY: U3: both allocations have these bytes, and are freed with the NIC.
                unsafe { core::ptr::copy_nonoverlapping(std::hint::black_box(out), std::hint::black_box(into), bytes) };
            }
        }
        1 => {
            for _ in 0..count {
                nic.post_send(vi, &request).expect("posted");
                while nic.send_done(vi).expect("a VI").is_none() {}
            }
        }
        _ => {
            for _ in 0..count / TURN {
                nic.with(|e| {
                    for _ in 0..TURN {
                        e.post_send(vi, &request).expect("posted");
                    }
                    for _ in 0..TURN {
                        while e.send_done(vi).expect("a VI").is_none() {}
                    }
                });
            }
        }
    }
    begun.elapsed().as_secs_f64() * 1e9 / count as f64
}
