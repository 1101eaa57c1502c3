// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the SVG files of this crate have in common: logarithmic axes, a line with a dot at each point, a legend. Used by `report/plot.rs` and `model/plot.rs`.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::prelude::*;

use crate::error::Error;

/// Line colours, in the order of the lines.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 90, 181),
    RGBColor(86, 160, 230),
    RGBColor(220, 50, 32),
    RGBColor(230, 140, 20),
    RGBColor(120, 70, 160),
    RGBColor(30, 140, 90),
    RGBColor(150, 110, 60),
    RGBColor(200, 90, 150),
    RGBColor(90, 90, 90),
];

/// A picture, or a part of one.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Axes to draw lines between.
pub(crate) struct Chart<'a, 'b> {
    inner: ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>,
    lines: usize,
}

/// The axes of a chart.
pub(crate) struct Axes<'t> {
    pub title: &'t str,
    pub x: Range<f64>,
    pub y: Range<f64>,
    pub x_desc: &'t str,
    /// How many numbers stand at the horizontal axis, about.
    pub x_labels: usize,
    pub x_text: fn(&f64) -> String,
    pub y_text: fn(&f64) -> String,
}

/// Writes what `draw` draws on white.
pub(crate) fn write(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(wrong).and_then(|()| draw(&area));
    drawn.and_then(|()| area.present().map_err(wrong)).map_err(|error| error.within(&path.display().to_string()))
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::failed(error.to_string())
}

impl<'a, 'b: 'a> Chart<'a, 'b> {
    /// Draws the axes, both logarithmic, the horizontal one by powers of two.
    pub(crate) fn new(area: &'a Area<'b>, axes: Axes<'_>) -> Result<Self, Error> {
        let mut inner = ChartBuilder::on(area)
            .caption(axes.title, ("sans-serif", 22))
            .margin(14)
            .x_label_area_size(36)
            .y_label_area_size(70)
            .build_cartesian_2d(axes.x.log_scale().base(2.0), axes.y.log_scale())
            .map_err(wrong)?;
        inner
            .configure_mesh()
            .x_desc(axes.x_desc)
            .x_labels(axes.x_labels)
            .x_label_formatter(&axes.x_text)
            .y_label_formatter(&axes.y_text)
            .light_line_style(RGBColor(235, 235, 235))
            .draw()
            .map_err(wrong)?;
        Ok(Self { inner, lines: 0 })
    }

    /// Draws a line, in the next colour.
    pub(crate) fn line(&mut self, name: impl Into<String>, width: u32, points: Vec<(f64, f64)>) -> Result<(), Error> {
        let style = COLOURS[self.lines % COLOURS.len()].stroke_width(width);
        self.lines += 1;
        self.inner.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(wrong)?;
        let dots = points.into_iter().map(|point| Circle::new(point, 3, style.color.filled()));
        let series = self.inner.draw_series(dots).map_err(wrong)?;
        series.label(name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        Ok(())
    }

    /// Draws the legend.
    pub(crate) fn legend(mut self, position: SeriesLabelPosition) -> Result<(), Error> {
        self.inner.configure_series_labels().position(position).border_style(BLACK).background_style(WHITE).draw().map_err(wrong)
    }
}
