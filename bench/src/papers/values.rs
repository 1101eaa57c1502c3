// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures by name and round; the median of an expression of them.
//!
//! The uncertainty of a median is that of order statistics, which asks nothing of how the figures
//! are distributed: of `n` rounds the interval from the `k`-th least to the `k`-th greatest holds
//! the true median with a chance of 1 less twice the chance that a fair coin shows fewer than `k`
//! heads in `n` throws. `k` is the greatest with at least 93 %.

use std::collections::BTreeMap;

use serde::Serialize;

/// The least chance that the interval holds the median.
const CONFIDENCE: f64 = 0.93;
/// Fewer rounds say nothing of the uncertainty.
pub const ROUNDS_MIN: usize = 3;

/// Figures by name, then by round.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, BTreeMap<usize, f64>>);

/// The figures of one round.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    values: &'a Values,
    round: usize,
}

impl Round<'_> {
    /// The figure of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.values.0.get(name)?.get(&self.round).copied()
    }
}

/// The median of some rounds, and between which bounds it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The bounds.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// How many rounds there are.
    pub rounds: usize,
}

impl Estimate {
    /// Of figures, one for each round.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.retain(|figure| figure.is_finite());
        figures.sort_by(f64::total_cmp);
        let rounds = figures.len();
        let median = crate::stats::median(&figures)?;
        let k = bound(rounds);
        Some(Self { median, low: figures[k - 1], high: figures[rounds - k], rounds })
    }
}

/// `k` for so many rounds, at least 1.
fn bound(rounds: usize) -> usize {
    let (mut k, mut chance, mut below) = (1, 0.5_f64.powi(rounds as i32), 0.0);
    // `below`: that fewer than `k` of the rounds are below the true median.
    for heads in 0..rounds / 2 {
        below += chance;
        chance *= (rounds - heads) as f64 / (heads + 1) as f64;
        if 1.0 - 2.0 * below >= CONFIDENCE {
            k = heads + 1;
        }
    }
    k
}

impl Values {
    /// A figure of a round.
    pub fn note(&mut self, name: &str, round: usize, value: f64) {
        self.0.entry(name.to_owned()).or_default().insert(round, value);
    }

    /// Multiplies a figure of all rounds.
    pub fn scale(&mut self, name: &str, factor: f64) {
        self.0.get_mut(name).into_iter().flat_map(BTreeMap::values_mut).for_each(|value| *value *= factor);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What an expression is over the rounds that have all that it needs.
    pub fn of(&self, expression: impl Fn(&Round<'_>) -> Option<f64>) -> Option<Estimate> {
        let last = self.0.values().filter_map(|rounds| rounds.keys().next_back()).max().copied().unwrap_or(0);
        Estimate::of((1..=last).filter_map(|round| expression(&Round { values: self, round })).collect())
    }

    /// The median of a figure.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.of(|round| round.get(name)).map(|estimate| estimate.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_binomial_distribution() {
        // The tables of the sign test have these at 95 %: 6 rounds and more leave something out.
        assert_eq!([1, 2, 3, 5, 7, 9, 12, 15, 25].map(bound), [1, 1, 1, 1, 1, 2, 3, 4, 8]);
        let estimate = Estimate::of(vec![9.0, 1.0, 5.0, f64::NAN, 3.0, 7.0]).unwrap();
        assert_eq!((estimate.median, estimate.low, estimate.high, estimate.rounds), (5.0, 1.0, 9.0, 5));
        assert_eq!(Estimate::of(vec![f64::NAN]), None);
    }

    #[test]
    fn expressions_are_of_one_round() {
        let mut values = Values::default();
        for (round, base) in [(1, 10.0), (2, 100.0), (3, 1000.0)] {
            values.note("a", round, base);
            values.note("b", round, base + 1.0);
        }
        values.note("b", 4, 5.0);
        let less = values.of(|round| Some(round.get("b")? - round.get("a")?)).unwrap();
        assert_eq!((less.median, less.low, less.high, less.rounds), (1.0, 1.0, 1.0, 3), "though both go up by a hundred");
        assert_eq!(values.of(|round| round.get("c")), None);
        assert_eq!(values.median("b"), Some(56.0));
    }
}
