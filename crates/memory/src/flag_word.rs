// SPDX-License-Identifier: MIT OR Apache-2.0
//! A word of shared memory that counts triggers, and says which one is to interrupt: the first
//! after it was enabled. It is the flag of a conditional interrupt of SISCI.
//!
//! ```text
//!  0                  enabled: the next trigger interrupts
//!  1 .. 2^31 - 1      enabled then; so many triggers since, of which the first has interrupted
//!  2^31 + n           disabled; n triggers since
//! ```
//!
//! The word lies in a segment that others may write as they like, so it says nothing but this: a
//! lie costs the owner an interrupt, or brings one too many.

use crate::atomic::{AtomicU32, Ordering};
use crate::bytes::SharedBytes;
use crate::error::MemoryError;

/// The count that stays as it is.
const FULL: u32 = FlagWord::DISABLED - 1;

/// See the module.
#[derive(Debug)]
pub struct FlagWord<'a>(&'a AtomicU32);

impl<'a> FlagWord<'a> {
    /// The bytes of the word; it lies at a multiple of them.
    pub const BYTES: usize = size_of::<u32>();
    /// What a flag holds that was just disabled; the rest counts.
    pub const DISABLED: u32 = 1 << 31;

    /// The word at `offset`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`]; [`MemoryError::ReadOnly`]; [`MemoryError::BadLength`] for an
    /// address that is no multiple of [`BYTES`](Self::BYTES).
    pub fn at(bytes: SharedBytes<'a>, offset: usize) -> Result<Self, MemoryError> {
        let part = bytes.part(offset, Self::BYTES)?;
        if !part.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        let word = part.as_ptr().cast_mut().cast::<AtomicU32>();
        if !word.is_aligned() {
            return Err(MemoryError::BadLength { len: offset });
        }
        // SAFETY: B1: the word is inside and writable for 'a, aligned by the check above, and no
        // Rust reference but to atomics reaches it.
        Ok(Self(unsafe { &*word }))
    }

    /// What it holds, for [`enable`](Self::enable).
    pub fn value(&self) -> u32 {
        // Acquire: pairs with the release of trigger(), and the stores before it.
        self.0.load(Ordering::Acquire)
    }

    /// Counts a trigger. Whether it is the one that interrupts. A full count stays full.
    pub fn trigger(&self) -> bool {
        // Release: publishes the stores before the trigger; pairs with value() and enable().
        // Acquire: of the enabling. Relaxed on failure: a full word stays as it is.
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| (n & FULL != FULL).then(|| n + 1));
        before == Ok(0)
    }

    /// Has the next trigger interrupt, unless there was one since the owner last looked: the word
    /// then is not the `seen` one.
    ///
    /// # Errors
    /// What the word holds instead.
    pub fn enable(&self, seen: u32) -> Result<(), u32> {
        // Release: pairs with the acquire of trigger(). Acquire on failure: as value().
        self.0.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }

    /// Has no trigger interrupt, and counts from 0.
    pub fn disable(&self) {
        // Release: as enable().
        self.0.store(Self::DISABLED, Ordering::Release);
    }

    /// Triggers since it was enabled or disabled; `None`: more than can be counted.
    pub fn count(&self) -> Option<u32> {
        Some(self.value() & FULL).filter(|count| *count != FULL)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn with(check: impl FnOnce(FlagWord<'_>)) {
        let mut words = [0u64; 2];
        // SAFETY: the words, which nobody uses meanwhile.
        let bytes = unsafe { SharedBytes::new(words.as_mut_ptr().cast(), 16) };
        assert!(FlagWord::at(bytes, 13).is_err() && FlagWord::at(bytes, 6).is_err() && FlagWord::at(bytes, usize::MAX).is_err());
        check(FlagWord::at(bytes, 4).unwrap());
        assert_eq!((words[0] as u32, words[1]), (0, 0), "nothing beside it");
    }

    #[test]
    fn the_first_trigger_interrupts_and_no_other() {
        with(|flag| {
            flag.disable();
            assert!(!flag.trigger());
            assert_eq!(flag.count(), Some(1));
            assert_eq!(flag.enable(flag.value()), Ok(()));
            assert_eq!([flag.trigger(), flag.trigger(), flag.trigger()], [true, false, false]);
            assert_eq!(flag.count(), Some(3));
        });
    }

    #[test]
    fn a_trigger_that_was_not_seen_is_told_of() {
        with(|flag| {
            let seen = flag.value();
            flag.trigger();
            let now = flag.enable(seen).unwrap_err();
            assert_eq!(flag.enable(now), Ok(()));
            assert!(flag.trigger());
        });
    }

    #[test]
    fn a_full_count_stays_full() {
        for (begin, disabled) in [(FULL - 1, false), (u32::MAX - 1, true)] {
            with(|flag| {
                flag.0.store(begin, Ordering::Relaxed);
                assert_eq!(flag.count(), Some(FULL - 1));
                assert!(!flag.trigger() && !flag.trigger());
                assert_eq!(flag.count(), None);
                assert_eq!(flag.value() & FlagWord::DISABLED != 0, disabled);
            });
        }
    }

    #[test]
    fn one_of_many_threads_interrupts() {
        with(|flag| {
            let interrupts: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..1000).filter(|_| flag.trigger()).count())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!((interrupts, flag.count()), (1, Some(4000)));
        });
    }
}
