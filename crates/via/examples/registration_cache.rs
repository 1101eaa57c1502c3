// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the registration cache costs and saves (docs/decisions/0040): RDMA writes out of memory of
//! the program, over a NIC's link with itself, whose source is registered before all, through the
//! cache (by intervals, by page hash), and for each write; by turns.
//!
//! ```text
//! cargo run --release -p bellwire-via --example registration_cache [ROUNDS [PATTERN]]
//! ```

#[path = "../tests/nic_common/mod.rs"]
mod nic_common;

use bellwire_via::nic::NicConfig;
use bellwire_via::{CacheAlgorithm, CacheConfig, MemAttributes, MemHandle, Nic, Operation, PtagHandle, Segment, SendRequest, ViAttributes, ViHandle};
use nic_common::{LONG, named};
use std::time::Instant;

/// Records that the caches may hold: the patterns with more buffers evict.
const ENTRIES: u32 = 128;
const BUFFERS_MAX: usize = 2 * ENTRIES as usize;
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Bytes that one measurement moves, at least.
const BYTES: usize = 96 << 20;
const WAYS: [&str; 4] = ["pre-registered", "intervals", "page hash", "each time"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// The same buffer each time.
    One,
    /// Buffers by turns, all of which fit.
    Many(usize),
    /// As many again as fit, by turns: the worst for a list that drops the oldest.
    TooMany,
    /// Parts of one buffer, anywhere in it.
    Parts,
    /// One in a hundred out of a buffer that has just been mapped, the others out of one.
    Fresh,
}

struct Side {
    nic: Nic,
    ptag: PtagHandle,
    vi: ViHandle,
    target: (u64, u32),
}

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(7, |a| a.parse().expect("a number"));
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let patterns = [
        ("one buffer", Pattern::One),
        ("64 buffers", Pattern::Many(64)),
        ("parts of one buffer", Pattern::Parts),
        ("1 in 100 new", Pattern::Fresh),
        ("256 buffers, 128 fit", Pattern::TooMany),
    ];
    let [first, others @ ..] = WAYS;
    println!("{:<22}{:>9}  {first:>14}{}", "pattern", "bytes", others.map(|w| format!("{w:>28}")).concat());
    for (name, pattern) in patterns.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        for bytes in SIZES {
            // Nothing of other patterns is remembered.
            let sides = [CacheAlgorithm::Off, CacheAlgorithm::Intervals, CacheAlgorithm::PageHash, CacheAlgorithm::Off].map(side);
            let memory = Buffers::new(bytes, pattern);
            let mut times = [const { Vec::new() }; WAYS.len()];
            let mut hits = [0.0; WAYS.len()];
            for round in 0..rounds {
                for n in 0..WAYS.len() {
                    let way = (n + round) % WAYS.len();
                    let (time, rate) = measure(&sides[way], way, &memory, bytes, pattern);
                    times[way].push(time);
                    hits[way] = rate;
                }
            }
            let medians = times.map(|mut t| {
                t.sort_by(f64::total_cmp);
                t[t.len() / 2]
            });
            print!("{name:<22}{bytes:>9}  {:>11.2} us", medians[0]);
            for way in 1..WAYS.len() {
                let share = if way == 3 { String::new() } else { format!(", {:.1} %", hits[way] * 100.0) };
                print!("{:>28}", format!("{:.2} us {:.2}x{share}", medians[way], medians[way] / medians[0]));
            }
            println!();
        }
    }
}

/// A NIC with a VI to itself.
fn side(algorithm: CacheAlgorithm) -> Side {
    let registration_cache = CacheConfig { algorithm, entries: ENTRIES, ..CacheConfig::default() };
    let nic = Nic::open(NicConfig { registration_cache, ..NicConfig::default() }).expect("a NIC");
    let ptag = nic.with(|e| e.create_ptag()).expect("a tag");
    let attributes = ViAttributes { ptag: Some(ptag), rdma_write: true, ..ViAttributes::default() };
    let [vi, other] = [(); 2].map(|()| nic.with(|e| e.create_vi(&attributes, None, None, None)).expect("a VI"));
    let name = named(&format!("registration cache/{}/{algorithm:?}/{:p}", std::process::id(), &raw const nic));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let request = nic.connect_wait(&name, LONG).expect("somebody asks");
            nic.with(|e| e.accept(request.incoming, other)).expect("it still wants to");
        });
        nic.connect_request(vi, &name, &name, LONG).expect("connected");
    });
    let target = nic.with(|e| {
        let base = e.allocate(SIZES[SIZES.len() - 1]).expect("memory").expose_provenance() as u64;
        let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: false };
        (base, e.register_allocated(base, SIZES[SIZES.len() - 1] as u64, &rights).expect("registered").raw())
    });
    Side { nic, ptag, vi, target }
}

