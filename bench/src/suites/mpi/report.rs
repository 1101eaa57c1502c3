// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of all MPIs as tables for people.

use std::fmt::Write;

use super::Report;
use crate::report::QUOTED;
use crate::report::table::{ending, machine_heading, metric_table};
use crate::samples::Metric;

/// The tables.
pub fn table(report: &Report) -> String {
    let mut text = machine_heading("bench mpi", &report.machine);
    text += QUOTED;
    text += "Received data is not read. Two ranks have a processor each, more are left to the scheduler. own: the MPI as it is, told nothing.\n";
    for mpi in &report.mpis {
        let _ = write!(text, "\n==== {}\n", mpi.title);
        for metric in Metric::MPI {
            text += &metric_table(&mpi.samples, metric);
        }
        text += &ending(&mpi.goals, &[], &mpi.samples.failures);
    }
    text + &ending(&[], &report.missing, &[])
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{OfMpi, Way};
    use super::*;
    use crate::pin::Pinning;
    use crate::samples::{Failure, Samples};

    pub(crate) fn report() -> Report {
        let mut samples = Samples::made_up(&[
            (Metric::Latency, Way::Bellwire.series(), 8, 300.0),
            (Metric::Latency, Way::Own.series(), 8, 250.0),
            (Metric::Latency, Way::Shm.series(), 8, 400.0),
            (Metric::BarrierOfRanks, Way::Bellwire.series(), 16, 50.0),
            (Metric::BarrierOfRanks, Way::Own.series(), 16, 5000.0),
        ]);
        samples.fail(Failure { what: "libfabric tcp, 2 ranks".to_owned(), why: "refused".to_owned(), ours: false });
        let goals = crate::goals::evaluate_mpi(&samples);
        let mpi = OfMpi { title: "MPICH 5".to_owned(), samples, goals };
        Report { machine: crate::machine::describe(Pinning::None), rounds: 1, mpis: vec![mpi], missing: vec!["Intel MPI: pip".to_owned()] }
    }

    #[test]
    fn people_see_figures_goals_and_what_is_missing() {
        let text = table(&report());
        for part in ["==== MPICH 5", "300 1/1", "3 of 3 met", "libfabric tcp, 2 ranks: refused", "Intel MPI: pip"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(report().failure().is_none());
    }

    #[test]
    fn programs_too() {
        let value: serde_json::Value = serde_json::from_str(&crate::report::json(&report()).unwrap()).unwrap();
        let mpi = &value["mpis"][0];
        assert_eq!((mpi["mpi"].as_str(), mpi["figures"][0]["median"].as_f64(), mpi["goals"][0]["met"].as_bool()), (Some("MPICH 5"), Some(300.0), Some(true)));
    }
}
