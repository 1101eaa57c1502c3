// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the costs that the paper leaves open were found: fitted on the round trips of 8 and 64 bytes
//! of all designs at once. One cost after the other goes up and down by its step as long as that
//! helps. All other entries of Table 5, and all figures, are predictions.
//!
//! Round trips show only the sum of what a message costs its sender and its receiver; both are
//! taken to be the same (`send = receive + poll`). Copying eight bytes takes at least three cycles:
//! a load, a store, a share of the loop.

use super::bench::round_trip;
use super::table5::PAPER;
use crate::engine::Stuck;
use crate::machine::{Costs, Parameters};
use crate::ni;
use crate::time::Time;

/// A cost that is fitted.
struct Fitted {
    name: &'static str,
    step: u64,
    least: u64,
    of: fn(&mut Costs) -> &mut u64,
}

const fn fitted(name: &'static str, step: u64, least: u64, of: fn(&mut Costs) -> &mut u64) -> Fitted {
    Fitted { name, step, least, of }
}

/// All of them.
const FITTED: [Fitted; 7] = [
    fitted("receive_cycles", 5, 0, |costs| &mut costs.receive_cycles),
    fitted("poll_cycles", 5, 5, |costs| &mut costs.poll_cycles),
    fitted("copy_cycles", 1, 3, |costs| &mut costs.copy_cycles),
    fitted("arbitration_cycles", 1, 1, |costs| &mut costs.arbitration),
    fitted("data_arbitration_cycles", 1, 1, |costs| &mut costs.data_arbitration),
    fitted("cache_supply_ns", 5_000, 5_000, |costs| &mut costs.cache_supply.0),
    fitted("master_switch_ns", 5_000, 0, |costs| &mut costs.master_switch.0),
];

/// Names of the fitted costs.
pub fn names() -> impl Iterator<Item = &'static str> {
    FITTED.iter().map(|cost| cost.name).chain(["send_cycles"])
}

/// Where the fit begins: what one would guess of a processor and a bus of the time.
pub fn first_guess() -> Costs {
    let (receive_cycles, poll_cycles, cache_supply, master_switch) = (60, 20, Time::from_ns(20), Time::from_ns(50));
    tied(Costs { receive_cycles, poll_cycles, copy_cycles: 4, arbitration: 4, data_arbitration: 2, cache_supply, master_switch, ..Costs::default() })
}

fn tied(costs: Costs) -> Costs {
    Costs { send_cycles: costs.receive_cycles + costs.poll_cycles, ..costs }
}

/// Root of the mean square of how far the round trips are from the paper's, in percent.
///
/// # Errors
/// If a simulation gets stuck.
///
/// # Panics
/// If a design of the table does not exist.
pub fn distance(costs: &Costs) -> Result<f64, Stuck> {
    let machine = Parameters { costs: costs.clone(), ..Parameters::default() };
    let (mut sum, mut count) = (0.0, 0);
    for (name, round_trips, _) in PAPER {
        for (payload, paper) in [8, 64].into_iter().zip(round_trips.into_iter().flatten()) {
            let design = ni::find(name).expect("the table names designs that exist");
            sum += (round_trip(&machine, design, payload)?.0.as_ns() / 1e3 / paper).ln().powi(2);
            count += 1;
        }
    }
    Ok((sum / f64::from(count)).sqrt() * 100.0)
}

/// Fits from `start` on; `tell` hears of each step. The costs, and their distance.
///
/// # Errors
/// If a simulation gets stuck.
pub fn fit(start: Costs, mut tell: impl FnMut(&'static str, f64)) -> Result<(Costs, f64), Stuck> {
    let (mut best, mut least) = (start.clone(), distance(&start)?);
    loop {
        let before = least;
        for cost in &FITTED {
            for up in [false, true] {
                let mut tried = best.clone();
                let value = (cost.of)(&mut tried);
                *value = if up { *value + cost.step } else { value.saturating_sub(cost.step).max(cost.least) };
                let tried = tied(tried);
                let found = distance(&tried)?;
                if found < least {
                    (best, least) = (tried, found);
                    tell(cost.name, found);
                }
            }
        }
        if least == before {
            return Ok((best, least));
        }
    }
}
