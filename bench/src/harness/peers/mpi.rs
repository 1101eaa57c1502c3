// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPIs, measured with a small program of ours, `bench/peers/mpi_patterns.c`, compiled for each
//! with its own compiler; for Intel MPI, whose run-time package brings none, with MPICH's header,
//! since both keep one binary interface.
//!
//! Received data is not read, and all receives use one buffer, as in the usual MPI benchmarks.

use std::ffi::OsString;
use std::time::Duration;

use super::installed::{Flavour, Installed};
use super::process::run_within;
use crate::cleanup::TempFolder;
use crate::error::Error;
use crate::pin::Pinning;
use crate::samples::Metric;

/// The program.
const SOURCE: &str = include_str!("../../../peers/mpi_patterns.c");
/// How long one run may take: an MPI whose ranks only ever poll, many on few processors, takes most
/// of it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Figures of a run: metric, size, value in the metric's unit.
pub type Figures = Vec<(Metric, u64, f64)>;

/// How it is run.
#[derive(Debug)]
pub struct Run<'r> {
    /// Before the launcher.
    pub prefix: &'r [OsString],
    /// Variables.
    pub environment: &'r [(OsString, OsString)],
    /// How many processes.
    pub ranks: usize,
    /// The processors of two ranks.
    pub pinning: Pinning,
}

/// The program for one MPI.
#[derive(Debug)]
pub struct Program {
    installed: Installed,
    folder: TempFolder,
}

impl Program {
    /// The MPI as installed, with the program compiled, or nothing if it is not installed.
    ///
    /// # Errors
    /// If it is installed but does not compile the program.
    pub fn find(flavour: Flavour) -> Result<Option<Self>, Error> {
        Installed::find(flavour, &[])?.map(Self::compile).transpose()
    }

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

    /// Runs these patterns, each with sizes and for so long; what it printed, and the figures in
    /// that.
    ///
    /// # Errors
    /// If it fails, takes too long, or does not tell all figures.
    pub fn run(&self, run: &Run<'_>, patterns: &[String], budget_ms: u32) -> Result<(String, Figures), Error> {
        let mut command = self.installed.start(run.prefix, run.ranks);
        command.envs(run.environment.iter().map(|(name, value)| (name, value)));
        command.arg(self.folder.path().join("mpi_patterns")).args([processors(run.pinning, run.ranks), budget_ms.to_string()]).args(patterns);
        let text = run_within(&mut command, TIME_MAX)?;
        let lines: Vec<_> = text.lines().filter_map(|line| parse(line, run.ranks)).collect();
        let wanted: usize = patterns.iter().map(|pattern| pattern.split(',').count()).sum();
        if lines.len() != wanted {
            return Err(Error::failed(format!("{} of {wanted} figures in the output", lines.len())));
        }
        Ok((text, lines.concat()))
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

/// Where a figure of the program belongs: metrics, their sizes, values in their units. A call with
/// 8 bytes between two ranks stands in two tables.
fn places(pattern: &str, size: u64, value: f64, ranks: usize) -> Figures {
    let microseconds = value / 1e3;
    let of_ranks = |metric| (metric, ranks as u64, microseconds);
    let by_size = |metric| Some((metric, size, microseconds)).filter(|_| ranks == 2);
    let by_ranks = |metric| Some(of_ranks(metric)).filter(|_| size == SMALL);
    match pattern {
        "latency" => vec![(Metric::Latency, size, value)],
        "rate" => vec![(Metric::Rate, size, value)],
        "bandwidth" => vec![(Metric::Bandwidth, size, value / 1e9)],
        "sendrecv" => by_size(Metric::Sendrecv).into_iter().chain(by_ranks(Metric::RingOfRanks)).collect(),
        "allreduce" => by_size(Metric::Allreduce).into_iter().chain(by_ranks(Metric::AllreduceOfRanks)).collect(),
        "barrier" => vec![of_ranks(Metric::BarrierOfRanks)],
        _ => Vec::new(),
    }
}

/// Bytes where ranks are counted.
pub const SMALL: u64 = 8;

/// The patterns of `bellwire perf`: latency of all sizes, rate of short ones, bandwidth of the
/// others.
pub fn patterns(sizes: &[usize]) -> Vec<String> {
    let pattern = |name: &str, wanted: &dyn Fn(usize) -> bool| {
        let sizes: Vec<String> = sizes.iter().filter(|size| wanted(**size)).map(usize::to_string).collect();
        (!sizes.is_empty()).then(|| format!("{name}:{}", sizes.join(",")))
    };
    [pattern("latency", &|_| true), pattern("rate", &|size| size <= 64), pattern("bandwidth", &|size| size >= 1024)].into_iter().flatten().collect()
}

/// One line of the output; nothing if it is something else's.
fn parse(line: &str, ranks: usize) -> Option<Figures> {
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

    #[test]
    fn figures_find_their_tables() {
        assert_eq!(places("allreduce", 8, 1500.0, 2), [(Metric::Allreduce, 8, 1.5), (Metric::AllreduceOfRanks, 2, 1.5)]);
        assert_eq!(places("allreduce", 8, 1500.0, 16), [(Metric::AllreduceOfRanks, 16, 1.5)]);
        assert_eq!(places("bandwidth", 64, 2e9, 2), [(Metric::Bandwidth, 64, 2.0)]);
        assert_eq!(places("warning:", 8, 1.0, 2), []);
    }

    #[test]
    fn only_two_ranks_have_processors_of_their_own() {
        assert_eq!([2, 4].map(|ranks| processors(Pinning::Pair(3, 5), ranks)), ["3,5", "-"]);
        assert_eq!(processors(Pinning::None, 2), "-");
    }

    #[test]
    fn short_messages_have_a_rate_and_long_ones_a_bandwidth() {
        assert_eq!(patterns(&[8, 4096]), ["latency:8,4096", "rate:8", "bandwidth:4096"]);
    }
}
