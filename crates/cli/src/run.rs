// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire run`: arguments, and what is said about a job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwire_launch::{Bind, Input, Options, Output, Plan, Summary};
use clap::{Args, ValueEnum};

use crate::verbs::{self, Verbs};
use bellwire_launch::provider::{self, Mpi};
use bellwire_report::output;

/// The hidden command of a job's guard.
pub const GUARD_COMMAND: &str = "run-guard";

const LONG_ABOUT: &str = "\
Starts N processes of a program on this host, as one job: each knows its rank and the number of all (bellwire_job.h, the crate bellwire-job, and any program that speaks PMI-1, such as \
MPICH's), and they can exchange what they need to find each other.

Output is merged line by line, lines whole. When a process fails, the others are ended (TERM, then KILL), and the job's exit status is that of the first failure. Signals are passed on. \
Whatever happens to this command, even kill -9, no process of the job outlives it.

To run a job on several hosts, use their launcher (mpiexec, mpirun, srun): the same program runs under it.";

const AFTER_HELP: &str = "\
Examples:
  bellwire run -n 4 ./ring                           four processes
  bellwire run -n 8 --label --timeout 60 ./ring -v   the rank before each line; a minute at most
  bellwire run -n 2 -x BELLWIRE_MODE=guarded --bind core ./pingpong
  bellwire run -n 64 --output logs --json job.json ./ring
  echo 'text' | bellwire run -n 2 ./reads            rank 0 reads standard input (--stdin)

Exit status:
  that of the first process that failed (128 + the signal if one ended it), or that with which the program ended the job; 124 after --timeout; 126 or 127 if the program cannot be \
started; 1 if the job or this command is broken; 2 if the arguments were wrong.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BindArgument {
    /// An equal share of the cores for each process if there are enough, else nothing
    Auto,
    /// One core for each process
    Core,
    /// Left to the scheduler
    None,
}

/// Start a program as a job of several processes on this host
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// How many processes
    #[arg(short = 'n', long = "np", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,

    /// Put the rank before each line of output
    #[arg(short, long)]
    label: bool,

    /// Write output into files DIR/rank-N.out and DIR/rank-N.err
    #[arg(short, long, value_name = "DIR", conflicts_with = "label")]
    output: Option<PathBuf>,

    /// Who gets standard input: a rank, all or none
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = input)]
    stdin: Input,

    /// Set a variable for the program (without a value: one that is set here; it must be)
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]", value_parser = variable)]
    environment: Vec<(OsString, OsString)>,

    /// Have the program's MPI run on Bellwire (bellwire env). Programs of Open MPI are started by its own mpirun, which takes over: of the options here -n, -x and -C count
    #[arg(long, value_enum, value_name = "MPI")]
    mpi: Option<Mpi>,

    /// Have a program of RDMA (libibverbs) run without an RDMA device, on Bellwire's
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "preload", conflicts_with = "mpi")]
    verbs: Option<Verbs>,

    /// With --verbs: report what the program does against the rules of RDMA, as text or json, on standard error or to a file (text:FILE)
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text", requires = "verbs", value_parser = verbs::strict)]
    strict: Option<String>,

    /// Work in this folder
    #[arg(short = 'C', long = "wdir", value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Which processors each process may use
    #[arg(long, value_enum, default_value = "auto")]
    bind: BindArgument,

    /// End the job after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Kill processes that have not ended so many seconds after they were asked to
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    grace: Duration,

    /// Write what became of the job into a file, as JSON; - for standard output, after the program's
    #[arg(long, value_name = "FILE", value_parser = output::file_to_write)]
    json: Option<PathBuf>,

    /// Say on standard error what is started and what became of it
    #[arg(short, long, visible_alias = "explain")]
    verbose: bool,

    /// Say what would be started, and start nothing
    #[arg(long)]
    dry_run: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the job.
