// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of a paper's tables and statements against its measurements, the same for each paper.

use super::Step;
use super::judge::Claim;
use super::model::Exhibit;
use super::values::Values;

/// Values for every name that is measured, so that no cell may be missing.
pub fn made_up(names: &[String], rounds: usize) -> Values {
    let mut values = Values::default();
    for round in 1..=rounds {
        names.iter().for_each(|name| values.note(name, round, 100.0 + name.len() as f64));
    }
    values
}

/// The names of what jobs measure.
pub fn names(steps: &[Step]) -> Vec<String> {
    steps.iter().flat_map(|step| step.names.clone()).collect()
}

/// Each cell has its figure, and each statement could be judged.
pub fn all_is_measured(exhibits: &[Exhibit], claims: &[Claim<'_>], values: &Values) {
    for exhibit in exhibits {
        let text = serde_json::to_string(&exhibit.table).unwrap();
        assert!(!text.contains("not measured") && !exhibit.table.rows.is_empty(), "{}: {text}", exhibit.name);
    }
    for claim in claims {
        let reason = claim.judge(values).reason;
        assert!(!reason.contains("could not be measured"), "{}: {reason}", claim.text);
    }
}

/// No two figures have one name.
pub fn names_are_unique(mut names: Vec<String>) {
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
