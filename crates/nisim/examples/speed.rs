// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the simulator is: simulated bus transactions and events a second of real time, on one processor, by design and program.

use std::time::Instant;

use bellwire_nisim::experiment::{Case, Measure, plan};
use bellwire_nisim::machine::Parameters;

fn main() -> Result<(), String> {
    println!("{:18} {:14} {:>14} {:>14} {:>14}", "design", "measure", "transactions", "transactions/s", "events/s");
    for design in ["ni2w", "ap3000", "cni32qm"] {
        for measure in ["bandwidth:4096", "em3d", "moldyn"] {
            let case = Case::new(Measure::parse(measure)?, plan::design(design)?, Parameters::default());
            let start = Instant::now();
            let outcome = case.run().map_err(|error| error.to_string())?.outcome;
            let (seconds, transactions) = (start.elapsed().as_secs_f64(), outcome.traffic.iter().map(|traffic| traffic.transactions).sum::<u64>());
            println!("{design:18} {measure:14} {transactions:>14} {:>14.0} {:>14.0}", transactions as f64 / seconds, outcome.events as f64 / seconds);
        }
    }
    Ok(())
}
