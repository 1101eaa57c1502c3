// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the open costs of the machine from a first guess and prints each step: how
//! `machine/costs.rs` came by its values.

use bellwire_nisim::experiment::fit::{first_guess, fit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (costs, distance) = fit(first_guess(), |name, distance| println!("{name}: {distance:.2} %"))?;
    println!("{costs:#?}\nroot of the mean square: {distance:.2} %");
    Ok(())
}
