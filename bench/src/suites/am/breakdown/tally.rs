// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of stamps by batches of round trips, of both processes, made into the times of legs.
//!
//! The fastest half of the batches counts: in the others the processor was taken away, or the
//! machine was busy. The same half for all legs, so that legs still add up to the round trip.

use super::path::Leg;
use crate::clock::ticks;
use crate::error::Error;
use crate::limits::DATA_OFFSET;
use crate::marks::{STEPS, sums};
use crate::shared::SharedMap;

/// Round trips of a batch: some hundred microseconds.
pub const BATCH: u64 = 1000;
/// Most batches.
pub const BATCHES_MAX: usize = 256;

/// What one process has summed up.
#[derive(Debug, Default)]
pub struct Tally {
    at: u64,
    sums: [u64; STEPS],
    /// Ticks of each batch, and by how much the sum of each step has grown.
    batches: Vec<(u64, [u64; STEPS])>,
}

impl Tally {
    /// The first batch begins.
    pub fn begin(&mut self) {
        (self.at, self.sums) = (ticks(), sums());
    }

    /// A batch is over, and the next begins.
    pub fn batch(&mut self) {
        let (at, sums) = (ticks(), sums());
        self.batches.push((at.wrapping_sub(self.at), std::array::from_fn(|step| sums[step].wrapping_sub(self.sums[step]))));
        (self.at, self.sums) = (at, sums);
    }

    /// `[ticks of a round trip, ticks of each leg ..]` for the first process; the second tells it
    /// its sums, then both `meet`.
    ///
    /// # Errors
    /// Those of `meet`.
    pub fn share(&self, map: &SharedMap, first: bool, meet: impl FnOnce() -> Result<(), Error>, legs: &[Leg]) -> Result<Vec<f64>, Error> {
        let word = |batch: usize, step: usize| map.word(DATA_OFFSET + 8 * (batch * STEPS + step));
        if !first {
            for (batch, (_, sums)) in self.batches.iter().enumerate() {
                sums.iter().enumerate().for_each(|(step, sum)| word(batch, step).put(*sum));
            }
            meet()?;
            return Ok(Vec::new());
        }
        meet()?;
        let other: Vec<[u64; STEPS]> = (0..self.batches.len()).map(|batch| std::array::from_fn(|step| word(batch, step).get())).collect();
        Ok(self.times(&other, legs))
    }

    /// By how much the sums of each batch have grown.
    pub fn sums(&self) -> impl Iterator<Item = &[u64; STEPS]> {
        self.batches.iter().map(|(_, sums)| sums)
    }

    /// As [`share`](Self::share), of the other process's sums.
    pub fn times(&self, other: &[[u64; STEPS]], legs: &[Leg]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..self.batches.len()).collect();
        order.sort_unstable_by_key(|batch| self.batches[*batch].0);
        order.truncate(order.len().div_ceil(2));
        let mean = |of: &dyn Fn(usize) -> f64| order.iter().map(|batch| of(*batch)).sum::<f64>() / (order.len() as u64 * BATCH) as f64;
        let sum = |batch: usize, (of_first, step): (bool, usize)| if of_first { self.batches[batch].1[step] } else { other[batch][step] };
        let leg = |leg: &Leg| {
            let ticks = |batch| sum(batch, leg.to).wrapping_sub(sum(batch, leg.from)).cast_signed() as f64;
            mean(&ticks)
        };
        std::iter::once(mean(&|batch| self.batches[batch].0 as f64)).chain(legs.iter().map(leg)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::{Kind, RAW};
    use super::*;

    #[test]
    fn the_fast_batches_count_and_legs_may_cross() {
        let mut mine = [0; STEPS];
        let mut theirs = [0; STEPS];
        let leg = RAW.iter().find(|leg| leg.kind == Kind::Transfer).unwrap();
        assert!(leg.from.0 != leg.to.0);
        mine[leg.from.1] = u64::MAX - 10;
        theirs[leg.to.1] = 50 * BATCH - 11;
        let slow = [0; STEPS];
        let tally = Tally { batches: vec![(500 * BATCH, slow), (100 * BATCH, mine)], ..Tally::default() };
        assert_eq!(tally.times(&[slow, theirs], &[*leg]), [100.0, 50.0]);
    }
}
