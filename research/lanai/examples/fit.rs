// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the costs that paper 000 leaves open from a first guess and prints each step: how
//! `costs.rs` came by its values.

use bellwire_lanai::fit::Lab;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut lab = Lab::new()?;
    let (fits, distance) = lab.fit_all(|fits, distance| println!("{distance:.2} %: {fits:?}"))?;
    println!("{fits:#?}\nroot of the mean square: {distance:.2} %");
    for row in 0..3 {
        println!("{:?}", lab.tables(&fits)?.line(row));
    }
    println!("{:?}", lab.tables(&fits)?.raw);
    Ok(())
}
