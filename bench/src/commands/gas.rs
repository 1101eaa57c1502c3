// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire gas`: arguments, and where tables and pictures go.

use bellwire_bench::gas::{self, Group, Options, plot};
use clap::{Args, ValueEnum};

use super::measured::{Level, Measured, Told};

/// Rounds if none are asked for, and if it is to be quick.
const ROUNDS: (usize, usize) = (3, 1);

const LONG_ABOUT: &str = "\
Measures global memory between two processes of this host: read, write, get, put and store of each scalar type, and in bulk, over shared memory and by packets; beside a plain load and store, memcpy, the raw VI \
and Active Messages; what an access consists of, and by marks the steps of a get by packets; em3d's time for an edge by the share of remote edges; em3d and sample sort by one process and by two.

With --compare, by turns in the same run, remote memory of others that are installed: MPICH, Open MPI, libfabric's shm, GASNet-EX; and how the goals stand.";

const AFTER_HELP: &str = "\
Examples:
  bellwire gas                              everything of ours
  bellwire gas --compare --json gas.json --plot gas.svg
  bellwire gas --only words --quick         a first look
  bellwire gas --only speedup               one process and two
  bellwire gas --only steps                 where the time of a get by packets goes

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
    /// The steps of a get by packets, by marks
    Steps,
}

/// Measure global memory: words, bulk, em3d, beside others
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP, mut_arg("plot", |plot| plot.help("Plot words by type, bulk bandwidth by size, em3d by the share of remote edges")))]
pub struct Arguments {
    /// Measure remote memory of others in the same run
    #[arg(long)]
    compare: bool,

    /// Measure these only
    #[arg(long, value_enum, value_name = "WHAT,...", value_delimiter = ',')]
    only: Vec<Only>,

    #[command(flatten)]
    measured: Measured,

    #[command(flatten)]
    told: Told,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let groups = [Only::Words, Only::Bulk, Only::Em3d, Only::Speedup, Only::Steps].into_iter().zip(Group::ALL);
    let found = gas::run(&Options {
        session: arguments.measured.session(Level::Delivery)?,
        compare: arguments.compare,
        groups: groups.filter(|(only, _)| arguments.only.is_empty() || arguments.only.contains(only)).map(|(_, group)| group).collect(),
        rounds: arguments.told.rounds(ROUNDS.0, ROUNDS.1),
        quick: arguments.told.quick,
        quiet: arguments.told.quiet,
    });
    arguments.told.report(&found, |path| plot::write(&found, path))
}
