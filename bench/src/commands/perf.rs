// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire perf`: arguments, and where the report goes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwire_bench::Error;
use bellwire_bench::job::Waiting;
use bellwire_bench::perf::Options;
use bellwire_bench::plan::{Group, PlanOptions};
use bellwire_bench::report::{json, plot, table};
use bellwire_bench::route::Route;
use bellwire_bench::run::Limits;
use bellwire_bench::samples::Metric;
use bellwire_bench::session::SessionConfig;
use clap::{Args, ValueEnum};

use super::measured::{Level, Measured, PEERS_DEFAULT, peers_parser};
use bellwire_report::output;

/// Exit status when nothing was measured because this machine does not offer what was asked for.
const SKIPPED: u8 = 77;
/// Rounds if none are asked for: with and without comparison, and quick.
const ROUNDS: (usize, usize, usize) = (9, 3, 3);

const LONG_ABOUT: &str = "\
Measures the Virtual Interface Architecture as installed: two processes on this machine, each on a processor of its own where \
possible, connect virtual interfaces through the C interface of libvipl.so and measure send/receive latency, bandwidth one way \
and both ways, message rate, RDMA write and read, the cost of registering memory, processor use, many virtual interfaces at once, many peers, user memory, guarded mode, sleeping and waking, and many pairs of processes.

Nothing is left out of the timed loops: payload is stamped and checked, receives are posted again, send completions are collected. \
\"Touched\" figures have the receiver read every byte; the others read both ends of a message (all of it up to 64 bytes), as other \
libraries' benchmarks do.

With --compare the same run also measures the limits of the machine (a two-line cache exchange, memcpy into a shared mapping, a bare \
ring, process_vm_readv, bouncing, bare eventfd and futex), bare UDP and TCP sockets over loopback, and every other library that is installed (UCX, libfabric, MPICH, Open MPI, Intel MPI), in turn, and prints the ratios. Libraries that are \
missing are named with the package to install.

With --wire udp the two processes reach each other by UDP although they are on one host: over the loopback interface, or with --netns (root only) \
between two network namespaces joined by a veth pair, made for the run and removed after it. Measured are latency polling and blocking, bandwidth, \
message rate, RDMA write and what lost packets cost; --compare adds bare UDP and TCP sockets, a bare stream of datagrams with GSO and GRO, libfabric \
over tcp and udp;ofi_rxd, and UCX over tcp, all over the same way.

With --wire sisci virtual interfaces reach each other by calls of libsisci.so alone, within this machine (BELLWIRE_WIRE=sisci). Measured are latency, \
bandwidth, message rate, RDMA write and read, processor use, waiting and pairs; BELLWIRE_SISCI_WIRE chooses as in docs/guide/sisci.md, whose make target wire-figures \
sets all choices beside SISCI without virtual interfaces.

A short cache exchange before and after each measurement tells whether the machine was fast (near) or slow (far, as virtual machines are at \
times). Medians are taken over near samples; each figure says how many there were.";

const AFTER_HELP: &str = "\
Examples:
  bellwire perf                                  all measurements, three rounds
  bellwire perf --compare                        against the machine's limits and other libraries, nine rounds
  bellwire perf --compare --quick --only lat     a first look at latency
  bellwire perf --json result.json --plot result.svg
  bellwire perf --only vis --vis 10,100,1000     what idle virtual interfaces cost
  bellwire perf --only peers --peers 1,64        what idle peers cost
  bellwire perf --compare --only user,wait       memory of malloc; what a wake-up costs
  bellwire perf --only pairs --pairs 2,8         more busy processes than processors
  bellwire perf --wire udp --compare             over UDP, against bare sockets and other libraries
  bellwire perf --wire udp --netns --compare     the same between two network namespaces
  bellwire perf --wire sisci                     over calls of SISCI (man 3 sisci), with the switches of BELLWIRE_SISCI_WIRE

Environment:
  BELLWIRE_VIPL   path of libvipl.so, unless --lib is given; then the executable's folder, ../lib from there and the
                  loader's own path are searched
  I_MPI_ROOT      where Intel MPI is, unless its mpiexec is found on PATH
  UCX_TLS         transports for UCX and the MPIs that use it (default: posix,cma,self)

Exit status:
  0 if everything that was asked for was measured, whatever the figures; 1 if the library or one of its measurements failed;
  77 if this machine has no network namespaces for --netns.
  Missing or failing other libraries do not matter.";

