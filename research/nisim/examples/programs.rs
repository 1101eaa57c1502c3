// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs macrobenchmarks on designs and prints virtual and real time, with settings NAME=VALUE of
//! the machine, for work on the model:
//! `cargo run --release -p bellwire-nisim --example programs -- em3d ni2w,cni32qm 1,2,8,inf
//! memory_ns=60`.

use std::time::Instant;

use bellwire_nisim::experiment::{Case, Measure, plan};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::node::bus::Traffic;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [programs, designs, buffers, settings @ ..] = arguments.as_slice() else {
        return Err("programs PROGRAM,.. DESIGN,.. BUFFERS,.. [NAME=VALUE ..]".into());
    };
    let mut machine = Parameters::default();
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("NAME=VALUE")?;
        plan::knob(name)?.set(&mut machine, value.parse()?)?;
    }
    for program in programs.split(',') {
        for (number, design) in designs.split(',').enumerate() {
            for (place, count) in buffers.split(',').enumerate() {
                let case = Case::new(Measure::parse(program)?, plan::design(design)?, Parameters { buffers: count.parse().ok(), ..machine.clone() });
                run(&case, count, number == 0 && place == 0)?;
            }
        }
    }
    Ok(())
}

/// Runs a case; `sizes` prints its messages by size as well.
fn run(case: &Case, buffers: &str, sizes: bool) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let measured = case.run()?;
    let (outcome, seconds) = (measured.outcome, start.elapsed().as_secs_f64());
    let returned: u64 = outcome.messages.iter().map(|&(.., returned)| returned).sum();
    let sum = |of: fn(&Traffic) -> u64| outcome.traffic.iter().map(of).sum::<u64>();
    println!(
        "{:12} {:18} {buffers:>4} {:10.1} us  returned {returned:8}  bus {:8}: from memory {:8}, of queues {:8}, from caches {:8}, uncached {:8}  {seconds:.2} s",
        case.measure,
        case.design.name,
        measured.value,
        sum(|traffic| traffic.transactions),
        sum(|traffic| traffic.memory_to_cache),
        sum(|traffic| traffic.queue_to_cache),
        sum(|traffic| traffic.cache_to_cache),
        sum(|traffic| traffic.uncached),
    );
    if sizes {
        let all: u64 = outcome.sizes.values().sum();
        let shares = outcome.sizes.iter().map(|(size, count)| (*size, (count * 1000 / all) as f64 / 10.0));
        println!("    {all} messages by size, in percent: {:?}", shares.collect::<Vec<_>>());
    }
    Ok(())
}
