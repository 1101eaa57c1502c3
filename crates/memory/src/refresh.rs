// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares memory that others write with an older copy of it, and brings the copy up to date, by
//! falling address. So a store is never found without one that was made earlier at a lower
//! address.
//!
//! Words are loaded by acquire, each before the next lower one. A writer whose stores become
//! visible in its program's order is then seen so.

use crate::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::bytes::SharedBytes;
use core::ops::Range;

const WORD: usize = size_of::<u64>();

/// Copies what differs from `from` to `copy`, whose length is the same, and gives `each` the runs
/// of bytes that differed, by falling address. Runs do not touch.
pub fn refresh_down(from: SharedBytes<'_>, copy: &mut [u8], mut each: impl FnMut(Range<usize>)) {
    let len = from.len().min(copy.len());
    // Whole words between `first` and `last`, bytes around them.
    let first = from.as_ptr().align_offset(WORD).min(len);
    let last = first + (len - first) / WORD * WORD;
    let mut run = len..len;
    bytes_down(from, copy, last..len, &mut run, &mut each);
    let mut end = last;
    for then in copy[first..last].rchunks_exact_mut(WORD) {
        let begin = end - WORD;
        let place = from.as_ptr().wrapping_add(begin).cast_mut();
        // SAFETY: B1: the word is inside, and aligned as `first` is. Others may write it: it is
        // data, of which every value is good.
        // Acquire: before the loads of lower words; pairs with whatever orders the writer's stores.
        let now = unsafe { AtomicU64::from_ptr(place.cast()) }.load(Ordering::Acquire);
        if now != then.first_chunk().copied().map_or(0, u64::from_ne_bytes) {
            let now = now.to_ne_bytes();
            for i in (0..WORD).rev().filter(|i| now[*i] != then[*i]) {
                grow(&mut run, begin + i, &mut each);
            }
            then.copy_from_slice(&now);
        }
        end = begin;
    }
    bytes_down(from, copy, 0..first, &mut run, &mut each);
    if run.start != run.end {
        each(run);
    }
}

/// The same of single bytes.
fn bytes_down(from: SharedBytes<'_>, copy: &mut [u8], of: Range<usize>, run: &mut Range<usize>, each: &mut impl FnMut(Range<usize>)) {
    for at in of.rev() {
        let place = from.as_ptr().wrapping_add(at).cast_mut();
        // SAFETY: B1: the byte is inside.
        // Acquire: as for words.
        let now = unsafe { AtomicU8::from_ptr(place) }.load(Ordering::Acquire);
        if copy[at] != now {
            grow(run, at, each);
            copy[at] = now;
        }
    }
}

/// Adds a byte, below all others, to the run, or begins the next one.
fn grow(run: &mut Range<usize>, byte: usize, each: &mut impl FnMut(Range<usize>)) {
    if byte + 1 == run.start {
        run.start = byte;
        return;
    }
    if run.start != run.end {
        each(run.clone());
    }
    *run = byte..byte + 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs that differ, by rising address; the copy is the same afterwards.
    fn runs(now: &mut [u8], copy: &mut [u8]) -> Vec<Range<usize>> {
        let mut runs = Vec::new();
        // SAFETY: B1: the slice, which nobody uses meanwhile.
        refresh_down(unsafe { SharedBytes::new(now.as_mut_ptr(), now.len()) }, copy, |run| runs.push(run));
        assert_eq!(now, copy);
        runs.reverse();
        runs
    }

    #[test]
    fn runs_are_exactly_the_bytes_that_differ() {
        for begin in 0..9 {
            let mut memory = [7; 100];
            let now = &mut memory[begin..begin + 70];
            let mut copy = now.to_vec();
            assert_eq!(runs(now, &mut copy), []);
            for at in [0, 2, 3, 8, 15, 16, 17, 31, 69] {
                now[at] = 9;
            }
            assert_eq!(runs(now, &mut copy), [0..1, 2..4, 8..9, 15..18, 31..32, 69..70], "from {begin}");
            now.fill(1);
            let all = 0..70;
            assert_eq!(runs(now, &mut copy), std::slice::from_ref(&all), "from {begin}");
        }
        assert_eq!(runs(&mut [], &mut []), []);
    }

    /// `scripts/sisci-stores.sh` counts the instructions of these thousand looks at a page.
    #[test]
    #[ignore = "for a count of instructions"]
    fn cost() {
        let (mut now, mut copy) = (vec![0_u64; 512], vec![0; 4096]);
        for round in 1..=1000 {
            now[300] = round;
            // SAFETY: B1: the vector, which nobody uses meanwhile.
            let bytes = unsafe { SharedBytes::new(now.as_mut_ptr().cast(), copy.len()) };
            let mut found = 0;
            refresh_down(std::hint::black_box(bytes), &mut copy, |_| found += 1);
            assert_eq!(found, 1);
        }
    }

    #[test]
    fn a_store_is_never_found_without_an_earlier_one_below_it() {
        const WORDS: usize = 64;
        let memory: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let mut copy = [0; WORDS * WORD];
        let end = 2000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=end {
                    // Release: each store behind those before it; pairs with the loads above.
                    memory.iter().for_each(|word| word.store(round, Ordering::Release));
                }
            });
            let mut last = 0;
            while last < end {
                // SAFETY: B1: the words outlive the threads of this scope; they are atomics.
                let bytes = unsafe { SharedBytes::new(memory.as_ptr().cast_mut().cast(), copy.len()) };
                refresh_down(bytes, &mut copy, |_| {});
                let seen: Vec<u64> = copy.chunks_exact(WORD).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect();
                assert!(seen.windows(2).all(|w| w[0] >= w[1]), "{seen:?}");
                last = seen[WORDS - 1];
            }
        });
    }
}
