// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signature as an SVG file: mean time between two requests against their number, a line per delay.

use std::path::Path;

use super::{DELAYS, Model};
use crate::report::size_text;
use bellwire_report::picture::{self, Area, Axes, Chart, Corner, Span};

/// Size of the picture in pixels.
const PICTURE: (u32, u32) = (1000, 640);

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(model: &Model, path: &Path) -> Result<(), String> {
    if model.signature.is_empty() {
        return Err("there is no signature to plot".to_owned());
    }
    picture::write(path, PICTURE, |area| draw(model, area))
}

fn draw(model: &Model, area: &Area<'_>) -> Result<(), String> {
    let most = model.signature.iter().map(|point| point.burst as f64).fold(2.0, f64::max);
    let span = model.signature.iter().map(|point| point.interval_ns).fold((f64::INFINITY, 1.0), |(low, high): (f64, f64), y| (low.min(y), high.max(y)));
    let mut chart = Chart::new(
        area,
        Axes {
            title: &format!("LogP signature, {}: time between requests, ns", size_text(model.signature_size)),
            x: Span::log(0.9..most * 1.2, 2.0),
            y: Span::log(span.0.max(1.0) / 1.5..span.1 * 1.5, 10.0),
            x_desc: "requests issued in a row",
            y_desc: "",
            x_labels: 11,
            x_text: |count| format!("{count:.0}"),
            y_text: |value| format!("{value:.0}"),
        },
    )?;
    for (delay, series) in DELAYS {
        let points = model.signature.iter().filter(|point| point.delay_ns == delay).map(|point| (point.burst as f64, point.interval_ns)).collect();
        chart.line(series.name, 2, points)?;
    }
    chart.legend(Corner::MiddleRight)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_picture_is_written() {
        let path = std::env::temp_dir().join(format!("bellwire-signature-{}.svg", std::process::id()));
        super::write(&super::super::report::tests::model(), &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with("<svg") && text.contains("delay 500 ns"));
    }
}
