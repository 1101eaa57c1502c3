// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire capture`: runs a program and writes what its queue pairs exchange as packets of RoCE
//! v2, which Wireshark reads; also what never leaves the host.

mod datagrams;
mod ip;
mod management;
mod pcapng;
mod requests;
mod roce;
mod stream;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use bellwire_report::output;
use bellwire_trace::here;

use self::stream::Stream;
use crate::trace::attach::attach;
use crate::trace::collect::Collector;
use crate::trace::program::{Folder, Instead, Pace, readable, watch, write};

const LONG_ABOUT: &str = "\
Runs a program and writes what its queue pairs (libibverbs) exchange into a file of Wireshark's format, as the packets of RoCE v2 that RDMA devices would have sent, while it runs. \
Also what goes through shared memory is there, and what a process does in the memory of another one. Processes that the program starts on this host are captured as well, also under bellwire run, mpiexec and mpirun.

Packets that NICs send each other by UDP are there as well, as they leave; --dissector prints what Wireshark needs to read them.

Each request is captured by the process that posts it, with what was answered: it is there once, whether one side is captured or both. \
Its packets have the time at which it left, the answers that at which the process knew of them; what a receiver refused leaves again with the same numbers (PSN).

Requests of a captured program go the longer ways through the library, and a program that sends faster than the packets are written waits, so it is slower. With --drop it does not wait; what is lost then is counted.";

const AFTER_HELP: &str = "\
Examples:
  bellwire capture -o x.pcapng bellwire run --verbs -n 2 ./program
  bellwire capture -o - ibv_rc_pingpong | wireshark -k -i -
  tshark -r x.pcapng -Y infiniband
  bellwire capture --dissector > bellwire.lua; tshark -X lua_script:bellwire.lua -r x.pcapng -Y bellwire
  bellwire capture --snap 64 -o x.pcapng mpiexec -n 2 ./program
  bellwire capture -o x.pcapng --pid 4711                    a process that runs already, until Ctrl-C
  bellwire capture --keep events -o x.pcapng ./program; bellwire capture --read events -o y.pcapng

Environment:
  BELLWIRE_TRACE=DIR with BELLWIRE_CAPTURE=BYTES does the same to a program that is started in another way (on other hosts, say): its events go to DIR, and --read makes packets of them.

Exit status:
  that of the program (128 + the signal if one ended it); 126 or 127 if it cannot be started; 1 if the file cannot be written; 2 if the arguments were wrong.";

/// `cargo xtask dissector` makes it.
const DISSECTOR: &str = include_str!("capture/bellwire.lua");

/// Run a program and write what its queue pairs exchange as packets that Wireshark reads
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// The file; - for standard output, where the packets appear while the program runs, and what
    /// it prints goes to standard error instead
    #[arg(short, long, value_name = "FILE", value_parser = output::file_to_write, required_unless_present = "dissector")]
    output: Option<PathBuf>,

    /// Most bytes of a message that are captured
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    snap: u64,

    /// Rather lose packets than have a program wait that sends faster than they are written
    #[arg(long)]
    drop: bool,

    /// Bytes of each thread's file, which this command reads while the program runs
    #[arg(long, value_name = "BYTES", default_value_t = 4 * here::BYTES_DEFAULT, value_parser = clap::value_parser!(u64).range(here::BYTES_MIN..=here::BYTES_MAX))]
    bytes: u64,

    /// Capture a running process of this user's, or anybody's for root, until it ends or Ctrl-C
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["program", "read", "dissector"])]
    pid: Option<i32>,

    /// Leave the threads' files in this folder, which must not be there or be empty
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Run nothing: make packets of what is in a folder of --keep or BELLWIRE_TRACE; more than once
    /// for the folders of several hosts, whose clocks are put on one by the messages between them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "program", "bytes", "snap", "drop"])]
    read: Vec<PathBuf>,

    /// Run nothing: print a dissector for Wireshark, in Lua, of the packets of NICs
    #[arg(long, conflicts_with_all = ["output", "keep", "program", "bytes", "snap", "drop", "read"])]
    dissector: bool,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["read", "dissector", "pid"], trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the program and writes its packets.
///
/// # Errors
/// A sentence.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let Some(output) = &arguments.output else {
        write(None, Instead::Output, DISSECTOR.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let wrong = |why: &io::Error| format!("{}: {why}", output.display());
    let to_output = output == Path::new("-");
    let file: Box<dyn Write + Send> = if to_output { Box::new(io::stdout()) } else { Box::new(File::create(output).map_err(|e| wrong(&e))?) };
    let file = BufWriter::with_capacity(1 << 18, file);
    if !arguments.read.is_empty() {
        let stream = Stream::new(Collector::new(&arguments.read, u64::MAX), file, false).and_then(Stream::finish);
        stream.map_err(|e| wrong(&e))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::make(arguments.keep.as_deref())?;
    let mut stream = Stream::new(Collector::new(&[folder.path()], u64::MAX), file, !arguments.drop).map_err(|e| wrong(&e))?;
    let capture = format!("{}{}", arguments.snap, if arguments.drop { "" } else { ",wait" });
    let follow = move |pace: &Pace| {
        let mut is_much = false;
        while pace.wait(is_much) {
            is_much = stream.look()?;
        }
        stream.finish()
    };
    if let Some(pid) = arguments.pid {
        let written = attach(pid, &folder, arguments.bytes, Some(&capture), follow)?;
        return readable(written).map_err(|e| wrong(&e)).map(|()| ExitCode::SUCCESS);
    }
    let prepare = |command: &mut Command| {
        command.env(here::CAPTURE, &capture);
        if to_output {
            command.stdout(Stdio::from(io::stderr()));
        }
    };
    let (status, written) = watch(&arguments.program, &folder, arguments.bytes, prepare, follow)?;
    let code = status?;
    readable(written).map_err(|e| wrong(&e)).map(|()| code)
}
