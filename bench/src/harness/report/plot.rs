// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency and bandwidth against size, with the peers that were measured, as one SVG file with
//! logarithmic axes.

use std::path::Path;

use super::{Report, size_text};
use crate::samples::{Key, Kind, Metric, Samples, Series};
use bellwire_report::picture::{self, Area, Axes, Chart, Corner, Scale, Span};

/// A chart: of what, which metric, its title.
pub type Panel<'a> = (&'a Samples, Metric, String);

/// A chart that draws itself.
pub type Last<'a> = &'a dyn Fn(&Area<'_>) -> Result<(), String>;

/// Writes charts of these metrics of a report, one below the other.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(report: &Report, path: &Path, metrics: &[Metric]) -> Result<(), String> {
    let panels: Vec<Panel<'_>> = metrics.iter().map(|metric| (&report.samples, *metric, format!("{}, {}", metric.title(), metric.unit()))).collect();
    grid(path, (1000, 550), 1, &panels, None)
}

/// Writes charts of this size in pixels, so many beside each other, then one that draws itself.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn grid(path: &Path, size: (u32, u32), columns: u32, panels: &[Panel<'_>], last: Option<Last<'_>>) -> Result<(), String> {
    if panels.iter().all(|(samples, ..)| samples.cells().next().is_none()) {
        return Err("there is nothing to plot".to_owned());
    }
    let rows = (panels.len() as u32 + u32::from(last.is_some())).div_ceil(columns);
    picture::write(path, (size.0 * columns, size.1 * rows), |area| {
        let areas = area.split_evenly((rows as usize, columns as usize));
        panels.iter().zip(&areas).try_for_each(|((samples, metric, title), area)| panel(samples, area, *metric, title))?;
        last.map_or(Ok(()), |last| last(&areas[panels.len()]))
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
fn panel(samples: &Samples, area: &Area<'_>, metric: Metric, title: &str) -> Result<(), String> {
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
    fn charts_stand_in_rows() {
        let samples =
            Samples::made_up(&[(Metric::Latency, crate::plan::series::OURS, 8, 300.0), (Metric::BarrierOfRanks, crate::plan::series::OURS, 16, 50.0)]);
        let path = std::env::temp_dir().join(format!("bellwire-grid-{}.svg", std::process::id()));
        let panels = [(&samples, Metric::Latency, "first".to_owned()), (&samples, Metric::BarrierOfRanks, "second".to_owned())];
        grid(&path, (300, 200), 2, &panels, Some(&|_| Ok(()))).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("width=\"600\" height=\"400\"") && text.contains("second"), "{text}");
        assert!(grid(&path, (300, 200), 2, &[(&Samples::default(), Metric::Latency, String::new())], None).is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!(range(&[]), None);
        let ((x_low, x_high), (y_low, y_high)) = range(&[(8.0, 100.0), (4096.0, 300.0)]).unwrap();
        assert!(x_low < 8.0 && x_high > 4096.0 && y_low < 100.0 && y_high > 300.0);
    }
}
