// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of a loop goes, by samples. A mark says what was done since the mark before it,
//! so all of the loop is under marks.
//!
//! A mark is a look at one word, and a branch that is seldom taken. Another thread sets the word
//! every now and then, and the next mark counts it: as many samples as a span has of all, so much
//! of the time it takes. A stamp at each mark would say the same at once, but costs more than most
//! spans here take, and what it costs depends on the work around it, in whose shadow a part of it
//! is done: so it cannot be taken off. Whether the loop with marks takes as long as without is
//! measured by turns.
//!
//! One thread of the process marks. Another one marking too would spoil the sums, nothing more.

use bellwire_amvia::probe::{Probe, Stage};
use bellwire_memory::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::ticks;
use crate::endpoint::PATIENCE;
use crate::error::Error;
pub use crate::marks::Unwatched;
use crate::pin;

/// A span that ends at a mark of the measuring program, beside the layer's own stages.
pub const PROGRAM: usize = Stage::COUNT;
/// The call of a request has returned.
pub const REQUESTED: usize = Stage::COUNT + 1;
/// The handler begins.
pub const HANDLING: usize = Stage::COUNT + 2;
/// Its reply has left.
pub const REPLIED: usize = Stage::COUNT + 3;
/// The call of a poll has returned.
pub const POLLED: usize = Stage::COUNT + 4;
/// Spans that can be told apart.
pub const SPANS: usize = Stage::COUNT + 5;

/// Whether the next mark is to be counted. Alone on its lines: a sample costs no other miss.
#[repr(align(128))]
struct Due(AtomicBool);

static IS_DUE: Due = Due(AtomicBool::new(false));
static COUNTS: [AtomicU64; SPANS] = [const { AtomicU64::new(0) }; SPANS];

/// A watcher that marks, or does not: of the layer's calls too.
pub trait Watch: Probe<Stage> + 'static {
    /// Which of the watchers it is.
    const NUMBER: u8;
    /// The work since the mark before is over.
    fn step(span: usize);
}

/// Counts a mark if a sample is due.
#[derive(Debug)]
pub enum Sampled {}

/// Counts all marks.
#[derive(Debug)]
pub enum Counted {}

fn count(span: usize) {
    // Relaxed: one thread marks. A sum that wraps is right again when a difference is taken.
    COUNTS[span].store(COUNTS[span].load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn sample(span: usize) {
    count(span);
    // Relaxed: nothing is read through it.
    IS_DUE.0.store(false, Ordering::Relaxed);
}

fn counts() -> [u64; SPANS] {
    // Relaxed: as in count().
    std::array::from_fn(|span| COUNTS[span].load(Ordering::Relaxed))
}

impl Watch for Unwatched {
    const NUMBER: u8 = 0;

    #[inline(always)]
    fn step(_: usize) {}
}

impl Watch for Sampled {
    const NUMBER: u8 = 1;

    #[inline(always)]
    fn step(span: usize) {
        // Relaxed: as in sample().
        if IS_DUE.0.load(Ordering::Relaxed) {
            sample(span);
        }
    }
}

impl Watch for Counted {
    const NUMBER: u8 = 2;

    #[inline(always)]
    fn step(span: usize) {
        count(span);
    }
}

impl Probe<Stage> for Unwatched {
    #[inline(always)]
    fn mark(_: Stage) {}
}

impl Probe<Stage> for Sampled {
    #[inline(always)]
    fn mark(stage: Stage) {
        Self::step(stage as usize);
    }
}

impl Probe<Stage> for Counted {
    #[inline(always)]
    fn mark(stage: Stage) {
        Self::step(stage as usize);
    }
}

/// A round trip that can be watched.
pub trait Trip {
    /// Makes it.
    ///
    /// # Errors
    /// It fails.
    fn make<W: Watch>(&mut self) -> Result<(), Error>;
}

/// Round trips of a batch, and turns at least.
const BATCH: u64 = 200;
const TURNS_MIN: usize = 8;
/// Shortest time between two samples, and what comes to it at most.
const PAUSE_US: u64 = 20;

/// Names of the figures of [`taken_apart`], in order, each behind `of`.
pub fn names(of: &str) -> Vec<String> {
    let each = |what: &'static str| (0..SPANS).map(move |number| span(of, number, what));
    ["no marks", "marks"].map(|marks| whole(of, marks)).into_iter().chain(each("samples")).chain(each("marks")).collect()
}

/// The name of the whole of a round trip that is taken apart.
pub fn whole(of: &str, marks: &str) -> String {
    format!("{of} whole, {marks}")
}

/// The name of a span's samples, or of its marks.
pub fn span(of: &str, span: usize, what: &str) -> String {
    format!("{of} span {span} {what}")
}

/// Makes round trips in batches, without marks and with them by turns, until there are so many
/// samples: `[ticks of a round trip without marks, with marks, samples of each span .., marks of
/// each span in a round trip
/// ..]`. The ticks are means over the turns whose time is in the middle: other programs that had
/// the processor meanwhile are in other turns, and make one sample more at most.
///
/// # Errors
/// That of a round trip; the samples do not come.
pub fn taken_apart(samples: u64, trip: &mut impl Trip) -> Result<Vec<f64>, Error> {
    batch::<Unwatched>(BATCH, trip)?;
    let counted = batch::<Counted>(BATCH, trip)?.1.map(|marks| marks as f64 / BATCH as f64);
    let (is_over, end) = (AtomicBool::new(false), Instant::now() + PATIENCE);
    let (turns, sampled) = std::thread::scope(|scope| {
        scope.spawn(|| set_samples(&is_over));
        let mut all = || {
            let (mut turns, mut sampled) = (Vec::new(), [0; SPANS]);
            while turns.len() < TURNS_MIN || sampled.iter().sum::<u64>() < samples {
                let plain = batch::<Unwatched>(BATCH, trip)?.0;
                // A sample that became due in the batch without marks does not count. Relaxed: as in sample().
                IS_DUE.0.store(false, Ordering::Relaxed);
                let (marked, found) = batch::<Sampled>(BATCH, trip)?;
                sampled.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
                turns.push([plain, marked]);
                if Instant::now() > end {
                    return Err(Error::failed("too few samples"));
                }
            }
            Ok::<_, Error>((turns, sampled))
        };
        let found = all();
        // Relaxed: the thread only has to see it some time.
        is_over.store(true, Ordering::Relaxed);
        found
    })?;
    Ok(middle(turns).into_iter().chain(sampled.map(|n| n as f64)).chain(counted).collect())
}

/// Sets the word now and then, beside the thread that marks if there is a processor for it.
fn set_samples(is_over: &AtomicBool) {
    let _ = pin::spread_current();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut state = ticks();
    // Relaxed: see above.
    while !is_over.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(PAUSE_US + (state >> 33) % PAUSE_US));
        // Relaxed: as in sample().
        IS_DUE.0.store(true, Ordering::Relaxed);
    }
}

