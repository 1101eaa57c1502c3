// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency and bandwidth against size, with the peers that were measured, as one SVG file with
//! logarithmic axes.

use std::path::Path;

use super::{Report, size_text};
use crate::samples::{Key, Kind, Metric, Samples, Series};
use bellwire_report::picture::{self, Area, Axes, Chart, Corner, Scale, Span};

/// Size of the picture in pixels.
const PICTURE: (u32, u32) = (1000, 1100);

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(report: &Report, path: &Path, metrics: &[Metric]) -> Result<(), String> {
    picture::write(path, PICTURE, |area| {
        let panels = area.split_evenly((metrics.len(), 1));
        metrics.iter().zip(&panels).try_for_each(|(metric, area)| panel(&report.samples, area, *metric, &format!("{}, {}", metric.title(), metric.unit())))
    })
}

/// Points of one line, rising sizes.
fn points(samples: &Samples, metric: Metric, series: Series) -> Vec<(f64, f64)> {
    let sizes = samples.sizes_of(metric);
    let median = |size: u64| samples.figure(&Key::new(metric, series, size)).map(|figure| figure.summary.median);
    sizes.into_iter().filter_map(|size| Some((size as f64, median(size)?))).filter(|&(x, y)| x > 0.0 && y > 0.0).collect()
}

/// A chart of one metric against size, or whatever its rows are; nothing where nothing was
/// measured.
pub(crate) fn panel(samples: &Samples, area: &Area<'_>, metric: Metric, title: &str) -> Result<(), String> {
    let lines: Vec<(Series, Vec<(f64, f64)>)> = samples.series_of(metric).into_iter().map(|series| (series, points(samples, metric, series))).collect();
    let all: Vec<(f64, f64)> = lines.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    let Some(((x_low, x_high), (y_low, y_high))) = range(&all) else {
        return Ok(());
    };
    let (of_bytes, of_types) = (metric.row_heading() == "size", metric.row_heading() == "type");
    let mut chart = Chart::new(
        area,
        Axes {
            title,
            x: if of_types { Span { range: 0.5..x_high / ROOM_X + 0.5, scale: Scale::Linear } } else { Span::log(x_low..x_high, 2.0) },
            y: Span::log(y_low..y_high, 10.0),
            x_desc: if of_bytes { "message size" } else { metric.row_heading() },
            y_desc: "",
            x_labels: 12,
            x_text: match (of_bytes, of_types) {
                (true, _) => |size| size_text(size.round() as u64),
                (_, true) => type_name,
                _ => |count| format!("{count:.0}"),
            },
            y_text: |value| if *value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") },
        },
    )?;
    for (series, points) in lines {
        chart.line(series.name, if series.kind == Kind::Ours { 3 } else { 1 }, points)?;
    }
    chart.legend(Corner::UpperLeft)
}

/// The type of a row, if the number is one.
fn type_name(row: &f64) -> String {
    if row.fract() != 0.0 || *row < 1.0 {
        return String::new();
    }
    let name = crate::gas::TYPES.get(*row as usize - 1).map_or("", |of| of.0);
    name.split(' ').next().unwrap_or("").to_owned()
}

/// Room at the sides of the outermost points.
const ROOM_X: f64 = 1.2;

type Ends = (f64, f64);

/// Least and greatest of both coordinates, with room around them; nothing for no points.
fn range(points: &[(f64, f64)]) -> Option<(Ends, Ends)> {
    let span = |values: &mut dyn Iterator<Item = f64>, room: f64| {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then_some((low / room, high * room))
    };
    Some((span(&mut points.iter().map(|point| point.0), ROOM_X)?, span(&mut points.iter().map(|point| point.1), 1.5)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range(&[]), None);
        let ((x_low, x_high), (y_low, y_high)) = range(&[(8.0, 100.0), (4096.0, 300.0)]).unwrap();
        assert!(x_low < 8.0 && x_high > 4096.0 && y_low < 100.0 && y_high > 300.0);
    }
}
