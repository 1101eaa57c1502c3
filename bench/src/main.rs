// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measuring commands: `bellwire perf`, `logp`, `breakdown`, `contend`, `gas`, `paper` and
//! `bench`, which `bellwire` finds here.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use bellwire_bench::{contend as contention, gas as global_memory, worker};
use clap::{Parser, Subcommand};
use commands::{bench, breakdown, contend, gas, logp, measured, paper, perf};

/// Bellwire's measurements: the parts of the bellwire command that measure.
#[derive(Debug, Parser)]
#[command(name = "bellwire-bench", bin_name = "bellwire", version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Breakdown(breakdown::Arguments),
    Contend(contend::Arguments),
    Gas(gas::Arguments),
    Logp(logp::Arguments),
    Paper(paper::Arguments),
    Perf(Box<perf::Arguments>),
    /// A measuring process.
    #[command(name = measured::PEER_COMMAND, hide = true)]
    PerfPeer,
    /// A server or a client of `bellwire contend`.
    #[command(name = contention::MEMBER_COMMAND, hide = true)]
    ContendMember,
    /// A process of a job whose global memory is measured.
    #[command(name = global_memory::WORKER_COMMAND, hide = true)]
    GasPeer {
        #[arg(allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Breakdown(arguments) => breakdown::run(&arguments),
        Command::Contend(arguments) => contend::run(&arguments),
        Command::Gas(arguments) => gas::run(&arguments),
        Command::Logp(arguments) => logp::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Perf(arguments) => match perf::run(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::GasPeer { words } => global_memory::worker::main(&words),
        Command::ContendMember => contention::main().map_err(|error| error.to_string()),
        Command::PerfPeer => worker::main().map_err(|error| error.to_string()),
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