/// Ticks of a round trip, and what was counted.
fn batch<W: Watch>(each: u64, trip: &mut impl Trip) -> Result<(f64, [u64; SPANS]), Error> {
    W::step(PROGRAM);
    let (before, start) = (counts(), ticks());
    for _ in 0..each {
        trip.make::<W>()?;
    }
    let time = ticks().wrapping_sub(start) as f64 / each as f64;
    let after = counts();
    Ok((time, std::array::from_fn(|span| after[span].wrapping_sub(before[span]))))
}

/// The mean of the half of the turns whose times are in the middle.
fn middle(mut turns: Vec<[f64; 2]>) -> [f64; 2] {
    turns.sort_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])));
    let quarter = turns.len() / 4;
    let chosen = &turns[quarter..turns.len() - quarter];
    [0, 1].map(|at| chosen.iter().map(|turn| turn[at]).sum::<f64>() / chosen.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A span that takes three times as long as another one.
    struct Marks(u64);

    fn work(loops: u64) {
        (0..loops).for_each(|_| std::hint::spin_loop());
    }

    impl Trip for Marks {
        fn make<W: Watch>(&mut self) -> Result<(), Error> {
            self.0 += 1;
            work(30);
            W::mark(Stage::Acted);
            work(10);
            W::step(HANDLING);
            W::step(HANDLING);
            Ok(())
        }
    }

    #[test]
    fn samples_are_where_the_time_is() {
        let mut trip = Marks(0);
        let found = taken_apart(400, &mut trip).unwrap();
        assert_eq!((found.len(), trip.0 % BATCH), (names("x").len(), 0));
        let of = |name: String| found[names("x").iter().position(|other| *other == name).unwrap()];
        let marks = [HANDLING, Stage::Acted as usize, POLLED].map(|number| of(span("x", number, "marks")));
        assert_eq!(marks, [2.0, 1.0, 0.0]);
        let samples = [HANDLING, Stage::Acted as usize].map(|number| of(span("x", number, "samples")));
        assert!(samples[0] + samples[1] >= 390.0 && samples[1] > 1.5 * samples[0] && samples[0] > 0.0, "{samples:?}");
        assert!(of(whole("x", "marks")) > 0.0 && of(whole("x", "no marks")) > 0.0);
    }

    #[test]
    fn turns_that_others_disturbed_are_left_out() {
        assert_eq!(middle(vec![[900.0, 9.0], [10.0, 1.0], [20.0, 2.0], [1.0, 7.0]]), [15.0, 1.5]);
    }
}
