// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this host offers to Bellwire, and why: `bellwire info`.
//!
//! ```text
//!   inspect ─┬─ ways       what the data path needs, tried with the real calls (probe: two helper processes)
//!            ├─ limits     processors, clock, memory, descriptors
//!            └─ library    libvipl: found, loaded, opened; the machine's two-line exchange
//!   peer ────── what a connection to one given process would use
//! ```
//!
//! Everything is a [`Fact`]: a value, its reason, and what to do where something is missing. Nothing is guessed from a setting that can be tried.

pub mod attach;
pub mod library;
pub mod limits;
pub mod peer;
pub mod probe;
pub mod report;
pub mod ways;

use std::path::PathBuf;

use serde::Serialize;

use crate::pin::Pinning;

/// How good a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There, and works.
    Ok,
    /// A number or a name; neither good nor bad.
    Plain,
    /// Works, but slower or less than it could.
    Limited,
    /// Does not work here; Bellwire goes another way.
    Missing,
    /// Without it nothing works.
    Broken,
    /// Not built yet.
    Later,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it belongs to: `memory`, `waiting`, ...
    pub topic: &'static str,
    /// What it is about; stable, for programs.
    pub name: &'static str,
    /// How good it is.
    pub status: Status,
    /// What was found.
    pub value: String,
    /// Why it is so, or what it is used for; may be empty.
    pub reason: String,
    /// What to do about it; empty where nothing needs doing.
    pub advice: String,
}

impl Fact {
    /// A fact without advice.
    pub fn new(topic: &'static str, name: &'static str, status: Status, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Fact { topic, name, status, value: value.into(), reason: reason.into(), advice: String::new() }
    }

    /// The same with something to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Fact { advice: advice.into(), ..self }
    }
}

/// What an inspection needs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Executable and hidden argument that end up in [`probe::main`].
    pub helper: (PathBuf, &'static str),
    /// The library asked for, if one was.
    pub library: Option<PathBuf>,
    /// The device to open.
    pub device: String,
    /// Where two processes exchange lines.
    pub pinning: Pinning,
}

/// Everything that is known of this host now. Never fails: what cannot be found out is a fact too.
pub fn inspect(options: &Options) -> Vec<Fact> {
    let mut facts = Vec::new();
    ways::inspect((&options.helper.0, options.helper.1), &mut facts);
    limits::inspect(&mut facts);
    library::inspect(options, &mut facts);
    // Topics in the order in which they came first.
    let order: Vec<&str> = facts.iter().map(|fact| fact.topic).collect();
    facts.sort_by_key(|fact| order.iter().position(|topic| *topic == fact.topic));
    facts
}

/// The value of `Key:` in a file such as /proc/self/status.
pub(crate) fn status_field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// A number of bytes as people write it.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 || value.fract() < 0.05 { format!("{value:.0} {}", UNITS[unit]) } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_words() {
        let text = "Seccomp_filters:\t1\nSeccomp:\t2\nUid:\t0\t0\t0\t0\n";
        assert_eq!((status_field(text, "Seccomp"), status_field(text, "Uid"), status_field(text, "Gid")), (Some("2"), Some("0\t0\t0\t0"), None));
    }

    #[test]
    fn bytes() {
        assert_eq!([0, 512, 1536, 64 << 20, 3_435_973_836].map(bytes_text), ["0 B", "512 B", "1.5 KiB", "64 MiB", "3.2 GiB"]);
    }
}
