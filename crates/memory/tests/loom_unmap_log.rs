// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the log of unmapped ranges. The kernel's part is a word: the writer's `read` lets the
//! unmapping thread go on, which looks at the log afterwards.
#![cfg(loom)]

use bellwire_memory::unmap_log::{BATCH, Cursor, Missed, UnmapLog};
use core::ops::Range;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

const N: usize = BATCH + 1;

struct Shared {
    log: UnmapLog<N>,
    /// The notices that the writer has read.
    read: AtomicU32,
}

fn write(shared: &Shared, batches: u64) {
    for n in 0..batches {
        shared.log.begin();
        shared.read.fetch_add(1, Ordering::Release);
        shared.log.finish(&[Range { start: n * 10 + 1, end: n * 10 + 2 }]);
    }
}

fn drain(log: &UnmapLog<N>, cursor: &mut Cursor) -> (Vec<(u64, u64)>, Missed) {
    let mut seen = Vec::new();
    let missed = log.drain(cursor, |r| seen.push((r.start, r.end)));
    (seen, missed)
}

/// After its `munmap` a thread finds the range in the log, whole.
#[test]
fn what_was_unmapped_is_seen() {
    loom::model(|| {
        let shared = Arc::new(Shared { log: UnmapLog::new(), read: AtomicU32::new(0) });
        let mut cursor = shared.log.cursor();
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || write(&shared, 1)
        });
        while shared.read.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        assert!(shared.log.has_news(cursor), "a hit on memory that is gone");
        assert_eq!(drain(&shared.log, &mut cursor), (vec![(1, 2)], Missed::Nothing));
        writer.join().unwrap();
    });
}

/// A reader that is overtaken by a whole round of the slots says so; what it gives is never a range
/// made of two, and never a later one.
#[test]
fn a_range_that_is_given_is_the_one_asked_for() {
    loom::model(|| {
        let shared = Arc::new(Shared { log: UnmapLog::new(), read: AtomicU32::new(0) });
        let mut cursor = shared.log.cursor();
        // The oldest range is the next to be written over.
        shared.log.begin();
        shared.log.finish(&[Range { start: 1, end: 2 }]);
        let others: Vec<_> = (1..N as u64).map(|n| n * 100..n * 100 + 1).collect();
        shared.log.begin();
        shared.log.finish(&others);
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                shared.log.begin();
                shared.log.finish(&[Range { start: 7, end: 9 }]);
            }
        });
        let mut first = None;
        let missed = shared.log.drain(&mut cursor, |r| {
            first.get_or_insert((r.start, r.end));
        });
        assert!(first.is_none_or(|f| f == (1, 2)), "{first:?}");
        assert!(first.is_some() || missed == Missed::Some);
        writer.join().unwrap();
    });
}
