// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals over UDP: against bare sockets and other libraries over the same way.

use super::{Bound, Goal, Table};
use crate::plan::{LOSS_GOAL_SIZE, UDP_BULK_GOAL_SIZES, WAIT_GOAL_US, series as s};
use crate::report::size_text;
use crate::samples::Metric;

impl Table<'_> {
    pub(super) fn over_udp(&self, goals: &mut Vec<Goal>) {
        let ours = self.side(Metric::Latency, s::OURS, 8);
        for (series, limit) in [(s::UDP, 1.15), (s::FABRIC_TCP, 0.7), (s::FABRIC_RXD, 0.7), (s::UCX_TCP, 0.7)] {
            let what = format!("latency 8 B / {}", series.name);
            goals.push(Goal::new(what, "ns", ours.clone(), self.side(Metric::Latency, series, 8), Bound::AtMost(limit)));
        }
        for (metric, row, name) in [(Metric::Blocking, 8, "latency 8 B"), (Metric::Waiting, WAIT_GOAL_US, "wake-up")] {
            let bare = self.side(metric, s::UDP, row).map(|side| side.named(format!("{}, blocking", s::UDP.name)));
            for series in [s::BLOCKING, s::SLEEPING] {
                let what = format!("{name}, {} / bare UDP, blocking", series.name);
                goals.push(Goal::new(what, "ns", self.side(metric, series, row), bare.clone(), Bound::AtMost(1.1)));
            }
        }
        for size in UDP_BULK_GOAL_SIZES {
            let what = format!("RDMA write {} / {}", size_text(size), s::UDP_BULK.name);
            let (ours, bare) = (self.side(Metric::WriteBandwidth, s::OURS, size), self.side(Metric::WriteBandwidth, s::UDP_BULK, size));
            goals.push(Goal::new(what, "GB/s", ours, bare, Bound::AtLeast(0.85)));
        }
        let (lossy, whole) = (self.side(Metric::Loss, s::LOSSY, LOSS_GOAL_SIZE), self.side(Metric::Loss, s::OURS, LOSS_GOAL_SIZE));
        let whole = whole.map(|side| side.named("nothing lost"));
        goals.push(Goal::new(format!("RDMA write {}, 2 % lost / nothing lost", size_text(LOSS_GOAL_SIZE)), "GB/s", lossy, whole, Bound::AtLeast(0.5)));
    }
}

#[cfg(test)]
mod tests {
    use crate::goals::evaluate;
    use crate::plan::series as s;
    use crate::samples::{Metric, Samples};

    #[test]
    fn each_has_its_bound() {
        let samples = Samples::made_up(&[
            (Metric::Latency, s::OURS, 8, 3000.0),
            (Metric::Latency, s::UDP, 8, 2700.0),
            (Metric::Latency, s::UCX_TCP, 8, 4000.0),
            (Metric::Blocking, s::SLEEPING, 8, 24_000.0),
            (Metric::Blocking, s::UDP, 8, 24_000.0),
            (Metric::WriteBandwidth, s::OURS, 1 << 20, 4.0),
            (Metric::WriteBandwidth, s::UDP_BULK, 1 << 20, 5.0),
            (Metric::Loss, s::OURS, 1 << 20, 4.0),
            (Metric::Loss, s::LOSSY, 1 << 20, 2.1),
        ]);
        let goals = evaluate(&samples, true);
        let met = |what: &str| goals.iter().find(|goal| goal.what == what).map(|goal| goal.met);
        assert_eq!(met("latency 8 B / bare UDP"), Some(Some(true)));
        assert_eq!(met("latency 8 B / UCX tcp"), Some(Some(false)));
        assert_eq!(met("latency 8 B / libfabric tcp"), Some(None));
        assert_eq!(met("latency 8 B, sleeping at once / bare UDP, blocking"), Some(Some(true)));
        assert_eq!(met("RDMA write 1 MiB / UDP, GSO+GRO"), Some(Some(false)));
        assert_eq!(met("RDMA write 1 MiB, 2 % lost / nothing lost"), Some(Some(true)));
        assert!(!goals.iter().any(|goal| goal.what.contains("exchange")));
    }
}
