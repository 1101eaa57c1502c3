// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run from options to report: what `bellwire perf` does between parsing its arguments and
//! printing.

use crate::error::Error;
use crate::goals;
use crate::job::Job;
use crate::peers::{INSTALL_HINT, Peers};
use crate::plan::{self, PlanOptions};
use crate::report::{Report, Suite};
use crate::run::{self, Limits};
use crate::samples::Metric;
use crate::session::{Session, SessionConfig};

const ABOUT: &str = "Touched: the receiver reads every byte. Otherwise it reads both ends only (all of up to 64 B), as other libraries' benchmarks do.\n";

/// Everything a run depends on.
#[derive(Debug, Clone)]
pub struct Options {
    /// The command that measures, for the report's heading.
    pub command: &'static str,
    /// What is measured.
    pub plan: PlanOptions,
    /// With which processes.
    pub session: SessionConfig,
    /// Rounds, and what is spent on a machine that is slow for a while.
    pub limits: Limits,
    /// No progress.
    pub quiet: bool,
}

/// Measures.
///
/// # Errors
/// If the library cannot be opened, or the measuring processes do not start. Failures of single
/// measurements are in the report.
pub fn run(options: &Options) -> Result<Report, Error> {
    let library = if options.plan.library { Some(open(&options.session)?) } else { None };
    let peers = if options.plan.compare { Peers::find(options.plan.wants_mpi()) } else { Peers::default() };
    let steps = plan::build(&options.plan, &peers);
    let samples = run::run(&options.session, &peers, &steps, options.limits, options.quiet);
    let goals = goals::evaluate(&samples, options.session.route.is_udp());
    let suite = Suite { command: options.command, about: ABOUT, metrics: &Metric::ALL, hint: Some(INSTALL_HINT) };
    let report = Report::new(suite, &options.session, options.limits.rounds, samples, goals);
    Ok(Report { library, peers: peers.versions(), missing: peers.missing, compared: options.plan.compare, ..report })
}

/// Opens the library once, to say early and clearly if that does not work; its description.
fn open(config: &SessionConfig) -> Result<String, Error> {
    Session::new(config.clone()).run(&Job::Open).map(|answer| answer.note)
}
