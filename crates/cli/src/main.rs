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
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = found::run(&Arguments::command(), &words) {
        return status;
    }
    let result = match Arguments::parse_from(words).command {
        Command::Capture(arguments) => match capture::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Env(arguments) => env::run(&arguments),
        Command::Explain(arguments) => match explain::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Info(arguments) => info::run(&arguments),
        Command::Key(arguments) => key::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Port(arguments) => port::run(&arguments),
        Command::Run(arguments) => match run::run(*arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::RunGuard { job } => {
            bellwire_launch::guard_main(&job);
            Ok(())
        }
        Command::JobTrial { arguments } => job_trial::main(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Trace(arguments) => match trace::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Vn(arguments) => vn::run(&arguments),
        Command::InfoPeer => bellwire_inspect::host::probe::main().map_err(|error| error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwire: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_go_together() {
        super::Arguments::command().debug_assert();
    }
}
