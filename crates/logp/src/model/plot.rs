// SPDX-License-Identifier: MIT OR Apache-2.0
//! The signature as an SVG file: mean time between two requests against their number, a line per delay.

use std::path::Path;

use plotters::prelude::*;

use super::{DELAYS, Model};
use crate::error::Error;
use crate::report::plot::{COLOURS, wrong};
use crate::report::size_text;

/// Size of the picture in pixels.
const PICTURE: (u32, u32) = (1000, 640);

/// Writes the picture.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn write(model: &Model, path: &Path) -> Result<(), Error> {
    if model.signature.is_empty() {
        return Err(Error::failed("there is no signature to plot"));
    }
    let area = SVGBackend::new(path, PICTURE).into_drawing_area();
    draw(model, &area).and_then(|()| area.present().map_err(wrong)).map_err(|error| error.within(&path.display().to_string()))
}

fn draw(model: &Model, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Error> {
    area.fill(&WHITE).map_err(wrong)?;
    let most = model.signature.iter().map(|point| point.burst as f64).fold(2.0, f64::max);
    let span = model.signature.iter().map(|point| point.interval_ns).fold((f64::INFINITY, 1.0), |(low, high): (f64, f64), y| (low.min(y), high.max(y)));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("LogP signature, {}: time between requests, ns", size_text(model.signature_size)), ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d((0.9..most * 1.2).log_scale().base(2.0), (span.0.max(1.0) / 1.5..span.1 * 1.5).log_scale())
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .x_desc("requests issued in a row")
        .x_label_formatter(&|count| format!("{count:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .light_line_style(RGBColor(235, 235, 235))
        .draw()
        .map_err(wrong)?;
    for (index, (delay, series)) in DELAYS.into_iter().enumerate() {
        let points: Vec<(f64, f64)> =
            model.signature.iter().filter(|point| point.delay_ns == delay).map(|point| (point.burst as f64, point.interval_ns)).collect();
        let style = COLOURS[index % COLOURS.len()].stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(wrong)?;
        chart
            .draw_series(points.into_iter().map(|point| Circle::new(point, 3, style.color.filled())))
            .map_err(wrong)?
            .label(series.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
    }
    let labels = chart.configure_series_labels().position(SeriesLabelPosition::MiddleRight).border_style(BLACK).background_style(WHITE).draw();
    labels.map_err(wrong)
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
