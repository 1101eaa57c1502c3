// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire sim`: trials (`trials.rs`) without a scenario's name, else the scenario (`scenarios.rs`), whose report becomes text and pictures (`report/`).

mod scenarios;
mod trials;

use clap::Args;

const LONG_ABOUT: &str = "\
Runs whole engines on a simulated network, in virtual time, from one seed.

Without a scenario: trials. The seed draws the network, what goes wrong in it, the settings of the transport, and what programs do: they connect, send, write and read remote memory, \
disconnect; nodes crash and start again. Checkers see to it that everything is delivered once, in order and intact, or comes back; that everything works again after the faults; \
and that nothing is left over. A seed is a run: its hash covers every packet and everything that programs saw, and is the same each time, for one version of Bellwire.

With a scenario: an experiment, with tables and plots. Its hash covers every packet of all its runs. \"bellwire sim list\" says which there are.";

const AFTER_HELP: &str = "\
Examples:
  bellwire sim                                   the first 100 seeds
  bellwire sim --seed 7 --trace trace.txt        one seed, with a line for each event
  bellwire sim --seeds 1000000 --seed 1000       a million seeds from 1000 on
  bellwire sim --faults loss=0.1,dup=0.1,reorder=0.1 --topology star.toml
  bellwire sim list                              the scenarios
  bellwire sim logp --plot logp.svg              one of them

Topology files and fault plans: docs/simulator.md.

Exit status:
  0 if all trials were well, or the scenario could be run; 1 if a trial failed, or something could not be read or written; 2 if the arguments were wrong.";

/// Try whole engines on a simulated network, by seed
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_value_name = "SCENARIO", subcommand_help_heading = "Scenarios", disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    trials: trials::Arguments,

    #[command(subcommand)]
    scenario: Option<scenarios::Chosen>,
}

/// Runs the trials or the scenario, and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.scenario {
        Some(chosen) => scenarios::run(chosen),
        None => trials::run(&arguments.trials),
    }
}
