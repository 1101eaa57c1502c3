// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire contend`: arguments, and where tables and pictures go.

use std::path::PathBuf;
use std::time::Duration;

use bellwire_bench::contend::{self, Experiment, MEMBER_COMMAND, Options, report};
use bellwire_bench::pin;
use bellwire_bench::report::json;
use clap::{Args, ValueEnum};

use bellwire_report::{output, plot};

const LONG_ABOUT: &str = "\
Has 1 to N client processes send short Active Messages to one server process, which has a processor for itself, and tells what all together and each of them get, how evenly, and how \
long a reply takes.

  one endpoint           all clients ask the same endpoint
  networks, one thread   each client has an endpoint of its own at the server, where one thread polls them all
  networks, threads      the same, with a thread for each endpoint that waits for its events";

const AFTER_HELP: &str = "\
Examples:
  bellwire contend                          1 to 64 clients on two processors
  bellwire contend --quick --clients 1,4,16
  bellwire contend --json contend.json --plot rates.svg --plot-times times.svg

Exit status:
  0 if everything was measured; 1 if a point failed.";

/// Which experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// All clients at one endpoint
    Endpoint,
    /// An endpoint for each client, one polling thread
    Networks,
    /// An endpoint and a waiting thread for each client
    Threads,
}

/// Measure many clients of one server: rates, fairness, response times
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Numbers of clients
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: Vec<u16>,

    /// Only these experiments
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Only>,

    /// Requests that each client has out
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=64))]
    window: u16,

    /// Bytes of a request beside its arguments
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=bellwire_bench::contend::BYTES_MAX as i64))]
    size: u32,

    /// Milliseconds of each point [default: 2000, quick: 300]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(10..=600_000))]
    time: Option<u32>,

    /// Shorter measurements
    #[arg(long)]
    quick: bool,

    /// The processors, such as 0,1: the first for the server, the others for the clients [default:
    /// the first two allowed, on different cores]
    #[arg(long, value_name = "LIST", value_parser = allowed)]
    cpus: Option<Cpus>,

    /// Server and clients share all processors
    #[arg(long)]
    together: bool,

    /// Write everything as JSON; "-" is standard output, instead of the tables
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// Plot rates against the number of clients
    #[arg(long, value_name = "FILE.svg", value_parser = output::file_to_write)]
    plot: Option<PathBuf>,

    /// Plot response times against the number of clients
    #[arg(long, value_name = "FILE.svg", value_parser = output::file_to_write)]
    plot_times: Option<PathBuf>,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Measures and reports.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let found = contend::run(&options(arguments)?);
    output::report(arguments.json.as_deref(), || json(&found), || report::table(&found))?;
    if let Some(path) = arguments.plot.as_deref() {
        plot::write(&report::rates(&found), path)?;
    }
    if let Some(path) = arguments.plot_times.as_deref() {
        plot::write(&report::times(&found), path)?;
    }
    found.failures.first().map_or(Ok(()), |failure| Err(failure.clone()))
}

fn options(arguments: &Arguments) -> Result<Options, String> {
    let wanted = |only: Only| arguments.only.is_empty() || arguments.only.contains(&only);
    let experiments = [(Only::Endpoint, Experiment::OneEndpoint), (Only::Networks, Experiment::Networks), (Only::Threads, Experiment::Threads)];
    let time = arguments.time.unwrap_or(if arguments.quick { 300 } else { 2000 });
    let cpus = match &arguments.cpus {
        None => pin::choose().cpus(),
        Some(Cpus(list)) => list.clone(),
    };
    Ok(Options {
        worker: (output::executable()?, vec![MEMBER_COMMAND.to_owned()]),
        experiments: experiments.into_iter().filter(|(only, _)| wanted(*only)).map(|(_, experiment)| experiment).collect(),
        clients: arguments.clients.iter().map(|n| usize::from(*n)).collect(),
        window: usize::from(arguments.window),
        bytes: arguments.size as usize,
        nics: false,
        environment: Default::default(),
        time: Duration::from_millis(u64::from(time)),
        cpus,
        together: arguments.together,
        quiet: arguments.quiet,
    })
}

/// Processors that were asked for.
#[derive(Clone, Debug)]
struct Cpus(Vec<usize>);

fn allowed(list: &str) -> Result<Cpus, String> {
    let (cpus, allowed) = (pin::parse_cpu_list(list), pin::allowed());
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(format!("processor {cpu} is not among the allowed ones: {allowed:?}")),
        None if cpus.is_empty() => Err("no processors are named".to_owned()),
        None => Ok(Cpus(cpus)),
    }
}
