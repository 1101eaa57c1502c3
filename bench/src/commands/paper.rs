// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire paper`: arguments, and where the results go.

use std::path::PathBuf;

use bellwire_bench::error::Error;
use bellwire_bench::papers::model::Found;
use bellwire_bench::papers::{self, Options, PAPERS, html, told};
use bellwire_bench::report::json;
use clap::Args;

use super::measured::{Level, Measured};
use bellwire_report::output;

const LONG_ABOUT: &str = "\
Measures what a paper measured, and prints each of its tables and figures with the paper's values beside ours, and each statement of its text as one that holds here, does not hold, or is \
not comparable, with the reason.

  000   VI primitives for Active Messages and Split-C (AMVIA): Tables 1 to 5, Figures 2 to 5, credits against the gap, Split-C's two versions, and Table 2 on simulated NICs with the paper's costs
  001   Realizing the performance potential of VIA: a message-passing library from UDP sockets to VIs without copies, step by step; ways of waiting; processor time at fixed rates
  004   Virtual network transport protocols: LogP in four builds, permutations, clients of one server, more virtual networks than the network interface has frames for, and the loitering constant K, in the simulator and on processes with agents of hosts

Everything is measured once in each round, in turn. A statement compares within each round; it is judged by the median of these comparisons, and not at all where the bound lies within the \
median's uncertainty.";

const AFTER_HELP: &str = "\
Examples:
  bellwire paper 000                             tables and statements
  bellwire paper 000 --html 000.html             the same with figures, as one file
  bellwire paper 000 --quick --json -            a look at what is measured
  bellwire paper 000 --simulated                 Table 2 on simulated NICs, in seconds
  bellwire paper 001 --csv 001.csv               the ladder; each number as a line
  bellwire paper 004 --rounds 5                  half a minute for each round

Environment:
  BELLWIRE_VIPL   path of libvipl.so, unless --lib is given

Exit status:
  0 if everything was measured; 1 if the library or one of the measurements failed. Whether statements hold does not matter.";

/// Set measurements beside a paper's tables, figures and statements
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// The paper's number
    #[arg(value_name = "PAPER", value_parser = PAPERS)]
    paper: String,

    /// Rounds in which everything is measured once, in turn [default: 15, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999))]
    rounds: Option<u16>,

    /// One round of short measurements, fewer sizes: whether all works; nothing is judged
    #[arg(long)]
    quick: bool,

    /// Only what is simulated, in seconds and without a library: of 000 the NIC's share of Table 2
    #[arg(long, conflicts_with_all = ["rounds", "quick"])]
    simulated: bool,

    #[command(flatten)]
    measured: Measured,

    /// Write everything as JSON; "-" is standard output, instead of the text
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// Write each number as a line of comma-separated values
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    csv: Option<PathBuf>,

    /// Write everything with the figures as one HTML file
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    html: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let found = found(arguments).map_err(|error| error.to_string())?;
    output::report(arguments.json.as_deref(), || json(&found), || told::text(&found))?;
    let write = |path: &PathBuf, text: String| std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    if let Some(path) = &arguments.csv {
        write(path, told::csv(&found))?;
    }
    if let Some(path) = &arguments.html {
        write(path, html::html(&found)?)?;
    }
    found.failures.first().map_or(Ok(()), |failure| Err(failure.clone()))
}

fn found(arguments: &Arguments) -> Result<Found, Error> {
    if arguments.simulated {
        return papers::simulated(&arguments.paper);
    }
    let options = Options {
        session: arguments.measured.session(Level::Delivery).map_err(Error::failed)?,
        rounds: arguments.rounds.map_or(if arguments.quick { 1 } else { 15 }, usize::from),
        quick: arguments.quick,
        quiet: arguments.quiet,
    };
    papers::run(&arguments.paper, &options)
}
