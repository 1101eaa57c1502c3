// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paper 001: a message-passing library moves from UDP to VIs, step by step. The rungs are those of
//! [`crate::ladder`]. Only the paper's abstract was at hand, which has few numbers.

mod claims;
mod exhibits;
mod steps;

use super::model::Found;
use super::{Options, about_machine, about_quick, by_library, measure};
use crate::route::Route;
use crate::session::SessionConfig;

/// Measures and sets it beside the paper.
pub fn run(options: &Options) -> Found {
    let (values, failures) = measure(&ways(&options.session), &steps::steps(options.quick), options);
    let mut about = vec![
        about_machine(&options.session),
        format!("Rounds: {}; each figure once in a round, in turn; cells are medians.", options.rounds),
        "The paper's networks were GigaNet cLAN and Tandem ServerNet. Only its abstract is set beside ours: the mean reduction of latency, and what brought it.".to_owned(),
        "UDP sockets reach the other process over loopback, beside VIs by shared memory and beside VIs by UDP over loopback.".to_owned(),
    ];
    about.extend(about_quick(options));
    Found {
        paper: "001",
        title: "Realizing the performance potential of the Virtual Interface Architecture",
        about,
        exhibits: exhibits::all(&values, options.quick),
        statements: claims::all(options.quick).iter().map(|claim| claim.judge(&values)).collect(),
        failures,
        values,
    }
}

/// Shared memory, and UDP over loopback; then the same, where waits sleep at once.
fn ways(session: &SessionConfig) -> [SessionConfig; 4] {
    let shm = by_library(session);
    let udp = SessionConfig { route: Route::loopback(), ..shm.clone() };
    let asleep = |way: &SessionConfig| {
        let mut way = way.clone();
        way.environment.push(("BELLWIRE_SPIN_US", "0".to_owned()));
        way
    };
    let (shm_asleep, udp_asleep) = (asleep(&shm), asleep(&udp));
    [shm, udp, shm_asleep, udp_asleep]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::checks::{self, all_is_measured, made_up};
    use crate::papers::judge::Verdict;
    use crate::papers::values::Values;

    #[test]
    fn what_is_shown_is_measured() {
        for quick in [false, true] {
            let values = made_up(&checks::names(&steps::steps(quick)), 5);
            all_is_measured(&exhibits::all(&values, quick), &claims::all(quick), &values);
        }
    }

    #[test]
    fn a_reduction_is_judged_by_its_mean_over_all_sizes() {
        for (above, verdict) in [(0.4, Verdict::Holds), (0.6, Verdict::DoesNotHold)] {
            let mut values = Values::default();
            for round in 1..=5 {
                for bytes in steps::sizes(false) {
                    for (name, _) in steps::ROUTES {
                        values.note(&steps::latency(crate::ladder::Rung::Udp, *bytes, name), round, 1000.0);
                        values.note(&steps::waiting(steps::Waits::Blocking, *bytes, name), round, 1000.0 * above);
                        values.note(&steps::waiting(steps::Waits::SpinThenBlock, *bytes, name), round, 1000.0 * above);
                        for rung in &crate::ladder::Rung::ALL[1..] {
                            values.note(&steps::latency(*rung, *bytes, name), round, 1000.0 * above);
                        }
                    }
                }
            }
            let claims = claims::all(false);
            let mean: Vec<_> = claims.iter().filter(|claim| claim.text.contains("55 %")).map(|claim| claim.judge(&values).verdict).collect();
            assert_eq!(mean, [verdict; 2]);
        }
    }

    #[test]
    fn names_are_unique() {
        checks::names_are_unique(checks::names(&steps::steps(false)));
    }
}
