// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire perf`: arguments, and where the report goes.

use std::path::PathBuf;
use std::time::Duration;

use bellwire_logp::job::Waiting;
use bellwire_logp::perf::Options;
use bellwire_logp::plan::{Group, PlanOptions};
use bellwire_logp::report::{json, plot, table};
use bellwire_logp::run::Limits;
use bellwire_logp::session::SessionConfig;
use clap::{Args, ValueEnum};

use crate::measured::{Level, Measured};
use crate::output;

/// Rounds if none are asked for: with and without comparison, and quick.
const ROUNDS: (usize, usize, usize) = (9, 3, 3);

const LONG_ABOUT: &str = "\
Measures the Virtual Interface Architecture as installed: two processes on this machine, each on a processor of its own where \
possible, connect virtual interfaces through the C interface of libvipl.so and measure send/receive latency, bandwidth one way \
and both ways, message rate, RDMA write and read, the cost of registering memory, processor use, many virtual interfaces at once, user memory, guarded mode, sleeping and waking, and many pairs of processes.

Nothing is left out of the timed loops: payload is stamped and checked, receives are posted again, send completions are collected. \
\"Touched\" figures have the receiver read every byte; the others read both ends of a message (all of it up to 64 bytes), as other \
libraries' benchmarks do.

With --compare the same run also measures the limits of the machine (a two-line cache exchange, memcpy into a shared mapping, a bare \
ring, process_vm_readv, bouncing, bare eventfd and futex) and every other library that is installed (UCX, libfabric, MPICH, Open MPI, Intel MPI), in turn, and prints the ratios. Libraries that are \
missing are named with the package to install.

A short cache exchange before and after each measurement tells whether the machine was fast (near) or slow (far, as virtual machines are at \
times). Medians are taken over near samples; each figure says how many there were.";

const AFTER_HELP: &str = "\
Examples:
  bellwire perf                                  all measurements, three rounds
  bellwire perf --compare                        against the machine's limits and other libraries, nine rounds
  bellwire perf --compare --quick --only lat     a first look at latency
  bellwire perf --json result.json --plot result.svg
  bellwire perf --only vis --vis 10,100,1000     what idle virtual interfaces cost
  bellwire perf --compare --only user,wait       memory of malloc; what a wake-up costs
  bellwire perf --only pairs --pairs 2,8         more busy processes than processors

Environment:
  BELLWIRE_VIPL   path of libvipl.so, unless --lib is given; then the executable's folder, ../lib from there and the
                  loader's own path are searched
  I_MPI_ROOT      where Intel MPI is, unless its mpiexec is found on PATH
  UCX_TLS         transports for UCX and the MPIs that use it (default: posix,cma,self)

Exit status:
  0 if everything that was asked for was measured, whatever the figures; 1 if the library or one of its measurements failed.
  Missing or failing other libraries do not matter.";

/// Measure latency, bandwidth, rate and more over libvipl, and compare with others.
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Measure the machine's limits and other libraries in the same run, and print the ratios
    #[arg(long)]
    compare: bool,

    /// Fewer sizes, shorter measurements, three rounds
    #[arg(long)]
    quick: bool,

    /// Measure these only
    ///
    /// lat: latency and its quantiles; bw: bandwidth; rate: message rate; write, read: RDMA; reg: registration; cpu: processor use;
    /// vis: many virtual interfaces; user: user memory; guarded: guarded mode; wait: polling, blocking, sleeping; pairs: many ping-pongs.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_enum)]
    only: Vec<Only>,

    /// Rounds in which everything is measured once, in turn [default: 9 with --compare, else 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999))]
    rounds: Option<u16>,

    /// Seconds from the start during which figures that met a slow machine are measured again [default: 300 with --compare, else 60]
    #[arg(long, value_name = "SECONDS")]
    make_up: Option<u32>,

    /// Reliability level of the connections
    #[arg(long, value_enum, default_value = "delivery")]
    reliability: Level,

    /// Wait for completions (VipRecvWait, VipSendWait) instead of polling
    #[arg(long)]
    blocking: bool,

    /// Numbers of connected virtual interfaces to try, ten of them active
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,1000", value_parser = clap::value_parser!(u16).range(1..=4000))]
    vis: Vec<u16>,

    /// Numbers of ping-pong pairs to run at once
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u16).range(1..=64))]
    pairs: Vec<u16>,

    #[command(flatten)]
    measured: Measured,

    /// With --compare: measure limits and other libraries only
    #[arg(long, requires = "compare")]
    without_library: bool,

    /// Write everything, every sample included, as JSON; "-" is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Plot latency and bandwidth against size
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Lat,
    Bw,
    Rate,
    Write,
    Read,
    Reg,
    Cpu,
    Vis,
    User,
    Guarded,
    Wait,
    Pairs,
}

impl From<Only> for Group {
    fn from(only: Only) -> Self {
        match only {
            Only::Lat => Group::Lat,
            Only::Bw => Group::Bw,
            Only::Rate => Group::Rate,
            Only::Write => Group::Write,
            Only::Read => Group::Read,
            Only::Reg => Group::Reg,
            Only::Cpu => Group::Cpu,
            Only::Vis => Group::Vis,
            Only::User => Group::User,
            Only::Guarded => Group::Guarded,
            Only::Wait => Group::Wait,
            Only::Pairs => Group::Pairs,
        }
    }
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let text = |error: bellwire_logp::Error| error.to_string();
    let report = bellwire_logp::perf::run(&options(arguments)?).map_err(text)?;
    output::report(arguments.json.as_deref(), || json::render(&report), || table::render(&report))?;
    if let Some(path) = arguments.plot.as_deref() {
        plot::write(&report, path).map_err(text)?;
    }
    report.failure().map_or(Ok(()), |error| Err(error.to_string()))
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let mut groups: Vec<Group> = Vec::new();
    for group in arguments.only.iter().map(|&only| Group::from(only)) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let waiting = if arguments.blocking { Waiting::Block } else { Waiting::Poll };
    Ok(Options {
        plan: PlanOptions {
            groups: if groups.is_empty() { Group::ALL.to_vec() } else { groups },
            compare: arguments.compare,
            quick: arguments.quick,
            library: !arguments.without_library,
            waiting,
            vis: arguments.vis.iter().map(|&vis| usize::from(vis)).collect(),
            pairs: arguments.pairs.iter().map(|&pairs| usize::from(pairs)).collect(),
        },
        session: SessionConfig { waiting, ..arguments.measured.session(arguments.reliability)? },
        limits: limits(arguments),
        quiet: arguments.quiet,
    })
}

/// Rounds, and how long a slow machine is waited for: a third of the time in which figures are made up.
fn limits(arguments: &Arguments) -> Limits {
    let (rounds, make_up) = match (arguments.quick, arguments.compare) {
        (true, _) => (ROUNDS.2, 60),
        (false, true) => (ROUNDS.0, 300),
        (false, false) => (ROUNDS.1, 60),
    };
    let make_up = Duration::from_secs(arguments.make_up.map_or(make_up, u64::from));
    Limits { rounds: arguments.rounds.map_or(rounds, usize::from), make_up, waiting: make_up / 3 }
}
