// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian's MPICH and Open MPI, and Intel MPI, measured with a small MPI program of our own,
//! compiled into a temporary folder: with the compiler wrapper of each of the first two; for Intel
//! MPI, whose run-time package brings no compiler, with MPICH's header, since both keep one binary
//! interface.
//!
//! Received data is not read, and all receives use one buffer, as in the usual MPI benchmarks.

use super::installed::{Flavour, Installed};
use super::process::run;
use crate::cleanup::TempFolder;
use crate::error::Error;
use crate::pin::Pinning;

/// The program.
const SOURCE: &str = include_str!("../../../peers/mpi_bench.c");
/// Milliseconds per figure.
const BUDGET_MS: &str = "16";

/// What a line of the program's output is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Half round trip, ns.
    Latency,
    /// Messages per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
}

/// One figure of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Which.
    pub what: What,
    /// Bytes of a message.
    pub size: usize,
    /// In the unit of [`What`].
    pub value: f64,
}

/// An MPI with the program compiled for it.
#[derive(Debug)]
pub struct Mpi {
    installed: Installed,
    directory: TempFolder,
}

impl Mpi {
    /// The MPI as installed, with the program compiled, or nothing if it is not installed.
    ///
    /// # Errors
    /// If it is installed but does not compile the program.
    pub fn find(flavour: Flavour) -> Result<Option<Self>, Error> {
        let Some(installed) = Installed::find(flavour, &[])? else { return Ok(None) };
        let directory = TempFolder::create(flavour.suffix())?;
        let source = directory.path().join("mpi_bench.c");
        std::fs::write(&source, SOURCE)?;
        installed.compile(&source, &directory.path().join("mpi_bench"))?;
        Ok(Some(Mpi { installed, directory }))
    }

    /// Its version, if the launcher tells.
    pub fn version(&self) -> &str {
        &self.installed.version
    }

    /// All figures for these sizes.
    ///
    /// # Errors
    /// If the program fails or prints something else than expected.
    pub fn measure(&self, sizes: &[usize], pinning: Pinning) -> Result<Vec<Figure>, Error> {
        let cpus = match pinning {
            Pinning::Pair(a, b) => format!("{a},{b}"),
            Pinning::None => "-".to_owned(),
        };
        let mut command = self.installed.start(2);
        if self.installed.flavour == Flavour::Intel {
            command.env("I_MPI_FABRICS", "shm");
        }
        command.arg(self.directory.path().join("mpi_bench")).args([&cpus, BUDGET_MS]).args(sizes.iter().map(usize::to_string));
        let figures = parse(&run(&mut command)?);
        if figures.is_empty() { Err(Error::failed("no figures in the output")) } else { Ok(figures) }
    }
}

fn parse(text: &str) -> Vec<Figure> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Figure> {
    let mut fields = line.split_whitespace();
    let what = match fields.next()? {
        "latency" => What::Latency,
        "rate" => What::Rate,
        "bandwidth" => What::Bandwidth,
        _ => return None,
    };
    let size = fields.next()?.parse().ok()?;
    let value = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Figure { what, size, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_noise() {
        let text = "latency 8 113.181\nrate 8 15106631.6\n--- a warning of the launcher ---\nbandwidth 65536 12168890701.2\nlatency 8\n";
        let figure = |what, size, value| Figure { what, size, value };
        assert_eq!(parse(text), vec![figure(What::Latency, 8, 113.181), figure(What::Rate, 8, 15_106_631.6), figure(What::Bandwidth, 65536, 12_168_890_701.2)]);
    }
}
