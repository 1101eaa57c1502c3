// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text format of Prometheus, version 0.0.4: families of samples with labels.

use std::fmt::Write;

/// Labels with their values.
pub type Labels<'a> = [(&'a str, &'a str)];

/// What a family's numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// Counts of what did not exceed bounds.
    Histogram,
}

/// A family: its name without the prefix, what it is, and its type. A counter's name ends with
/// `_total`.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Type,
}

/// A text that is being made, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// Of the family that was begun last.
    name: &'static str,
}

impl Exposition {
    /// Begins a family.
    pub fn family(&mut self, family: &Family) {
        self.name = family.name;
        let kind = match family.kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let _ = write!(self.text, "# HELP bellwire_{0} {1}\n# TYPE bellwire_{0} {kind}\n", family.name, family.help);
    }

    /// Adds a histogram to that family: counts with the bounds that they do not exceed (the last
    /// has none), and the sum of all.
    pub fn histogram(&mut self, labels: &Labels<'_>, counts: impl Iterator<Item = (Option<f64>, u64)>, sum: f64) {
        let mut seen = 0u64;
        for (bound, count) in counts {
            seen = seen.saturating_add(count);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.part("_bucket", &[labels, &[("le", &bound)]].concat(), seen as f64);
        }
        self.part("_sum", labels, sum);
        self.part("_count", labels, seen as f64);
    }

    /// Adds a sample of that family.
    pub fn sample(&mut self, labels: &Labels<'_>, value: f64) {
        self.part("", labels, value);
    }

    fn part(&mut self, part: &str, labels: &Labels<'_>, value: f64) {
        let _ = write!(self.text, "bellwire_{}{part}", self.name);
        for (n, (name, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{name}=\"{}\"", if n == 0 { '{' } else { ',' }, escaped(value));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_and_labels() {
        let mut exposition = Exposition::default();
        exposition.family(&Family { name: "x_total", help: "Xs.", kind: Type::Counter });
        exposition.sample(&[], 3.0);
        exposition.sample(&[("a", "1"), ("b", "q\"\\\n")], 0.5);
        let expected = "# HELP bellwire_x_total Xs.\n# TYPE bellwire_x_total counter\nbellwire_x_total 3\nbellwire_x_total{a=\"1\",b=\"q\\\"\\\\\\n\"} 0.5\n";
        assert_eq!(exposition.finish(), expected);
        let mut exposition = Exposition::default();
        exposition.family(&Family { name: "y_seconds", help: "Ys.", kind: Type::Histogram });
        exposition.histogram(&[("a", "1")], [(Some(0.5), 2), (None, 1)].into_iter(), 1.5);
        let expected = "# HELP bellwire_y_seconds Ys.\n# TYPE bellwire_y_seconds histogram\nbellwire_y_seconds_bucket{a=\"1\",le=\"0.5\"} 2\n\
                        bellwire_y_seconds_bucket{a=\"1\",le=\"+Inf\"} 3\nbellwire_y_seconds_sum{a=\"1\"} 1.5\nbellwire_y_seconds_count{a=\"1\"} 3\n";
        assert_eq!(exposition.finish(), expected);
    }
}
