// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sample sort: `bellwire run -n 4 sample_sort [KEYS of each process]`.

use bellwire_global::Global;
use bellwire_global_programs::sample::run;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let each = std::env::args().nth(1).map_or(Ok(20_000), |word| word.parse())?.max(1000);
    let global = Global::start()?;
    let outcome = run(&global, each, true)?;
    let (wrong, most) = (global.sum(outcome.wrong)?, global.max(outcome.keys)?);
    if global.process() == 0 {
        let verdict = if wrong == 0 { "right" } else { "WRONG" };
        println!(
            "sample sort: {} processes, {each} keys each, at most {most} after: {:.1} ns for a key, {verdict}",
            global.processes(),
            outcome.seconds * 1e9 / each as f64
        );
    }
    if wrong != 0 {
        global.exit(1);
    }
    Ok(global.finish()?)
}
