// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counter in memory of several processes, on which its owner sleeps: what a remote interrupt is
//! within a host. Adding wakes the sleeper by one system call, as an eventfd does; the sleeper
//! needs one too, with or without a timeout.
//!
//! Each adder may write the word as it likes, so it says nothing but "something happened": a lie
//! costs its owner a spurious wake-up, or interrupts that are not told apart.
//!
//! Orderings: adding is release, taking is acquire, so what an adder wrote before is seen after.
//! The kernel compares the word and falls asleep at once, and every adder wakes, so no wake-up is
//! lost, and there is no second word that an order would be needed for.

use crate::atomic::{AtomicU32, Ordering};
use crate::error::MemoryError;
use crate::region::{Access, Region, RegionKind, RemoteRegion};
use rustix::event::Timespec;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::futex;
use std::time::{Duration, Instant};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// One was taken, or all that there were if they are not counted.
    One,
    /// The time is over.
    Timeout,
    /// The counter was closed.
    Closed,
}

/// Its owner's side.
#[derive(Debug)]
pub struct Counter {
    region: Region,
    counts: bool,
    closed: AtomicU32,
}

impl Counter {
    /// A new counter at 0. If it does not count, several additions before a wait are one.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create(counts: bool) -> Result<Self, MemoryError> {
        Ok(Self { region: Region::create("bellwire-counter", 4096, RegionKind::Shared)?, counts, closed: AtomicU32::new(0) })
    }

    /// The memory, for an adder.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: R2: valid while `self` is borrowed, aligned to a page, and only accessed as an
        // atomic.
        unsafe { &*self.region.base().cast::<AtomicU32>() }
    }

    /// Takes one if there is one.
    pub fn take(&self) -> bool {
        let word = self.word();
        // Relaxed: the exchange orders.
        let mut now = word.load(Ordering::Relaxed);
        while now != 0 {
            let rest = if self.counts { now - 1 } else { 0 };
            // Acquire: pairs with the release of add().
            match word.compare_exchange_weak(now, rest, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => now = seen,
            }
        }
        false
    }

    /// Waits until one can be taken. `None` waits forever.
    pub fn wait(&self, timeout: Option<Duration>) -> Taken {
        let deadline = timeout.map(|t| Instant::now() + t);
        loop {
            // Acquire: pairs with the release of close().
            if self.closed.load(Ordering::Acquire) != 0 {
                return Taken::Closed;
            }
            if self.take() {
                return Taken::One;
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                return Taken::Timeout;
            }
            let left = left.map(|l| Timespec { tv_sec: l.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: l.subsec_nanos().into() });
            // Whatever it returns, the word says what is so.
            let _ = futex::wait(self.word(), futex::Flags::empty(), 0, left.as_ref());
        }
    }

    /// Adds one, by the owner itself, and wakes a sleeper of it.
    pub fn add(&self) {
        add(self.word());
        let _ = futex::wake(self.word(), futex::Flags::empty(), 1);
    }

    /// Sends the sleepers of this process away, for ever.
    pub fn close(&self) {
        // Release: pairs with the acquire of wait().
        self.closed.store(1, Ordering::Release);
        add(self.word());
        let _ = futex::wake(self.word(), futex::Flags::empty(), u32::MAX >> 1);
    }
}

/// An adder's side.
#[derive(Debug)]
pub struct CounterAdder {
    region: RemoteRegion,
}

impl CounterAdder {
    /// What an owner has sent.
    ///
    /// # Errors
    /// As [`RemoteRegion::map`].
    pub fn map(memfd: OwnedFd) -> Result<Self, MemoryError> {
        let region = RemoteRegion::map(memfd, 4, 1 << 16, Access::ReadWrite)?;
        Ok(Self { region })
    }

    /// Adds one and wakes the owner.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: the kernel refuses to wake.
    pub fn add(&self) -> Result<(), MemoryError> {
        let base = self.region.base_mut().ok_or(MemoryError::ReadOnly)?;
        // SAFETY: R2: valid while `self` is borrowed, aligned to a page, of at least four bytes,
        // and only accessed as an atomic.
        let word = unsafe { &*base.cast::<AtomicU32>() };
        add(word);
        match futex::wake(word, futex::Flags::empty(), 1) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(MemoryError::os("futex", errno)),
        }
    }
}

/// Adds one; a full counter stays full.
fn add(word: &AtomicU32) {
    // Release: pairs with the acquire of take(). Relaxed on failure: a full word stays full.
    let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, |n| n.checked_add(1));
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn pair(counts: bool) -> (Counter, CounterAdder) {
        let counter = Counter::create(counts).unwrap();
        let adder = CounterAdder::map(counter.fd().try_clone_to_owned().unwrap()).unwrap();
        (counter, adder)
    }

    #[test]
    fn counted_and_not() {
        for (counts, taken) in [(true, 3), (false, 1)] {
            let (counter, adder) = pair(counts);
            (0..3).for_each(|_| adder.add().unwrap());
            for _ in 0..taken {
                assert_eq!(counter.wait(None), Taken::One);
            }
            assert_eq!(counter.wait(Some(Duration::from_millis(1))), Taken::Timeout);
        }
    }

    #[test]
    fn a_sleeper_is_woken_and_sent_away() {
        let (counter, adder) = pair(true);
        std::thread::scope(|s| {
            let sleeper = s.spawn(|| (0..1000).all(|_| counter.wait(None) == Taken::One) && counter.wait(None) == Taken::Closed);
            for _ in 0..1000 {
                adder.add().unwrap();
            }
            while counter.word().load(Ordering::Relaxed) != 0 {
                std::thread::yield_now();
            }
            counter.close();
            assert!(sleeper.join().unwrap());
        });
    }
}
