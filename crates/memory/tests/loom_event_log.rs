// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model of the event log: a reader beside the writer gets whole slots, in order, none of another
//! lap.
#![cfg(loom)]

use bellwire_memory::event_log::{Cells, SLOT_WORDS, Slot, Source, read};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const SLOTS: usize = 2;

struct Log {
    head: AtomicU64,
    begun: AtomicU64,
    slots: [[AtomicU64; SLOT_WORDS]; SLOTS],
}

impl Log {
    fn new() -> Self {
        let slot = || core::array::from_fn(|_| AtomicU64::new(0));
        Self { head: AtomicU64::new(0), begun: AtomicU64::new(0), slots: core::array::from_fn(|_| slot()) }
    }

    fn cells(&self) -> Cells<'_> {
        Cells { head: &self.head, begun: &self.begun, slots: &self.slots }
    }
}

struct Reader<'a>(&'a Log);

impl Source for Reader<'_> {
    type Error = ();
    fn counters(&mut self) -> Result<(u64, u64), ()> {
        // Relaxed: as a copy of the file; read() has the fences.
        Ok((self.0.head.load(Ordering::Relaxed), self.0.begun.load(Ordering::Relaxed)))
    }
    fn copy(&mut self, from: u64, to: u64) -> Result<Vec<Slot>, ()> {
        // Two words are enough to see a torn slot.
        let word = |at: u64, w: usize| self.0.slots[at as usize % SLOTS][w].load(Ordering::Relaxed);
        Ok((from..to).map(|at| [word(at, 0), 0, 0, word(at, 3)]).collect())
    }
    fn capacity(&self) -> u64 {
        SLOTS as u64
    }
}

fn slot(at: u64) -> Slot {
    [at + 1, 0, 0, at + 1]
}

fn check(log: &Log, least: u64) {
    let Ok((first, slots)) = read(&mut Reader(log), 0) else { unreachable!() };
    assert!(first + slots.len() as u64 >= least, "what was written before is missing");
    for (at, seen) in (first..).zip(slots) {
        assert_eq!(seen, slot(at), "slot {at}");
    }
}

#[test]
fn a_reader_beside_the_writer() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let theirs = Arc::clone(&log);
        let writer = thread::spawn(move || {
            let mut at = 0;
            for _ in 0..3 {
                at = theirs.cells().write(at, 1, |_| slot(at));
            }
        });
        check(&log, 0);
        writer.join().unwrap();
        check(&log, 3);
    });
}

#[test]
fn two_slots_at_once() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        log.cells().write(0, 1, |_| slot(0));
        let theirs = Arc::clone(&log);
        let writer = thread::spawn(move || {
            theirs.cells().write(1, 2, |n| slot(1 + n as u64));
        });
        check(&log, 1);
        writer.join().unwrap();
        check(&log, 3);
    });
}
