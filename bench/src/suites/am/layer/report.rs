// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layers as tables for people.

use std::fmt::Write;

use super::{BulkPoint, CreditPoint, Layers, Row, SHORT};
use crate::report::size_text;
use crate::report::table::{cell_text, cost_text, ending, heading_of};
use bellwire_report::model::{Axis, Line, Plot, Scale, Unit};
use bellwire_report::text::{align, number};

/// The tables.
pub fn table(layers: &Layers) -> String {
    let mut text = heading_of("logp --layer am", &layers.head, "");
    let _ = writeln!(text, "Short messages of {SHORT} bytes [ns]");
    let mut rows = vec![["layer", "RTT/2", "delta", "cycles", "L", "o_s", "o_r", "g", "g one way"].map(str::to_owned).to_vec()];
    rows.extend(layers.rows.iter().map(cells));
    text += &align(&rows);
    text += &others(layers);
    text += &credits(&layers.credits);
    text += "\nBulk: bandwidth [GB/s] against size\n";
    let mut rows = vec![["size", "RDMA write", "Active Messages", "of it", "data in messages"].map(str::to_owned).to_vec()];
    rows.extend(layers.bulk.iter().map(|point| {
        let share = point.am_gbps.zip(point.write_gbps).map_or("-".to_owned(), |(am, write)| format!("{:.2}", am / write));
        vec![size_text(point.size), cell_text(point.write_gbps), cell_text(point.am_gbps), share, cell_text(point.in_messages_gbps)]
    }));
    text += &align(&rows);
    text + &ending(&layers.goals, &layers.missing, &layers.failures)
}

/// AMVIA's layouts at equal credits: what is left of their difference is the VIs'.
fn credits(points: &[CreditPoint]) -> String {
    let mut rows = vec![["credits", "g of v1", "g of v3", "RTT/2 of v1", "RTT/2 of v3"].map(str::to_owned).to_vec()];
    rows.extend(points.iter().map(|point| {
        let mut cells = vec![point.credits.to_string()];
        cells.extend([point.v1_gap_ns, point.v3_gap_ns, point.v1_half_round_trip_ns, point.v3_half_round_trip_ns].map(cell_text));
        cells
    }));
    format!("\nAMVIA's layouts at equal credits [ns]\n{}", align(&rows))
}

/// What others take for a request and its answer of as many bytes.
fn others(layers: &Layers) -> String {
    let Some(own) = layers.rows[1].half_round_trip_ns.filter(|_| !layers.others.is_empty()) else { return String::new() };
    let mut rows = vec![["library", "RTT/2", "ours / it"].map(str::to_owned).to_vec()];
    rows.extend(layers.others.iter().map(|other| {
        let name = if other.far { format!("{} (far)", other.name) } else { other.name.to_owned() };
        vec![name, number(other.half_round_trip_ns), format!("{:.2}", own / other.half_round_trip_ns)]
    }));
    format!("\nOthers, {SHORT} bytes [ns]: {}\n{}", layers.peers.join(", "), align(&rows))
}

fn cells(row: &Row) -> Vec<String> {
    let layer = if row.far { format!("{} (far)", row.layer) } else { row.layer.to_owned() };
    // Noise below zero is no gain.
    let sign = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{:+.1}", v.max(0.0)));
    let mut cells = vec![layer, cell_text(row.half_round_trip_ns), sign(row.delta_ns), sign(row.delta_cycles)];
    cells.extend([row.latency_ns, row.o_send_ns, row.o_recv_ns, row.gap_ns, row.gap_one_way_ns].map(cost_text));
    cells
}

/// The curve: bandwidth of bulk messages and of the raw RDMA write against their size.
pub fn plots(layers: &Layers) -> Vec<Plot> {
    let line = |name: &str, of: fn(&BulkPoint) -> Option<f64>| Line::new(name, layers.bulk.iter().filter_map(|point| Some((point.size as f64, of(point)?))));
    vec![Plot {
        title: "Bulk messages: bandwidth".to_owned(),
        x: Axis::new("size", Unit::Bytes, Scale::Log2),
        y: Axis::new("bandwidth", Unit::GigabytesPerSecond, Scale::Log10),
        lines: vec![line("raw RDMA write", |point| point.write_gbps), line("Active Messages", |point| point.am_gbps)],
    }]
}

#[cfg(test)]
mod tests {
    use super::super::Other;
    use super::*;

    fn layers() -> Layers {
        let raw = Row {
            layer: "raw VI",
            half_round_trip_ns: Some(90.0),
            delta_ns: None,
            delta_cycles: None,
            latency_ns: Some(25.0),
            o_send_ns: Some(20.0),
            o_recv_ns: Some(45.0),
            gap_ns: Some(40.0),
            gap_one_way_ns: Some(40.0),
            far: false,
        };
        let am = Row { layer: "Active Messages", half_round_trip_ns: Some(120.0), delta_ns: Some(30.0), delta_cycles: Some(90.0), gap_ns: None, ..raw };
        let bulk = |size, write| BulkPoint { size, write_gbps: Some(write), am_gbps: Some(0.95 * write), in_messages_gbps: None };
        Layers {
            head: crate::run::Head::made_up(),
            short_bytes: SHORT,
            rows: [raw, am, Row { layer: "AMVIA v1", ..am }, Row { layer: "AMVIA v3", ..am }],
            credits: vec![CreditPoint {
                credits: 8,
                v1_gap_ns: Some(71.0),
                v3_gap_ns: Some(63.0),
                v1_half_round_trip_ns: Some(152.0),
                v3_half_round_trip_ns: None,
            }],
            bulk: vec![bulk(64, 1.0), bulk(4096, 20.0)],
            peers: vec!["UCX 1.13.1".to_owned()],
            others: vec![Other { name: "UCX am", half_round_trip_ns: 240.0, far: false }],
            missing: vec!["GASNet-EX: its source".to_owned()],
            goals: vec![],
            failures: vec![],
        }
    }

    #[test]
    fn people_see_both_layers() {
        let text = table(&layers());
        assert!(text.contains("+30.0") && text.contains("+90.0") && text.contains("0.95"), "{text}");
        let mut noisy = layers();
        noisy.rows[1].delta_ns = Some(-7.0);
        assert!(!table(&noisy).contains("-7"), "{}", table(&noisy));
        assert!(text.contains("UCX am") && text.contains("0.50") && text.contains("GASNet-EX: its source"), "{text}");
    }

    #[test]
    fn layouts_stand_side_by_side_at_equal_credits() {
        let text = table(&layers());
        let row: Vec<&str> = text.lines().find(|line| line.trim_start().starts_with("8 ")).expect("a row for 8 credits").split_whitespace().collect();
        assert_eq!(row, ["8", "71.0", "63.0", "152", "-"], "{text}");
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&layers()).unwrap()).unwrap();
        assert_eq!((value["layers"][1]["delta_ns"].as_f64(), value["bulk"][1]["am_gbps"].as_f64()), (Some(30.0), Some(19.0)));
        assert_eq!(value["others"][0]["half_round_trip_ns"].as_f64(), Some(240.0));
    }

    #[test]
    fn the_curve_has_two_lines() {
        let plots = plots(&layers());
        assert_eq!(plots[0].lines.iter().map(|line| line.points.len()).collect::<Vec<_>>(), [2, 2]);
    }
}
