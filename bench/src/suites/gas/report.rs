// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables for people.

use std::fmt::Write;

use super::{Part, Report};
use crate::report::table::{cost_text, ending, machine_heading, metric_table};
use crate::samples::Metric;
use bellwire_report::text::align;

/// The hidden command of a process of a job that is measured.
pub const WORKER_COMMAND: &str = "gas-peer";

/// The tables.
pub fn table(report: &Report) -> String {
    let mut text = machine_heading("gas", &report.machine);
    if !report.peers.is_empty() {
        let _ = writeln!(text, "compared with: {}", report.peers.join(", "));
    }
    text += "Each figure: median of the samples taken in near mode, near samples/all samples; \"far\" where none was near.\n\
             A process uses the memory of another, always the same places. read, write: each complete before the next; get, put: 64 at a time; store: one way, counted by the target.\n\
             raw VI, Active Messages: a round trip of 16 bytes beside read and write; the gap of a stream beside the others, of Active Messages with a reply to each beside get and put.\n";
    for metric in Metric::GAS {
        text += &metric_table(&report.samples, metric);
    }
    text += &breakdown(&report.breakdown);
    text + &ending(&report.goals, &report.missing, &report.samples.failures)
}

fn breakdown(parts: &[Part]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut rows = vec![["access", "part", "ns", "%"].map(str::to_owned).to_vec()];
    for (i, part) in parts.iter().enumerate() {
        let is_first = i == 0 || parts[i - 1].access != part.access;
        let name = match (is_first, part.far) {
            (false, _) => String::new(),
            (true, false) => part.access.to_owned(),
            (true, true) => format!("{} (far)", part.access),
        };
        rows.push(vec![name, part.part.to_owned(), cost_text(Some(part.ns)), format!("{:.0}", part.share.max(0.0))]);
    }
    format!("\nWhat an access consists of, by differences or by marks\n{}", align(&rows))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{LONG, series as g};
    use super::*;
    use crate::canary::Canary;
    use crate::pin::Pinning;
    use crate::samples::{Key, Sample, Samples};

    pub(crate) fn report() -> Report {
        let mut samples = Samples::default();
        samples.best.note(50.0);
        for (metric, series, size, value) in [
            (Metric::GasRead, g::GLOBAL, LONG, 1.5),
            (Metric::GasRead, g::PLAIN, LONG, 0.5),
            (Metric::GasRead, g::MPICH, LONG, 25.0),
            (Metric::GasBulkPut, g::GLOBAL, 65536, 50.0),
            (Metric::Em3d, g::EM3D_GET, 10, 3.0),
            (Metric::Speedup, g::EM3D, 1, 18.0),
            (Metric::Speedup, g::EM3D, 2, 10.0),
        ] {
            let canary = Canary { before_ns: 50.0, after_ns: 50.0 };
            samples.add(Key::new(metric, series, size), Sample { round: 1, value, canary });
        }
        let goals = crate::goals::evaluate_gas(&samples);
        let breakdown = super::super::breakdown::parts(&samples);
        Report {
            machine: crate::machine::describe(Pinning::None),
            rounds: 1,
            peers: vec![],
            missing: vec!["GASNet-EX smp: built".to_owned()],
            samples,
            breakdown,
            goals,
        }
    }

    #[test]
    fn people_see_types_parts_and_goals() {
        let text = table(&report());
        for part in ["long", "1.50 1/1", "finding the place", "MPICH RMA", "GASNet-EX smp: built", "10 %", ">= 1.70"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&report()).unwrap()).unwrap();
        assert_eq!(value["breakdown"][1]["ns"].as_f64(), Some(1.0));
        let read = value["goals"].as_array().unwrap().iter().find(|goal| goal["what"] == "read of a long").unwrap();
        assert_eq!((read["ratio"].as_f64(), read["met"].as_bool()), (Some(1.5 / 25.0), Some(true)));
        let speedup = value["goals"].as_array().unwrap().iter().find(|goal| goal["unit"] == "ms").unwrap();
        assert_eq!((speedup["ratio"].as_f64(), speedup["met"].as_bool()), (Some(1.8), Some(true)));
    }
}
