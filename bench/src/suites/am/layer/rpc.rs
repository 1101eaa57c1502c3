// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire logp --layer rpc`: remote procedure calls beside the Active Messages that they use, by
//! turns in one run: a call with a number as argument and result, and a request and its reply of as
//! many bytes.

use serde::Serialize;

use super::{SHORT, median};
use crate::am::AmJob;
use crate::error::Error;
use crate::job::Job;
use crate::model::Options;
use crate::peers::Peers;
use crate::plan::{Action, From, Step, Which, series as s};
use crate::report::table::{cell_text, ending, heading_of};
use crate::run::{self, Head};
use crate::samples::{Failure, Key, Metric, Samples, Series};
use bellwire_report::text::align;

/// Calls under way in a stream.
const WINDOW: usize = 16;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Calls {
    #[serde(flatten)]
    head: Head,
    /// Half a round trip, ns.
    am_half_round_trip_ns: Option<f64>,
    rpc_half_round_trip_ns: Option<f64>,
    /// The second of the two divided by the first.
    rpc_of_am: Option<f64>,
    /// Between two messages of a stream, each with its reply, ns: requests with as many credits as
    /// there are, and calls.
    am_gap_ns: Option<f64>,
    rpc_gap_ns: Option<f64>,
    /// Calls under way in that stream.
    window: usize,
    /// Calls a second: one under way, and that many.
    calls_per_second: Option<f64>,
    calls_per_second_many: Option<f64>,
    /// A figure has no near sample.
    far: bool,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

/// Measures; of the options the sizes say nothing here.
///
/// # Errors
/// If the library cannot be opened. Failures of single measurements are in the result.
pub fn run(options: &Options) -> Result<Calls, Error> {
    let (head, samples) = run::of_library(&options.session, &Peers::default(), &steps(options.quick), options.limits, options.quiet)?;
    Ok(found(samples, head))
}

fn found(samples: Samples, head: Head) -> Calls {
    let of = |metric, series| median(&samples, metric, series, SHORT);
    let figures = [of(Metric::Latency, s::AM), of(Metric::Gap, s::RPC), of(Metric::Gap, s::AM), of(Metric::Gap, s::RPC_MANY)];
    let far = figures.iter().flatten().any(|(_, far)| *far);
    let [am_half_round_trip_ns, rpc, am_gap_ns, rpc_gap_ns] = figures.map(|figure| figure.map(|(value, _)| value));
    let rpc_half_round_trip_ns = rpc.map(|ns| ns / 2.0);
    Calls {
        head,
        am_half_round_trip_ns,
        rpc_half_round_trip_ns,
        rpc_of_am: rpc_half_round_trip_ns.zip(am_half_round_trip_ns).map(|(rpc, am)| rpc / am),
        am_gap_ns,
        rpc_gap_ns,
        window: WINDOW,
        calls_per_second: rpc.map(|ns| 1e9 / ns),
        calls_per_second_many: rpc_gap_ns.map(|ns| 1e9 / ns),
        far,
        failures: samples.failures,
    }
}

fn steps(quick: bool) -> Vec<Step> {
    let budget_ns = if quick { 8e6 } else { 30e6 };
    let count = |each_ns: f64| ((budget_ns / each_ns) as u64).clamp(16, 200_000);
    let step = |job: AmJob, series: Series, metric: Metric| {
        let keys = vec![(Key::new(metric, series, SHORT), From::First(0))];
        Step { label: format!("{}, {}", metric.title(), series.name), action: Action::Pair { which: Which::Main, job: Job::Am(job), keys } }
    };
    vec![
        step(AmJob::Latency { count: count(300.0) }, s::AM, Metric::Latency),
        step(AmJob::Rpc { count: count(350.0), window: 1 }, s::RPC, Metric::Gap),
        step(AmJob::Gap { count: count(150.0), replied: true }, s::AM, Metric::Gap),
        step(AmJob::Rpc { count: count(200.0), window: WINDOW }, s::RPC_MANY, Metric::Gap),
    ]
}

/// The table.
pub fn table(calls: &Calls) -> String {
    let mut text = heading_of("logp --layer rpc", &calls.head, if calls.far { "; far" } else { "" });
    let many = format!("{WINDOW} under way [ns]");
    let rows = [
        ["", "RTT/2 [ns]", "of it", many.as_str(), "a second"].map(str::to_owned).to_vec(),
        vec!["Active Messages".into(), cell_text(calls.am_half_round_trip_ns), String::new(), cell_text(calls.am_gap_ns), String::new()],
        vec![
            "calls".into(),
            cell_text(calls.rpc_half_round_trip_ns),
            calls.rpc_of_am.map_or("-".to_owned(), |share| format!("{share:.2}")),
            cell_text(calls.rpc_gap_ns),
            calls.calls_per_second_many.map_or("-".to_owned(), |rate| format!("{:.2} M", rate / 1e6)),
        ],
    ];
    text += &align(&rows);
    text + &ending(&[], &[], &calls.failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_compared_with_messages() {
        let cells = [(Metric::Latency, s::AM, SHORT, 100.0), (Metric::Gap, s::RPC, SHORT, 250.0), (Metric::Gap, s::RPC_MANY, SHORT, 125.0)];
        let calls = found(Samples::made_up(&cells), Head::made_up());
        assert_eq!((calls.rpc_of_am, calls.calls_per_second_many, calls.am_gap_ns), (Some(1.25), Some(8e6), None));
        let text = table(&calls);
        assert!(text.contains("1.25") && text.contains("8.00 M"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&calls).unwrap()).unwrap();
        assert_eq!((value["rpc_half_round_trip_ns"].as_f64(), value["window"].as_u64()), (Some(125.0), Some(16)));
    }
}
