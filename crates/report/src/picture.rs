// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of SVG files: axes by difference or by quotient, a line with a dot at each
//! point, a legend.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

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
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Axes to draw lines between.
pub struct Chart<'a, 'b> {
    inner: ChartContext<'a, SVGBackend<'b>, Cartesian2d<Coordinate, Coordinate>>,
    lines: usize,
}

/// How far apart numbers are on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// By their difference.
    Linear,
    /// By their quotient, with marks at powers of this base.
    Log(f64),
}

/// From where to where an axis goes, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The numbers at its ends; positive for [`Scale::Log`].
    pub range: Range<f64>,
    /// How far apart numbers are.
    pub scale: Scale,
}

impl Span {
    /// By quotients.
    pub fn log(range: Range<f64>, base: f64) -> Self {
        Self { range, scale: Scale::Log(base) }
    }

    fn coordinate(self) -> Coordinate {
        match self.scale {
            Scale::Linear => Coordinate::Linear(self.range.into()),
            Scale::Log(base) => Coordinate::Log(self.range.log_scale().base(base).into()),
        }
    }
}

/// Either kind of axis, so that a chart is one type.
enum Coordinate {
    Linear(RangedCoordf64),
    Log(LogCoord<f64>),
}

impl Ranged for Coordinate {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Self::Linear(inner) => inner.map(value, limit),
            Self::Log(inner) => inner.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(inner) => inner.key_points(hint),
            Self::Log(inner) => inner.key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear(inner) => inner.range(),
            Self::Log(inner) => inner.range(),
        }
    }
}

/// Where a legend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// At the top, left.
    UpperLeft,
    /// At the top, right.
    UpperRight,
    /// Half way up, right.
    MiddleRight,
}

/// The axes of a chart.
pub struct Axes<'t> {
    /// Above the chart.
    pub title: &'t str,
    /// From left to right.
    pub x: Span,
    /// From bottom to top.
    pub y: Span,
    /// Below the horizontal axis.
    pub x_desc: &'t str,
    /// Beside the vertical axis; may be empty.
    pub y_desc: &'t str,
    /// How many numbers stand at the horizontal axis, about.
    pub x_labels: usize,
    /// A number at the horizontal axis.
    pub x_text: fn(&f64) -> String,
    /// A number at the vertical axis.
    pub y_text: fn(&f64) -> String,
}

/// Writes what `draw` draws on white.
///
/// # Errors
/// The file cannot be written, or `draw` has one.
pub fn write(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<(), String>) -> Result<(), String> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    let drawn = area.fill(&WHITE).map_err(wrong).and_then(|()| draw(&area));
    drawn.and_then(|()| area.present().map_err(wrong)).map_err(|error| format!("{}: {error}", path.display()))
}

/// As [`write()`], as text.
///
/// # Errors
/// `draw` has one.
pub fn text(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<(), String>) -> Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        draw(&area)?;
        area.present().map_err(wrong)?;
    }
    Ok(text)
}

fn wrong(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a, 'b: 'a> Chart<'a, 'b> {
    /// Draws the axes.
    ///
    /// # Errors
    /// The picture cannot be written to.
    pub fn new(area: &'a Area<'b>, axes: Axes<'_>) -> Result<Self, String> {
        let mut inner = ChartBuilder::on(area)
            .caption(axes.title, ("sans-serif", 22))
            .margin(14)
            .x_label_area_size(36)
            .y_label_area_size(70)
            .build_cartesian_2d(axes.x.coordinate(), axes.y.coordinate())
            .map_err(wrong)?;
        inner
            .configure_mesh()
            .x_desc(axes.x_desc)
            .y_desc(axes.y_desc)
            .x_labels(axes.x_labels)
            .x_label_formatter(&axes.x_text)
            .y_label_formatter(&axes.y_text)
            .light_line_style(RGBColor(235, 235, 235))
            .draw()
            .map_err(wrong)?;
        Ok(Self { inner, lines: 0 })
    }

    /// Draws a line, in the next colour.
    ///
    /// # Errors
    /// The picture cannot be written to.
    pub fn line(&mut self, name: impl Into<String>, width: u32, points: Vec<(f64, f64)>) -> Result<(), String> {
        let style = COLOURS[self.lines % COLOURS.len()].stroke_width(width);
        self.lines += 1;
        self.inner.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(wrong)?;
        let dots = points.into_iter().map(|point| Circle::new(point, 3, style.color.filled()));
        let series = self.inner.draw_series(dots).map_err(wrong)?;
        series.label(name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        Ok(())
    }

    /// Draws the legend.
    ///
    /// # Errors
    /// The picture cannot be written to.
    pub fn legend(mut self, corner: Corner) -> Result<(), String> {
        let position = match corner {
            Corner::UpperLeft => SeriesLabelPosition::UpperLeft,
            Corner::UpperRight => SeriesLabelPosition::UpperRight,
            Corner::MiddleRight => SeriesLabelPosition::MiddleRight,
        };
        self.inner.configure_series_labels().position(position).border_style(BLACK).background_style(WHITE).draw().map_err(wrong)
    }
}
