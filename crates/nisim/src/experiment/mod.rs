// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments: what is measured of which design on which machine. A [`Case`] is one simulation; cases share nothing, so they may run at the same time
//! on different threads, and a case always gives the same.

pub mod bench;
pub mod plan;
pub mod table5;

use std::fmt;

use crate::cluster::Outcome;
use crate::engine::Stuck;
use crate::machine::Parameters;
use crate::ni::Design;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// A message of so many bytes of payload there and one back, in microseconds.
    RoundTrip(usize),
    /// A stream of messages of so many bytes of payload, in MB/s.
    Bandwidth(usize),
}

/// The greatest payload of a microbenchmark, in bytes.
const PAYLOAD_MAX: usize = 1 << 20;

impl Measure {
    /// From its text, as [`fmt::Display`] gives it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let payload = |number: &str| match number.parse() {
            Ok(bytes) if (1..=PAYLOAD_MAX).contains(&bytes) => Ok(bytes),
            _ => Err(format!("\"{text}\": a payload is 1 to {PAYLOAD_MAX} bytes")),
        };
        match text.split_once(':') {
            Some(("round-trip", bytes)) => payload(bytes).map(Self::RoundTrip),
            Some(("bandwidth", bytes)) => payload(bytes).map(Self::Bandwidth),
            _ => Err(format!("\"{text}\" is no measure: round-trip:BYTES or bandwidth:BYTES")),
        }
    }

    /// What its value is in.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::RoundTrip(_) => "us",
            Self::Bandwidth(_) => "MB/s",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundTrip(payload) => write!(f, "round-trip:{payload}"),
            Self::Bandwidth(payload) => write!(f, "bandwidth:{payload}"),
        }
    }
}

/// One simulation.
#[derive(Clone)]
pub struct Case {
    /// What is measured.
    pub measure: Measure,
    /// Of which design.
    pub design: &'static Design,
    /// On which machine.
    pub machine: Parameters,
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
    /// Runs it.
    ///
    /// # Errors
    /// It does not end, or computes something wrong.
    ///
    /// # Panics
    /// If the machine cannot be built ([`Parameters::check`]), or an invariant of the model does not hold.
    pub fn run(&self) -> Result<Measured, Failure> {
        let Self { measure, design, machine } = self;
        match *measure {
            Measure::RoundTrip(payload) => {
                let (time, outcome) = bench::round_trip(machine, design, payload)?;
                Ok(Measured { value: time.as_ns() / 1e3, outcome })
            }
            Measure::Bandwidth(payload) => {
                let (value, outcome) = bench::bandwidth(machine, design, payload)?;
                Ok(Measured { value, outcome })
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.design.name, self.measure)
    }
}
