// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire bench`: what programs of others gain on Bellwire; arguments, and where tables and
//! pictures go.

use std::path::PathBuf;

use bellwire_bench::ablation;
use bellwire_bench::mpi::{self, Flavour, Options, Points, Way, plot, report};
use bellwire_bench::pin::{self, Pinning};
use bellwire_bench::plan::Group;
use bellwire_bench::report::plot::{grid, write as plot_of_metrics};
use bellwire_bench::samples::Metric;
use bellwire_bench::verbs::stack::{self, Stack};
use clap::{Args, Subcommand, ValueEnum};

use super::measured::{self, Measured, Told, parse_cpus};
use bellwire_launch::provider::{self, Mpi};

/// Rounds if none are asked for, and if it is to be quick.
const ROUNDS: (usize, usize) = (5, 2);

const LONG_ABOUT: &str = "\
Runs each MPI that is installed (MPICH, Open MPI, Intel MPI) on Bellwire, by its own way between processes of a host, and over libfabric's providers shm and tcp, in turn, round after round, with one small \
program after the Intel and the OSU benchmarks: a ping-pong, a stream, Sendrecv, Allreduce, Barrier. Nothing but the environment differs.

An MPI is looked for in the folders given by --mpi-folder, then on the path; Intel MPI also in I_MPI_ROOT. What is missing is named with the way to install it. Two ranks are put on a processor \
each; more are left to the scheduler, as launchers do when there are more ranks than processors.";

const AFTER_HELP: &str = "\
Examples:
  bellwire bench mpi                                       everything that is installed, 2 to 16 ranks
  bellwire bench mpi --quick --mpi mpich --mpi-folder mpi/mpich
  bellwire bench mpi --ranks 16 --only allreduce,barrier --ways bellwire,own
  bellwire bench mpi --json mpi.json --plot mpi.svg
  bellwire bench mpi --ablation --plot ablation.svg        protocols on the virtual interface itself

  python3 -m venv mpi/mpich && mpi/mpich/bin/pip install mpich      an MPI in a folder of its own

Exit status:
  0 if everything was measured on Bellwire, whatever the figures and whatever happened to others; 1 if something failed or no MPI is here.";

/// Measure what programs of others gain on Bellwire
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Mpi(Box<OfMpi>),
    Verbs(OfVerbs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WayArgument {
    /// On Bellwire
    Bellwire,
    /// As the MPI is
    Own,
    /// libfabric's provider shm
    Shm,
    /// libfabric's provider tcp
    Tcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Pingpong,
    Bandwidth,
    Sendrecv,
    Allreduce,
    Barrier,
}

/// Measure MPIs on Bellwire beside their own ways and libfabric's
#[derive(Debug, Args)]
#[command(
    long_about = LONG_ABOUT,
    after_help = AFTER_HELP,
    mut_arg("rounds", |rounds| rounds.help("Rounds in which everything is measured once, in turn [default: 5, quick: 2]")),
    mut_arg("plot", |plot| plot.help("Plot latency and bandwidth against size, Allreduce and Barrier against ranks")),
)]
struct OfMpi {
    /// Instead, measure how a message-passing library may use a virtual interface: copies through
    /// segments, RDMA with and without keeping registrations, short messages by polled RDMA writes
    #[arg(long, conflicts_with_all = ["mpi", "mpi_folder", "ways", "ranks", "only"])]
    ablation: bool,

    /// These MPIs only
    #[arg(long, value_enum, value_name = "MPI,...", value_delimiter = ',')]
    mpi: Vec<Mpi>,

    /// A folder with an MPI in it (bin/mpiexec, bin/mpicc), before those on the path; may be given
    /// several times
    #[arg(long, value_name = "DIR")]
    mpi_folder: Vec<PathBuf>,

    /// These ways only
    #[arg(long, value_enum, value_name = "WAY,...", value_delimiter = ',')]
    ways: Vec<WayArgument>,

    /// Numbers of ranks
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,4,8,16", value_parser = clap::value_parser!(u16).range(2..=256))]
    ranks: Vec<u16>,

    /// Measure these only
    #[arg(long, value_enum, value_name = "WHAT,...", value_delimiter = ',')]
    only: Vec<Only>,

    /// The processors of two ranks [default: the first two allowed, on different cores]
    #[arg(long, value_name = "A,B", value_parser = parse_cpus)]
    cpus: Option<Pinning>,

    #[command(flatten)]
    told: Told,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let arguments = match &arguments.what {
        What::Mpi(arguments) => arguments,
        What::Verbs(arguments) => return verbs(arguments),
    };
    let text = |error: bellwire_bench::Error| error.to_string();
    if arguments.ablation {
        return ablate(arguments);
    }
    let found = mpi::run(&options(arguments)?).map_err(text)?;
    arguments.told.tell(&found, || report::table(&found), |path| plot::write(&found, path))?;
    found.failure().map_or(Ok(()), |error| Err(error.to_string()))
}

