// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire breakdown`: arguments, and where the tables go.

use std::path::PathBuf;
use std::time::Duration;

use bellwire_bench::breakdown::{self, report};
use bellwire_bench::model::Options;
use bellwire_bench::report::json;
use bellwire_bench::run::Limits;
use clap::Args;

use super::measured::{self, Level, Measured};
use bellwire_report::output;

const LONG_ABOUT: &str = "\
Takes an Active Message apart: where its time goes, in cycles and per cent, by categories (calls of virtual interfaces, event notification, flow control, semantics) and by calls (request, \
poll, reply), for short, medium and bulk requests, beside the raw VI's messages.

Each way is measured with its steps marked and without, by turns in one run. What a mark costs is taken off, so that the pieces add up to the round trip without marks; the mapping cost \
measured once more without marks stands below their sum.";

const AFTER_HELP: &str = "\
Examples:
  bellwire breakdown                   five rounds
  bellwire breakdown --quick --json breakdown.json

Environment:
  BELLWIRE_VIPL   path of libvipl.so, unless --lib is given

Exit status:
  0 if everything was measured; 1 if the library or one of the measurements failed.";

/// Take an Active Message apart: cycles by category and by call
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Shorter measurements, two rounds
    #[arg(long)]
    quick: bool,

    /// Rounds in which everything is measured once, in turn [default: 5, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999))]
    rounds: Option<u16>,

    #[command(flatten)]
    measured: Measured,

    /// Write everything as JSON; "-" is standard output, instead of the tables
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let make_up = Duration::from_secs(if arguments.quick { 10 } else { 60 });
    let rounds = arguments.rounds.map_or(if arguments.quick { 2 } else { 5 }, usize::from);
    let options = Options {
        sizes: Vec::new(),
        session: arguments.measured.session(Level::Delivery)?,
        limits: Limits { rounds, make_up, waiting: make_up / 3 },
        quick: arguments.quick,
        quiet: arguments.quiet,
    };
    let found = breakdown::run(&options).map_err(|error| error.to_string())?;
    output::report(arguments.json.as_deref(), || json(&found), || report::table(&found))?;
    measured::ended(&found.failures)
}
