// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire gas`: arguments, and where tables and pictures go.

use std::path::PathBuf;

use bellwire_logp::gas::{self, Group, Options, plot, report};
use clap::{Args, ValueEnum};

use crate::measured::{Level, Measured};
use crate::output;

/// Rounds if none are asked for, and if it is to be quick.
const ROUNDS: (u16, u16) = (3, 1);

const LONG_ABOUT: &str = "\
Measures global memory between two processes of this host: read, write, get, put and store of each scalar type, and in bulk, over shared memory and by packets; beside a plain load and store, memcpy, the raw VI \
and Active Messages; what an access consists of; em3d's time for an edge by the share of remote edges; em3d and sample sort by one process and by two.

With --compare, by turns in the same run, remote memory of others that are installed: MPICH, Open MPI, libfabric's shm, GASNet-EX; and how the goals stand.";

const AFTER_HELP: &str = "\
Examples:
  bellwire gas                              everything of ours
  bellwire gas --compare --json gas.json --plot gas.svg
  bellwire gas --only words --quick         a first look
  bellwire gas --only speedup               one process and two

Environment:
  BELLWIRE_GASNET_HOME  where GASNet-EX is installed, with its smp conduit and pkg-config files

Exit status:
  0 if everything of ours was measured, whatever the figures; 1 if something failed.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Operations on words
    Words,
    /// Bulk operations
    Bulk,
    /// em3d by the share of remote edges
    Em3d,
    /// One process and two
    Speedup,
}

/// Measure global memory: words, bulk, em3d, beside others
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Measure remote memory of others in the same run
    #[arg(long)]
    compare: bool,

    /// Measure these only
    #[arg(long, value_enum, value_name = "WHAT,...", value_delimiter = ',')]
    only: Vec<Only>,

    /// Rounds in which everything is measured once, in turn [default: 3, quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: Option<u16>,

    /// Fewer sizes, shorter measurements, one round
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    measured: Measured,

    /// Write everything, every sample included, as JSON; "-" is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Plot words by type, bulk bandwidth by size, em3d by the share of remote edges
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let groups = [Only::Words, Only::Bulk, Only::Em3d, Only::Speedup].into_iter().zip(Group::ALL);
    let found = gas::run(&Options {
        session: arguments.measured.session(Level::Delivery)?,
        compare: arguments.compare,
        groups: groups.filter(|(only, _)| arguments.only.is_empty() || arguments.only.contains(only)).map(|(_, group)| group).collect(),
        rounds: usize::from(arguments.rounds.unwrap_or(if arguments.quick { ROUNDS.1 } else { ROUNDS.0 })),
        quick: arguments.quick,
        quiet: arguments.quiet,
    });
    output::report(arguments.json.as_deref(), || report::json(&found), || report::table(&found))?;
    if let Some(path) = arguments.plot.as_deref() {
        plot::write(&found, path).map_err(|error| error.to_string())?;
    }
    found.failure().map_or(Ok(()), |error| Err(error.to_string()))
}
