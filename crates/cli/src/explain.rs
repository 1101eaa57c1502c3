// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire explain`: runs a program, and tells of each of its connections which way its requests
//! went, how long they took, and what would make them faster.

mod calls;
mod classes;
mod follow;
mod messages;
pub mod report;
pub mod sample;
mod times;
mod ways;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use self::follow::Processes;
use crate::trace::attach::attach;
use crate::trace::collect::Collector;
use crate::trace::merge::Merge;
use crate::trace::program::{self, Folder, Instead, Pace, watch};
use bellwire_report::output;
use bellwire_trace::here;
use bellwire_trace::kinds::Layer;

const LONG_ABOUT: &str = "\
Runs a program and tells, when it has ended, of each connection (queue pair, virtual interface, endpoint of libfabric or of Active Messages, global memory, remote procedure calls) and size class: the wire and why it was chosen, which way requests went and how often, \
percentiles of the time until they were complete, what was sent again or had to wait, and what would make it faster or well. Processes that the program starts on this host are watched as well.

SIGUSR1 to this command has it tell so in between as well; a file of -o then has what is known by then.

It reads a trace (bellwire trace) while the program runs, so the program is slower than by itself: an event costs some 20 ns, and each call enters its NIC by a mutex.";

const AFTER_HELP: &str = "\
Ways:
  mapped memory        the process itself did it in the peer's memory
  cross-memory attach  its bytes were copied out of the peer's process
  one line             a message of one cache line, or of one packet
  copied               a longer message, by a ring or by packets
  waited first         it could not leave when it was posted; then what it waited for

Examples:
  bellwire explain ./pingpong
  bellwire explain -o why.txt bellwire run --verbs ./program
  bellwire explain --json -o why.json mpiexec -n 2 ./program

Exit status:
  that of the program (128 + the signal if one ended it); 126 or 127 if it cannot be started; 1 if the text cannot be written; 2 if the arguments were wrong.";

/// Run a program and tell which way its requests went, how long they took, and why
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Write the text into a file; - for standard output. It goes to standard error otherwise
    #[arg(short, long, value_name = "FILE", value_parser = output::file_to_write)]
    output: Option<PathBuf>,

    /// One JSON object in place of text; times are nanoseconds
    #[arg(long)]
    json: bool,

    /// Bytes of each thread's file, which this command reads while the program runs
    #[arg(long, value_name = "BYTES", default_value_t = 4 * here::BYTES_DEFAULT, value_parser = clap::value_parser!(u64).range(here::BYTES_MIN..=here::BYTES_MAX))]
    bytes: u64,

    /// Explain what a running process of this user's, or anybody's for root, does until it ends or
    /// Ctrl-C
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["program", "read"])]
    pid: Option<i32>,

    /// Run nothing: explain what is in a folder of `bellwire trace --keep` or BELLWIRE_TRACE
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "bytes"])]
    read: Vec<PathBuf>,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["read", "pid"], trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn follow(folders: &[impl AsRef<Path>]) -> Merge {
    Merge::new(Collector::new(folders, u64::MAX), false, |event| event.kind.about().layer != Layer::Packets)
}

/// Runs the program and explains.
///
/// # Errors
/// A sentence.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if !arguments.read.is_empty() {
        let (mut merge, mut processes) = (follow(&arguments.read), Processes::default());
        merge.finish(|head, time, event| processes.take(head, time, event));
        write(arguments, Instead::Output, &merge, &processes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::make(None)?;
    let mut merge = follow(&[folder.path()]);
    // Before there is a program, for without a handler the signal would end this command.
    let mut asked = Signals::new([SIGUSR1]).map_err(|e| format!("signals: {e}"))?;
    let instead = if arguments.pid.is_some() { Instead::Output } else { Instead::Errors };
    let follow = move |pace: &Pace| {
        let (mut processes, mut is_much) = (Processes::default(), false);
        while pace.wait(is_much) {
            is_much = merge.look(|head, time, event| processes.take(head, time, event));
            if asked.pending().next().is_some()
                && let Err(why) = write(arguments, instead, &merge, &processes)
            {
                let _ = program::write(None, Instead::Errors, format!("bellwire: explain: {why}\n").as_bytes());
            }
        }
        merge.finish(|head, time, event| processes.take(head, time, event));
        (merge, processes)
    };
    if let Some(pid) = arguments.pid {
        let (merge, processes) = attach(pid, &folder, arguments.bytes, None, follow)?;
        write(arguments, instead, &merge, &processes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (status, (merge, processes)) = watch(&arguments.program, &folder, arguments.bytes, |_| {}, follow)?;
    let written = write(arguments, instead, &merge, &processes);
    let code = status?;
    written.map(|()| code)
}

fn write(arguments: &Arguments, instead: Instead, merge: &Merge, processes: &Processes) -> Result<(), String> {
    for complaint in &merge.complaints {
        eprintln!("bellwire: explain: {complaint}");
    }
    if merge.lost != 0 {
        eprintln!(
            "bellwire: explain: {} KiB of events are lost, which were written faster than they were read (--bytes): counts are too small",
            merge.lost.div_ceil(1024)
        );
    }
    let text = if arguments.json { report::json(processes) } else { report::text(processes) };
    program::write(arguments.output.as_deref(), instead, text.as_bytes())
}
