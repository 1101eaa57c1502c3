// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two sides of a goal, and how like is compared with like.
//!
//! A sample taken while the machine was far says nothing beside one that was taken while it was
//! near. So a goal compares samples of one mode: near ones if both sides have some, else far ones
//! if both have some. Otherwise the sides are not comparable. Of these samples, those of rounds
//! that both sides have in this mode count, for they were taken next to each other; where fewer
//! than half of the lesser side's samples are of such rounds, all of the mode count.

use crate::canary::Mode;
use crate::samples::Sample;
use crate::stats::median;

/// A figure of somebody, for a ratio.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    name: String,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    /// Round, value and mode of each sample; at least one.
    Samples(Vec<(usize, f64, Mode)>),
    /// A limit, or a figure without samples, which goes with either mode.
    One(f64),
}

/// Two sides in the same mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compared {
    /// Median of ours.
    pub ours: f64,
    /// Median of the other.
    pub other: f64,
    /// The mode of both; nothing if neither has samples.
    pub mode: Option<Mode>,
}

impl Side {
    /// The side of some samples; nothing without a sample.
    pub fn measured(name: &str, samples: &[Sample], best_ns: f64) -> Option<Self> {
        let of = |sample: &Sample| (sample.round, sample.value, sample.canary.mode(best_ns));
        let samples: Vec<_> = samples.iter().filter(|sample| sample.value.is_finite()).map(of).collect();
        (!samples.is_empty()).then(|| Side { name: name.to_owned(), values: Values::Samples(samples) })
    }

    /// A limit, or a figure that knows no modes.
    pub fn one(value: f64, name: impl Into<String>) -> Self {
        Side { name: name.into(), values: Values::One(value) }
    }

    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same under another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Side { name: name.into(), ..self }
    }

    /// Each value made into another one.
    pub fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        match &mut self.values {
            Values::Samples(samples) => samples.iter_mut().for_each(|(_, value, _)| *value = change(*value)),
            Values::One(value) => *value = change(*value),
        }
        self
    }

    /// The figure as tables quote it: of the near samples, of all if there are none.
    pub fn quoted(&self) -> f64 {
        let near = self.of(Mode::Near);
        match &self.values {
            Values::One(value) => *value,
            Values::Samples(_) if !near.is_empty() => middle(&near),
            Values::Samples(all) => middle(all),
        }
    }

    /// Whether there is no near sample.
    pub fn is_far(&self) -> bool {
        matches!(self.values, Values::Samples(_)) && self.of(Mode::Near).is_empty()
    }

    /// The samples of one mode.
    fn of(&self, mode: Mode) -> Vec<(usize, f64, Mode)> {
        match &self.values {
            Values::Samples(samples) => samples.iter().filter(|sample| sample.2 == mode).copied().collect(),
            Values::One(_) => Vec::new(),
        }
    }

    /// Both in the same mode; nothing if they have none in common.
    pub fn compare(&self, other: &Side) -> Option<Compared> {
        let in_mode = |mode: Mode| {
            let (ours, others) = (self.of(mode), other.of(mode));
            match (&self.values, &other.values) {
                (Values::One(ours), Values::One(other)) => Some(Compared { ours: *ours, other: *other, mode: None }),
                (Values::One(ours), _) if !others.is_empty() => Some(Compared { ours: *ours, other: middle(&others), mode: Some(mode) }),
                (_, Values::One(other)) if !ours.is_empty() => Some(Compared { ours: middle(&ours), other: *other, mode: Some(mode) }),
                _ if ours.is_empty() || others.is_empty() => None,
                _ => {
                    let (ours, other) = together(ours, others);
                    Some(Compared { ours: middle(&ours), other: middle(&other), mode: Some(mode) })
                }
            }
        };
        in_mode(Mode::Near).or_else(|| in_mode(Mode::Far))
    }
}

type Points = Vec<(usize, f64, Mode)>;

/// Those of rounds that both have, unless these are too few.
fn together(ours: Points, others: Points) -> (Points, Points) {
    let shared = |one: &Points, two: &Points| -> Points { one.iter().filter(|a| two.iter().any(|b| a.0 == b.0)).copied().collect() };
    let (ours_shared, others_shared) = (shared(&ours, &others), shared(&others, &ours));
    let is_enough = 2 * ours_shared.len().min(others_shared.len()) >= ours.len().min(others.len());
    if is_enough { (ours_shared, others_shared) } else { (ours, others) }
}

fn middle(points: &[(usize, f64, Mode)]) -> f64 {
    median(&points.iter().map(|point| point.1).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Canary;

    const BEST_NS: f64 = 50.0;

    /// A side of samples: round, value, whether the machine was near.
    fn side(samples: &[(usize, f64, bool)]) -> Side {
        let sample = |&(round, value, near): &(usize, f64, bool)| {
            let canary_ns = if near { 55.0 } else { 170.0 };
            Sample { round, value, canary: Canary { before_ns: canary_ns, after_ns: canary_ns } }
        };
        Side::measured("x", &samples.iter().map(sample).collect::<Vec<_>>(), BEST_NS).unwrap()
    }

    fn figures(ours: &Side, other: &Side) -> Option<(f64, f64, Option<Mode>)> {
        ours.compare(other).map(|compared| (compared.ours, compared.other, compared.mode))
    }

    #[test]
    fn near_is_compared_with_near() {
        let (ours, other) = (side(&[(1, 100.0, true), (2, 900.0, false)]), side(&[(1, 80.0, true), (2, 300.0, false)]));
        assert_eq!(figures(&ours, &other), Some((100.0, 80.0, Some(Mode::Near))));
    }

    #[test]
    fn far_is_compared_with_far_alone() {
        // The other side has near samples too, which do not count beside far ones.
        let (ours, other) = (side(&[(1, 900.0, false)]), side(&[(1, 600.0, false), (2, 80.0, true), (3, 82.0, true)]));
        assert_eq!(figures(&ours, &other), Some((900.0, 600.0, Some(Mode::Far))));
        assert!(ours.is_far() && !other.is_far());
        assert_eq!((ours.quoted(), other.quoted()), (900.0, 81.0));
    }

    #[test]
    fn near_and_far_are_not_comparable() {
        assert_eq!(figures(&side(&[(1, 100.0, true)]), &side(&[(1, 900.0, false)])), None);
    }

    #[test]
    fn samples_of_the_same_rounds_count() {
        let ours = side(&[(1, 100.0, true), (2, 110.0, true), (3, 500.0, true)]);
        let other = side(&[(1, 80.0, true), (2, 90.0, true), (3, 500.0, false), (4, 20.0, true)]);
        assert_eq!(figures(&ours, &other), Some((105.0, 85.0, Some(Mode::Near))));
        // One of three rounds in common is too few: all near ones count.
        let other = side(&[(3, 10.0, true), (4, 20.0, true), (5, 30.0, true)]);
        assert_eq!(figures(&ours, &other), Some((110.0, 20.0, Some(Mode::Near))));
    }

    #[test]
    fn a_limit_goes_with_either_mode() {
        let limit = Side::one(64.0, "limit");
        assert_eq!(figures(&side(&[(1, 100.0, false)]), &limit), Some((100.0, 64.0, Some(Mode::Far))));
        assert_eq!(figures(&limit, &Side::one(32.0, "")), Some((64.0, 32.0, None)));
        assert_eq!(side(&[(1, 4.0, true)]).map(|value| 1.0 / value).quoted(), 0.25);
    }
}
