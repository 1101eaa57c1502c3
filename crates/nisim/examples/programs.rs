// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs macrobenchmarks on designs and prints virtual and real time: `cargo run --release -p bellwire-nisim --example programs -- em3d ni2w,cni32qm 1,2,8,inf`.

use std::time::Instant;

use bellwire_nisim::experiment::{Case, Measure, plan};
use bellwire_nisim::machine::Parameters;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [programs, designs, buffers] = arguments.as_slice() else { return Err("programs PROGRAM,.. DESIGN,.. BUFFERS,..".into()) };
    for program in programs.split(',') {
        for design in designs.split(',') {
            for count in buffers.split(',') {
                let machine = Parameters { buffers: count.parse().ok(), ..Parameters::default() };
                let start = Instant::now();
                let measured = Case::new(Measure::parse(program)?, plan::design(design)?, machine).run().map_err(|error| error.to_string())?;
                let (outcome, seconds) = (measured.outcome, start.elapsed().as_secs_f64());
                let returned: u64 = outcome.messages.iter().map(|&(.., returned)| returned).sum();
                let bus: u64 = outcome.traffic.iter().map(|traffic| traffic.transactions).sum();
                println!(
                    "{program:12} {design:18} {count:>4} {:10.1} us  returned {returned:7}  bus {bus:9}  events {:9}  {seconds:.2} s",
                    measured.value, outcome.events
                );
                if count == buffers.split(',').next().unwrap_or_default() && design == designs.split(',').next().unwrap_or_default() {
                    let all: u64 = outcome.sizes.values().sum();
                    println!(
                        "    {all} messages: {:?}",
                        outcome.sizes.iter().map(|(size, count)| (*size, (count * 1000 / all) as f64 / 10.0)).collect::<Vec<_>>()
                    );
                }
            }
        }
    }
    Ok(())
}
