// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bars side by side as SVG: a group for each thing compared, a bar in it for each series. Written
//! by hand, as the drawing library has none of the kind.

use std::fmt::Write;

/// Fill colours, in the order of the series.
const COLOURS: [&str; 8] = ["#005ab5", "#56a0e6", "#dc3220", "#e68c14", "#7846a0", "#1e8c5a", "#966e3c", "#5a5a5a"];
/// Sizes in pixels: of a picture, of the drawing's margins.
const WIDTH: f64 = 1200.0;
/// See [`WIDTH`].
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 110.0;

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Above the drawing.
    pub title: String,
    /// Beside the vertical axis.
    pub unit: String,
    /// What the bars of a group are.
    pub series: Vec<String>,
    /// The groups: name, and a value for each series that has one.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
}

/// Text with the characters that XML keeps for itself replaced.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round number of steps from 0 to just above `greatest`.
fn step(greatest: f64) -> f64 {
    let rough = (greatest / 5.0).max(1e-12);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(power)
}

impl Bars {
    /// The drawing, `down` pixels from the top of a picture.
    fn draw(&self, down: f64) -> String {
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let (least, greatest) = (values().fold(0.0, f64::min), values().fold(1e-9, f64::max));
        let step = step(greatest - least);
        let (bottom, top) = ((least / step).floor() * step, (greatest / step).ceil() * step);
        let y = |value: f64| down + TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom);
        let mut svg = format!("<text x=\"{}\" y=\"{}\" font-size=\"18\" text-anchor=\"middle\">{}</text>\n", WIDTH / 2.0, down + 20.0, escape(&self.title));
        for line in 0..=((top - bottom) / step).round() as u32 {
            let value = bottom + f64::from(line) * step;
            let _ = write!(svg, "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>", WIDTH - 10.0, y(value), y(value));
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, y(value) + 4.0, (value * 1e6).round() / 1e6);
        }
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", down + TOP - 12.0, escape(&self.unit));
        for (index, name) in self.series.iter().enumerate() {
            let x = LEFT + 60.0 + index as f64 * (WIDTH - LEFT - 80.0) / self.series.len() as f64;
            let _ = write!(svg, "<rect x=\"{x:.1}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>", down + 30.0, COLOURS[index % COLOURS.len()]);
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 16.0, down + 41.0, escape(name));
        }
        let group = (WIDTH - LEFT - 10.0) / self.groups.len().max(1) as f64;
        let bar = group * 0.8 / self.series.len().max(1) as f64;
        for (place, (name, values)) in self.groups.iter().enumerate() {
            let x = LEFT + group * (place as f64 + 0.1);
            for (index, value) in values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))) {
                let (high, low) = (y(value.max(0.0)), y(value.min(0.0)));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{} {}: {value:.3}</title></rect>",
                    x + bar * index as f64,
                    bar * 0.95,
                    (low - high).max(0.1),
                    COLOURS[index % COLOURS.len()],
                    escape(name),
                    escape(self.series.get(index).map_or("", String::as_str))
                );
            }
            let (tx, ty) = (x + group * 0.4, down + HEIGHT - BOTTOM + 14.0);
            let _ = writeln!(svg, "<text x=\"{tx:.1}\" y=\"{ty:.1}\" text-anchor=\"end\" transform=\"rotate(-30 {tx:.1} {ty:.1})\">{}</text>", escape(name));
        }
        svg
    }
}

/// Pictures one below the other, as one.
pub fn svg(all: &[Bars]) -> String {
    let height = HEIGHT * all.len() as f64;
    let drawn: String = all.iter().enumerate().map(|(index, bars)| bars.draw(HEIGHT * index as f64)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{drawn}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_bar() {
        let groups = vec![("a <b>".to_owned(), vec![Some(1.0), None]), ("c".to_owned(), vec![Some(-0.5), Some(3.0)])];
        let bars = Bars { title: "T".into(), unit: "%".into(), series: vec!["x".into(), "y".into()], groups };
        let text = svg(&[bars.clone(), bars]);
        assert_eq!(text.matches("<title>").count(), 6);
        assert!(text.contains("a &lt;b&gt;") && !text.contains("NaN") && text.ends_with("</svg>\n"));
        assert_eq!((step(3.5), step(0.9), step(100.0)), (1.0, 0.2, 20.0));
    }
}