/// Measure latency, bandwidth, rate and more over libvipl, and compare with others.
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Measure the machine's limits and other libraries in the same run, and print the ratios
    #[arg(long)]
    compare: bool,

    /// By which way the two processes reach each other [default: shm]
    #[arg(long, value_name = "WIRE", value_enum)]
    wire: Option<Wire>,

    /// With --wire udp: each process in a network namespace of its own (root only)
    #[arg(long, requires = "wire")]
    netns: bool,

    /// Fewer sizes, shorter measurements, three rounds
    #[arg(long)]
    quick: bool,

    /// Measure these only
    ///
    /// lat: latency and its quantiles; bw: bandwidth; rate: message rate; write, read: RDMA; reg:
    /// registration; cpu: processor use; vis: many virtual interfaces; user: user memory; guarded:
    /// guarded mode; wait: polling, blocking, sleeping; pairs: many ping-pongs; peers: many peers,
    /// one of them active; loss: RDMA write while packets are lost. Over UDP: lat, bw, rate, write,
    /// wait, loss.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_enum)]
    only: Vec<Only>,

    /// Rounds in which everything is measured once, in turn [default: 9 with --compare, else 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999))]
    rounds: Option<u16>,

    /// Seconds from the start during which figures that met a slow machine are measured again
    /// [default: 300 with --compare, else 60]
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

    /// Numbers of connected peers to try, one of them active
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = PEERS_DEFAULT, value_parser = peers_parser())]
    peers: Vec<u16>,

    #[command(flatten)]
    measured: Measured,

    /// With --compare: measure limits and other libraries only
    #[arg(long, requires = "compare")]
    without_library: bool,

    /// Write everything, every sample included, as JSON; "-" is standard output, instead of the
    /// tables
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// Plot latency and bandwidth against size
    #[arg(long, value_name = "FILE.svg", value_parser = output::file_to_write)]
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
    Peers,
    Loss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wire {
    /// Shared memory
    Shm,
    /// UDP
    Udp,
    /// Calls of SISCI alone
    Sisci,
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
            Only::Peers => Group::Peers,
            Only::Loss => Group::Loss,
        }
    }
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let text = |error: Error| error.to_string();
    let groups = groups(arguments)?;
    let route = match route(arguments) {
        Err(Error::Unsupported(why)) => {
            eprintln!("SKIPPED: {why}");
            return Ok(ExitCode::from(SKIPPED));
        }
        result => result.map_err(text)?,
    };
    let report = bellwire_bench::perf::run(&options(arguments, groups, route)?).map_err(text)?;
    output::report(arguments.json.as_deref(), || json(&report), || table::render(&report))?;
    if let Some(path) = arguments.plot.as_deref() {
        plot::write(&report, path, &[Metric::Latency, Metric::Bandwidth])?;
    }
    report.failure().map_or(Ok(ExitCode::SUCCESS), |error| Err(error.to_string()))
}

fn is_udp(arguments: &Arguments) -> bool {
    arguments.wire == Some(Wire::Udp)
}

fn route(arguments: &Arguments) -> Result<Route, Error> {
    if arguments.wire == Some(Wire::Sisci) && !arguments.netns {
        return Ok(Route::sisci());
    }
    match (is_udp(arguments), arguments.netns) {
        (true, true) => Route::between_namespaces(),
        (true, false) => Ok(Route::loopback()),
        (false, true) => Err(Error::failed("--netns needs --wire udp")),
        (false, false) => Ok(Route::shared_memory()),
    }
}

/// What is measured, each once; all that the wire has, unless told otherwise.
fn groups(arguments: &Arguments) -> Result<Vec<Group>, String> {
    let offered: &[Group] = match arguments.wire {
        Some(Wire::Udp) => &Group::UDP,
        Some(Wire::Sisci) => &Group::SISCI,
        Some(Wire::Shm) | None => &Group::ALL,
    };
    let mut groups: Vec<Group> = Vec::new();
    for &only in &arguments.only {
        let group = Group::from(only);
        if !offered.contains(&group) {
            let name = only.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            let way = match arguments.wire {
                Some(Wire::Udp) => "over UDP",
                Some(Wire::Sisci) => "over SISCI",
                Some(Wire::Shm) | None => "over shared memory",
            };
            return Err(format!("--only {name} is not measured {way}"));
        }
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(if groups.is_empty() { offered.to_vec() } else { groups })
}

fn options(arguments: &Arguments, groups: Vec<Group>, route: Route) -> Result<Options, String> {
    let waiting = if arguments.blocking { Waiting::Block } else { Waiting::Poll };
    Ok(Options {
        command: "perf",
        plan: PlanOptions {
            groups,
            compare: arguments.compare,
            quick: arguments.quick,
            library: !arguments.without_library,
            waiting,
            vis: arguments.vis.iter().map(|&vis| usize::from(vis)).collect(),
            peers: arguments.peers.iter().map(|&peers| usize::from(peers)).collect(),
            pairs: arguments.pairs.iter().map(|&pairs| usize::from(pairs)).collect(),
            udp: route.is_udp().then(|| route.takes_long_datagrams()),
        },
        session: SessionConfig { waiting, route, ..arguments.measured.session(arguments.reliability)? },
        limits: limits(arguments),
        quiet: arguments.quiet,
    })
}

/// Rounds, and how long a slow machine is waited for: a third of the time in which figures are made
/// up.
fn limits(arguments: &Arguments) -> Limits {
    let (rounds, make_up) = match (arguments.quick, arguments.compare) {
        (true, _) => (ROUNDS.2, 60),
        (false, true) => (ROUNDS.0, 300),
        (false, false) => (ROUNDS.1, 60),
    };
    let make_up = Duration::from_secs(arguments.make_up.map_or(make_up, u64::from));
    Limits { rounds: arguments.rounds.map_or(rounds, usize::from), make_up, waiting: make_up / 3 }
}
