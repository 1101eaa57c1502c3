// SPDX-License-Identifier: MIT OR Apache-2.0
//! em3d: `bellwire run -n 4 em3d [NODES DEGREE PERCENT_REMOTE STEPS]`.

use bellwire_global::Global;
use bellwire_global_programs::em3d::{Graph, Version, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default).max(1);
    let graph = Graph { nodes: number(0, 500), degree: number(1, 10), percent: number(2, 20).min(100) as u64, steps: number(3, 10) };
    let global = Global::start()?;
    let mut wrong = 0;
    for version in Version::ALL {
        let outcome = run(&global, &graph, version, true)?;
        let wrong_here = global.sum(outcome.wrong)?;
        if global.process() == 0 {
            let verdict = if wrong_here == 0 { "right" } else { "WRONG" };
            println!("em3d {}: {} processes, {graph:?}: {:.2} ns for an edge, {verdict}", version.name(), global.processes(), outcome.ns_per_edge(&graph));
        }
        wrong += wrong_here;
    }
    if wrong != 0 {
        global.exit(1);
    }
    Ok(global.finish()?)
}
