// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples as JSON: every cell with its figure and every sample with its canaries and mode, the
//! failures, the best canary.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::canary::Mode;
use crate::samples::{Kind, Metric, Samples, figure};

/// A figure.
#[derive(Serialize)]
struct Cell {
    metric: Metric,
    unit: &'static str,
    series: &'static str,
    #[serde(flatten)]
    kind: FlatKind,
    size: u64,
    median: f64,
    min: f64,
    max: f64,
    mode: Mode,
    near: usize,
    total: usize,
    samples: Vec<FlatSample>,
}

#[derive(Serialize)]
struct FlatKind {
    kind: &'static str,
    cross_memory_attach: bool,
}

#[derive(Serialize)]
struct FlatSample {
    round: usize,
    value: f64,
    mode: Mode,
    canary_before_ns: f64,
    canary_after_ns: f64,
}

impl Serialize for Samples {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let best = self.best.ns();
        let mut object = serializer.serialize_struct("Samples", 4)?;
        object.serialize_field("canary_best_ns", &best.is_finite().then_some(best))?;
        object.serialize_field("canary_far_factor", &crate::canary::FAR_FACTOR)?;
        object.serialize_field("figures", &cells(self))?;
        object.serialize_field("failures", &self.failures)?;
        object.end()
    }
}

/// All figures with their samples.
fn cells(samples: &Samples) -> Vec<Cell> {
    let best = samples.best.ns();
    let cell = |(key, samples): (&crate::samples::Key, &[crate::samples::Sample])| {
        let figure = figure(samples, best)?;
        let kind = match key.series.kind {
            Kind::Ours => FlatKind { kind: "ours", cross_memory_attach: false },
            Kind::Limit => FlatKind { kind: "limit", cross_memory_attach: false },
            Kind::Peer { cma } => FlatKind { kind: "peer", cross_memory_attach: cma },
        };
        let flat = samples.iter().map(|sample| FlatSample {
            round: sample.round,
            value: sample.value,
            mode: sample.canary.mode(best),
            canary_before_ns: sample.canary.before_ns,
            canary_after_ns: sample.canary.after_ns,
        });
        Some(Cell {
            metric: key.metric,
            unit: key.metric.unit(),
            series: key.series.name,
            kind,
            size: key.size,
            median: figure.summary.median,
            min: figure.summary.min,
            max: figure.summary.max,
            mode: figure.mode,
            near: figure.near,
            total: figure.total,
            samples: flat.collect(),
        })
    };
    samples.cells().filter_map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Canary;
    use crate::plan::series;
    use crate::samples::{Key, Sample};

    #[test]
    fn every_sample_is_there() {
        let mut samples = Samples::default();
        samples.best.note(50.0);
        for (round, canary_ns) in [(1, 50.0), (2, 300.0)] {
            let canary = Canary { before_ns: canary_ns, after_ns: canary_ns };
            samples.add(Key::new(Metric::Latency, series::UCX_TAG, 8), Sample { round, value: 100.0 * round as f64, canary });
        }
        let suite = super::super::Suite { command: "perf", about: "", metrics: &[], hint: None };
        let report = super::super::Report::new(suite, &crate::session::SessionConfig::made_up(), 2, samples, vec![]);
        let value: serde_json::Value = serde_json::from_str(&super::super::json(&report).unwrap()).unwrap();
        let cell = &value["figures"][0];
        assert_eq!((cell["metric"].as_str(), cell["kind"].as_str(), cell["cross_memory_attach"].as_bool()), (Some("latency"), Some("peer"), Some(true)));
        assert_eq!((cell["median"].as_f64(), cell["near"].as_u64(), cell["total"].as_u64()), (Some(100.0), Some(1), Some(2)));
        assert_eq!(cell["samples"][1]["mode"].as_str(), Some("far"));
    }
}
