// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of the commands that measure: on which processors, which library, at which reliability
//! level (`perf`, `logp`, `gas`); how often, and where the figures go (`logp`, `gas`, `bench`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use bellwire_bench::job::{Reliability, Waiting};
use bellwire_bench::perf;
use bellwire_bench::pin::{self, Pinning};
use bellwire_bench::plan::{Group, PlanOptions};
use bellwire_bench::report::{self, Report};
use bellwire_bench::route::Route;
use bellwire_bench::run::Limits;
use bellwire_bench::samples::{Failure, Metric};
use bellwire_bench::session::SessionConfig;
use clap::{Args, ValueEnum};
use serde::Serialize;

use bellwire_report::output;

/// The hidden command of a measuring process.
pub const PEER_COMMAND: &str = "perf-peer";

/// What is measured, and where.
#[derive(Debug, Args)]
pub struct Measured {
    /// The two processors to use [default: the first two allowed, on different cores]
    #[arg(long, value_name = "A,B", value_parser = parse_cpus)]
    cpus: Option<Pinning>,

    /// The library to measure
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,

    /// Device name for VipOpenNic
    #[arg(long, value_name = "NAME", default_value = "nic0")]
    device: String,
}

impl Measured {
    /// Measuring processes for this, polling.
    ///
    /// # Errors
    /// If this executable cannot be found.
    pub fn session(&self, level: Level) -> Result<SessionConfig, String> {
        Ok(SessionConfig {
            library: self.lib.clone(),
            device: self.device.clone(),
            reliability: level.into(),
            ..session(self.cpus.unwrap_or_else(pin::choose))?
        })
    }
}

/// Measuring processes on these processors, polling, at Reliable Delivery.
///
/// # Errors
/// If this executable cannot be found.
pub fn session(pinning: Pinning) -> Result<SessionConfig, String> {
    Ok(SessionConfig {
        worker: (output::executable()?, vec![PEER_COMMAND.to_owned()]),
        pinning,
        library: None,
        device: "nic0".to_owned(),
        reliability: Reliability::ReliableDelivery,
        waiting: Waiting::Poll,
        route: Route::shared_memory(),
        environment: Vec::new(),
        may_fail: false,
    })
}

/// Numbers of connected peers if none are asked for.
pub const PEERS_DEFAULT: &str = "1,16,64";

/// Numbers of connected peers.
pub fn peers_parser() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=bellwire_bench::crowd::PEERS_MAX as i64)
}

/// Measures groups of `perf` as a command of its own, reports, and plots `plotted`.
///
/// # Errors
/// As text, if something could not be opened, measured or written.
pub fn metrics(command: &'static str, groups: Vec<Group>, peers: Vec<usize>, told: &Told, session: SessionConfig, plotted: &[Metric]) -> Result<(), String> {
    let text = |error: bellwire_bench::Error| error.to_string();
    let (quick, waiting) = (told.quick, Waiting::Poll);
    let plan = PlanOptions { groups, compare: false, quick, library: true, waiting, vis: vec![], pairs: vec![], peers, udp: None };
    let report = perf::run(&perf::Options { command, plan, session, limits: told.limits(), quiet: told.quiet }).map_err(text)?;
    told.report(&report, |path| report::plot::write(&report, path, plotted))
}

/// The first failure of ours.
///
/// # Errors
/// If there is one.
pub fn ended(failures: &[Failure]) -> Result<(), String> {
    report::first_of_ours(failures).map_or(Ok(()), |error| Err(error.to_string()))
}

/// Ends the command, since its arguments do not go together, as the parser of arguments does.
pub fn refuse(why: &str) -> ! {
    clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{why}\n")).exit()
}

/// How often, and where the figures go. A command says what its plot shows (`mut_arg`).
#[derive(Debug, Args)]
pub struct Told {
    /// Rounds in which everything is measured once, in turn [default: 3, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999))]
    rounds: Option<u16>,

    /// Fewer sizes, shorter measurements, fewer rounds
    #[arg(long)]
    pub quick: bool,

    /// Write everything, every sample included, as JSON; "-" is standard output, instead of the
    /// tables
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// Plot the figures
    #[arg(long, value_name = "FILE.svg", value_parser = output::file_to_write)]
    pub plot: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

impl Told {
    /// Rounds: what was asked for, or `usual`, or if it is to be quick `quick`.
    pub fn rounds(&self, usual: usize, quick: usize) -> usize {
        self.rounds.map_or(if self.quick { quick } else { usual }, usize::from)
    }

    /// Three rounds or one, and a minute or ten seconds for figures that met a slow machine.
    pub fn limits(&self) -> Limits {
        let make_up = Duration::from_secs(if self.quick { 10 } else { 60 });
        Limits { rounds: self.rounds(3, 1), make_up, waiting: make_up / 3 }
    }

    /// Tables or JSON, and the picture if it is wanted.
    ///
    /// # Errors
    /// As text, if one of them cannot be written.
    pub fn tell(&self, result: &impl Serialize, table: impl FnOnce() -> String, plot: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        output::report(self.json.as_deref(), || report::json(result), table)?;
        self.plot.as_deref().map_or(Ok(()), plot)
    }

    /// As [`Told::tell`], of a report; its failure.
    ///
    /// # Errors
    /// As text, if something could not be measured or written.
    pub fn report(&self, report: &Report, plot: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        self.tell(report, || report::table::render(report), plot)?;
        report.failure().map_or(Ok(()), |error| Err(error.to_string()))
    }
}

/// The reliability levels of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Messages may be lost
    Unreliable,
    /// Reliable Delivery
    Delivery,
    /// Reliable Reception
    Reception,
}

impl From<Level> for Reliability {
    fn from(level: Level) -> Self {
        match level {
            Level::Unreliable => Reliability::Unreliable,
            Level::Delivery => Reliability::ReliableDelivery,
            Level::Reception => Reliability::ReliableReception,
        }
    }
}

/// Two different processors that are allowed.
pub fn parse_cpus(text: &str) -> Result<Pinning, String> {
    match pin::parse_cpu_list(text)[..] {
        [a, b] if a != b => {
            let allowed = pin::allowed();
            let outside = [a, b].into_iter().find(|cpu| !allowed.contains(cpu));
            outside.map_or(Ok(Pinning::Pair(a, b)), |cpu| Err(format!("processor {cpu} is not among the allowed ones: {allowed:?}")))
        }
        _ => Err("two different processor numbers are expected, such as 0,1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_what_was_asked_for_or_usual() {
        let told = |rounds, quick| Told { rounds, quick, json: None, plot: None, quiet: false };
        assert_eq!([told(None, false).rounds(5, 2), told(None, true).rounds(5, 2), told(Some(7), true).rounds(5, 2)], [5, 2, 7]);
    }

    #[test]
    fn processors_are_two_and_different() {
        assert!(parse_cpus("0").is_err());
        assert!(parse_cpus("0,0").is_err());
        assert!(parse_cpus("0,100000").is_err());
    }
}
