// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `bellwire` command. Each subcommand is a thin shell around a crate: arguments in, text and files out, an exit status.

#![forbid(unsafe_code)]

mod bench;
mod breakdown;
mod contend;
mod env;
mod gas;
mod info;
mod job_trial;
mod logp;
mod measured;
mod ni;
mod output;
mod perf;
mod report;
mod run;
mod sim;
mod top;
mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// User-level networking that runs anywhere: the Virtual Interface Architecture in software.
#[derive(Debug, Parser)]
#[command(name = "bellwire", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Breakdown(breakdown::Arguments),
    Contend(contend::Arguments),
    Env(env::Arguments),
    Gas(gas::Arguments),
    Info(info::Arguments),
    Logp(logp::Arguments),
    Ni(Box<ni::Arguments>),
    Perf(Box<perf::Arguments>),
    Run(Box<run::Arguments>),
    Sim(sim::Arguments),
    Top(top::Arguments),
    /// A measuring process.
    #[command(name = output::PEER_COMMAND, hide = true)]
    PerfPeer,
    /// A server or a client of `bellwire contend`.
    #[command(name = contend::MEMBER_COMMAND, hide = true)]
    ContendMember,
    /// A process on which `bellwire info` tries things.
    #[command(name = info::HELPER_COMMAND, hide = true)]
    InfoPeer,
    /// A process of a job whose global memory is measured.
    #[command(name = bellwire_logp::gas::report::WORKER_COMMAND, hide = true)]
    GasPeer {
        #[arg(allow_hyphen_values = true)]
        words: Vec<String>,
    },
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
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Breakdown(arguments) => breakdown::run(&arguments),
        Command::Contend(arguments) => contend::run(&arguments),
        Command::Env(arguments) => env::run(&arguments),
        Command::Gas(arguments) => gas::run(&arguments),
        Command::GasPeer { words } => bellwire_logp::gas::worker::main(&words),
        Command::Info(arguments) => info::run(&arguments),
        Command::Logp(arguments) => logp::run(&arguments),
        Command::Ni(arguments) => ni::run(&arguments),
        Command::Perf(arguments) => match perf::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
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
        Command::InfoPeer => bellwire_logp::host::probe::main().map_err(|error| error.to_string()),
        Command::ContendMember => bellwire_logp::contend::main().map_err(|error| error.to_string()),
        Command::PerfPeer => bellwire_logp::worker::main().map_err(|error| error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwire: {error}");
            ExitCode::FAILURE
        }
    }
}
