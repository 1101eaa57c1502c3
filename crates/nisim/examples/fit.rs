// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the machine's open costs on the round trips of 8 and 64 bytes of all designs at once, one cost after the other, and prints them. Bandwidths and
//! the 256-byte round trips play no part; nor does `master_switch`, which UDMA alone pays: fitting it would tune one design.

use bellwire_nisim::experiment::bench::round_trip;
use bellwire_nisim::experiment::table5::PAPER;
use bellwire_nisim::machine::{Costs, Parameters};
use bellwire_nisim::ni;
use bellwire_nisim::time::Time;

/// Mean square of the deviations of the fitted entries.
fn error(costs: &Costs) -> f64 {
    let machine = Parameters { costs: costs.clone(), ..Parameters::default() };
    let mut squares = Vec::new();
    for (name, round_trips, _) in PAPER {
        for (payload, paper) in [8, 64].into_iter().zip(round_trips.into_iter().flatten()) {
            let ours = round_trip(&machine, ni::find(name).expect("a design"), payload).expect("ends").0.as_ns() / 1e3;
            squares.push((ours / paper).ln().powi(2));
        }
    }
    squares.iter().sum::<f64>() / squares.len() as f64
}

type Change = fn(&mut Costs, i64);

fn stepped(value: u64, step: i64) -> u64 {
    value.saturating_add_signed(step)
}

fn main() {
    let changes: [(&str, Change); 7] = [
        ("send_cycles", |costs, sign| costs.send_cycles = stepped(costs.send_cycles, 20 * sign)),
        ("receive_cycles", |costs, sign| costs.receive_cycles = stepped(costs.receive_cycles, 20 * sign)),
        ("poll_cycles", |costs, sign| costs.poll_cycles = stepped(costs.poll_cycles, 10 * sign)),
        ("copy_cycles", |costs, sign| costs.copy_cycles = stepped(costs.copy_cycles, sign)),
        ("arbitration", |costs, sign| costs.arbitration = stepped(costs.arbitration, sign)),
        ("data_arbitration", |costs, sign| costs.data_arbitration = stepped(costs.data_arbitration, sign)),
        ("cache_supply", |costs, sign| costs.cache_supply = Time(stepped(costs.cache_supply.0, 10_000 * sign))),
    ];
    let mut best = Costs::default();
    let mut least = error(&best);
    loop {
        let before = least;
        for (name, change) in changes {
            for sign in [-1, 1] {
                let mut tried = best.clone();
                change(&mut tried, sign);
                let found = error(&tried);
                if found < least {
                    println!("{name} {sign:+}: root of the mean square {:.2} %", found.sqrt() * 100.0);
                    (best, least) = (tried, found);
                }
            }
        }
        if least == before {
            println!("{best:#?}");
            return;
        }
    }
}
