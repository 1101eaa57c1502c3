// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ablation as tables and a picture.

use std::path::Path;

use super::Report;
use crate::report::plot::panel;
use crate::report::table::{ending, machine_heading, metric_table};
use crate::samples::Metric;
use bellwire_report::picture;

/// Size of a chart in pixels.
const CHART: (u32, u32) = (640, 480);
/// The metrics of this run.
const METRICS: [Metric; 3] = [Metric::AblatedPingPong, Metric::AblatedSendrecv, Metric::AblatedPlaces];

/// The tables.
pub fn table(report: &Report) -> String {
    let mut text = machine_heading("bench mpi --ablation", &report.machine);
    text += "Each figure: median of the samples taken in near mode, near samples/all samples; \"far\" where none was near.\n\
             Messages lie in memory of the program, unregistered. Below 32,000 bytes the first three are the same; polled: up to 16 KiB, beyond as cached.\n";
    for metric in METRICS {
        text += &metric_table(&report.samples, metric);
    }
    text + &ending(&[], &[], &report.samples.failures)
}

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn plot(report: &Report, path: &Path) -> Result<(), String> {
    if report.samples.cells().next().is_none() {
        return Err("there is nothing to plot".to_owned());
    }
    picture::write(path, (CHART.0 * METRICS.len() as u32, CHART.1), |area| {
        let areas = area.split_evenly((1, METRICS.len()));
        METRICS.into_iter().zip(&areas).try_for_each(|(metric, area)| panel(&report.samples, area, metric, &format!("{}, ns", metric.title())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Canary;
    use crate::pin::Pinning;
    use crate::plan::series as s;
    use crate::samples::{Key, Sample, Samples};

    #[test]
    fn people_programs_and_pictures() {
        let mut samples = Samples::default();
        samples.best.note(50.0);
        for (series, value) in [(s::SEGMENTS, 4000.0), (s::REGISTERING, 12000.0)] {
            samples.add(Key::new(Metric::AblatedPingPong, series, 64 << 10), Sample { round: 1, value, canary: Canary { before_ns: 50.0, after_ns: 50.0 } });
        }
        let report = Report { machine: crate::machine::describe(Pinning::None), rounds: 1, samples };
        assert!(table(&report).contains("64 KiB"), "{}", table(&report));
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&report).unwrap()).unwrap();
        assert_eq!(value["figures"][0]["size"].as_u64(), Some(64 << 10));
        let path = std::env::temp_dir().join(format!("bellwire-ablation-{}.svg", std::process::id()));
        plot(&report, &path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("segments"));
        std::fs::remove_file(&path).unwrap();
    }
}
