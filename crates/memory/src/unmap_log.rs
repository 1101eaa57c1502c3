// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ranges of the address space that were unmapped of late: one thread writes them, any number
//! of readers follow.
//!
//! The writer takes notices from the kernel, whose sender, the thread that unmaps, waits until its
//! notice is read. A reader that comes after such a thread must see the range, although the writer
//! may not have written it yet. So the writer says `busy` before it reads, and a reader that finds
//! it busy waits for the end of the few instructions that follow:
//!
//! ```text
//!  unmapping thread          writer                          reader, afterwards
//!  munmap                    word = count, busy              word unchanged? nothing to do
//!  (waits)                   read the notices: lets go of ─► word busy? wait
//!  goes on                   write the ranges                copy the ranges
//!                            word = count + n (release)      word again: overwritten meanwhile?
//! ```
//!
//! Neither takes a lock or memory, so a reader may unmap memory itself, and be waited for, at any
//! time.
//!
//! Invariant L1: a slot is written only while `word` is busy. A reader that copied a slot while it
//! was written again finds that the count has passed it.

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::weakened;
use core::ops::Range;

/// Ranges that the writer adds at a time, at most.
pub const BATCH: usize = 16;
const BUSY: u64 = 1;

/// The last `N` ranges.
#[derive(Debug)]
pub struct UnmapLog<const N: usize> {
    /// Ranges ever written, times two; and [`BUSY`].
    word: AtomicU64,
    slots: [[AtomicU64; 2]; N],
}

/// How far a reader has followed.
#[derive(Clone, Copy, Debug)]
pub struct Cursor(u64);

/// What a reader has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Nothing; each range was given.
    Nothing,
    /// Too many ranges to have been kept: any memory may have been unmapped.
    Some,
}

impl<const N: usize> Default for UnmapLog<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> UnmapLog<N> {
    /// An empty one.
    pub fn new() -> Self {
        assert!(N > BATCH, "a batch fits");
        Self { word: AtomicU64::new(0), slots: core::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]) }
    }

    /// A reader that follows from now on.
    pub fn cursor(&self) -> Cursor {
        // Acquire: as in `has_news`. A writer that is busy now may be at ranges of before: they are
        // given once more, which harms nothing.
        Cursor(self.word.load(Ordering::Acquire) & !BUSY)
    }

    /// The writer, and nobody else: notices are about to be read.
    pub fn begin(&self) {
        // Relaxed: only the writer writes the word. The kernel lets the unmapping thread go on
        // after this store, and what it does orders the two (a model: `loom_unmap_log`).
        let now = self.word.load(Ordering::Relaxed);
        if !weakened::is("unmap_begin") {
            self.word.store(now | BUSY, Ordering::Relaxed);
        }
        // Release: a reader that sees a slot written anew sees the word busy; pairs with the fence
        // in `drain` (L1).
        if !weakened::is("unmap_begin_fence") {
            fence(Ordering::Release);
        }
    }

    /// The writer: ends what [`begin`](Self::begin) began, with the ranges of the notices, at most
    /// [`BATCH`].
    pub fn finish(&self, ranges: &[Range<u64>]) {
        debug_assert!(ranges.len() <= BATCH);
        // Relaxed: only the writer writes the word.
        let count = self.word.load(Ordering::Relaxed) >> 1;
        for (i, range) in ranges.iter().enumerate() {
            let slot = &self.slots[(count + i as u64) as usize % N];
            // Relaxed: ordered by the word's release, and for L1 by the fence of `begin`.
            slot[0].store(range.start, Ordering::Relaxed);
            slot[1].store(range.end, Ordering::Relaxed);
        }
        // Release: publishes the slots; pairs with the load in `drain`.
        self.word.store((count + ranges.len() as u64) << 1, weakened::ordering("unmap_finish", Ordering::Release));
    }

    /// Whether anything was unmapped since, or is about to be told.
    #[inline(always)]
    pub fn has_news(&self, cursor: Cursor) -> bool {
        // Relaxed: the unmapping thread's own return from the kernel, or whatever told the caller
        // of it, orders this after the store of `begin`.
        self.word.load(Ordering::Relaxed) != cursor.0
    }

    /// Gives each range that was unmapped since the last call, oldest first.
    #[cold]
    pub fn drain(&self, cursor: &mut Cursor, mut each: impl FnMut(Range<u64>)) -> Missed {
        let word = loop {
            // Acquire: pairs with the release of `finish`.
            let word = self.word.load(weakened::ordering("unmap_drain", Ordering::Acquire));
            if word & BUSY == 0 {
                break word;
            }
            yield_now();
        };
        let (from, to) = (cursor.0 >> 1, word >> 1);
        *cursor = Cursor(word);
        if to.wrapping_sub(from) > N as u64 {
            return Missed::Some;
        }
        for at in from..to {
            let slot = &self.slots[at as usize % N];
            // Relaxed: ordered by the load above; that it is not a later range is seen below.
            let range = slot[0].load(Ordering::Relaxed)..slot[1].load(Ordering::Relaxed);
            // Acquire: pairs with the fence of `begin`: if the slot was a later range, the word
            // has left the one above behind (L1).
            if !weakened::is("unmap_drain_fence") {
                fence(Ordering::Acquire);
            }
            // Relaxed: ordered by the fence.
            let now = self.word.load(Ordering::Relaxed);
            // A busy writer may be writing a batch more than it has counted.
            let written = (now >> 1).wrapping_add(if now & BUSY == 0 { 0 } else { BATCH as u64 });
            if written.wrapping_sub(at) > N as u64 {
                return Missed::Some;
            }
            each(range);
        }
        Missed::Nothing
    }
}

#[cfg(not(loom))]
fn yield_now() {
    std::thread::yield_now();
}

#[cfg(loom)]
fn yield_now() {
    loom::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn drained<const N: usize>(log: &UnmapLog<N>, cursor: &mut Cursor) -> Option<Vec<Range<u64>>> {
        let mut seen = Vec::new();
        (log.drain(cursor, |r| seen.push(r)) == Missed::Nothing).then_some(seen)
    }

    #[test]
    fn a_reader_sees_what_came_after_it() {
        let log = UnmapLog::<20>::new();
        log.begin();
        log.finish(&[Range { start: 1, end: 2 }]);
        let (mut a, mut b) = (log.cursor(), log.cursor());
        assert!(!log.has_news(a));
        log.begin();
        assert!(log.has_news(a), "about to be told");
        log.finish(&[3..4, 5..6]);
        assert_eq!(drained(&log, &mut a), Some(vec![3..4, 5..6]));
        assert!(!log.has_news(a));
        assert_eq!(drained(&log, &mut a), Some(vec![]));
        log.begin();
        log.finish(&[]);
        assert!(!log.has_news(a));
        log.begin();
        log.finish(&[Range { start: 7, end: 8 }]);
        assert_eq!(drained(&log, &mut b), Some(vec![3..4, 5..6, 7..8]), "each has its own place");
    }

    #[test]
    fn a_reader_that_lags_is_told() {
        let log = UnmapLog::<20>::new();
        let mut cursor = log.cursor();
        for n in 0..20u64 {
            log.begin();
            log.finish(&[Range { start: n, end: n + 1 }]);
        }
        let mut late = cursor;
        assert_eq!(drained(&log, &mut late).map(|r| r.len()), Some(20), "as many as there are slots");
        log.begin();
        log.finish(&[Range { start: 100, end: 101 }]);
        assert_eq!(drained(&log, &mut cursor), None);
        assert_eq!(drained(&log, &mut cursor), Some(vec![]), "and follows again");
    }
}
