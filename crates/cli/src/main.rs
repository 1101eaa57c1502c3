// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `bellwire` command. Each subcommand is a thin shell around a crate: arguments in, text and files out, an exit status.

#![forbid(unsafe_code)]

mod capture;
mod env;
mod explain;
mod found;
mod info;
mod job_trial;
mod key;
mod metrics;
mod port;
mod run;
mod sim;
mod top;
mod trace;
mod verbs;
mod vn;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// User-level networking that runs anywhere: the Virtual Interface Architecture in software.
#[derive(Debug, Parser)]
#[command(name = "bellwire", version, max_term_width = 100, arg_required_else_help = true, after_help = found::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Capture(capture::Arguments),
    Env(env::Arguments),
    Explain(explain::Arguments),
    Info(info::Arguments),
    Key(key::Arguments),
    Metrics(metrics::Arguments),
    Port(port::Arguments),
    Run(Box<run::Arguments>),
    Sim(Box<sim::Arguments>),
    Top(top::Arguments),
    Trace(trace::Arguments),
    Vn(vn::Arguments),
    /// A process on which `bellwire info` tries things.
    #[command(name = info::HELPER_COMMAND, hide = true)]
    InfoPeer,
    /// A process that ends what a job leaves.
    #[command(name = run::GUARD_COMMAND, hide = true)]
    RunGuard {
        job: String,
    },
    /// A process of a job, for tests.
    #[command(name = job_trial::COMMAND, hide = true)]
    JobTrial {
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    bellwire_wire::variables::warn_of_unknown();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = found::run(&Arguments::command(), &words) {
        return status;
    }
    match run(Arguments::parse_from(words).command) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("bellwire: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Env(arguments) => status(env::run(&arguments)),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Info(arguments) => status(info::run(&arguments)),
        Command::Key(arguments) => status(key::run(&arguments)),
        Command::Metrics(arguments) => status(metrics::run(&arguments)),
        Command::Port(arguments) => status(port::run(&arguments)),
        Command::Run(arguments) => run::run(*arguments),
        Command::RunGuard { job } => {
            bellwire_launch::guard_main(&job);
            Ok(ExitCode::SUCCESS)
        }
        Command::JobTrial { arguments } => status(job_trial::main(&arguments)),
        Command::Sim(arguments) => status(sim::run(&arguments)),
        Command::Top(arguments) => status(top::run(&arguments)),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Vn(arguments) => status(vn::run(&arguments)),
        Command::InfoPeer => status(bellwire_inspect::host::probe::main().map_err(|error| error.to_string())),
    }
}

/// The exit status of a command that either works or fails.
fn status(result: Result<(), String>) -> Result<ExitCode, String> {
    result.map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_go_together() {
        super::Arguments::command().debug_assert();
    }
}
