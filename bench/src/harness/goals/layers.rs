// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Active Messages are to reach: beside the raw VI, and beside what others use for the same.

use std::time::Duration;

use super::{Bound, Goal, Side, Table};
use crate::canary::Mode;
use crate::clock;
use crate::layer::{BULK, SHORT};
use crate::plan::series as s;
use crate::report::size_text;
use crate::samples::{Metric, Samples};

/// Most cycles that a message may cost above the raw VI's.
const DELTA_CYCLES_MAX: f64 = 100.0;
/// Half round trips beside those of others.
const PEERS: [(crate::samples::Series, f64); 4] = [(s::GASNET, 0.7), (s::UCX_AM, 0.7), (s::UCX_UCT_AM, 1.3), (s::SHM_MESSAGE, 0.7)];

/// The goals for which at least one side was measured.
pub fn evaluate_layers(samples: &Samples) -> Vec<Goal> {
    let table = Table { samples };
    let mut goals = Vec::new();
    table.short(&mut goals);
    for size in BULK {
        let (ours, write) = (table.side(Metric::WriteBandwidth, s::AM, size), table.side(Metric::WriteBandwidth, s::OURS, size));
        let write = write.map(|side| side.named("raw RDMA write"));
        goals.push(Goal::new(format!("bulk {}", size_text(size)), "GB/s", ours, write, Bound::AtLeast(0.95)));
    }
    goals.retain(Goal::has_both);
    goals
}

impl Table<'_> {
    fn short(&self, goals: &mut Vec<Goal>) {
        let ours = self.side(Metric::Latency, s::AM, SHORT);
        let raw = self.side(Metric::Latency, s::OURS, SHORT).map(|side| side.named("raw VI"));
        goals.push(Goal::new("half round trip".to_owned(), "ns", ours.clone(), raw.clone(), Bound::AtMost(1.35)));
        // A far round trip less a near one would be no cost.
        let compared = ours.as_ref().zip(raw.as_ref()).and_then(|(ours, raw)| ours.compare(raw));
        let delta = compared.map(|both| Side::one((both.ours - both.other).max(0.0) / clock::ns_per_tick(Duration::from_millis(20)), ""));
        let limit = Side::one(DELTA_CYCLES_MAX, "what it may be");
        let cost = Goal::new("mapping cost".to_owned(), "cycles", delta, Some(limit), Bound::AtMost(1.0));
        let mode = compared.and_then(|both| both.mode);
        goals.push(Goal { mode, far: mode == Some(Mode::Far), ..cost });
        let interval = self.side(Metric::Rate, s::OURS, SHORT).map(|side| side.map(|rate| 1e9 / rate).named("raw VI"));
        goals.push(Goal::new("request one way".to_owned(), "ns", self.side(Metric::Gap, s::AM_ONE_WAY, SHORT), interval, Bound::AtMost(1.5)));
        for (series, limit) in PEERS {
            goals.push(Goal::new("half round trip".to_owned(), "ns", ours.clone(), self.side(Metric::Latency, series, SHORT), Bound::AtMost(limit)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_of_what_was_measured() {
        let samples = Samples::made_up(&[
            (Metric::Latency, s::AM, SHORT, 104.0),
            (Metric::Latency, s::OURS, SHORT, 80.0),
            (Metric::Latency, s::GASNET, SHORT, 140.0),
            (Metric::Rate, s::OURS, SHORT, 25e6),
            (Metric::Gap, s::AM_ONE_WAY, SHORT, 50.0),
            (Metric::WriteBandwidth, s::AM, BULK[0], 9.0),
            (Metric::WriteBandwidth, s::OURS, BULK[0], 10.0),
        ]);
        let goals = evaluate_layers(&samples);
        let met = |what: &str, other: &str| goals.iter().find(|goal| goal.what.starts_with(what) && goal.other_name == other).and_then(|goal| goal.met);
        assert_eq!((met("half", "raw VI"), met("half", "GASNet-EX smp"), met("half", "UCX am")), (Some(true), Some(false), None));
        assert_eq!((met("request", "raw VI"), met("bulk", "raw RDMA write")), (Some(true), Some(false)));
        assert_eq!(goals.len(), 5);
    }
}
