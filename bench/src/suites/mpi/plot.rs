// SPDX-License-Identifier: MIT OR Apache-2.0
//! One SVG file: for each MPI latency and bandwidth against size, and Allreduce and Barrier against
//! the number of ranks.

use std::path::Path;

use super::{OfMpi, Report};
use crate::report::plot::{Panel, grid};
use crate::samples::Metric;

/// Size of a chart in pixels.
const CHART: (u32, u32) = (560, 420);
/// The charts of an MPI.
const CHARTS: [(Metric, &str); 4] = [
    (Metric::Latency, "half round trip, ns"),
    (Metric::Bandwidth, "bandwidth, GB/s"),
    (Metric::AllreduceOfRanks, "Allreduce of 8 bytes, us"),
    (Metric::BarrierOfRanks, "Barrier, us"),
];

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<(), String> {
    let charts = |mpi: &'_ OfMpi| CHARTS.map(|(metric, title)| (metric, format!("{}: {title}", mpi.title)));
    let panels: Vec<Panel<'_>> = report.mpis.iter().flat_map(|mpi| charts(mpi).map(|(metric, title)| (&mpi.samples, metric, title))).collect();
    grid(path, CHART, CHARTS.len() as u32, &panels, None)
}
