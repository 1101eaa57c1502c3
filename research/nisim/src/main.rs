// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire ni`, which `bellwire` finds here.

#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match command::run(&command::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bellwire: {error}");
            ExitCode::FAILURE
        }
    }
}
