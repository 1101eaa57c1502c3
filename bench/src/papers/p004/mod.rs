// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paper 004: virtual network transport protocols. Clients of one server in contention, more
//! virtual networks than a network interface has frames for, and K: in the simulator, which is
//! asked as the program that it is, and on real processes with agents of hosts. The paper's numbers
//! were not at hand: its words are compared.

mod claims;
mod exhibits;
mod real;
mod steps;

use super::model::Found;
use super::{Options, about_machine, about_quick, in_rounds};
use crate::error::Error;
use crate::peers::simulator;
use crate::route::namespaces::cluster::Cluster;
use steps::{NETWORKS_SIMULATED, Of, PATTERNS, PERMUTED, Step, hosts, permuted};

/// Measures and sets it beside the paper.
pub fn run(options: &Options) -> Found {
    let (steps, mut cluster) = (steps::steps(options.quick), None);
    let labels: Vec<&str> = steps.iter().map(|step| step.names.first().map_or("", String::as_str)).collect();
    let (mut values, all) = in_rounds(&labels, options, &mut |step, round| do_step(&steps[step], options, round, &mut cluster));
    drop(cluster);
    // The simulator has the bandwidth of all hosts together.
    for network in NETWORKS_SIMULATED {
        let hosts = hosts(network, options.quick) as f64;
        PATTERNS.iter().for_each(|pattern| values.scale(&permuted(network, pattern, PERMUTED[0]), 1.0 / hosts));
    }
    let (mut failures, mut skipped) = (Vec::new(), Vec::new());
    for (label, error) in all {
        if let Error::Unsupported(_) = error { &mut skipped } else { &mut failures }.push(format!("{label}: {error}"));
    }
    let mut about = vec![
        about_machine(&options.session),
        format!("Rounds: {}; each figure once in a round, in turn; cells are medians. A round of the simulator has a seed of its own.", options.rounds),
        "The text of the paper that was at hand has no numbers: what it says in words is set beside ours.".to_owned(),
        "Simulated: times of processors, network interfaces and loads are settings of the simulator, so levels are so by construction; that they are steady, and shared, is the result (docs/simulator.md).".to_owned(),
        "Agents: a server process and client processes, each side with an agent of a host (bellwired) of its own over loopback; the server's agent has seven frames. All share the processors of this machine.".to_owned(),
    ];
    about.extend(about_quick(options));
    about.extend(skipped.iter().map(|why| format!("Skipped: {why}.")));
    Found {
        paper: "004",
        title: "Virtual network transport protocols for Myrinet",
        about,
        exhibits: exhibits::all(&values, options.quick, skipped.is_empty()),
        statements: claims::all(options.quick, skipped.is_empty()).iter().map(|claim| claim.judge(&values)).collect(),
        failures,
        values,
    }
}

fn do_step(step: &Step, options: &Options, round: usize, cluster: &mut Option<Cluster>) -> Result<Vec<(String, f64)>, Error> {
    let figures = match &step.of {
        Of::Scenario { name, options: given, columns, table } => {
            let table = simulator::table(&options.session.worker.0, name, given, round as u64, *table)?;
            let columns = columns.iter().map(|column| table.column(column)).collect::<Result<Vec<_>, _>>()?;
            let rows = columns.first().map_or(0, Vec::len);
            (0..rows).flat_map(|row| columns.iter().map(move |column| column[row])).collect::<Vec<f64>>()
        }
        Of::Permutation(pattern) => real::permutation(options, cluster, pattern)?,
        Of::Wire(wire) => real::wire(options, *wire)?,
        Of::Clients { shape, clients, loiter } => real::clients(options, *shape, *clients, *loiter)?,
    };
    if figures.len() != step.names.len() {
        return Err(Error::failed(format!("{} figures in place of {}", figures.len(), step.names.len())));
    }
    Ok(step.names.iter().cloned().zip(figures).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::checks::{self, all_is_measured, made_up};
    use crate::papers::judge::Verdict;
    use steps::NAMESPACES;

    fn names(quick: bool) -> Vec<String> {
        steps::steps(quick).into_iter().flat_map(|step| step.names).collect()
    }

    #[test]
    fn what_is_shown_is_measured() {
        for quick in [false, true] {
            let values = made_up(&names(quick), 5);
            all_is_measured(&exhibits::all(&values, quick, true), &claims::all(quick, true), &values);
            let without: Vec<String> = names(quick).into_iter().filter(|name| !name.starts_with(NAMESPACES)).collect();
            let values = made_up(&without, 5);
            all_is_measured(&exhibits::all(&values, quick, false), &claims::all(quick, false), &values);
        }
    }

    #[test]
    fn one_round_judges_nothing() {
        let values = made_up(&names(true), 1);
        assert!(claims::all(true, true).iter().all(|claim| claim.judge(&values).verdict == Verdict::NotComparable));
    }

    #[test]
    fn names_are_unique() {
        checks::names_are_unique(names(false));
    }
}
