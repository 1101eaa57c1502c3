// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paper 000: Active Messages and Split-C on VI primitives. Both run here as it describes them, on
//! the public calls of libvipl: the mappings of `crates/amvia`, and [`crate::splitc`].

mod claims;
mod exhibits;
mod paper;
mod parts;
mod steps;

use super::model::Found;
use super::{Options, about_machine, measure};
use crate::route::Route;
use crate::session::SessionConfig;

/// Measures and sets it beside the paper.
pub fn run(options: &Options) -> Found {
    let (values, failures) = measure(&ways(&options.session), &steps::steps(options.quick), options);
    let mut about = vec![
        about_machine(&options.session),
        format!("Rounds: {}; each figure once in a round, in turn; cells are medians. Over shared memory where nothing else is said.", options.rounds),
        "The paper's machines are of 1999: absolute times are not compared, but what is more than what, and which share of the whole.".to_owned(),
    ];
    if options.quick {
        about.push("A quick run: so short that its times say nothing.".to_owned());
    }
    Found {
        paper: "000",
        title: paper::TITLE,
        about,
        exhibits: exhibits::all(&values, options.quick),
        statements: claims::all().iter().map(|claim| claim.judge(&values)).collect(),
        failures,
        values,
    }
}

/// Shared memory, guarded, and UDP over loopback.
fn ways(session: &SessionConfig) -> [SessionConfig; 3] {
    let mut base = session.clone();
    if let Some(library) = &base.library {
        base.environment.push(("BELLWIRE_VIPL", library.to_string_lossy().into_owned()));
    }
    let mut guarded = base.clone();
    guarded.environment.push(("BELLWIRE_MODE", "guarded".to_owned()));
    let udp = SessionConfig { route: Route::loopback(), ..base.clone() };
    [base, guarded, udp]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::judge::Verdict;
    use crate::papers::values::Values;

    /// Values for every name that is measured, so that no cell may be missing.
    fn made_up(quick: bool, rounds: usize) -> Values {
        let mut values = Values::default();
        for round in 1..=rounds {
            for step in steps::steps(quick) {
                step.names.iter().for_each(|name| values.note(name, round, 100.0 + name.len() as f64));
            }
        }
        values
    }

    #[test]
    fn what_is_shown_is_measured() {
        for quick in [false, true] {
            let values = made_up(quick, 5);
            for exhibit in exhibits::all(&values, quick) {
                let text = serde_json::to_string(&exhibit.table).unwrap();
                assert!(!text.contains("not measured") && !exhibit.table.rows.is_empty(), "{}: {text}", exhibit.name);
            }
            for claim in claims::all() {
                let reason = claim.judge(&values).reason;
                assert!(!reason.contains("could not be measured"), "{}: {reason}", claim.text);
            }
        }
    }

    #[test]
    fn one_round_judges_nothing() {
        let values = made_up(true, 1);
        assert!(claims::all().iter().all(|claim| claim.judge(&values).verdict == Verdict::NotComparable));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = steps::steps(false).into_iter().flat_map(|step| step.names).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
