// SPDX-License-Identifier: MIT OR Apache-2.0
//! The macrobenchmarks compute what a sequential run does, on every design, with few buffers and
//! with many, and the same each time.

use bellwire_nisim::experiment::figures::histogram;
use bellwire_nisim::experiment::{Case, Measure};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::ni::DESIGNS;
use bellwire_nisim::programs::{PROGRAMS, Size};

fn case(program: usize, design: usize, buffers: Option<u32>) -> Case {
    let machine = Parameters { nodes: 8, buffers, ..Parameters::default() };
    Case { size: Size::Small, ..Case::new(Measure::Program(&PROGRAMS[program]), &DESIGNS[design], machine) }
}

#[test]
fn programs_compute_what_a_sequential_run_does() {
    for program in 0..PROGRAMS.len() {
        for design in 0..DESIGNS.len() {
            // Each design meets both few and many buffers, each program all three.
            for buffers in [Some(1), if (program + design) % 2 == 0 { Some(3) } else { None }] {
                let case = case(program, design, buffers);
                case.run().unwrap_or_else(|error| panic!("{case} with {buffers:?} buffers: {error}"));
            }
        }
    }
}

#[test]
fn a_program_gives_the_same_each_time() {
    for program in 0..PROGRAMS.len() {
        let first = case(program, 0, Some(2));
        assert_eq!(first.run(), first.run());
    }
    // A seed draws another graph.
    let first = Case { measure: Measure::parse("em3d").unwrap(), ..case(0, 0, Some(2)) };
    assert_ne!(first.run().unwrap(), Case { seed: 7, ..first.clone() }.run().unwrap());
}

/// Shares of messages by size are near the paper's Table 4: this guards what the programs send, not
/// how fast.
#[test]
fn histograms_are_near_table_4() {
    for program in PROGRAMS {
        let design = bellwire_nisim::ni::find("ap3000").unwrap();
        let measured = Case::new(Measure::Program(program), design, Parameters::default()).run().unwrap();
        for (size, ours, paper) in histogram(program, &measured.outcome.sizes) {
            println!("{} {size} B: {ours:.1} %, paper {paper:.0} %", program.name);
            assert!((ours - paper).abs() < 15.0, "{}: {ours:.1} % of messages have {size} B, the paper has {paper:.0} %", program.name);
        }
    }
}