/// Measure verbs beside virtual interfaces: sends, RDMA writes and reads, atomics
#[derive(Debug, Args)]
#[command(mut_arg("plot", |plot| plot.help("Plot latency and bandwidth against size")))]
struct OfVerbs {
    /// Instead, measure a program of others over Bellwire's verbs, over Bellwire's libfabric
    /// provider, and over its own library's tcp and shared memory
    #[arg(long, value_enum)]
    stack: Option<StackArgument>,

    /// With --stack mpi: a folder with an MPICH in it, before the one on the path; may be given
    /// several times
    #[arg(long, value_name = "DIR", requires = "stack")]
    mpi_folder: Vec<PathBuf>,

    #[command(flatten)]
    measured: Measured,

    #[command(flatten)]
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StackArgument {
    /// ucx_perftest: tag matching, active messages, put
    Ucx,
    /// fi_pingpong of libfabric
    Ofi,
    /// A ping-pong and a stream on MPICH
    Mpi,
    /// perftest: ib_send_lat and its like
    Perftest,
}

fn verbs(arguments: &OfVerbs) -> Result<(), String> {
    let told = &arguments.told;
    if let Some(stack) = arguments.stack {
        return on_stack(arguments, stack);
    }
    measured::metrics(
        "bench verbs",
        vec![Group::Verbs],
        vec![],
        told,
        arguments.measured.session(measured::Level::Delivery)?,
        &[Metric::Latency, Metric::Bandwidth],
    )
}

fn on_stack(arguments: &OfVerbs, stack: StackArgument) -> Result<(), String> {
    let told = &arguments.told;
    let (stack, flavour) = match stack {
        StackArgument::Ucx => (Stack::Ucx, None),
        StackArgument::Ofi => (Stack::Ofi, None),
        StackArgument::Mpi => (Stack::Mpi, Some(Mpi::Mpich)),
        StackArgument::Perftest => (Stack::Perftest, None),
    };
    let found = stack::run(&stack::Options {
        stack,
        folders: absolute(&arguments.mpi_folder),
        provider: provider::variables(flavour),
        session: arguments.measured.session(measured::Level::Delivery)?,
        rounds: told.rounds(3, 1),
        quick: told.quick,
        quiet: told.quiet,
    });
    let found = found.map_err(|error| error.to_string())?;
    told.report(&found, |path| plot_of_metrics(&found, path, &[Metric::Latency, Metric::Bandwidth]))
}

/// Folders as they are named from anywhere.
fn absolute(folders: &[PathBuf]) -> Vec<PathBuf> {
    folders.iter().map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.clone())).collect()
}

fn ablate(arguments: &OfMpi) -> Result<(), String> {
    let (session, told) = (measured::session(arguments.cpus.unwrap_or_else(pin::choose))?, &arguments.told);
    let found = ablation::run(&session, told.rounds(ROUNDS.0, ROUNDS.1), told.quick, told.quiet);
    let panels = ablation::METRICS.map(|metric| (&found.samples, metric, format!("{}, ns", metric.title())));
    told.report(&found, |path| grid(path, (640, 480), panels.len() as u32, &panels, None))
}

/// What was asked for, each once and in the order of `all`; everything if nothing was.
fn chosen<A: Copy + PartialEq, T>(asked: &[A], all: impl IntoIterator<Item = (A, T)>) -> Vec<T> {
    all.into_iter().filter(|(name, _)| asked.is_empty() || asked.contains(name)).map(|(_, value)| value).collect()
}

fn options(arguments: &OfMpi) -> Result<Options, String> {
    let ways = chosen(
        &arguments.ways,
        [(WayArgument::Bellwire, Way::Bellwire), (WayArgument::Own, Way::Own), (WayArgument::Shm, Way::Shm), (WayArgument::Tcp, Way::Tcp)],
    );
    let only = [Only::Pingpong, Only::Bandwidth, Only::Sendrecv, Only::Allreduce, Only::Barrier].into_iter().zip(mpi::Only::ALL);
    let flavours = chosen(&arguments.mpi, [(Mpi::Mpich, Flavour::Mpich), (Mpi::Openmpi, Flavour::OpenMpi), (Mpi::Intel, Flavour::Intel)]);
    let on_bellwire = |flavour| match (flavour, ways.contains(&Way::Bellwire)) {
        (_, false) => Ok(Vec::new()),
        (Flavour::Mpich, true) => provider::variables(Some(Mpi::Mpich)),
        (Flavour::OpenMpi, true) => provider::variables(Some(Mpi::Openmpi)),
        (Flavour::Intel, true) => provider::variables(Some(Mpi::Intel)),
    };
    let mut ranks: Vec<usize> = arguments.ranks.iter().map(|ranks| usize::from(*ranks)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    Ok(Options {
        mpis: flavours.into_iter().map(|flavour| Ok((flavour, on_bellwire(flavour)?))).collect::<Result<_, String>>()?,
        folders: absolute(&arguments.mpi_folder),
        points: Points { only: chosen(&arguments.only, only), ranks, quick: arguments.told.quick },
        ways,
        rounds: arguments.told.rounds(ROUNDS.0, ROUNDS.1),
        session: measured::session(arguments.cpus.unwrap_or_else(pin::choose))?,
        quiet: arguments.told.quiet,
    })
}
