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

use bellwire_via::nic::NicConfig;
use bellwire_via::{MemAttributes, Nic, Operation, Segment, SendRequest, ViAttributes, ViHandle};
use nic_common::{LONG, named};
use std::time::Instant;

const SIZES: [usize; 4] = [8, 4 << 10, 16 << 10, 64 << 10];
const BYTES: usize = 256 << 20;
const TURN: usize = 16;

struct Side {
    nic: Nic,
    vi: ViHandle,
    /// Where the bytes come from, and where they go: addresses and handles.
    from: (u64, u32),
    to: (u64, u32),
}

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(9, |a| a.parse().expect("a number"));
    let side = side();
    println!("{:>8}{:>12}{:>24}{:>24}", "bytes", "memcpy", "one by one", "sixteen to a turn");
    for bytes in SIZES {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..rounds {
            for n in 0..3 {
                let way = (n + round) % 3;
                times[way].push(measure(&side, way, bytes));
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

/// A NIC with a VI to itself, and memory of the engine on both sides.
fn side() -> Side {
    let nic = Nic::open(NicConfig::default()).expect("a NIC");
    let ptag = nic.with(|e| e.create_ptag()).expect("a tag");
    let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, ..ViAttributes::default() };
    let [vi, other] = [(); 2].map(|()| nic.with(|e| e.create_vi(&attributes, None, None, None)).expect("a VI"));
    let name = named(&format!("writes/{}", std::process::id()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = nic.connect_wait(&name, LONG).expect("somebody asks");
            nic.with(|e| e.accept(request.incoming, other)).expect("it still wants to");
        });
        nic.connect_request(vi, &name, &name, LONG).expect("connected");
    });
    let [from, to] = [(); 2].map(|()| {
        let length = SIZES[SIZES.len() - 1];
        let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: false };
        nic.with(|e| {
            let base = e.allocate(length).expect("memory").expose_provenance() as u64;
            (base, e.register_allocated(base, length as u64, &rights).expect("registered").raw())
        })
    });
    Side { nic, vi, from, to }
}

/// Nanoseconds for a write.
fn measure(side: &Side, way: usize, bytes: usize) -> f64 {
    let count = (BYTES / bytes).clamp(2_000, 400_000) / TURN * TURN;
    let from = [Segment { address: side.from.0, length: bytes as u32, handle: side.from.1 }];
    let request =
        SendRequest { operation: Operation::RdmaWrite, segments: &from, remote_address: side.to.0, remote_handle: side.to.1, ..SendRequest::default() };
    // The first ones find the memory mapped.
    for _ in 0..100 {
        side.nic.post_send(side.vi, &request).expect("posted");
        assert!(!side.nic.send_wait(side.vi, LONG).expect("done").status.is_error());
    }
    let [out, into] = [side.from.0, side.to.0].map(|at| core::ptr::with_exposed_provenance_mut::<u8>(at as usize));
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
                side.nic.post_send(side.vi, &request).expect("posted");
                while side.nic.send_done(side.vi).expect("a VI").is_none() {}
            }
        }
        _ => {
            for _ in 0..count / TURN {
                side.nic.with(|e| {
                    for _ in 0..TURN {
                        e.post_send(side.vi, &request).expect("posted");
                    }
                    for _ in 0..TURN {
                        while e.send_done(side.vi).expect("a VI").is_none() {}
                    }
                });
            }
        }
    }
    begun.elapsed().as_secs_f64() * 1e9 / count as f64
}
