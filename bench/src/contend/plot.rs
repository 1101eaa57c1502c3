// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two SVG files: rates of all clients together and of each, and response times, against the number of clients.

use std::path::Path;

use super::{Contention, Experiment, Point};
use bellwire_report::picture::{self, Axes, Chart, Corner, Span};

/// Size of a picture in pixels.
const PICTURE: (u32, u32) = (1000, 640);

/// One line for each experiment and figure.
type Figure = (&'static str, fn(&Point) -> f64);

/// Writes the picture of rates.
///
/// # Errors
/// If there is nothing to plot or the file cannot be written.
pub fn rates(found: &Contention, path: &Path) -> Result<(), String> {
    write(found, path, "Clients of one server: replies, thousand a second", &[("all", |p| p.rate / 1e3), ("each", |p| p.rate / 1e3 / p.clients as f64)])
}

/// Writes the picture of response times.
///
/// # Errors
/// As [`rates`].
pub fn times(found: &Contention, path: &Path) -> Result<(), String> {
    let figures: [Figure; 2] = [("median", |p| p.response_median_ns / 1e3), ("99 %", |p| p.response_p99_ns / 1e3)];
    write(found, path, "Clients of one server: response times, us", &figures)
}

fn write(found: &Contention, path: &Path, title: &str, figures: &[Figure]) -> Result<(), String> {
    if found.points.is_empty() {
        return Err("there is nothing to plot".to_owned());
    }
    let values = || found.points.iter().flat_map(|point| figures.iter().map(move |(_, figure)| figure(point))).filter(|value| *value > 0.0);
    let (low, high) = values().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), y| (low.min(y), high.max(y)));
    let most = found.points.iter().map(|point| point.clients).max().unwrap_or(1) as f64;
    picture::write(path, PICTURE, |area| {
        let mut chart = Chart::new(
            area,
            Axes {
                title,
                x: Span::log(0.9..most.max(2.0) * 1.2, 2.0),
                y: Span::log(low / 1.5..high * 1.5, 10.0),
                x_desc: "clients",
                y_desc: "",
                x_labels: 9,
                x_text: |clients| format!("{clients:.0}"),
                y_text: |value| if *value < 1.0 { format!("{value:.2}") } else { format!("{value:.0}") },
            },
        )?;
        for experiment in Experiment::ALL {
            for (name, figure) in figures {
                let line: Vec<(f64, f64)> =
                    found.points.iter().filter(|point| point.experiment == experiment).map(|point| (point.clients as f64, figure(point))).collect();
                if !line.is_empty() {
                    chart.line(format!("{}: {name}", experiment.title()), 2, line)?;
                }
            }
        }
        chart.legend(Corner::MiddleRight)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn pictures_are_written() {
        let found = super::super::report::tests::found();
        for (name, write) in [("rates", super::rates as fn(&_, &_) -> _), ("times", super::times)] {
            let path = std::env::temp_dir().join(format!("bellwire-contend-{name}-{}.svg", std::process::id()));
            write(&found, &path).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert!(text.starts_with("<svg") && text.contains("networks, threads"));
        }
    }
}
