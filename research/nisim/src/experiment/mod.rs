// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments: measurements of designs on machines. A [`Case`] is one simulation;
//! cases share nothing, so they may run at the same time on different threads, and a case always
//! gives the same.

pub mod bench;
pub mod figures;
pub mod fit;
pub mod plan;
pub mod statements;
pub mod table5;
pub mod today;

use std::fmt;

use crate::cluster::Outcome;
use crate::engine::Stuck;
use crate::machine::Parameters;
use crate::ni::Design;
use crate::programs::{self, Program, Setup, Size};

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A message of so many bytes of payload there and one back, in microseconds.
    RoundTrip(usize),
    /// A stream of messages of so many bytes of payload, in MB/s.
    Bandwidth(usize),
    /// A macrobenchmark from beginning to end, in microseconds.
    Program(&'static Program),
}

/// The greatest payload of a microbenchmark, in bytes.
const PAYLOAD_MAX: usize = 1 << 20;

impl Measure {
    /// From its text, as [`fmt::Display`] gives it.
    ///
    /// # Errors
    /// The error, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let payload = |number: &str| match number.parse() {
            Ok(bytes) if (1..=PAYLOAD_MAX).contains(&bytes) => Ok(bytes),
            _ => Err(format!("\"{text}\": a payload is 1 to {PAYLOAD_MAX} bytes")),
        };
        match text.split_once(':') {
            Some(("round-trip", bytes)) => payload(bytes).map(Self::RoundTrip),
            Some(("bandwidth", bytes)) => payload(bytes).map(Self::Bandwidth),
            _ => programs::find(text).map(Self::Program).ok_or_else(|| {
                let names: Vec<&str> = programs::PROGRAMS.iter().map(|program| program.name).collect();
                format!("\"{text}\" is no measure: round-trip:BYTES, bandwidth:BYTES, {}", names.join(", "))
            }),
        }
    }

    /// Whether it can be measured on so many nodes; if not, why.
    ///
    /// # Errors
    /// The obstacle, in words.
    pub fn fits(self, nodes: usize, size: Size) -> Result<(), String> {
        match self {
            Self::RoundTrip(_) | Self::Bandwidth(_) => Ok(()),
            Self::Program(program) => (program.fits)(nodes, size).map_err(|why| format!("{}: {why}", program.name)),
        }
    }

    /// What its value is in.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::RoundTrip(_) | Self::Program(_) => "us",
            Self::Bandwidth(_) => "MB/s",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundTrip(payload) => write!(f, "round-trip:{payload}"),
            Self::Bandwidth(payload) => write!(f, "bandwidth:{payload}"),
            Self::Program(program) => f.write_str(program.name),
        }
    }
}

/// The seed unless another is given.
pub const SEED: u64 = 1;

/// One simulation.
#[derive(Clone)]
pub struct Case {
    /// The measurement.
    pub measure: Measure,
    /// Of which design.
    pub design: &'static Design,
    /// On which machine.
    pub machine: Parameters,
    /// How large the input of a macrobenchmark is.
    pub size: Size,
    /// What that input is drawn from.
    pub seed: u64,
}

/// What a case gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// In the unit of the measure.
    pub value: f64,
    /// What the run was.
    pub outcome: Outcome,
}

/// Why a case gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It did not end.
    Stuck(Stuck),
    /// It computed something wrong.
    Wrong(String),
}

impl From<Stuck> for Failure {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck(stuck)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}

impl Case {
    /// A case with the usual size and seed.
    pub fn new(measure: Measure, design: &'static Design, machine: Parameters) -> Self {
        Self { measure, design, machine, size: Size::default(), seed: SEED }
    }

    /// Runs it.
    ///
    /// # Errors
    /// It does not end, or computes something wrong.
    ///
    /// # Panics
    /// If the machine cannot be built ([`Parameters::check`]), or an invariant of the model does
    /// not hold.
    pub fn run(&self) -> Result<Measured, Failure> {
        let Self { measure, design, machine, .. } = self;
        match *measure {
            Measure::RoundTrip(payload) => {
                let (time, outcome) = bench::round_trip(machine, design, payload)?;
                Ok(Measured { value: time.as_ns() / 1e3, outcome })
            }
            Measure::Bandwidth(payload) => {
                let (value, outcome) = bench::bandwidth(machine, design, payload)?;
                Ok(Measured { value, outcome })
            }
            Measure::Program(program) => {
                (program.fits)(machine.nodes, self.size).map_err(Failure::Wrong)?;
                let outcome = (program.run)(&Setup { machine, design, size: self.size, seed: self.seed })?;
                Ok(Measured { value: outcome.time.as_ns() / 1e3, outcome })
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.design.name, self.measure)
    }
}
