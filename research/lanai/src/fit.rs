// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the costs that the paper leaves open were found: fitted on all figures of Table 2 that are
//! not differences of others, and on the raw VI's half round trips of Table 1. One cost after the
//! other goes up and down by a step as long as that helps; so do two costs of one
//! machine, one up and one down, for many figures show only their sum; then the step is halved.

use crate::Error;
use crate::costs::{Costs, Fits, Fitted, machines};
use crate::paper::{RAW, TABLE2};
use crate::program::{LogP, Pair, Raw};
use bellwire_amvia::Mapping;
use std::collections::HashMap;

/// The steps of the search, from coarse to fine, ns.
const STEPS: [u64; 6] = [1_600, 800, 400, 200, 100, 50];
/// No cost is less.
const LEAST: u64 = 100;

/// The changes that are tried: a cost up or down, or one up and another of the same machine down.
fn changes() -> Vec<Vec<(Fitted, bool)>> {
    let single = Fits::ALL.into_iter().flat_map(|fitted| [false, true].map(|is_up| vec![(fitted, is_up)]));
    let pairs = Fits::ALL.into_iter().flat_map(|up| {
        let others = Fits::ALL.into_iter().filter(move |down| down.name != up.name && down.is_lanai_7 == up.is_lanai_7);
        others.map(move |down| vec![(up, true), (down, false)])
    });
    single.chain(pairs).collect()
}

/// Pairs that are measured again and again, with costs that differ.
pub struct Lab {
    v1: Pair,
    v3: Pair,
    raw: Raw,
    /// Measurements so far: of v1, and of v3; of raw VIs.
    known: [HashMap<Costs, LogP>; 2],
    known_raw: HashMap<Costs, f64>,
}

/// Tables 1 and 2 as they are simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The raw VI's half round trip, ns: LANai 4, LANai 7.
    pub raw: [f64; 2],
    /// The lines of Table 2.
    pub lines: [LogP; 3],
}

impl Simulated {
    /// A line of Table 2 as the paper has it, us: half a round trip, delta, L, `o_s`, `o_r`, gap.
    pub fn line(&self, row: usize) -> [f64; 6] {
        let of = &self.lines[row];
        let raw = self.raw[usize::from(row > 0)];
        [of.half, of.half - raw, of.half - of.o_s - of.o_r, of.o_s, of.o_r, of.gap].map(|ns| ns / 1e3)
    }
}

impl Lab {
    /// Opens and connects everything.
    ///
    /// # Errors
    /// Why not.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { v1: Pair::new(Mapping::V1)?, v3: Pair::new(Mapping::V3)?, raw: Raw::new()?, known: Default::default(), known_raw: HashMap::new() })
    }

    /// LogP of a mapping, v1 or else v3, with these costs.
    ///
    /// # Errors
    /// A message is lost.
    pub fn measure(&mut self, mapping: Mapping, costs: &Costs) -> Result<LogP, Error> {
        let (pair, known) = if mapping == Mapping::V1 { (&mut self.v1, &mut self.known[0]) } else { (&mut self.v3, &mut self.known[1]) };
        if let Some(found) = known.get(costs) {
            return Ok(*found);
        }
        let found = pair.measure(costs)?;
        known.insert(costs.clone(), found);
        Ok(found)
    }

    /// Half a round trip of the raw VI, ns.
    ///
    /// # Errors
    /// A message is lost.
    pub fn raw(&mut self, costs: &Costs) -> Result<f64, Error> {
        if let Some(found) = self.known_raw.get(costs) {
            return Ok(*found);
        }
        let found = self.raw.half(costs)?;
        self.known_raw.insert(costs.clone(), found);
        Ok(found)
    }

    /// Tables 1 and 2.
    ///
    /// # Errors
    /// A message is lost.
    pub fn tables(&mut self, fits: &Fits) -> Result<Simulated, Error> {
        let raw = [self.raw(&Costs::of_paper(fits, false))?, self.raw(&Costs::of_paper(fits, true))?];
        let [a, b, c] = machines(fits);
        let lines = [self.measure(a.mapping, &a.costs)?, self.measure(b.mapping, &b.costs)?, self.measure(c.mapping, &c.costs)?];
        Ok(Simulated { raw, lines })
    }

    /// Root of the mean square of how far the figures are from the paper's, in per cent.
    ///
    /// # Errors
    /// A message is lost.
    pub fn distance(&mut self, fits: &Fits) -> Result<f64, Error> {
        let simulated = self.tables(fits)?;
        let raw = simulated.raw.iter().zip(RAW).map(|(ns, paper)| (ns / 1e3, paper));
        // Delta and L are differences of the others.
        let lines = (0..3).flat_map(|row| [0, 3, 4, 5].map(|column| (simulated.line(row)[column], TABLE2[row].1[column])));
        let squares: Vec<f64> = raw.chain(lines).map(|(ours, paper)| (ours / paper).ln().powi(2)).collect();
        Ok((squares.iter().sum::<f64>() / squares.len() as f64).sqrt() * 100.0)
    }

    /// Fits from `start` on, by these steps; `tell` hears of each change. The fits, and their
    /// distance.
    ///
    /// # Errors
    /// A message is lost.
    pub fn fit(&mut self, start: Fits, steps: &[u64], mut tell: impl FnMut(&Fits, f64)) -> Result<(Fits, f64), Error> {
        let (mut best, mut least) = (start, self.distance(&start)?);
        for step in steps {
            loop {
                let before = least;
                for change in changes() {
                    let mut tried = best;
                    change.iter().for_each(|(fitted, is_up)| {
                        let value = (fitted.of)(&mut tried);
                        *value = if *is_up { *value + step } else { value.saturating_sub(*step).max(LEAST) };
                    });
                    if tried == best {
                        continue;
                    }
                    let found = self.distance(&tried)?;
                    if found < least {
                        (best, least) = (tried, found);
                        tell(&best, found);
                    }
                }
                if least == before {
                    break;
                }
            }
        }
        Ok((best, least))
    }

    /// Fits from the guess on.
    ///
    /// # Errors
    /// A message is lost.
    pub fn fit_all(&mut self, tell: impl FnMut(&Fits, f64)) -> Result<(Fits, f64), Error> {
        self.fit(Fits::GUESS, &STEPS, tell)
    }

    /// Whether no cost alone can be changed by the last step so that the fit is better.
    ///
    /// # Errors
    /// A message is lost.
    pub fn is_settled(&mut self, fits: Fits) -> Result<bool, Error> {
        Ok(self.fit(fits, &STEPS[STEPS.len() - 1..], |_, _| ())?.0 == fits)
    }
}
