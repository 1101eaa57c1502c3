// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that was measured, by what, by whom and by size; and the figure quoted of a set of
//! samples.

mod metric;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::canary::{Best, Canary, Mode};
use crate::stats::{Summary, summarize};

pub use metric::Metric;

/// What kind of thing a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// libvipl.
    Ours,
    /// The machine.
    Limit,
    /// Another library; with cross-memory attach for large messages if so marked.
    Peer {
        /// Whether it uses cross-memory attach.
        cma: bool,
    },
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Series {
    /// Heading.
    pub name: &'static str,
    /// What it is about.
    pub kind: Kind,
}

/// A cell: what, by whom, at which size (or quantile, or number of VIs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// What.
    pub metric: Metric,
    /// By whom.
    pub series: Series,
    /// At which size.
    pub size: u64,
}

impl Key {
    /// A key.
    pub fn new(metric: Metric, series: Series, size: u64) -> Self {
        Key { metric, series, size }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Round it was taken in, from 1.
    pub round: usize,
    /// In the metric's unit.
    pub value: f64,
    /// The machine around it.
    pub canary: Canary,
}

/// What is quoted of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Over the near samples, or over all if none is near.
    pub summary: Summary,
    /// Whether near samples were there.
    pub mode: Mode,
    /// Near samples.
    pub near: usize,
    /// All samples.
    pub total: usize,
}

/// A measurement that did not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What was measured.
    pub what: String,
    /// Why there is no figure.
    pub why: String,
    /// Whether it is a failure of ours, and not a peer's or something not offered here.
    pub ours: bool,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub struct Samples {
    cells: BTreeMap<Key, Vec<Sample>>,
    order: Vec<Series>,
    /// The best canary.
    pub best: Best,
    /// What did not work; each thing once.
    pub failures: Vec<Failure>,
}

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, key: Key, sample: Sample) {
        if !self.order.contains(&key.series) {
            self.order.push(key.series);
        }
        self.cells.entry(key).or_default().push(sample);
    }

    /// Adds a failure unless it is known.
    pub fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.what == failure.what && known.why == failure.why) {
            self.failures.push(failure);
        }
    }

    /// All cells with their samples.
    pub fn cells(&self) -> impl Iterator<Item = (&Key, &[Sample])> {
        self.cells.iter().map(|(key, samples)| (key, samples.as_slice()))
    }

    /// The samples of a cell.
    pub fn of(&self, key: &Key) -> Option<&[Sample]> {
        self.cells.get(key).map(Vec::as_slice)
    }

    /// The figure of a cell.
    pub fn figure(&self, key: &Key) -> Option<Figure> {
        figure(self.cells.get(key)?, self.best.ns())
    }

    /// Series with samples of a metric: ours, limits, peers, each in the order in which they were
    /// first measured.
    pub fn series_of(&self, metric: Metric) -> Vec<Series> {
        let measured = |series: &Series| self.cells.keys().any(|key| key.metric == metric && key.series == *series);
        let mut series: Vec<Series> = self.order.iter().copied().filter(measured).collect();
        series.sort_by_key(|series| match series.kind {
            Kind::Ours => 0,
            Kind::Limit => 1,
            Kind::Peer { .. } => 2,
        });
        series
    }

    /// Sizes with samples of a metric, rising.
    pub fn sizes_of(&self, metric: Metric) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.cells.keys().filter(|key| key.metric == metric).map(|key| key.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

#[cfg(test)]
impl Samples {
    /// One near sample for each cell.
    pub(crate) fn made_up(cells: &[(Metric, Series, u64, f64)]) -> Self {
        let mut samples = Samples::default();
        samples.best.note(50.0);
        for &(metric, series, size, value) in cells {
            let canary = Canary { before_ns: 50.0, after_ns: 50.0 };
            samples.add(Key::new(metric, series, size), Sample { round: 1, value, canary });
        }
        samples
    }
}

/// The figure of some samples, given the run's best canary.
pub fn figure(samples: &[Sample], best_ns: f64) -> Option<Figure> {
    let near: Vec<f64> = samples.iter().filter(|sample| sample.canary.mode(best_ns) == Mode::Near).map(|sample| sample.value).collect();
    let (mode, summary) = match summarize(&near) {
        Some(summary) => (Mode::Near, summary),
        None => (Mode::Far, summarize(&samples.iter().map(|sample| sample.value).collect::<Vec<_>>())?),
    };
    Some(Figure { summary, mode, near: near.len(), total: samples.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64, canary_ns: f64) -> Sample {
        Sample { round: 1, value, canary: Canary { before_ns: canary_ns, after_ns: canary_ns } }
    }

    #[test]
    fn near_samples_alone_make_the_figure() {
        let figure = figure(&[sample(100.0, 50.0), sample(900.0, 170.0), sample(102.0, 60.0), sample(104.0, 50.0)], 50.0).unwrap();
        assert_eq!((figure.summary.median, figure.near, figure.total, figure.mode), (102.0, 3, 4, Mode::Near));
    }

    #[test]
    fn without_near_samples_the_figure_is_marked() {
        let figure = figure(&[sample(900.0, 170.0)], 50.0).unwrap();
        assert_eq!((figure.summary.median, figure.near, figure.mode), (900.0, 0, Mode::Far));
        assert_eq!(super::figure(&[], 50.0), None);
    }
}
