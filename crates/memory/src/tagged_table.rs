// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table that one process writes and others read: entries of `N` words, each valid under its tag.
//!
//! Used for what a NIC lets its peers know without a message: its catalogue of registered regions,
//! and the receive descriptors that a sender may fill directly. An entry is a sequence lock whose
//! sequence is its own tag word, so the writer never waits and a reader gets a whole entry or
//! nothing.
//!
//! Invariants
//! - S1: word 0 is the tag; 0 means empty. The writer sets it to 0, then (release fence) writes the
//!   values, then (release) the new tag.
//! - S2: a reader takes the values only if word 0 was the same tag before (acquire) and after
//!   (acquire fence) reading them.
//! - S3: a tag value is not used again in an entry with other values while a reader could still be
//!   in between (the writers' tags carry generations).

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::weakened;

#[inline(always)]
fn publish_tag() -> Ordering {
    weakened::ordering("table_publish", Ordering::Release)
}
#[inline(always)]
fn read_tag() -> Ordering {
    weakened::ordering("table_read", Ordering::Acquire)
}

/// Where the words live.
pub trait Words {
    /// The word at `index`.
    fn word(&self, index: usize) -> &AtomicU64;
}

/// The writing side of a table of entries of `N` words.
#[derive(Debug)]
pub struct TableWriter<W, const N: usize> {
    words: W,
    entries: usize,
}

/// The reading side.
#[derive(Debug)]
pub struct TableReader<W, const N: usize> {
    words: W,
    entries: usize,
}

impl<W: Words, const N: usize> TableWriter<W, N> {
    /// A writer of `entries` entries.
    pub fn new(words: W, entries: usize) -> Self {
        Self { words, entries }
    }

    /// Entries in the table.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Replaces entry `index` by `values`, whose first word is the tag (not 0).
    #[inline]
    pub fn set(&self, index: usize, values: &[u64; N]) {
        assert!(index < self.entries && values[0] != 0);
        let at = index * N;
        // Relaxed: ordered before the values by the fence (S1).
        self.words.word(at).store(0, Ordering::Relaxed);
        // Release (S1): a reader that sees a new value and then fences sees the tag gone.
        if !weakened::is("table_fence") {
            fence(Ordering::Release);
        }
        for (i, v) in values.iter().enumerate().skip(1) {
            // Relaxed: published by the tag (S1).
            self.words.word(at + i).store(*v, Ordering::Relaxed);
        }
        // Release (S1): publishes the values; pairs with the acquire in get().
        self.words.word(at).store(values[0], publish_tag());
    }

    /// Empties entry `index` if it still has `tag`.
    #[inline]
    pub fn clear(&self, index: usize, tag: u64) {
        assert!(index < self.entries);
        let word = self.words.word(index * N);
        // Relaxed: we are the only writer. An owner that must know that the entry is unused goes
        // through `direct_epoch`.
        if word.load(Ordering::Relaxed) == tag {
            word.store(0, Ordering::Relaxed);
        }
    }
}

impl<W: Words, const N: usize> TableReader<W, N> {
    /// A reader of `entries` entries.
    pub fn new(words: W, entries: usize) -> Self {
        Self { words, entries }
    }

    /// Entries in the table.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// A whole copy of entry `index` if its tag, under `mask`, is `tag`.
    #[inline]
    pub fn get(&self, index: usize, tag: u64, mask: u64) -> Option<[u64; N]> {
        if index >= self.entries || tag == 0 {
            return None;
        }
        let at = index * N;
        // Acquire (S2): pairs with the release of the tag in set().
        let first = self.words.word(at).load(read_tag());
        if first & mask != tag {
            return None;
        }
        let mut values = [first; N];
        for (i, v) in values.iter_mut().enumerate().skip(1) {
            // Relaxed: framed by the two looks at the tag (S2).
            *v = self.words.word(at + i).load(Ordering::Relaxed);
        }
        // Acquire (S2): pairs with the release fence in set().
        if !weakened::is("table_read_fence") {
            fence(Ordering::Acquire);
        }
        // Relaxed: after the fence.
        (self.words.word(at).load(Ordering::Relaxed) == first).then_some(values)
    }

    /// Whether entry `index` still has exactly `tag`. For the second look after
    /// `direct_epoch::Worker::enter`.
    #[inline]
    pub fn still(&self, index: usize, tag: u64) -> bool {
        // Relaxed: ordered after the epoch's store by its barrier.
        index < self.entries && self.words.word(index * N).load(Ordering::Relaxed) == tag
    }
}

/// Words in mapped memory.
#[derive(Clone, Copy, Debug)]
pub struct MappedWords {
    base: *const AtomicU64,
    words: usize,
}

// SAFETY: M3 (see `MappedWords::new`).
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// `words` words at `base`.
    ///
    /// # Safety
    /// M3: `base` is 8-byte aligned and stays mapped for `words` words while the value lives;
    /// writable if given to a [`TableWriter`].
    pub unsafe fn new(base: *mut u8, words: usize) -> Self {
        assert!(base.addr().is_multiple_of(8));
        Self { base: base.cast(), words }
    }
}

impl Words for MappedWords {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words);
        // SAFETY: M3, and the bound above.
        unsafe { &*self.base.add(index) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn table() -> (Vec<u64>, MappedWords) {
        let mut v = vec![0u64; 16];
        // SAFETY: M3: the vector's buffer does not move and outlives the test's use.
        let w = unsafe { MappedWords::new(v.as_mut_ptr().cast(), 16) };
        (v, w)
    }

    #[test]
    fn whole_or_nothing() {
        let (_v, w) = table();
        let (wr, rd) = (TableWriter::<_, 4>::new(w, 4), TableReader::<_, 4>::new(w, 4));
        assert_eq!(rd.get(1, 7, u64::MAX), None);
        wr.set(1, &[7, 1, 2, 3]);
        assert_eq!(rd.get(1, 7, u64::MAX), Some([7, 1, 2, 3]));
        assert_eq!(rd.get(1, 8, u64::MAX), None);
        assert_eq!(rd.get(4, 7, u64::MAX), None, "out of range is nothing, not a panic");
        wr.set(1, &[7 | 5 << 32, 4, 5, 6]);
        assert_eq!(rd.get(1, 7, u64::from(u32::MAX)), Some([7 | 5 << 32, 4, 5, 6]));
        wr.clear(1, 7);
        assert!(rd.still(1, 7 | 5 << 32), "another tag is not cleared");
        wr.clear(1, 7 | 5 << 32);
        assert_eq!(rd.get(1, 7, u64::from(u32::MAX)), None);
    }
}
