// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is shown as: tables for people, JSON for programs, a plot.

pub mod json;
pub mod plot;
pub mod table;

pub use bellwire_report::text::size_text;
use serde::Serialize;

use crate::error::{Error, json_text};
use crate::goals::Goal;
use crate::machine::Machine;
use crate::samples::Samples;

/// A finished run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The command that measured.
    #[serde(skip)]
    pub command: &'static str,
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
    /// How the goals stand.
    pub goals: Vec<Goal>,
}

impl Report {
    /// The first failure of a measurement of the library, if there was any.
    pub fn failure(&self) -> Option<Error> {
        let failure = self.samples.failures.iter().find(|failure| failure.ours)?;
        Some(Error::failed(format!("{}: {}", failure.what, failure.why)))
    }
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
