// SPDX-License-Identifier: MIT OR Apache-2.0
//! Today's designs, and two of the paper's beside them, on a machine of today: round trips and
//! bandwidths as in Table 5.

use super::table5::{BANDWIDTHS, ROUND_TRIPS};
use super::{Case, Measure};
use crate::machine::Parameters;
use crate::ni::{self, TODAY};

/// Designs of the paper that stand beside today's.
pub const BESIDE: [&str; 2] = ["ni2w", "cni32qm"];

/// The measurements of each design.
pub fn measures() -> impl Iterator<Item = Measure> {
    ROUND_TRIPS.into_iter().map(Measure::RoundTrip).chain(BANDWIDTHS.into_iter().map(Measure::Bandwidth))
}

/// The simulations: design by design, measure by measure.
///
/// # Panics
/// If a design does not exist.
pub fn cases(machine: &Parameters) -> Vec<Case> {
    let designs = TODAY.into_iter().chain(BESIDE).map(|name| ni::find(name).expect("the figure names designs that exist"));
    designs.flat_map(|design| measures().map(move |measure| Case::new(measure, design, machine.clone()))).collect()
}
