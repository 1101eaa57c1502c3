// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `bellwire` command. Each subcommand is a thin shell around a crate: arguments in, text and files out, an exit status.

#![forbid(unsafe_code)]

mod perf;

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
    Perf(Box<perf::Arguments>),
    /// A measuring process of `bellwire perf`.
    #[command(name = perf::PEER_COMMAND, hide = true)]
    PerfPeer,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Perf(arguments) => perf::run(&arguments),
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
