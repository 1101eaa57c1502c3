// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of section 6 of the paper about its figures beside ours, each as a range. The
//! goal is nine in ten; docs/ni-simulator.md lists which do not hold. This guards those that do.
//! `BELLWIRE_NISIM_PROGRAMS` names the macrobenchmarks to run, separated by commas, or `all`; the
//! whole takes minutes, so without it those run that are quick.

mod common;

use bellwire_nisim::experiment::figures::{Figure, Runs, cases};
use bellwire_nisim::experiment::statements::statements;
use bellwire_nisim::experiment::{Case, Measure, SEED};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::programs::Size;

/// How many hold of all, and of those about em3d.
const HELD: usize = 15;
const HELD_BY_EM3D: usize = 12;

#[test]
fn statements_about_the_figures_hold() {
    let wanted = std::env::var("BELLWIRE_NISIM_PROGRAMS").unwrap_or_else(|_| "em3d".to_owned());
    let is_wanted = |case: &Case| match case.measure {
        Measure::Program(program) => wanted == "all" || wanted.split(',').any(|name| name == program.name),
        _ => true,
    };
    let cases: Vec<Case> = cases(&Figure::ALL, &Parameters::default(), Size::Table4, SEED).into_iter().filter(is_wanted).collect();
    let runs = Runs::new(&cases, common::run_all(&cases));
    for case in &cases {
        let time = runs.time(&case.measure.to_string(), case.design.name, case.machine.buffers).unwrap_or_default();
        println!("{case} {:?}: {time:.1} us", case.machine.buffers);
    }
    let statements: Vec<_> = statements(&Figure::ALL, &runs).into_iter().filter(|statement| !statement.checks.is_empty()).collect();
    for statement in &statements {
        println!("{} {}: {}", if statement.holds() { "holds" } else { "DOES NOT HOLD" }, statement.figure, statement.text);
        for check in &statement.checks {
            println!("    {}{}: {:.1}, {:.1} to {:.1}", if check.holds() { "" } else { "! " }, check.of, check.ours, check.range.0, check.range.1);
        }
    }
    let held = statements.iter().filter(|statement| statement.holds()).count();
    println!("{held} of {} statements hold", statements.len());
    let least = match wanted.as_str() {
        "all" => HELD,
        "em3d" => HELD_BY_EM3D,
        _ => 0,
    };
    assert!(held >= least, "{held} of {} statements hold, {least} did", statements.len());
}
