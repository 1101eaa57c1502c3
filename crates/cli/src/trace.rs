// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire trace`: runs a program with its processes' calls, and what the engine does of them,
//! noted with times, and shows that as a tree, as JSON, or in Perfetto's format.

pub mod attach;
pub mod clocks;
pub mod collect;
mod json;
pub mod merge;
mod perfetto;
pub mod program;
pub mod show;
mod tree;

use self::attach::{LIMITS, attach};
use self::collect::Collector;
use self::program::{Folder, Instead, Pace, watch, write};

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use bellwire_report::output;
use bellwire_trace::here;
use bellwire_trace::kinds::Layer;

const LONG_ABOUT: &str = "\
Runs a program and shows what it called, what the engine did of it, and when: each request from its post over its leaving to its completion, connections with the reason why they broke, \
links with the wire that was chosen and why. Processes that the program starts on this host are traced as well, also under bellwire run, mpiexec and mpirun.

Each thread writes its events into a file of its own, of --bytes, which is read while the program runs; where that is too slow, the oldest events are overwritten, and their number is told. \
Of each thread the last events are kept, up to --limit. The files are there whatever becomes of \
the program: after kill -9 its last events are shown. A program that is not traced executes nothing for all this.";

const AFTER_HELP: &str = "\
Examples:
  bellwire trace ./pingpong                                  a tree, on standard error when the program has ended
  bellwire trace -o pingpong.txt ./pingpong
  bellwire trace --format perfetto -o x.perfetto-trace bellwire run -n 2 ./ring
  bellwire trace --layers calls bellwire run --verbs ibv_rc_pingpong
  bellwire trace -o x.txt --pid 4711                         a process that runs already, until Ctrl-C
  bellwire trace --keep traces ./pingpong; bellwire trace --read traces
  bellwire trace --read traces-of-host-a --read traces-of-host-b

Open a file of Perfetto's format at https://ui.perfetto.dev (the file stays in the browser), or query it with trace_processor.

Environment:
  BELLWIRE_TRACE=DIR does the same to a program that is started in another way (on other hosts, say): its files go to DIR, and --read shows them.

Clocks of several hosts: packets that went both ways say by how much one is ahead of the other, and how wrong that may be; both are told, and all times are by one of them. A host without such packets goes by its time of day.

Exit status:
  that of the program (128 + the signal if one ended it); 126 or 127 if it cannot be started; 1 if the trace cannot be written; 2 if the arguments were wrong.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: calls, and beneath each what came of it
    Tree,
    /// For programs: one object
    Json,
    /// For Perfetto's viewer and its trace processor
    Perfetto,
}

fn layer(name: &str) -> Result<Layer, String> {
    Layer::ALL.into_iter().find(|layer| layer.name() == name).ok_or_else(|| format!("one of {}", Layer::ALL.map(Layer::name).join(", ")))
}

/// Run a program and show its calls and the engine's steps, with times
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Write the trace into a file; - for standard output, after the program's. A tree goes to
    /// standard error otherwise
    #[arg(short, long, value_name = "FILE", value_parser = output::file_to_write)]
    output: Option<PathBuf>,

    /// What it looks like
    #[arg(long, value_enum, default_value = "tree")]
    format: Format,

    /// Show these layers only: calls, pairs, engine, links
    #[arg(long, value_name = "LAYER,..", value_delimiter = ',', value_parser = layer)]
    layers: Vec<Layer>,

    /// Bytes of each thread's file, which this command reads while the program runs: it must hold
    /// what a thread notes between two looks
    #[arg(long, value_name = "BYTES", default_value_t = here::BYTES_DEFAULT, value_parser = clap::value_parser!(u64).range(here::BYTES_MIN..=here::BYTES_MAX))]
    bytes: u64,

    /// Bytes of each thread's events that are kept, the last ones
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    limit: u64,

    /// Trace a running process of this user's, or anybody's for root, until it ends or Ctrl-C
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["program", "read"])]
    pid: Option<i32>,

    /// Leave the threads' files in this folder, which must not be there or be empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Run nothing: show what is in a folder of --keep or BELLWIRE_TRACE; more than once for the
    /// folders of several hosts, whose clocks are put on one by the messages between them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "program", "bytes", "limit"])]
    read: Vec<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["read", "pid"], trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the program and shows the trace.
///
/// # Errors
/// A sentence.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if arguments.format != Format::Tree && arguments.output.is_none() {
        return Err("where is the trace to go? -o FILE, or -o - for standard output".to_owned());
    }
    if !arguments.read.is_empty() {
        show(arguments, Collector::new(&arguments.read, u64::MAX), Instead::Output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::make(arguments.keep.as_deref())?;
    let mut collector = Collector::new(&[folder.path()], arguments.limit);
    let follow = move |pace: &Pace| {
        while pace.wait(false) {
            // The end says which files still cannot be read.
            let _ = collector.look();
        }
        collector
    };
    if let Some(pid) = arguments.pid {
        let collector = attach(pid, &folder, arguments.bytes, None, follow)?;
        show(arguments, collector, Instead::Output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (status, collector) = watch(&arguments.program, &folder, arguments.bytes, |_| {}, follow)?;
    let shown = show(arguments, collector, Instead::Errors);
    let code = status?;
    shown.map(|()| code)
}

/// Shows what was collected, where `-o` says, or `instead`.
fn show(arguments: &Arguments, collector: Collector, instead: Instead) -> Result<(), String> {
    let mut trace = collector.finish(&arguments.layers)?;
    trace.complaints.extend(arguments.pid.map(|_| LIMITS.to_owned()));
    for complaint in &trace.complaints {
        eprintln!("bellwire: trace: {complaint}");
    }
    if trace.threads.is_empty() {
        eprintln!("bellwire: trace: no process used a library of Bellwire's that was opened while it was traced");
    }
    let bytes = match arguments.format {
        Format::Tree => tree::text(&trace).into_bytes(),
        Format::Json => json::text(&trace)?.into_bytes(),
        Format::Perfetto => perfetto::bytes(&trace),
    };
    write(arguments.output.as_deref(), instead, &bytes)
}
