// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters as a table for people.

use std::fmt::Write;

use super::{DELAYS, Model, Row};
use crate::model::fit;
use crate::report::size_text;
use crate::report::table::{cost_text, ending, heading_of};
use crate::samples::Series;
use bellwire_report::model::{Axis, Line, Plot, Scale, Unit};
use bellwire_report::text::{align, number};

/// The table.
pub fn table(model: &Model) -> String {
    let mut text = heading_of("logp", &model.head, "");
    text += "Parameters [ns]: half round trip = o_send + L + o_recv; the receiver reads the ends of a message\n";
    let mut rows = vec![["size", "o_send", "o_recv", "L", "g", "half RTT", "upkeep"].map(str::to_owned).to_vec()];
    rows.extend(model.rows.iter().map(cells));
    text += &align(&rows);
    if let Some(fit::Line { intercept, slope }) = model.per_byte {
        let _ = writeln!(
            text,
            "\nG, long messages: {slope:.4} ns per byte ({} GB/s), {} ns per message beside it",
            number(1.0 / slope),
            number(intercept.max(0.0))
        );
    }
    text += &signature(model);
    text + &ending(&[], &[], &model.failures)
}

fn cells(row: &Row) -> Vec<String> {
    let size = if row.far { format!("{} (far)", size_text(row.size)) } else { size_text(row.size) };
    let mut cells = vec![size];
    cells.extend([row.o_send_ns, row.o_recv_ns, row.latency_ns, row.gap_ns, row.half_round_trip_ns, row.upkeep_ns].map(cost_text));
    cells
}

fn signature(model: &Model) -> String {
    let mut bursts: Vec<u64> = model.signature.iter().map(|point| point.burst).collect();
    bursts.sort_unstable();
    bursts.dedup();
    if bursts.is_empty() {
        return String::new();
    }
    let mut rows = vec![std::iter::once("requests".to_owned()).chain(DELAYS.iter().map(|(_, series)| series.name.to_owned())).collect::<Vec<_>>()];
    for burst in bursts {
        let value = |delay: u64| model.signature.iter().find(|point| point.burst == burst && point.delay_ns == delay);
        let cells = DELAYS.iter().map(|&(delay, _)| value(delay).map_or("-".to_owned(), |point| number(point.interval_ns)));
        rows.push(std::iter::once(burst.to_string()).chain(cells).collect());
    }
    format!("\nSignature, {}: mean time between two requests [ns] against their number\n{}", size_text(model.signature_size), align(&rows))
}

/// The signature: mean time between two requests against their number, a line for each delay.
pub fn plots(model: &Model) -> Vec<Plot> {
    let line = |(delay, series): (u64, Series)| {
        let points = model.signature.iter().filter(move |point| point.delay_ns == delay);
        Line::new(series.name, points.map(|point| (point.burst as f64, point.interval_ns)))
    };
    vec![Plot {
        title: format!("LogP signature, {}", size_text(model.signature_size)),
        x: Axis::new("requests issued in a row", Unit::None, Scale::Log2),
        y: Axis::new("time between requests", Unit::Nanoseconds, Scale::Log10),
        lines: DELAYS.into_iter().map(line).collect(),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    fn model() -> Model {
        let row = Row {
            size: 8,
            o_send_ns: Some(21.0),
            o_recv_ns: Some(43.0),
            upkeep_ns: None,
            latency_ns: Some(16.0),
            gap_ns: Some(40.0),
            half_round_trip_ns: Some(80.0),
            far: false,
        };
        Model {
            head: crate::run::Head::made_up(),
            rows: vec![row],
            per_byte: Some(fit::Line { intercept: 300.0, slope: 0.0125 }),
            signature_size: 8,
            signature: vec![Point { delay_ns: 0, burst: 1, interval_ns: 30.0 }, Point { delay_ns: 500, burst: 1024, interval_ns: 620.0 }],
            failures: vec![],
        }
    }

    #[test]
    fn people_see_all_parameters() {
        let text = table(&model());
        assert!(text.contains("8 B     21.0    43.0  16.0  40.0      80.0       -"), "{text}");
        assert!(text.contains("0.0125 ns per byte (80.0 GB/s)") && text.contains("  1024") && text.contains("620"), "{text}");
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&model()).unwrap()).unwrap();
        assert_eq!((value["parameters"][0]["o_send_ns"].as_f64(), value["long_ns_per_byte"].as_f64()), (Some(21.0), Some(0.0125)));
        assert_eq!(value["signature"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn the_signature_has_a_line_for_each_delay() {
        let plots = plots(&model());
        assert_eq!(plots[0].lines.len(), DELAYS.len());
        assert_eq!(plots[0].lines[0].points, [(1.0, 30.0)]);
    }

    #[test]
    fn noise_is_no_gain() {
        let mut model = model();
        model.rows[0].latency_ns = Some(-3.0);
        assert!(table(&model).contains("0.00") && !table(&model).contains("-3"), "{}", table(&model));
    }
}
