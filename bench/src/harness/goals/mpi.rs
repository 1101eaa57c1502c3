// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an MPI is to gain on Bellwire: beside its own way between processes of a host, and beside
//! libfabric's shm.

use super::{Bound, Goal, Table};
use crate::plan::series as s;
use crate::samples::{Metric, Samples};

/// Where latency and bandwidth are compared.
const SHORT: u64 = 8;
const LONG: u64 = 1 << 20;
/// From so many ranks on, there are more of them than processors of an ordinary small machine.
const MANY: u64 = 8;
/// How much of the time that the MPI takes by itself many ranks may take.
const MANY_SHARE: f64 = 1.0 / 3.0;

/// The goals of one MPI for which both sides were measured.
pub fn evaluate_mpi(samples: &Samples) -> Vec<Goal> {
    let table = Table { samples };
    let own = |metric, size| table.side(metric, s::MPI_OWN, size);
    let ours = |metric, size| table.side(metric, s::OURS, size);
    let mut goals = vec![
        Goal::new("latency 8 B".to_owned(), "ns", ours(Metric::Latency, SHORT), table.side(Metric::Latency, s::SHM_MESSAGE, SHORT), Bound::AtMost(1.0)),
        Goal::new("latency 8 B".to_owned(), "ns", ours(Metric::Latency, SHORT), own(Metric::Latency, SHORT), Bound::AtMost(1.3)),
        Goal::new("bandwidth 1 MiB".to_owned(), "GB/s", ours(Metric::Bandwidth, LONG), own(Metric::Bandwidth, LONG), Bound::AtLeast(1.6)),
    ];
    for (metric, name) in [(Metric::AllreduceOfRanks, "Allreduce"), (Metric::BarrierOfRanks, "Barrier")] {
        let Some(ranks) = samples.sizes_of(metric).into_iter().rfind(|ranks| *ranks >= MANY) else { continue };
        goals.push(Goal::new(format!("{name}, {ranks} ranks"), "us", ours(metric, ranks), own(metric, ranks), Bound::AtMost(MANY_SHARE)));
    }
    goals.retain(Goal::has_both);
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_bound() {
        let samples = Samples::made_up(&[
            (Metric::Latency, s::OURS, 8, 390.0),
            (Metric::Latency, s::SHM_MESSAGE, 8, 400.0),
            (Metric::Latency, s::MPI_OWN, 8, 250.0),
            (Metric::Bandwidth, s::OURS, LONG, 16.0),
            (Metric::Bandwidth, s::MPI_OWN, LONG, 10.0),
            (Metric::BarrierOfRanks, s::OURS, 16, 34.0),
            (Metric::BarrierOfRanks, s::MPI_OWN, 16, 100.0),
            (Metric::AllreduceOfRanks, s::OURS, 4, 34.0),
            (Metric::AllreduceOfRanks, s::MPI_OWN, 4, 100.0),
        ]);
        let met: Vec<_> = evaluate_mpi(&samples).iter().map(|goal| goal.met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(true), Some(false)]);
    }
}
