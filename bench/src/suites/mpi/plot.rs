// SPDX-License-Identifier: MIT OR Apache-2.0
//! One SVG file: for each MPI latency and bandwidth against size, and Allreduce and Barrier against
//! the number of ranks.

use std::path::Path;

use super::Report;
use crate::report::plot::panel;
use crate::samples::Metric;
use bellwire_report::picture;

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
    if report.mpis.iter().all(|mpi| mpi.samples.cells().next().is_none()) {
        return Err("there is nothing to plot".to_owned());
    }
    let size = (CHART.0 * CHARTS.len() as u32, CHART.1 * report.mpis.len() as u32);
    picture::write(path, size, |area| {
        let areas = area.split_evenly((report.mpis.len(), CHARTS.len()));
        for (mpi, row) in report.mpis.iter().zip(areas.chunks(CHARTS.len())) {
            for ((metric, title), area) in CHARTS.into_iter().zip(row) {
                panel(&mpi.samples, area, metric, &format!("{}: {title}", mpi.title))?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-mpi-{}.svg", std::process::id()));
        super::write(&super::super::report::tests::report(), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("Barrier, us"));
    }
}
