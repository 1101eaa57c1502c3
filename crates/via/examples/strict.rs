// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of strict memory (docs/decisions/0010): two processes with two connections between
//! them, one of NICs that trust and one of NICs that are strict; messages from and to memory of the
//! program, the two by turns.
//!
//! ```text
//! cargo run --release -p bellwire-via --example strict [ROUNDS]
//! ```

#[path = "../tests/nic_common/mod.rs"]
mod nic_common;

use bellwire_via::nic::NicConfig;
use bellwire_via::{MemAttributes, MemoryMode, Nic, Reliability, ViAttributes};
use nic_common::{End, LONG, call, named, serve};
use std::process::Command;
use std::time::Instant;

/// Bytes and messages of one measurement; the last is one way.
const LATENCIES: [(usize, usize); 3] = [(8, 20_000), (1024, 10_000), (4096, 10_000)];
const STREAM: (usize, usize) = (1 << 20, 300);
/// Receives posted ahead in a stream.
const AHEAD: usize = 2;
const HALF: usize = AHEAD << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [_, name, rounds] = &arguments[..] {
        return peer(name, rounds.parse().expect("a number"));
    }
    let rounds = arguments.first().map_or(9, |a| a.parse().expect("a number"));
    let name = format!("strict/{}", std::process::id());
    let mut other = Command::new(std::env::current_exe().unwrap()).args(["peer", &name, &rounds.to_string()]).spawn().unwrap();
    let nics = nics();
    let ends = [end(&nics[0]), end(&nics[1])];
    serve(&ends[0], &named(&name)).unwrap();
    serve(&ends[1], &named(&format!("{name}/strict"))).unwrap();
    let mut figures = vec![[const { Vec::new() }; 2]; LATENCIES.len() + 1];
    for _ in 0..rounds {
        for (row, (bytes, count)) in LATENCIES.iter().enumerate() {
            for (mode, end) in ends.iter().enumerate() {
                figures[row][mode].push(ask(end, *bytes, *count) * 1e9);
            }
        }
        for (mode, end) in ends.iter().enumerate() {
            let seconds = take(end);
            figures[LATENCIES.len()][mode].push((STREAM.0 * STREAM.1) as f64 / seconds / 1e9);
        }
    }
    other.wait().unwrap();
    for ((bytes, _), [trust, strict]) in LATENCIES.iter().zip(&figures) {
        println!("{bytes} B, half a round trip: trust {:.0} ns, strict {:.0} ns (medians of {rounds})", median(trust), median(strict));
    }
    let [trust, strict] = &figures[LATENCIES.len()];
    println!("1 MiB one way: trust {:.1} GB/s, strict {:.1} GB/s", median(trust), median(strict));
}

fn peer(name: &str, rounds: usize) {
    let nics = nics();
    let ends = [end(&nics[0]), end(&nics[1])];
    for e in &ends {
        e.post_receive(0, 4096);
    }
    call(&ends[0], &named(name)).unwrap();
    call(&ends[1], &named(&format!("{name}/strict"))).unwrap();
    for _ in 0..rounds {
        for (bytes, count) in LATENCIES {
            ends.iter().for_each(|end| answer(end, bytes, count));
        }
        ends.iter().for_each(give);
    }
    // The last answers are on their way.
    std::thread::sleep(std::time::Duration::from_millis(200));
}

fn nics() -> [Nic; 2] {
    [MemoryMode::Trust, MemoryMode::Strict].map(|memory| {
        let nic = Nic::open(NicConfig { memory, ..NicConfig::from_env().unwrap() }).unwrap();
        nic.ignore_errors();
        nic
    })
}

/// A VI with memory of the program.
fn end(nic: &Nic) -> End<'_> {
    let base = Box::leak(vec![1u8; 2 * HALF].into_boxed_slice()).as_mut_ptr().expose_provenance() as u64;
    nic.with(|e| {
        let ptag = e.create_ptag().unwrap();
        let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: true };
        // SAFETY: U0: leaked memory, of which only the pointer is left; strict mode allows it to be
        // unmapped.
        let memory = unsafe { e.register(base, 2 * HALF as u64, &rights) }.unwrap();
        let attributes = ViAttributes { reliability: Reliability::ReliableDelivery, ptag: Some(ptag), ..ViAttributes::default() };
        let vi = e.create_vi(&attributes, None, None, None).unwrap();
        End { nic, vi, ptag, base, memory, attributes }
    })
}

fn post_receive(end: &End<'_>, at: usize, bytes: usize) {
    let segments = [bellwire_via::Segment { address: end.base + at as u64, length: bytes as u32, handle: end.memory.raw() }];
    end.nic.post_receive(end.vi, &bellwire_via::ReceiveRequest { segments: &segments, ..Default::default() }).unwrap();
}

fn send(end: &End<'_>, at: usize, bytes: usize) {
    let segments = [bellwire_via::Segment { address: end.base + at as u64, length: bytes as u32, handle: end.memory.raw() }];
    end.nic.post_send(end.vi, &bellwire_via::SendRequest { segments: &segments, ..Default::default() }).unwrap();
    assert!(!end.nic.send_wait(end.vi, LONG).unwrap().status.is_error());
}

/// Seconds of half a round trip.
fn ask(end: &End<'_>, bytes: usize, count: usize) -> f64 {
    let began = Instant::now();
    for _ in 0..count {
        post_receive(end, 0, 4096);
        send(end, HALF, bytes);
        assert!(!end.poll_receive().status.is_error());
    }
    began.elapsed().as_secs_f64() / count as f64 / 2.0
}

/// A receive is posted already, and is so again afterwards.
fn answer(end: &End<'_>, bytes: usize, count: usize) {
    for _ in 0..count {
        assert!(!end.poll_receive().status.is_error());
        post_receive(end, 0, 4096);
        send(end, HALF, bytes);
    }
}

/// Takes a stream; seconds.
fn take(end: &End<'_>) -> f64 {
    for k in 0..AHEAD {
        post_receive(end, k << 20, STREAM.0);
    }
    send(end, HALF, 8);
    let began = Instant::now();
    for i in 0..STREAM.1 {
        assert!(!end.poll_receive().status.is_error());
        if i + AHEAD < STREAM.1 {
            post_receive(end, (i % AHEAD) << 20, STREAM.0);
        }
        // Room for one more.
        send(end, HALF, 8);
    }
    began.elapsed().as_secs_f64()
}

fn give(end: &End<'_>) {
    assert!(!end.poll_receive().status.is_error());
    for i in 0..STREAM.1 {
        if i >= AHEAD {
            // The first answers are to messages that have been sent already.
            assert!(!end.poll_receive().status.is_error());
        }
        post_receive(end, 0, 4096);
        send(end, HALF, STREAM.0);
    }
    for _ in 0..AHEAD {
        assert!(!end.poll_receive().status.is_error());
    }
    post_receive(end, 0, 4096);
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
