// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire info`: arguments, and where the facts go.

use std::io::IsTerminal;
use std::path::PathBuf;

use bellwire_inspect::host::{self, peer, report};
use bellwire_inspect::pin;
use clap::Args;

use bellwire_report::output;

/// The hidden command under which this executable starts itself to try things between two processes.
pub const HELPER_COMMAND: &str = "info-peer";

const LONG_ABOUT: &str = "\
Says what this host offers to Bellwire and why, one fact a line, with its reason and, where something is missing, what to do about it.

Nothing is guessed from a setting: shared memory is made, sealed and mapped; cross-memory attach is tried between two processes of which neither \
started the other; barriers, bells and process descriptors are used once; the library is loaded and opens a NIC in a process of its own.

With --peer: what a connection to that process would use.";

const AFTER_HELP: &str = "\
Words in front of the lines:
  ok        there, and works
  -         a number or a name, neither good nor bad
  limited   works, but slower or less than it could
  missing   does not work here; Bellwire goes another way
  broken    without it nothing works
  later     not built yet

Exit status:
  0 if nothing is broken, 1 if something is (or, with --peer, if the two processes cannot connect).";

/// Show what this host offers, and why
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// What a connection to this process would use
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    peer: Option<i32>,

    /// One JSON object instead of lines
    #[arg(long)]
    json: bool,

    /// The library to look at
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,

    /// Device name for VipOpenNic
    #[arg(long, value_name = "NAME", default_value = "nic0")]
    device: String,
}

/// Finds out and prints.
///
/// # Errors
/// If something is broken, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let facts = match arguments.peer {
        Some(pid) => peer::inspect(pid).map_err(|error| error.to_string())?,
        None => host::inspect(&options(arguments)?),
    };
    let text = if arguments.json {
        report::json(&facts).map_err(|error| error.to_string())?
    } else {
        report::text(&facts, std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    };
    output::print(&text)?;
    let broken: Vec<&str> = facts.iter().filter(|fact| fact.status == host::Status::Broken).map(|fact| fact.name).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("broken here: {}", broken.join(", "))) }
}

fn options(arguments: &Arguments) -> Result<host::Options, String> {
    let executable = output::executable()?;
    Ok(host::Options { helper: (executable, HELPER_COMMAND), library: arguments.lib.clone(), device: arguments.device.clone(), pinning: pin::choose() })
}
