// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a paper shows, beside what was measured. Data only.

use bellwire_report::model::{Plot, Table};
use serde::Serialize;

use super::judge::{Statement, Verdict};
use super::values::Values;

/// A table or a figure.
#[derive(Debug, Clone, Serialize)]
pub struct Exhibit {
    /// As the paper calls it: "Table 3".
    pub name: &'static str,
    /// How it is to be read: a sentence or two each.
    pub about: Vec<String>,
    /// The numbers, also of a figure.
    pub table: Table,
    /// A figure as bars.
    #[serde(skip)]
    pub bars: Vec<bellwire_report::bars::Bars>,
    /// A figure as lines.
    pub plots: Vec<Plot>,
}

impl Exhibit {
    /// A table.
    pub fn table(name: &'static str, about: impl IntoIterator<Item = &'static str>, table: Table) -> Self {
        Self { name, about: about.into_iter().map(str::to_owned).collect(), table, bars: Vec::new(), plots: Vec::new() }
    }
}

/// A paper beside measurements.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Its number.
    pub paper: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Under what was measured, and how that is to be read.
    pub about: Vec<String>,
    /// Tables and figures, in the paper's order.
    pub exhibits: Vec<Exhibit>,
    /// What the text says.
    pub statements: Vec<Statement>,
    /// Measurements that failed.
    pub failures: Vec<String>,
    /// The figures behind all of it, by name and round.
    pub values: Values,
}

impl Found {
    /// How many statements have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.statements.iter().filter(|statement| statement.verdict == verdict).count()
    }

    /// All in one sentence.
    pub fn summary(&self) -> String {
        format!(
            "{} tables and figures; of {} statements {} hold, {} do not hold, {} are not comparable",
            self.exhibits.len(),
            self.statements.len(),
            self.count(Verdict::Holds),
            self.count(Verdict::DoesNotHold),
            self.count(Verdict::NotComparable)
        )
    }
}
