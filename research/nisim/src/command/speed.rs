// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the simulator is: simulated bus transactions and events in a second of one processor's
//! time. Cases run one after the other on one thread; of several tries of a case the fastest
//! counts, as others on the machine can only slow one down.

use bellwire_nisim::experiment::plan::design;
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::programs::PROGRAMS;
use bellwire_report::Report;
use bellwire_report::model::{Cell, Column, Table, Unit};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};

use super::Common;

/// Processor-managed words, processor-managed blocks, an NI with a cache.
const DESIGNS: [&str; 3] = ["ni2w", "ap3000", "cni32qm"];
/// What the whole reproduction is to reach, in millions of bus transactions a second.
const GOAL: f64 = 5.0;

/// How it is measured.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Tries of each case, of which the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tries: u32,

    #[command(flatten)]
    pub common: Common,
}

/// What a case took.
struct Taken {
    transactions: u64,
    events: u64,
    seconds: f64,
}

/// Runs the cases.
///
/// # Errors
/// One of them cannot be simulated.
pub fn report(arguments: &Arguments) -> Result<Report, String> {
    let machine = arguments.common.machine(Parameters::default())?;
    let measures: Vec<Measure> = [Measure::RoundTrip(64), Measure::Bandwidth(256)].into_iter().chain(PROGRAMS.iter().map(Measure::Program)).collect();
    let columns = [Column::plain("measure"), Column::plain("design"), Column::plain("bus transactions"), Column::new("processor time", Unit::Milliseconds)];
    let rates = ["million transactions/s", "million events/s"].map(Column::plain);
    let mut table = Table::new("Speed on one processor", columns.into_iter().chain(rates));
    let mut all = Taken { transactions: 0, events: 0, seconds: 0.0 };
    for measure in measures {
        for name in DESIGNS {
            let case = Case { size: arguments.common.size, seed: arguments.common.seed, ..Case::new(measure, design(name)?, machine.clone()) };
            let taken = fastest(&case, arguments.tries)?;
            table.row([measure.to_string().into(), name.into()].into_iter().chain(cells(&taken)));
            all.transactions += taken.transactions;
            all.events += taken.events;
            all.seconds += taken.seconds;
        }
    }
    table.row(["all".into(), Cell::from("")].into_iter().chain(cells(&all)));
    let mut report = Report::new("How fast the simulator is");
    report.about.push(format!(
        "Processor time of one thread, the least of {} tries. The goal for all together is {GOAL} million bus transactions a second.",
        arguments.tries
    ));
    report.tables.push(table);
    Ok(report)
}

fn cells(taken: &Taken) -> [Cell; 4] {
    let rate = |count: u64| Cell::from(count as f64 / 1e6 / taken.seconds);
    [taken.transactions.into(), (taken.seconds * 1e3).into(), rate(taken.transactions), rate(taken.events)]
}

fn fastest(case: &Case, tries: u32) -> Result<Taken, String> {
    let mut best: Option<Taken> = None;
    for _ in 0..tries {
        let start = processor_time();
        let outcome = case.run().map_err(|error| format!("{case}: {error}"))?.outcome;
        let seconds = (processor_time() - start).max(1e-9);
        if best.as_ref().is_none_or(|best| seconds < best.seconds) {
            best = Some(Taken { transactions: outcome.traffic.iter().map(|traffic| traffic.transactions).sum(), events: outcome.events, seconds });
        }
    }
    best.ok_or_else(|| "there must be a try".into())
}

/// Seconds that this thread has run.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
