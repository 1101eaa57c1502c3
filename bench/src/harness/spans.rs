// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of a loop goes: a stamp at each mark, and the time since the mark before is added
//! to what the mark says was done. So each tick of the loop is in one span, and nothing is assumed.
//!
//! [`Watched`] takes a stamp at a mark. [`Doubled`] takes a second one at once: the time between
//! the two is what a mark costs where it stands. The stamps are of the processor's counter, without
//! a fence: a fence would keep the processor from working on the next step meanwhile, which it does
//! in the loop without marks.
//!
//! One thread of the process marks. Another one marking too would spoil the sums, nothing more.

use bellwire_amvia::probe::{Probe, Stage};
use bellwire_memory::atomic::{AtomicU64, Ordering};

use crate::clock::ticks;
use crate::error::Error;
pub use crate::marks::Unwatched;

/// A span that ends at a mark of the measuring program, beside the layer's own stages.
pub const PROGRAM: usize = Stage::COUNT;
/// The call of a request has returned.
pub const REQUESTED: usize = Stage::COUNT + 1;
/// The handler begins.
pub const HANDLING: usize = Stage::COUNT + 2;
/// The handler has done its work, but not replied.
pub const ACTED: usize = Stage::COUNT + 3;
/// Its reply has left.
pub const REPLIED: usize = Stage::COUNT + 4;
/// The call of a poll has returned.
pub const POLLED: usize = Stage::COUNT + 5;
/// Spans that can be told apart.
pub const SPANS: usize = Stage::COUNT + 6;
/// The cost of marks.
const MARK: usize = SPANS;

static SUMS: [AtomicU64; SPANS + 1] = [const { AtomicU64::new(0) }; SPANS + 1];
static COUNTS: [AtomicU64; SPANS + 1] = [const { AtomicU64::new(0) }; SPANS + 1];
static LAST: AtomicU64 = AtomicU64::new(0);

/// A watcher that marks, or does not: of the layer's calls too.
pub trait Watch: Probe + 'static {
    /// The work since the mark before is over.
    fn step(span: usize);
    /// The time: of the last mark, if there are marks.
    fn now() -> u64;
}

/// A stamp at each mark.
#[derive(Debug)]
pub enum Watched {}

/// Two stamps at each mark.
#[derive(Debug)]
pub enum Doubled {}

#[inline(always)]
fn stamp(span: usize) {
    // Relaxed, all of them: one thread. A sum that wraps is right again when a difference is taken.
    let (now, before) = (ticks(), LAST.load(Ordering::Relaxed));
    // Relaxed: as above.
    SUMS[span].store(SUMS[span].load(Ordering::Relaxed).wrapping_add(now.wrapping_sub(before)), Ordering::Relaxed);
    // Relaxed: as above.
    COUNTS[span].store(COUNTS[span].load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    // Relaxed: as above.
    LAST.store(now, Ordering::Relaxed);
}

#[inline]
fn last() -> u64 {
    // Relaxed: as in stamp().
    LAST.load(Ordering::Relaxed)
}

impl Watch for Unwatched {
    #[inline(always)]
    fn step(_: usize) {}

    #[inline]
    fn now() -> u64 {
        ticks()
    }
}

impl Watch for Watched {
    #[inline(always)]
    fn step(span: usize) {
        stamp(span);
    }

    #[inline]
    fn now() -> u64 {
        last()
    }
}

impl Watch for Doubled {
    #[inline(always)]
    fn step(span: usize) {
        stamp(span);
        stamp(MARK);
    }

    #[inline]
    fn now() -> u64 {
        last()
    }
}

impl Probe for Unwatched {
    #[inline(always)]
    fn mark(_: Stage) {}
}

impl Probe for Watched {
    #[inline(always)]
    fn mark(stage: Stage) {
        stamp(stage as usize);
    }
}

impl Probe for Doubled {
    #[inline(always)]
    fn mark(stage: Stage) {
        <Self as Watch>::step(stage as usize);
    }
}

/// The sums and counts so far, of each span and, last, of the marks themselves.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    sums: [u64; SPANS + 1],
    counts: [u64; SPANS + 1],
}

impl Snapshot {
    /// To be taken by the thread that marks.
    pub fn take() -> Self {
        // Relaxed: the thread that marks.
        let of = |all: &[AtomicU64; SPANS + 1]| std::array::from_fn(|span| all[span].load(Ordering::Relaxed));
        Self { sums: of(&SUMS), counts: of(&COUNTS) }
    }

    /// Since then, for each of `trips` round trips: `[ticks of each span .., of the marks, marks of
    /// each span .., of the marks]`.
    pub fn since(&self, trips: u64) -> Vec<f64> {
        let now = Self::take();
        let each = |now: &[u64], before: &[u64]| now.iter().zip(before).map(|(n, b)| n.wrapping_sub(*b) as f64 / trips.max(1) as f64).collect::<Vec<f64>>();
        [each(&now.sums, &self.sums), each(&now.counts, &self.counts)].concat()
    }
}

/// Batches of which one is quoted.
const BATCHES: u64 = 20;

/// Makes about `count` round trips in batches, after one to warm up. Of the batch whose time is in
/// the middle, for each round trip:
/// `[ticks, ticks of each span .., of the marks, marks of each span .., of the
/// marks]`. Other programs that had the processor meanwhile are in other batches.
///
/// # Errors
/// That of a round trip.
pub fn median_batch<W: Watch>(count: u64, mut trip: impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    let each = count.div_ceil(BATCHES).max(1);
    let mut batches = Vec::new();
    for batch in 0..=BATCHES {
        W::step(PROGRAM);
        let (before, start) = (Snapshot::take(), W::now());
        for _ in 0..each {
            trip()?;
        }
        W::step(PROGRAM);
        let whole = W::now().wrapping_sub(start) as f64 / each as f64;
        if batch > 0 {
            batches.push([vec![whole], before.since(each)].concat());
        }
    }
    batches.sort_by(|a, b| a[0].total_cmp(&b[0]));
    Ok(batches.swap_remove(batches.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_time_is_in_one_span() {
        Watched::step(PROGRAM);
        let before = Snapshot::take();
        let start = LAST.load(Ordering::Relaxed);
        Watched::step(HANDLING);
        Unwatched::step(ACTED);
        Doubled::step(ACTED);
        let found = before.since(1);
        let whole = LAST.load(Ordering::Relaxed).wrapping_sub(start) as f64;
        assert_eq!(found[..=SPANS].iter().sum::<f64>(), whole);
        let counts = &found[SPANS + 1..];
        assert_eq!((counts[HANDLING], counts[ACTED], counts[MARK], counts[PROGRAM]), (1.0, 1.0, 1.0, 0.0));
        let batch = median_batch::<Watched>(100, || {
            Watched::step(HANDLING);
            Ok(())
        });
        let batch = batch.unwrap();
        // Each is a mean of the same five round trips.
        assert!((batch[0] - batch[1..=SPANS].iter().sum::<f64>()).abs() < 1e-6 * batch[0].max(1.0));
        assert_eq!(batch[SPANS + 2 + HANDLING], 1.0);
    }
}
