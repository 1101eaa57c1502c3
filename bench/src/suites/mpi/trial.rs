// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program, compiled for an MPI, and one run of it.

use std::ffi::OsString;
use std::time::Duration;

use super::plan::{Points, places};
use super::processors;
use crate::cleanup::TempFolder;
use crate::error::Error;
use crate::peers::installed::Installed;
use crate::peers::process::run_within;
use crate::pin::Pinning;
use crate::samples::Metric;

/// The program.
const SOURCE: &str = include_str!("../../../peers/mpi_patterns.c");
/// How long one run may take: an MPI whose ranks only ever poll, many on few processors, takes most
/// of it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The program for one MPI.
pub struct Program {
    installed: Installed,
    folder: TempFolder,
}

impl Program {
    /// Compiles it.
    ///
    /// # Errors
    /// If that fails.
    pub fn compile(installed: Installed) -> Result<Self, Error> {
        let folder = TempFolder::create(&format!("patterns-{}", installed.flavour.suffix()))?;
        let source = folder.path().join("mpi_patterns.c");
        std::fs::write(&source, SOURCE)?;
        installed.compile(&source, &folder.path().join("mpi_patterns"))?;
        Ok(Program { installed, folder })
    }

    /// Name and version of the MPI.
    pub fn title(&self) -> String {
        self.installed.title()
    }

    /// Whether the MPI can run on libfabric.
    pub fn has_libfabric(&self) -> bool {
        self.installed.has_libfabric()
    }

    /// Runs it with these variables; the figures.
    ///
    /// # Errors
    /// If it fails, takes too long, or does not tell all figures.
    pub fn run(&self, environment: &[(OsString, OsString)], ranks: usize, pinning: Pinning, points: &Points) -> Result<Vec<(Metric, u64, f64)>, Error> {
        let arguments = points.arguments(ranks);
        let mut command = self.installed.start(ranks);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.arg(self.folder.path().join("mpi_patterns")).args([processors(pinning, ranks), points.budget_ms().to_string()]).args(&arguments);
        let text = run_within(&mut command, TIME_MAX)?;
        let lines: Vec<_> = text.lines().filter_map(|line| parse(line, ranks)).collect();
        let wanted: usize = arguments.iter().map(|argument| argument.split(',').count()).sum();
        if lines.len() != wanted {
            return Err(Error::failed(format!("{} of {wanted} figures in the output", lines.len())));
        }
        Ok(lines.concat())
    }
}

/// One line of the output; nothing if it is something else's.
fn parse(line: &str, ranks: usize) -> Option<Vec<(Metric, u64, f64)>> {
    let mut fields = line.split_whitespace();
    let (pattern, size, value) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let found = places(pattern, size, value, ranks);
    (!found.is_empty() && fields.next().is_none()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_noise() {
        assert_eq!(parse("latency 8 113.181", 2), Some(vec![(Metric::Latency, 8, 113.181)]));
        assert_eq!([parse("latency 8", 2), parse("a warning of 7", 2), parse("latency 8 1 2", 2)], [None, None, None]);
    }
}
