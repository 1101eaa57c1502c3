// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as one SVG file, one below the other.

use std::path::Path;

use crate::model::{self as report, Axis, Plot, Unit};
use crate::picture::{self, Axes, Chart, Corner, Scale, Span};
use crate::text::{number, size_text};

/// Width of the picture, and height of each plot, in pixels.
const SIZE: (u32, u32) = (1000, 520);
/// Numbers beside an axis, about.
const LABELS: usize = 12;

/// Writes the picture.
///
/// # Errors
/// There is nothing to plot, or the file cannot be written.
pub fn write(plots: &[Plot], path: &Path) -> Result<(), String> {
    let plots = with_points(plots)?;
    picture::write(path, size(&plots), |area| draw_all(&plots, area))
}

/// The picture as text.
///
/// # Errors
/// There is nothing to plot.
pub fn svg(plots: &[Plot]) -> Result<String, String> {
    let plots = with_points(plots)?;
    picture::text(size(&plots), |area| draw_all(&plots, area))
}

fn with_points(plots: &[Plot]) -> Result<Vec<&Plot>, String> {
    let plots: Vec<&Plot> = plots.iter().filter(|plot| plot.lines.iter().any(|line| !line.points.is_empty())).collect();
    if plots.is_empty() { Err("there is nothing to plot".to_owned()) } else { Ok(plots) }
}

fn size(plots: &[&Plot]) -> (u32, u32) {
    (SIZE.0, SIZE.1 * plots.len() as u32)
}

fn draw_all(plots: &[&Plot], area: &picture::Area<'_>) -> Result<(), String> {
    let panels = area.split_evenly((plots.len(), 1));
    panels.iter().zip(plots).try_for_each(|(panel, plot)| draw(plot, panel))
}

fn draw(plot: &Plot, area: &picture::Area<'_>) -> Result<(), String> {
    let shows = |axis: &Axis, value: f64| value.is_finite() && (axis.scale == report::Scale::Linear || value > 0.0);
    let lines: Vec<(&str, Vec<(f64, f64)>)> = plot
        .lines
        .iter()
        .map(|line| (line.name.as_str(), line.points.iter().copied().filter(|(x, y)| shows(&plot.x, *x) && shows(&plot.y, *y)).collect()))
        .collect();
    let all = |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|(_, points)| points).map(of).collect::<Vec<f64>>();
    let (Some(x), Some(y)) = (span(&plot.x, &all(|point| point.0), 1.1), span(&plot.y, &all(|point| point.1), 1.3)) else { return Ok(()) };
    let mut chart = Chart::new(
        area,
        Axes {
            title: &plot.title,
            x,
            y,
            x_desc: &name(&plot.x),
            y_desc: &name(&plot.y),
            x_labels: LABELS,
            x_text: if plot.x.unit == Unit::Bytes { |value| size_text(value.round() as u64) } else { |value| short(*value) },
            y_text: |value| short(*value),
        },
    )?;
    for (name, points) in lines {
        chart.line(name, 2, points)?;
    }
    chart.legend(Corner::UpperRight)
}

/// From the least to the greatest number, with room around them; nothing for no numbers.
fn span(axis: &Axis, values: &[f64], room: f64) -> Option<Span> {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let scale = match axis.scale {
        report::Scale::Linear => Scale::Linear,
        report::Scale::Log2 => Scale::Log(2.0),
        report::Scale::Log10 => Scale::Log(10.0),
    };
    match scale {
        Scale::Linear => (high > f64::NEG_INFINITY).then(|| Span { range: low.min(0.0)..if high > 0.0 { high * room } else { 1.0 }, scale }),
        Scale::Log(_) => (high > 0.0).then(|| Span { range: low / room..high * room, scale }),
    }
}

fn name(axis: &Axis) -> String {
    match axis.unit.symbol() {
        "" => axis.name.clone(),
        unit => format!("{}, {unit}", axis.name),
    }
}

/// A number at an axis: whole if it is whole.
fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 { format!("{value:.0}") } else { number(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Line;

    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-scenario-{}.svg", std::process::id()));
        let axis = |scale| Axis::new("size", Unit::Bytes, scale);
        let mut plots = Vec::new();
        assert!(write(&plots, &path).is_err());
        for (x, y) in [(report::Scale::Log2, report::Scale::Linear), (report::Scale::Linear, report::Scale::Log10)] {
            let lines = vec![Line::new("a line", [(0.0, 0.0), (1.0, 5.0), (8.0, 3.0)])];
            plots.push(Plot { title: "A plot".into(), x: axis(x), y: axis(y), lines });
        }
        write(&plots, &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(svg(&plots).unwrap(), text);
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.matches("A plot").count() == 2 && text.contains("a line") && text.contains("size, B"));
    }
}
