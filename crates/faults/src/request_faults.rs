// SPDX-License-Identifier: MIT OR Apache-2.0
//! Possible faults of requests, as data; the fates that they give are in `requests.rs`.

use crate::probability::Probability;
use crate::units::decimal;

/// Faults of the requests that go over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFaults {
    /// A message finds no receive at its peer.
    pub unready: Probability,
    /// How often in turn; at least once.
    pub unready_times: u16,
    /// The peer does not answer.
    pub unanswered: Probability,
    /// The peer refuses access to its memory.
    pub denied: Probability,
    /// The queue pair fails by itself.
    pub broken: Probability,
    /// The process ends, as if killed.
    pub death: Probability,
}

impl Default for RequestFaults {
    fn default() -> Self {
        let never = Probability::NEVER;
        Self { unready: never, unready_times: 1, unanswered: never, denied: never, broken: never, death: never }
    }
}

impl RequestFaults {
    /// Sets one clause; says whether requests have such a fault.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "rnr" => {
                let (probability, times) = value.split_once(':').map_or((value, None), |(a, b)| (a, Some(b)));
                self.unready = Probability::parse(probability)?;
                self.unready_times = match times {
                    None => 1,
                    Some(n) => match decimal(n, 1).ok().and_then(|n| u16::try_from(n).ok()) {
                        Some(n) if n != 0 => n,
                        _ => return Err(format!("{n}: a receive is missing 1 to 65535 times in turn")),
                    },
                };
            }
            "unanswered" => self.unanswered = Probability::parse(value)?,
            "denied" => self.denied = Probability::parse(value)?,
            "qp" => self.broken = Probability::parse(value)?,
            "death" => self.death = Probability::parse(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The clauses of all that is unusual.
    pub(crate) fn clauses(&self) -> Vec<String> {
        let Self { unready, unready_times, unanswered, denied, broken, death } = *self;
        let mut clauses = Vec::new();
        if (unready, unready_times) != (Probability::NEVER, 1) {
            clauses.push(format!("rnr={unready}:{unready_times}"));
        }
        for (name, p) in [("unanswered", unanswered), ("denied", denied), ("qp", broken), ("death", death)] {
            if p != Probability::NEVER {
                clauses.push(format!("{name}={p}"));
            }
        }
        clauses
    }
}
