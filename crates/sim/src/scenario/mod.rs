// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios: experiments on whole engines in virtual time, each with tables and plots as its
//! result. Run by `bellwire sim SCENARIO` and by the tests.
//!
//! - `options.rs`: what a scenario may be told, with defaults; read from text.
//! - `cluster.rs`: nodes with programs, connected in pairs, which most scenarios are made of.
//! - `endpoints.rs`, `client_server.rs`: clients and a server over endpoints that share frames.
//! - `networks.rs`: the networks that several run on.
//! - one file for each scenario; [`ALL`] lists them.
//!
//! Invariants
//! - A report is a function of the options and the seed, byte for byte, except for columns that are
//!   [`measured`](bellwire_report::model::Column::measured).
//! - Its hash covers every packet of every run in it.
//! - Cases of a scenario share nothing, so that they may run at the same time.

mod builds;
mod channels;
mod client_server;
mod clients;
pub mod cluster;
mod endpoints;
mod load;
mod logp;
mod networks;
pub mod options;
mod parts;
mod speed;
mod traffic;
mod virtual_networks;

pub use bellwire_report::{Progress, Report};
pub use options::{Kind, OptionSpec, Values};

use crate::fabric::hash;
use crate::{FabricError, TopologyError};
use bellwire_report::cases::{self, Listener};
use core::fmt;

/// All scenarios, in the order in which they are listed.
pub const ALL: &[Scenario] = &[
    logp::SCENARIO,
    channels::SCENARIO,
    traffic::SCENARIO,
    load::SCENARIO,
    virtual_networks::SCENARIO,
    clients::SCENARIO,
    builds::SCENARIO,
    parts::SCENARIO,
    speed::SCENARIO,
];

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called by.
    pub name: &'static str,
    /// One line: what it shows.
    pub summary: &'static str,
    /// The experiment, and the meaning of the columns: paragraphs.
    pub about: &'static str,
    /// What it may be told.
    pub options: &'static [OptionSpec],
    /// Does it.
    pub run: fn(&Run<'_>) -> Result<Report, ScenarioError>,
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Runs it with the options in `given`, pairs of name and text, and the usual values of all
    /// others.
    ///
    /// # Errors
    /// An option is not one of this scenario's, its text is wrong, or what was asked for cannot be
    /// done.
    pub fn run_with(&self, seed: u64, given: &[(&str, &str)]) -> Result<Report, ScenarioError> {
        let values = Values::read(self.options, given)?;
        (self.run)(&Run { seed, values, progress: &|_| {} })
    }
}

/// Why a scenario has no report: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(pub String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl From<FabricError> for ScenarioError {
    fn from(error: FabricError) -> Self {
        Self(error.to_string())
    }
}

impl From<TopologyError> for ScenarioError {
    fn from(error: TopologyError) -> Self {
        Self(error.to_string())
    }
}

impl From<bellwire_via::Error> for ScenarioError {
    fn from(error: bellwire_via::Error) -> Self {
        Self(format!("the engine refuses: {error:?}"))
    }
}

/// Takes the digest of a run into a report's hash. The order counts.
pub(crate) fn fold(report: &mut Report, digest: u64) {
    report.hash = Some(hash::fold(report.hash.unwrap_or(0), digest));
}

/// What a scenario is given.
pub struct Run<'a> {
    /// All that is random is drawn from it.
    pub seed: u64,
    /// Its options.
    pub values: Values,
    /// Told of each case that is done.
    pub progress: Listener<'a>,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("seed", &self.seed).field("values", &self.values).finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// Does something with each case, on all processors; gives the results in the order of the
    /// cases.
    ///
    /// # Errors
    /// The first case, in their order, that has one.
    ///
    /// # Panics
    /// When a case does.
    pub fn each<T: Sync, R: Send>(
        &self,
        cases: &[T],
        name: impl Fn(&T) -> String + Sync,
        work: impl Fn(&T) -> Result<R, ScenarioError> + Sync,
    ) -> Result<Vec<R>, ScenarioError> {
        cases::each(cases::processors(), self.progress, cases, name, work)
    }

    /// The same, one after the other: for what takes the time of this processor.
    ///
    /// # Errors
    /// As [`each`](Self::each).
    pub fn each_alone<T: Sync, R: Send>(
        &self,
        cases: &[T],
        name: impl Fn(&T) -> String + Sync,
        work: impl Fn(&T) -> Result<R, ScenarioError> + Sync,
    ) -> Result<Vec<R>, ScenarioError> {
        cases::each(1, self.progress, cases, name, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names_and_defaults_of_their_own() {
        for (index, scenario) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != scenario.name) && scenario.name != "list", "{}", scenario.name);
            Values::read(scenario.options, &[]).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
    }
}
