// SPDX-License-Identifier: MIT OR Apache-2.0
//! One SVG file: words by type, bulk bandwidth by size, em3d by the share of remote edges.

use std::path::Path;

use super::Report;
use crate::error::Error;
use crate::picture;
use crate::report::plot::panel;
use crate::samples::Metric;

/// Size of a chart in pixels.
const CHART: (u32, u32) = (620, 440);
/// Columns and rows.
const GRID: (u32, u32) = (3, 3);
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
pub fn write(report: &Report, path: &Path) -> Result<(), Error> {
    if report.samples.cells().next().is_none() {
        return Err(Error::failed("there is nothing to plot"));
    }
    picture::write(path, (CHART.0 * GRID.0, CHART.1 * GRID.1), |area| {
        for ((metric, title), area) in CHARTS.into_iter().zip(area.split_evenly((GRID.1 as usize, GRID.0 as usize))) {
            panel(&report.samples, &area, metric, title)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-gas-{}.svg", std::process::id()));
        super::write(&super::super::report::tests::report(), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("em3d, ns for an edge"));
        // Types by their names, at places of their own.
        assert!(text.contains("\nlong\n") && text.contains("read, ns"), "{text}");
    }
}
