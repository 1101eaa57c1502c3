// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates, fairness and response times as tables for people and as JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use super::{Contention, Experiment, Point};
use crate::error::Error;
use crate::error::json_text;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::report::table::{goal_table, machine_heading};
use bellwire_report::text::{align, number};

/// Version of the JSON format; rises when a field changes its meaning.
const FORMAT: u32 = 1;

/// The tables.
pub fn table(found: &Contention) -> String {
    let mut text = machine_heading("contend", &found.machine);
    let _ = writeln!(
        text,
        "server on processors {:?}, clients on {:?}; {} requests out for each client, {} s for each point",
        found.server_cpus,
        found.client_cpus,
        found.window,
        found.time.as_secs_f64()
    );
    for experiment in Experiment::ALL {
        let points: Vec<&Point> = found.points.iter().filter(|point| point.experiment == experiment).collect();
        if points.is_empty() {
            continue;
        }
        let heading = ["clients", "all, M/s", "each, k/s", "slowest / share", "Jain", "response, us", "99 %, us"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(points.iter().map(|point| {
            vec![
                point.clients.to_string(),
                number(point.rate / 1e6),
                number(point.rate / 1e3 / point.clients as f64),
                format!("{:.2}", point.slowest),
                format!("{:.3}", point.jain),
                number(point.response_median_ns / 1e3),
                number(point.response_p99_ns / 1e3),
            ]
        }));
        let _ = write!(text, "\nClients of one server: {}\n{}", experiment.title(), align(&rows));
    }
    text += &goal_table(&found.goals);
    if !found.failures.is_empty() {
        text += "\nNot measured:\n";
        for failure in &found.failures {
            let _ = writeln!(text, "  {failure}");
        }
    }
    text
}

#[derive(Serialize)]
struct Document<'c> {
    format: u32,
    machine: &'c Machine,
    server_cpus: &'c [usize],
    client_cpus: &'c [usize],
    window: usize,
    seconds: f64,
    points: &'c [Point],
    goals: &'c [Goal],
    failures: &'c [String],
}

/// Everything as one JSON object.
///
/// # Errors
/// If a figure cannot be written, which would be a programming error.
pub fn json(found: &Contention) -> Result<String, Error> {
    let document = Document {
        format: FORMAT,
        machine: &found.machine,
        server_cpus: &found.server_cpus,
        client_cpus: &found.client_cpus,
        window: found.window,
        seconds: found.time.as_secs_f64(),
        points: &found.points,
        goals: &found.goals,
        failures: &found.failures,
    };
    json_text(&document)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pin::Pinning;

    pub(crate) fn found() -> Contention {
        let point = |experiment, clients: usize, rate: f64| Point {
            experiment,
            clients,
            rate,
            rates: vec![rate / clients as f64; clients],
            slowest: 1.0,
            jain: 1.0,
            response_median_ns: 2500.0,
            response_p99_ns: 90_000.0,
        };
        Contention {
            machine: crate::machine::describe(Pinning::None),
            server_cpus: vec![0],
            client_cpus: vec![1],
            window: 16,
            time: Duration::from_secs(1),
            points: vec![point(Experiment::OneEndpoint, 1, 5e6), point(Experiment::OneEndpoint, 4, 4e6), point(Experiment::Threads, 4, 1e6)],
            failures: vec!["networks, one thread, 4 clients: gone".to_owned()],
            goals: vec![],
        }
    }

    #[test]
    fn people_see_rates_and_failures() {
        let text = table(&found());
        for part in ["one endpoint", "5.00", "1000", "2.50", "90.0", "clients: gone"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("networks, one thread\n"));
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&json(&found()).unwrap()).unwrap();
        assert_eq!((value["points"][2]["experiment"].as_str(), value["points"][1]["rates"][3].as_f64()), (Some("threads"), Some(1e6)));
    }
}
