// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates, fairness and response times as tables for people.

use std::fmt::Write;

use super::{Contention, Experiment, Point};
use crate::report::table::{ending, machine_heading};
use bellwire_report::model::{Axis, Line, Plot, Scale, Unit};
use bellwire_report::text::{align, number};

/// The tables.
pub fn table(found: &Contention) -> String {
    let mut text = machine_heading("contend", &found.machine);
    let _ = writeln!(
        text,
        "server on processors {:?}, clients on {:?}; {} requests of {} B out for each client, {} s for each point",
        found.server_cpus,
        found.client_cpus,
        found.window,
        found.bytes,
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
    text += &ending(&found.goals, &[], &[]);
    if !found.failures.is_empty() {
        text += "\nNot measured:\n";
        for failure in &found.failures {
            let _ = writeln!(text, "  {failure}");
        }
    }
    text
}

/// One line for each experiment and figure.
type Figure = (&'static str, fn(&Point) -> f64);

/// Rates of all clients together and of each, against their number.
pub fn rates(found: &Contention) -> Vec<Plot> {
    let axis = Axis::new("replies", Unit::ThousandPerSecond, Scale::Log10);
    plots(found, axis, &[("all", |p| p.rate / 1e3), ("each", |p| p.rate / 1e3 / p.clients as f64)])
}

/// Response times, against the number of clients.
pub fn times(found: &Contention) -> Vec<Plot> {
    let axis = Axis::new("response time", Unit::Microseconds, Scale::Log10);
    plots(found, axis, &[("median", |p| p.response_median_ns / 1e3), ("99 %", |p| p.response_p99_ns / 1e3)])
}

fn plots(found: &Contention, y: Axis, figures: &[Figure]) -> Vec<Plot> {
    let line = |experiment: Experiment, (name, figure): Figure| {
        let points = found.points.iter().filter(move |point| point.experiment == experiment);
        Line::new(format!("{}: {name}", experiment.title()), points.map(|point| (point.clients as f64, figure(point))))
    };
    let lines = Experiment::ALL.into_iter().flat_map(|experiment| figures.iter().map(move |figure| line(experiment, *figure)));
    let lines = lines.filter(|line| !line.points.is_empty()).collect();
    vec![Plot { title: "Clients of one server".to_owned(), x: Axis::new("clients", Unit::None, Scale::Log2), y, lines }]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pin::Pinning;

    fn found() -> Contention {
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
            bytes: 0,
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
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&found()).unwrap()).unwrap();
        assert_eq!((value["points"][2]["experiment"].as_str(), value["points"][1]["rates"][3].as_f64()), (Some("threads"), Some(1e6)));
    }

    #[test]
    fn lines_are_those_of_experiments_that_ran() {
        let names = |plots: Vec<Plot>| plots[0].lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(rates(&found())).len(), 4);
        assert!(names(times(&found())).iter().any(|name| name == "networks, threads: 99 %"));
    }
}
