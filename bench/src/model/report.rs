// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters as a table for people and as JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use super::{Model, Point, Row};
use crate::error::Error;
use crate::error::json_text;
use crate::machine::Machine;
use crate::model::fit::Line;
use crate::report::size_text;
use crate::report::table::{failures, machine_heading};
use crate::samples::Failure;
use bellwire_report::text::{align, number};

/// Version of the JSON format; rises when a field changes its meaning.
const FORMAT: u32 = 1;

/// The table.
pub fn table(model: &Model) -> String {
    let mut text = machine_heading("logp", &model.machine);
    let _ = writeln!(text, "library: {}; {}\n\nParameters [ns]: half round trip = o_send + L + o_recv", model.library, model.conditions);
    let mut rows = vec![["size", "o_send", "o_recv", "L", "g", "half RTT", "upkeep"].map(str::to_owned).to_vec()];
    rows.extend(model.rows.iter().map(cells));
    text += &align(&rows);
    if let Some(Line { intercept, slope }) = model.per_byte {
        let _ = writeln!(
            text,
            "\nG, long messages: {slope:.4} ns per byte ({} GB/s), {} ns per message beside it",
            number(1.0 / slope),
            number(intercept.max(0.0))
        );
    }
    text += &signature(model);
    if !model.failures.is_empty() {
        text += "\nNot measured:\n";
        text += &failures(&model.failures);
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let size = if row.far { format!("{} (far)", size_text(row.size)) } else { size_text(row.size) };
    let mut cells = vec![size];
    cells.extend([row.o_send_ns, row.o_recv_ns, row.latency_ns, row.gap_ns, row.half_round_trip_ns, row.upkeep_ns].map(cell));
    cells
}

fn signature(model: &Model) -> String {
    let mut bursts: Vec<u64> = model.signature.iter().map(|point| point.burst).collect();
    bursts.sort_unstable();
    bursts.dedup();
    if bursts.is_empty() {
        return String::new();
    }
    let mut rows = vec![std::iter::once("requests".to_owned()).chain(super::DELAYS.iter().map(|(_, series)| series.name.to_owned())).collect::<Vec<_>>()];
    for burst in bursts {
        let value = |delay: u64| model.signature.iter().find(|point| point.burst == burst && point.delay_ns == delay);
        let cells = super::DELAYS.iter().map(|&(delay, _)| value(delay).map_or("-".to_owned(), |point| number(point.interval_ns)));
        rows.push(std::iter::once(burst.to_string()).chain(cells).collect());
    }
    format!("\nSignature, {}: mean time between two requests [ns] against their number\n{}", size_text(model.signature_size), align(&rows))
}

#[derive(Serialize)]
struct Document<'m> {
    format: u32,
    machine: &'m Machine,
    library: &'m str,
    conditions: &'m str,
    parameters: &'m [Row],
    long_ns_per_byte: Option<f64>,
    long_ns_per_message: Option<f64>,
    signature_size: u64,
    signature: &'m [Point],
    failures: &'m [Failure],
}

/// Everything as one JSON object.
///
/// # Errors
/// If a figure cannot be written, which would be a programming error.
pub fn json(model: &Model) -> Result<String, Error> {
    let document = Document {
        format: FORMAT,
        machine: &model.machine,
        library: &model.library,
        conditions: &model.conditions,
        parameters: &model.rows,
        long_ns_per_byte: model.per_byte.map(|line| line.slope),
        long_ns_per_message: model.per_byte.map(|line| line.intercept),
        signature_size: model.signature_size,
        signature: &model.signature,
        failures: &model.failures,
    };
    json_text(&document)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pin::Pinning;

    pub(crate) fn model() -> Model {
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
            machine: crate::machine::describe(Pinning::None),
            library: "lib".to_owned(),
            conditions: "Reliable Delivery, 3 rounds".to_owned(),
            rows: vec![row],
            per_byte: Some(Line { intercept: 300.0, slope: 0.0125 }),
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
        let value: serde_json::Value = serde_json::from_str(&json(&model()).unwrap()).unwrap();
        assert_eq!((value["parameters"][0]["o_send_ns"].as_f64(), value["long_ns_per_byte"].as_f64()), (Some(21.0), Some(0.0125)));
        assert_eq!(value["signature"].as_array().map(Vec::len), Some(2));
    }
}
