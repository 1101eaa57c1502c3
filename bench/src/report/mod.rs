// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is shown as: tables for people, JSON for programs, a plot.

pub mod json;
pub mod plot;
pub mod table;

use crate::error::Error;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::samples::Samples;

/// A finished run.
#[derive(Debug)]
pub struct Report {
    /// Where it was.
    pub machine: Machine,
    /// Library and NIC; nothing if the library was not measured.
    pub library: Option<String>,
    /// Reliability and way of waiting.
    pub conditions: String,
    /// The way between the processes, for programs.
    pub wire: &'static str,
    /// The same in words.
    pub way: String,
    /// Rounds.
    pub rounds: usize,
    /// Names and versions of the peers.
    pub peers: Vec<String>,
    /// Peers that were not there.
    pub missing: Vec<String>,
    /// Whether limits and peers were measured.
    pub compared: bool,
    /// All samples.
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

/// A size as people write it.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes() {
        let text: Vec<String> = [0, 8, 1500, 4096, 65536, 4 << 20].into_iter().map(super::size_text).collect();
        assert_eq!(text, ["0 B", "8 B", "1500 B", "4 KiB", "64 KiB", "4 MiB"]);
    }
}
