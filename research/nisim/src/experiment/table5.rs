// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's Table 5, and ours beside it: round trips in microseconds, bandwidths in MB/s.

use super::{Case, Failure, Measure};
use crate::machine::Parameters;
use crate::ni;

/// Payloads of the round trips, in bytes.
pub const ROUND_TRIPS: [usize; 3] = [8, 64, 256];
/// Payloads of the bandwidths, in bytes.
pub const BANDWIDTHS: [usize; 4] = [8, 64, 256, 4096];

/// A row of the paper's table: design, round trips, bandwidths. Throttling has no round trips.
pub type PaperRow = (&'static str, Option<[f64; 3]>, [f64; 4]);

/// The paper's table.
pub const PAPER: [PaperRow; 8] = [
    ("ni2w", Some([2.41, 5.25, 15.11]), [17.0, 54.0, 63.0, 69.0]),
    ("udma-always", Some([4.48, 5.83, 10.10]), [7.0, 42.0, 78.0, 109.0]),
    ("ap3000", Some([1.95, 2.48, 4.47]), [26.0, 154.0, 234.0, 298.0]),
    ("startjr", Some([1.54, 2.38, 5.04]), [29.0, 119.0, 191.0, 221.0]),
    ("memory-channel", Some([1.55, 2.42, 4.89]), [27.0, 119.0, 191.0, 221.0]),
    ("cni512q", Some([1.56, 2.22, 4.17]), [28.0, 134.0, 209.0, 259.0]),
    ("cni32qm", Some([1.29, 1.78, 3.42]), [36.0, 120.0, 189.0, 209.0]),
    ("cni32qm-throttle", None, [36.0, 158.0, 272.0, 351.0]),
];

/// One entry: ours and the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The design's name.
    pub design: &'static str,
    /// The measurement.
    pub measure: Measure,
    /// What the simulation gives.
    pub ours: f64,
    /// What the paper has.
    pub paper: f64,
}

impl Entry {
    /// How far ours is from the paper's, as a part of the paper's.
    pub fn deviation(&self) -> f64 {
        self.ours / self.paper - 1.0
    }

    /// Whether the open costs were fitted on it; the others are predictions.
    pub fn is_fitted(&self) -> bool {
        matches!(self.measure, Measure::RoundTrip(payload) if payload <= 64)
    }
}

/// Its simulations, and the paper's value of each.
///
/// # Panics
/// If a design of the table does not exist.
pub fn cases(machine: &Parameters) -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for (name, round_trips, bandwidths) in PAPER {
        let design = ni::find(name).expect("the table names designs that exist");
        let round_trips = ROUND_TRIPS.map(Measure::RoundTrip).into_iter().zip(round_trips.into_iter().flatten());
        let all = round_trips.chain(BANDWIDTHS.map(Measure::Bandwidth).into_iter().zip(bandwidths));
        cases.extend(all.map(|(measure, paper)| (Case::new(measure, design, machine.clone()), paper)));
    }
    cases
}

/// What a case of the table gave, beside the paper's value.
pub fn entry((case, paper): &(Case, f64), ours: f64) -> Entry {
    Entry { design: case.design.name, measure: case.measure, ours, paper: *paper }
}

/// All entries, one after the other.
///
/// # Errors
/// If a simulation gets stuck.
pub fn table5(machine: &Parameters) -> Result<Vec<Entry>, Failure> {
    cases(machine).iter().map(|case| Ok(entry(case, case.0.run()?.value))).collect()
}

/// The median of the deviations without their signs.
pub fn median_deviation(entries: &[Entry]) -> f64 {
    let mut all: Vec<f64> = entries.iter().map(|entry| entry.deviation().abs()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