/// Memory of the program, touched.
struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    fn new(bytes: usize, pattern: Pattern) -> Self {
        let (count, length) = match pattern {
            Pattern::One | Pattern::Fresh => (1, bytes),
            Pattern::Many(n) => (n, bytes),
            Pattern::TooMany => (BUFFERS_MAX, bytes),
            Pattern::Parts => (1, 8 * bytes),
        };
        // Whole pages between buffers, so that none shares one with another.
        Self((0..count).map(|_| vec![1; length + 8192]).collect())
    }

    fn at(&self, n: usize) -> u64 {
        self.0[n].as_ptr().expose_provenance() as u64
    }
}

fn measure(side: &Side, way: usize, memory: &Buffers, bytes: usize, pattern: Pattern) -> (f64, f64) {
    let count = (BYTES / bytes).clamp(200, 4000);
    let rights = MemAttributes { ptag: Some(side.ptag), ..MemAttributes::default() };
    let plain = |at: u64, length: usize| {
        // SAFETY: U0: the buffers outlive their registration, and are only read.
        side.nic.with(|e| unsafe { e.register(at, length as u64, &rights) }).expect("registered")
    };
    let ahead: Vec<MemHandle> = if way == 0 { memory.0.iter().zip(0..).map(|(b, n)| plain(memory.at(n), b.len())).collect() } else { Vec::new() };
    let before = side.nic.with(|e| e.registration_cache());
    let mut seed = 1u64;
    let mut fresh = Vec::new();
    let mut spent = std::time::Duration::ZERO;
    for n in 0..count {
        let which = n % memory.0.len();
        let mut at = memory.at(which);
        if pattern == Pattern::Parts {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            at += (seed >> 33) % (7 * bytes as u64);
        }
        let is_fresh = pattern == Pattern::Fresh && n % 100 == 99;
        if is_fresh {
            // Kept until the end, so that it is another address each time.
            fresh.push(vec![2u8; bytes + 8192]);
            at = fresh[fresh.len() - 1].as_ptr().expose_provenance() as u64;
        }
        let begun = Instant::now();
        let handle = match way {
            0 if is_fresh => plain(at, bytes),
            0 => ahead[which],
            3 => plain(at, bytes),
            // SAFETY: U0: the buffers outlive their registration, and are only read.
            _ => side.nic.with(|e| unsafe { e.register_cached(at, bytes as u64, &rights) }).expect("registered"),
        };
        let from = [Segment { address: at, length: bytes as u32, handle: handle.raw() }];
        let request = SendRequest {
            operation: Operation::RdmaWrite,
            segments: &from,
            remote_address: side.target.0,
            remote_handle: side.target.1,
            ..SendRequest::default()
        };
        side.nic.post_send(side.vi, &request).expect("posted");
        let done = side.nic.send_wait(side.vi, LONG).expect("done");
        assert!(!done.status.is_error());
        match way {
            0 => {}
            3 => side.nic.with(|e| e.deregister(at, handle)).expect("over"),
            _ => side.nic.with(|e| e.release_cached(at, handle)).expect("over"),
        }
        spent += begun.elapsed();
        if is_fresh && way == 0 {
            side.nic.with(|e| e.deregister(at, handle)).expect("over");
        }
    }
    for (n, handle) in ahead.into_iter().enumerate() {
        side.nic.with(|e| e.deregister(memory.at(n), handle)).expect("over");
    }
    let after = side.nic.with(|e| e.registration_cache());
    let (hits, misses) = (after.hits - before.hits, after.misses + after.uncached - before.misses - before.uncached);
    (spent.as_secs_f64() * 1e6 / count as f64, hits as f64 / (hits + misses).max(1) as f64)
}
