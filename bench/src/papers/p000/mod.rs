// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paper 000: Active Messages and Split-C on VI primitives. Both run here as it describes them, on
//! the public calls of libvipl: the mappings of `crates/amvia`, and [`crate::splitc`].

mod claims;
mod exhibits;
mod nic;
mod paper;
mod parts;
mod steps;

use super::model::Found;
use super::values::{ROUNDS_MIN, Values};
use super::{Options, about_machine, about_quick, by_library, measure};
use crate::error::Error;
use crate::route::Route;
use crate::session::SessionConfig;

/// Measures and sets it beside the paper.
pub fn run(options: &Options) -> Found {
    let (mut values, mut failures) = measure(&ways(&options.session), &steps::steps(options.quick), options);
    failures.extend(nic::note(&mut values, options.rounds).err().map(|error| format!("the NIC's share: {error}")));
    let mut about = vec![
        about_machine(&options.session),
        format!("Rounds: {}; each figure once in a round, in turn; cells are medians. Over shared memory where nothing else is said.", options.rounds),
        "The paper's machines are of 1999: absolute times are not compared, but what is more than what, and which share of the whole.".to_owned(),
    ];
    about.extend(about_quick(options));
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

/// The simulated part alone, which takes seconds and needs no library.
///
/// # Errors
/// The simulation fails.
pub fn simulated() -> Result<Found, Error> {
    let mut values = Values::default();
    nic::note(&mut values, ROUNDS_MIN)?;
    let all = claims::all();
    let judged = all.iter().map(|claim| claim.judge(&values));
    Ok(Found {
        paper: "000",
        title: paper::TITLE,
        about: vec!["Only what is simulated, in virtual time: each run gives the same figures.".to_owned()],
        exhibits: nic::exhibits(&values).into(),
        statements: judged.filter(|statement| statement.estimate.is_some()).collect(),
        failures: Vec::new(),
        values,
    })
}

/// Shared memory, guarded, and UDP over loopback.
fn ways(session: &SessionConfig) -> [SessionConfig; 3] {
    let base = by_library(session);
    let mut guarded = base.clone();
    guarded.environment.push(("BELLWIRE_MODE", "guarded".to_owned()));
    let udp = SessionConfig { route: Route::loopback(), ..base.clone() };
    [base, guarded, udp]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::checks::{self, all_is_measured, made_up};
    use crate::papers::judge::Verdict;

    #[test]
    fn what_is_shown_is_measured() {
        for quick in [false, true] {
            let mut values = made_up(&checks::names(&steps::steps(quick)), 5);
            nic::note(&mut values, 5).unwrap();
            all_is_measured(&exhibits::all(&values, quick), &claims::all(), &values);
        }
    }

    #[test]
    fn what_is_simulated_is_whole_alone() {
        let found = simulated().unwrap();
        assert_eq!(found.exhibits.len(), 3);
        assert!(!serde_json::to_string(&found.exhibits).unwrap().contains("not measured"));
        // The same figures in each round leave no doubt.
        assert!(found.statements.len() >= 6 && found.statements.iter().all(|statement| statement.verdict != Verdict::NotComparable));
        assert_eq!(found.values, simulated().unwrap().values);
    }

    #[test]
    fn one_round_judges_nothing() {
        let values = made_up(&checks::names(&steps::steps(true)), 1);
        assert!(claims::all().iter().all(|claim| claim.judge(&values).verdict == Verdict::NotComparable));
    }

    #[test]
    fn names_are_unique() {
        checks::names_are_unique(checks::names(&steps::steps(false)));
    }
}
