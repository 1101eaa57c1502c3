// SPDX-License-Identifier: MIT OR Apache-2.0
//! One SVG file: words by type, bulk bandwidth by size, em3d by the share of remote edges, the
//! steps of a get by packets.

use std::path::Path;

use super::breakdown::{Part, STEPS};
use crate::report::Report;
use crate::report::plot::{Panel, grid};
use crate::samples::Metric;
use bellwire_report::picture::{Area, Axes, Chart, Corner, Scale, Span};

/// Size of a chart in pixels.
const CHART: (u32, u32) = (620, 440);
/// The paper's Figure 2 operation by operation, its Figure 5, em3d.
const CHARTS: [(Metric, &str); 9] = [
    (Metric::GasRead, "read, ns"),
    (Metric::GasWrite, "write, ns"),
    (Metric::GasGet, "get, ns"),
    (Metric::GasPut, "put, ns"),
    (Metric::GasStore, "store, ns"),
    (Metric::GasBulkRead, "bulk read, GB/s"),
    (Metric::GasBulkGet, "bulk get, GB/s"),
    (Metric::GasBulkStore, "bulk store, GB/s"),
    (Metric::Em3d, "em3d, ns for an edge"),
];

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<(), String> {
    let panels: Vec<Panel<'_>> = CHARTS.iter().map(|(metric, title)| (&report.samples, *metric, (*title).to_owned())).collect();
    let parts = report.parts.as_deref().unwrap_or_default();
    grid(path, CHART, 4, &panels, Some(&|area| steps(parts, area)))
}

/// What of a get by packets is over after each step, beside the whole; nothing if it was not
/// measured.
fn steps(parts: &[Part], area: &Area<'_>) -> Result<(), String> {
    let parts: Vec<f64> = parts.iter().filter(|part| part.access == STEPS).map(|part| part.ns).collect();
    let Some(whole) = parts.last().copied().filter(|_| parts.len() > NAMES.len()) else { return Ok(()) };
    let sums = parts[..NAMES.len()].iter().scan(0.0, |sum, ns| {
        *sum += ns;
        Some(*sum)
    });
    let places = |at: usize| (at + 1) as f64;
    let mut chart = Chart::new(
        area,
        Axes {
            title: "a get and its sync by packets, ns so far",
            x: Span { range: 0.5..places(NAMES.len()), scale: Scale::Linear },
            y: Span { range: 0.0..1.3 * whole, scale: Scale::Linear },
            x_desc: "after each step",
            y_desc: "",
            x_labels: 2 * NAMES.len() + 1,
            x_text: |place| {
                if place.fract() == 0.0 && *place >= 1.0 { NAMES.get(*place as usize - 1).copied().unwrap_or("").to_owned() } else { String::new() }
            },
            y_text: |value| format!("{value:.0}"),
        },
    )?;
    chart.line("pieces, by marks", 3, sums.enumerate().map(|(at, ns)| (places(at), ns)).collect())?;
    chart.line("the whole, without marks", 1, vec![(1.0, whole), (places(NAMES.len() - 1), whole)])?;
    chart.legend(Corner::UpperLeft)
}

/// The steps that are waited for, in the order of [`super::steps`].
const NAMES: [&str; 12] = ["locks", "credit", "build", "send", "way", "head", "read", "reply", "way", "head", "place", "done"];

#[cfg(test)]
mod tests {
    #[test]
    fn steps_have_names() {
        assert_eq!(super::super::steps::WAY.iter().filter(|leg| leg.waited_for).count(), super::NAMES.len());
    }

    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-gas-{}.svg", std::process::id()));
        super::write(&super::super::tests::report(), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("em3d, ns for an edge"));
        // Types by their names, at places of their own.
        assert!(text.contains("\nlong\n") && text.contains("read, ns"), "{text}");
    }
}
