// SPDX-License-Identifier: MIT OR Apache-2.0
//! The curve as an SVG file: bandwidth of bulk messages and of the raw RDMA write against their size.

use std::path::Path;

use super::{BulkPoint, Layers};
use crate::report::size_text;
use bellwire_report::picture::{self, Area, Axes, Chart, Corner, Span};

/// Size of the picture in pixels.
const PICTURE: (u32, u32) = (1000, 640);

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(layers: &Layers, path: &Path) -> Result<(), String> {
    if layers.bulk.iter().all(|point| point.am_gbps.is_none()) {
        return Err("there is no bandwidth to plot".to_owned());
    }
    picture::write(path, PICTURE, |area| draw(layers, area))
}

fn draw(layers: &Layers, area: &Area<'_>) -> Result<(), String> {
    let sizes = layers.bulk.iter().map(|point| point.size as f64);
    let (least, most) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(2.0, f64::max));
    let all = layers.bulk.iter().flat_map(|point| [point.write_gbps, point.am_gbps]).flatten();
    let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), y| (low.min(y), high.max(y)));
    let mut chart = Chart::new(
        area,
        Axes {
            title: "Bulk messages: bandwidth, GB/s",
            x: Span::log(least / 1.2..most * 1.2, 2.0),
            y: Span::log(low / 1.5..high * 1.5, 10.0),
            x_desc: "size",
            y_desc: "",
            x_labels: 9,
            x_text: |size| size_text(*size as u64),
            y_text: |value| if *value < 1.0 { format!("{value:.1}") } else { format!("{value:.0}") },
        },
    )?;
    let line = |of: fn(&BulkPoint) -> Option<f64>| layers.bulk.iter().filter_map(|point| Some((point.size as f64, of(point)?))).collect();
    chart.line("raw RDMA write", 2, line(|point| point.write_gbps))?;
    chart.line("Active Messages", 2, line(|point| point.am_gbps))?;
    chart.legend(Corner::MiddleRight)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-layers-{}.svg", std::process::id()));
        super::write(&super::super::report::tests::layers(), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("raw RDMA write"));
    }
}
