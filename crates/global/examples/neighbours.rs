// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of docs/guide/global-memory.md: `bellwire run -n 4 neighbours`.

use bellwire_global::{Global, SpreadArray};

fn main() -> Result<(), bellwire_global::Error> {
    let global = Global::start()?;
    let (me, n) = (global.process() as usize, global.processes() as usize);
    let array = SpreadArray::new(&global, n, 100, 0.0f64)?; // a block of 100 in each process
    global.write(array.at((me + 1) % n, 7), me as f64)?;
    global.barrier()?;
    let (mut x, mut y) = (0.0, 0.0);
    global.split(|phase| {
        // both on their way at once
        phase.get(&mut x, array.at(0, 7))?;
        phase.get(&mut y, array.at(n - 1, 7))
    })?;
    println!("{x} {y}, sum {}", global.sum(x)?);
    global.barrier()?;
    drop(array);
    global.finish()
}
