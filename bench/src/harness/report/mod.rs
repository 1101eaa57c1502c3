// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is shown as: tables for people, JSON for programs, a plot.

pub mod json;
pub mod plot;
pub mod screen;
pub mod table;

pub use bellwire_report::text::size_text;
use serde::Serialize;

use crate::error::{Error, json_text};
use crate::gas::Part;
use crate::goals::Goal;
use crate::job::Waiting;
use crate::machine::{self, Machine};
use crate::samples::{Failure, Metric, Samples};
use crate::session::SessionConfig;

/// What all reports of a command have in common.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The command that measured.
    pub command: &'static str,
    /// How its figures are to be read: lines for people.
    pub about: &'static str,
    /// Its tables, in this order.
    pub metrics: &'static [Metric],
    /// How to get all others that it compares with; nothing where each says so itself.
    pub hint: Option<&'static str>,
}

/// How a figure is quoted.
pub const QUOTED: &str = "Near: the two processors pass a line of the cache at the machine's best pace; far: they take longer, as virtual machines do at times.\n\
Each figure: median of the samples taken near, near samples/all samples; \"far\" where none was near.\n";

/// A finished run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The command that measured.
    #[serde(skip)]
    pub suite: Suite,
    /// Where it was.
    pub machine: Machine,
    /// Library and NIC; nothing if the library was not measured.
    pub library: Option<String>,
    /// Reliability and way of waiting.
    pub conditions: String,
    /// The way between the processes, for programs.
    pub wire: &'static str,
    /// The same in words.
    #[serde(skip)]
    pub way: String,
    /// Rounds.
    pub rounds: usize,
    /// Names and versions of the peers.
    pub peers: Vec<String>,
    /// Peers that were not there.
    pub missing: Vec<String>,
    /// Whether limits and peers were measured.
    #[serde(skip)]
    pub compared: bool,
    /// All samples.
    #[serde(flatten)]
    pub samples: Samples,
    /// The parts of accesses, where they were measured.
    #[serde(rename = "breakdown", skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Part>>,
    /// How the goals stand.
    pub goals: Vec<Goal>,
}

impl Report {
    /// The report of a run by these processes, without peers.
    pub fn new(suite: Suite, session: &SessionConfig, rounds: usize, samples: Samples, goals: Vec<Goal>) -> Self {
        let waiting = match session.waiting {
            Waiting::Poll => "polling",
            Waiting::Block => "blocking",
        };
        Report {
            suite,
            machine: machine::describe(session.pinning),
            library: None,
            conditions: format!("{}, {waiting}, {rounds} rounds", session.reliability.name()),
            wire: session.route.name(),
            way: session.route.description(),
            rounds,
            peers: Vec::new(),
            missing: Vec::new(),
            compared: true,
            samples,
            parts: None,
            goals,
        }
    }

    /// The first failure of a measurement of the library, if there was any.
    pub fn failure(&self) -> Option<Error> {
        first_of_ours(&self.samples.failures)
    }
}

/// The first failure that is one of ours, as an error.
pub fn first_of_ours(failures: &[Failure]) -> Option<Error> {
    let failure = failures.iter().find(|failure| failure.ours)?;
    Some(Error::failed(format!("{}: {}", failure.what, failure.why)))
}

/// The version of the JSON format; rises when a field changes its meaning.
const FORMAT: u32 = 1;

/// A result as one JSON object, with the version of the format.
///
/// # Errors
/// If a figure cannot be written, which would be a programming error.
pub fn json(result: &impl Serialize) -> Result<String, Error> {
    #[derive(Serialize)]
    struct Document<'r, T> {
        format: u32,
        #[serde(flatten)]
        result: &'r T,
    }
    json_text(&Document { format: FORMAT, result })
}
