// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals of other projects' programs over Bellwire's verbs.

use super::{Bound, Goal, Table};
use crate::plan::series as s;
use crate::report::size_text;
use crate::samples::{Metric, Samples};
use crate::verbs::stack::Stack;

const SHORT: u64 = 8;
const LONG: u64 = 1 << 20;

/// The goals of a stack for which both sides were measured.
pub fn evaluate_stack(samples: &Samples, stack: Stack) -> Vec<Goal> {
    let table = Table { samples };
    let goal = |metric: Metric, what: &str, size, ours, other, bound| {
        let what = format!("{what} {}", size_text(size));
        Goal::new(what, metric.unit(), table.side(metric, ours, size), table.side(metric, other, size), bound)
    };
    let (latency, bandwidth) = (Metric::Latency, Metric::Bandwidth);
    let mut goals = match stack {
        Stack::Ucx => vec![
            goal(latency, "UCX tag over verbs", SHORT, s::STACK_RC, s::OURS, Bound::AtMost(2.0)),
            goal(latency, "UCX tag over verbs", SHORT, s::STACK_RC, s::UCX_TCP, Bound::AtMost(0.5)),
            goal(bandwidth, "UCX tag over verbs", LONG, s::STACK_RC, s::ATTACH, Bound::AtLeast(0.8)),
        ],
        Stack::Ofi => vec![
            goal(latency, "libfabric over verbs", SHORT, s::STACK_VERBS, s::FABRIC_TCP, Bound::AtMost(0.5)),
            goal(latency, "Bellwire's provider", SHORT, s::STACK_PROVIDER, s::SHM_TAGGED, Bound::AtMost(1.0)),
        ],
        Stack::Mpi => vec![goal(latency, "MPICH over verbs", SHORT, s::STACK_RC, s::UCX_TCP, Bound::AtMost(0.5))],
        Stack::Perftest => vec![
            goal(latency, "ib_send_lat", SHORT, s::STACK_PERFTEST, s::OURS, Bound::AtMost(1.5)),
            goal(Metric::WriteLatency, "ib_write_lat", SHORT, s::STACK_PERFTEST, s::OURS, Bound::AtMost(1.5)),
            goal(Metric::ReadLatency, "ib_read_lat", SHORT, s::STACK_PERFTEST, s::OURS, Bound::AtMost(1.5)),
            goal(Metric::WriteBandwidth, "ib_write_bw", LONG, s::STACK_PERFTEST, s::OURS, Bound::AtLeast(0.9)),
        ],
    };
    goals.retain(Goal::has_both);
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_bound() {
        let samples = Samples::made_up(&[
            (Metric::Latency, s::STACK_RC, SHORT, 900.0),
            (Metric::Latency, s::OURS, SHORT, 400.0),
            (Metric::Latency, s::UCX_TCP, SHORT, 6000.0),
            (Metric::Bandwidth, s::STACK_RC, LONG, 8.5),
            (Metric::Bandwidth, s::ATTACH, LONG, 10.0),
        ]);
        let met = |stack| evaluate_stack(&samples, stack).iter().map(|goal| goal.met).collect::<Vec<_>>();
        assert_eq!(met(Stack::Ucx), [Some(false), Some(true), Some(true)]);
        assert_eq!(met(Stack::Mpi), [Some(true)]);
        assert_eq!(met(Stack::Perftest), []);
    }
}
