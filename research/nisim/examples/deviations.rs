// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints how far each entry of Table 5 is from the paper's, briefly, with settings NAME=VALUE of
//! the machine: for work on the model.

use bellwire_nisim::experiment::plan::knob;
use bellwire_nisim::experiment::table5::{median_deviation, table5};
use bellwire_nisim::machine::Parameters;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut machine = Parameters::default();
    for setting in std::env::args().skip(1) {
        let (name, value) = setting.split_once('=').ok_or("NAME=VALUE")?;
        knob(name)?.set(&mut machine, value.parse()?)?;
    }
    let entries = table5(&machine)?;
    for row in entries.chunk_by(|a, b| a.design == b.design) {
        let all: Vec<String> =
            row.iter().map(|entry| format!("{} {:.2}/{} {:+.0}%", entry.measure, entry.ours, entry.paper, entry.deviation() * 100.0)).collect();
        println!("{:17}{}", row[0].design, all.join("  "));
    }
    let far = entries.iter().filter(|entry| entry.deviation().abs() > 0.15).count();
    println!("median {:.1} %, {far} of {} beyond 15 %", median_deviation(&entries) * 100.0, entries.len());
    Ok(())
}
