// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stamps at the steps of a message's way, added up: for [`crate::breakdown`]. Which steps there
//! are is said by who marks them; here they are numbers.
//!
//! Each step keeps the sum of its stamps. Over some round trips, each of which passes each step
//! once, the difference of two sums is the time between two steps, also when they are in different
//! processes, for all processors of a machine that is measured show the same time. A stamp is taken
//! when all instructions before it are done; else most steps, of ten or twenty instructions, would
//! be done beside the stamps and seem to take no time. It is added to a word and stored: some
//! thirty cycles, which [`crate::breakdown`] takes off.
//!
//! One thread of the process marks. Another one marking too would spoil the sums, nothing more.

use bellwire_am::probe::{Probe, Stage};
use bellwire_memory::atomic::{AtomicU64, Ordering};

use crate::clock::{settled_ticks, ticks};

/// Steps that can be told apart.
pub const STEPS: usize = 24;
/// What the measuring program itself marks, beside the layer's stages: before its call.
pub const CALLED: usize = Stage::COUNT;
/// Before a handler replies.
pub const REPLYING: usize = Stage::COUNT + 1;
/// The call has returned.
pub const RETURNED: usize = Stage::COUNT + 2;
const _: () = assert!(RETURNED < STEPS);

static SUMS: [AtomicU64; STEPS] = [const { AtomicU64::new(0) }; STEPS];

/// Who marks steps, or does not: of the layer's messages too.
pub trait Watch: Probe<Stage> {
    /// A step is over.
    fn step(number: usize);
}

/// Nobody: no instructions.
#[derive(Debug)]
pub enum Unwatched {}

impl Watch for Unwatched {
    #[inline(always)]
    fn step(_: usize) {}
}

/// Adds the time up.
#[derive(Debug)]
pub enum Watched {}

impl Watch for Watched {
    #[inline(always)]
    fn step(number: usize) {
        // Relaxed: one thread; a sum that wraps is right again when the difference of two is taken.
        SUMS[number].store(SUMS[number].load(Ordering::Relaxed).wrapping_add(settled_ticks()), Ordering::Relaxed);
    }
}

impl Probe<Stage> for Unwatched {
    #[inline(always)]
    fn mark(_: Stage) {}
}

impl Probe<Stage> for Watched {
    #[inline(always)]
    fn mark(stage: Stage) {
        Self::step(stage as usize);
    }
}

/// The sums so far.
pub fn sums() -> [u64; STEPS] {
    // Relaxed: the thread that marks.
    std::array::from_fn(|number| SUMS[number].load(Ordering::Relaxed))
}

/// Ticks that marking takes when nothing else is done: the least of many. To be asked in the
/// process that marks.
pub fn alone() -> f64 {
    const COUNT: u64 = 1000;
    let trial = || {
        let start = ticks();
        for _ in 0..COUNT {
            Watched::step(STEPS - 1);
        }
        ticks().wrapping_sub(start) as f64 / COUNT as f64
    };
    (0..200).map(|_| trial()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_adds_its_time() {
        let before = sums()[RETURNED];
        let start = ticks();
        Watched::step(RETURNED);
        Unwatched::step(RETURNED);
        let added = sums()[RETURNED].wrapping_sub(before);
        assert!((start..=ticks()).contains(&added));
        assert!(alone() > 0.0);
    }
}
