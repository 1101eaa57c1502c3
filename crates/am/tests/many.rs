// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thousand endpoints in a bundle: what an idle pair keeps in memory, and what the idle ones cost
//! those that are active.

mod common;

use bellwire_am::EndpointId;
use bellwire_memory::atomic::{AtomicU64, Ordering};
use common::{Side, TAG, device, poll_until};
use std::sync::Arc;
use std::time::Instant;

const PING: u8 = 1;
const PONG: u8 = 2;
/// Most bytes that an idle pair of connected endpoints may keep, both ends together.
const PAIR_BYTES_MAX: usize = 16 << 10;

/// Two bundles, and in each as many endpoints, connected in pairs.
struct Many {
    here: Side,
    there: Side,
    pairs: Vec<EndpointId>,
    pongs: Arc<AtomicU64>,
}

impl Many {
    fn new() -> Self {
        Self { here: Side::new(&device()), there: Side::new(&device()), pairs: Vec::new(), pongs: Arc::default() }
    }

    /// One more pair, over which a request and its reply have gone.
    fn add(&mut self) {
        let (a, b) = (self.here.bundle.create_endpoint().unwrap(), self.there.bundle.create_endpoint().unwrap());
        self.there.bundle.set_tag(b, TAG).unwrap();
        self.there.bundle.set_handler(b, PING, |m| m.reply(PONG, &[m.args()[0]]).expect("it leaves")).unwrap();
        let pongs = Arc::clone(&self.pongs);
        // Relaxed: handlers run on the thread that reads it.
        self.here.bundle.set_handler(a, PONG, move |_| _ = pongs.fetch_add(1, Ordering::Relaxed)).unwrap();
        self.here.bundle.map(a, 0, self.there.bundle.name(b).unwrap(), TAG).unwrap();
        self.pairs.push(a);
        let (there, here) = (&self.there.bundle, &self.here.bundle);
        common::served(there, || {
            // Relaxed: as above.
            let before = self.pongs.load(Ordering::Relaxed);
            here.request(a, 0, PING, &[1]).unwrap();
            // Relaxed: as above.
            poll_until(&[here], "the first reply", || self.pongs.load(Ordering::Relaxed) > before);
        });
    }

    /// Nanoseconds of a round trip over one of the first ten pairs, the best of some batches.
    fn round_trip(&self) -> f64 {
        let batch = || {
            let start = Instant::now();
            for i in 0..500 {
                // Relaxed: as in add().
                let before = self.pongs.load(Ordering::Relaxed);
                self.here.bundle.request(self.pairs[i % 10], 0, PING, &[1]).unwrap();
                // Relaxed: as in add().
                while self.pongs.load(Ordering::Relaxed) == before {
                    self.there.bundle.poll().unwrap();
                    self.here.bundle.poll().unwrap();
                }
            }
            start.elapsed().as_nanos() as f64 / 500.0
        };
        (0..40).map(|_| batch()).fold(f64::INFINITY, f64::min)
    }
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

/// Both in one test: another one in this process would add to its memory.
#[test]
fn idle_endpoints_cost_little_memory_and_no_time() {
    let (mut few, mut many) = (Many::new(), Many::new());
    (0..10).for_each(|_| few.add());
    (0..100).for_each(|_| many.add());
    let before = resident_bytes();
    (100..1000).for_each(|_| many.add());
    let each = (resident_bytes() - before) / 900;
    println!("an idle pair of endpoints keeps {each} bytes");
    assert!(each < PAIR_BYTES_MAX, "an idle pair keeps {each} bytes");
    // The best of many short batches, by turns, and again if somebody else was busy in all of them,
    // or the machine changed its pace between two.
    let ratios = (0..30).map(|_| many.round_trip() / few.round_trip()).take_while({
        let mut fine = false;
        move |ratio| !std::mem::replace(&mut fine, *ratio <= 1.5)
    });
    let best = ratios.fold(f64::INFINITY, f64::min);
    println!("a round trip with 1000 endpoints takes {best:.2} of one with 10");
    assert!(best <= 1.5, "a round trip with 1000 endpoints takes {best:.2} of one with 10");
}