///
/// # Errors
/// If it cannot be as asked for, or the launcher cannot work.
pub fn run(mut arguments: Arguments) -> Result<ExitCode, String> {
    if arguments.mpi.is_some() {
        // What the caller sets goes before.
        let own = core::mem::replace(&mut arguments.environment, provider::variables(arguments.mpi)?);
        arguments.environment.extend(own);
    }
    if let Some(verbs) = arguments.verbs {
        let own = core::mem::replace(&mut arguments.environment, verbs::variables(verbs, arguments.strict.take())?);
        if arguments.verbose {
            eprint!("{}", verbs::explain(&arguments.environment, arguments.program.first().map(|p| p.as_os_str()).unwrap_or_default()));
        }
        arguments.environment.extend(own);
    }
    if arguments.mpi == Some(Mpi::Openmpi) {
        return Err(take_over(&arguments));
    }
    let Arguments { json, verbose, dry_run, .. } = &arguments;
    let (json, verbose, dry_run) = (json.clone(), *verbose, *dry_run);
    if let Some(folder) = arguments.output.as_ref().filter(|_| !dry_run) {
        std::fs::create_dir_all(folder).map_err(|error| format!("--output {}: {error}", folder.display()))?;
    }
    let plan = match Plan::new(options(arguments)?) {
        Ok(plan) => plan,
        Err(wrong) => {
            eprintln!("bellwire: {wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    if dry_run {
        output::print(&plan.explain())?;
        return Ok(ExitCode::SUCCESS);
    }
    if verbose {
        eprint!("{}", plan.explain());
    }
    let summary = bellwire_launch::run(&plan).map_err(|error| format!("the job cannot be looked after: {error}"))?;
    if verbose {
        eprint!("{}", outcome(&summary));
    }
    if let Some(path) = json {
        let text = serde_json::to_string(&summary).map_err(|error| error.to_string())? + "\n";
        match path.as_os_str() == "-" {
            true => output::print(&text)?,
            false => std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?,
        }
    }
    // A status of a process is 0 to 255, and so are all others.
    Ok(ExitCode::from(u8::try_from(summary.status).unwrap_or(1)))
}

/// Becomes Open MPI's mpirun; returns if that cannot be.
fn take_over(arguments: &Arguments) -> String {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("mpirun");
    command.args(["-n", &arguments.size.to_string()]).args(&arguments.program).envs(arguments.environment.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &arguments.folder {
        command.current_dir(folder);
    }
    format!("mpirun cannot be started: {}", command.exec())
}

fn options(arguments: Arguments) -> Result<Options, String> {
    Ok(Options {
        program: arguments.program,
        size: arguments.size,
        environment: arguments.environment,
        folder: arguments.folder,
        output: arguments.output.map_or(Output::Merged { label: arguments.label }, Output::Files),
        input: arguments.stdin,
        bind: match arguments.bind {
            BindArgument::Auto => Bind::Auto,
            BindArgument::Core => Bind::Core,
            BindArgument::None => Bind::None,
        },
        timeout: arguments.timeout,
        grace: arguments.grace,
        guard: vec![output::executable()?.into(), GUARD_COMMAND.into()],
    })
}

/// Lines for --verbose.
fn outcome(summary: &Summary) -> String {
    let mut text = String::new();
    for rank in &summary.ranks {
        let how = match (rank.status, rank.signal) {
            (Some(status), _) => format!("status {status}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not ended".to_owned(),
        };
        text += &format!("rank {:<6} process {}, {how} after {:.3} s\n", rank.rank, rank.pid, rank.seconds);
    }
    text + &format!("status     {} after {:.3} s\n", summary.status, summary.seconds)
}

fn input(text: &str) -> Result<Input, String> {
    match text {
        "all" => Ok(Input::All),
        "none" => Ok(Input::None),
        rank => rank.parse().map(Input::Rank).map_err(|_| "a rank, all or none".to_owned()),
    }
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some(("", _)) => Err("a variable has a name".to_owned()),
        Some((name, value)) => Ok((name.into(), value.into())),
        None => std::env::var_os(text).map(|value| (text.into(), value)).ok_or_else(|| format!("{text} is not set here: give it a value, {text}=...")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    number.map(Duration::from_secs_f64).ok_or_else(|| "a number of seconds".to_owned())
}
