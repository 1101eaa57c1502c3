// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run from options to report: what `bellwire perf` does between parsing its arguments and
//! printing.

use crate::error::Error;
use crate::goals;
use crate::job::{Job, Waiting};
use crate::machine;
use crate::peers::Peers;
use crate::plan::{self, PlanOptions};
use crate::progress::Progress;
use crate::report::Report;
use crate::run::{self, Limits};
use crate::session::{Session, SessionConfig};

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
    let mut progress = Progress::new(steps.len() * options.limits.rounds, options.quiet);
    let samples = run::run(options.session.clone(), &peers, &steps, options.limits, &mut progress);
    progress.finish();
    let waiting = match options.session.waiting {
        Waiting::Poll => "polling",
        Waiting::Block => "blocking",
    };
    Ok(Report {
        command: options.command,
        machine: machine::describe(options.session.pinning),
        library,
        conditions: format!("{}, {waiting}, {} rounds", options.session.reliability.name(), options.limits.rounds),
        wire: options.session.route.name(),
        way: options.session.route.description(),
        rounds: options.limits.rounds,
        peers: peers.versions(),
        missing: peers.missing.clone(),
        compared: options.plan.compare,
        goals: goals::evaluate(&samples, options.session.route.is_udp()),
        samples,
    })
}

/// Opens the library once, to say early and clearly if that does not work; its description.
fn open(config: &SessionConfig) -> Result<String, Error> {
    Session::new(config.clone()).run(&Job::Open).map(|answer| answer.note)
}
