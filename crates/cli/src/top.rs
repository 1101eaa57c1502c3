// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire top`: a live view of the NICs and VIs of running processes.
//!
//! `model` turns two answers of a NIC into rates; `view` lays rows out as text; `screen` is the terminal. What is shown comes from other processes and has
//! been made harmless by [`bellwire_inspect::stat`].

pub mod model;
mod screen;
mod view;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::model::{Model, Snapshot};
use self::screen::{Key, Screen};
use bellwire_report::output;

const LONG_ABOUT: &str = "\
Shows the NICs of running processes of this user and their virtual interfaces: messages and bytes a second, the ways that data went, waits and errors. \
The processes are not stopped and pay for an answer only when they are asked. The host's agents (bellwired) that are root's or this user's own follow, with endpoints, frames and users.

On a terminal the view is refreshed every --interval until q is pressed; in a pipe each view is printed below the last.";

const AFTER_HELP: &str = "\
Keys:
  q, Ctrl-C    end
  s            sort by the next column: messages/s, bytes/s, process
  space        refresh now

Exit status:
  0, also if no NIC is open; 1 if the process given has none (with --once), or the terminal fails.";

/// Watch the NICs and virtual interfaces of running processes
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    /// This process only
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,

    /// One view (of the rates over one interval) and out
    #[arg(long)]
    once: bool,

    /// One JSON object per view instead of a table
    #[arg(long)]
    json: bool,

    /// How long requests take, too: at each look processes are traced for 50 ms, which are slower
    /// meanwhile (bellwire explain --pid)
    #[arg(long)]
    requests: bool,

    /// Sort by this column first
    #[arg(long, value_enum, default_value = "messages")]
    sort: Sort,
}

/// Columns to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Messages a second, sent and received
    Messages,
    /// Bytes a second, sent and received
    Bytes,
    /// Process, NIC, VI
    Process,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Sort::Messages => Sort::Bytes,
            Sort::Bytes => Sort::Process,
            Sort::Process => Sort::Messages,
        }
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is expected".to_owned())?;
    if (0.05..=3600.0).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err("between 0.05 and 3600".to_owned()) }
}

/// Watches until told to stop.
///
/// # Errors
/// See the exit status.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let mut model = Model::default();
    if arguments.once {
        model.look(arguments.pid);
        if arguments.pid.is_some_and(|_| model.is_empty()) {
            let pid = arguments.pid.unwrap_or(0);
            return Err(if std::path::Path::new("/proc").join(pid.to_string()).exists() {
                format!("process {pid} has no NIC open, or is of another user or network namespace")
            } else {
                format!("there is no process {pid} here (or /proc hides it)")
            });
        }
        std::thread::sleep(arguments.interval);
        return output::print(&text(arguments, &look(arguments, &mut model), arguments.sort, None));
    }
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !arguments.json {
        return interactive(arguments, &mut model);
    }
    model.look(arguments.pid);
    loop {
        std::thread::sleep(arguments.interval);
        let view = text(arguments, &look(arguments, &mut model), arguments.sort, None);
        if !screen::print_line(&view) {
            return Ok(());
        }
    }
}

/// A look that is shown.
fn look(arguments: &Arguments, model: &mut Model) -> Snapshot {
    let snapshot = model.look(arguments.pid);
    if arguments.requests { snapshot.with_requests(arguments.pid) } else { snapshot }
}

fn text(arguments: &Arguments, snapshot: &Snapshot, sort: Sort, size: Option<(usize, usize)>) -> String {
    if arguments.json { view::json(snapshot, sort) } else { view::table(snapshot, sort, size) }
}

fn interactive(arguments: &Arguments, model: &mut Model) -> Result<(), String> {
    let mut screen = Screen::open().map_err(|error| format!("terminal: {error}"))?;
    let mut sort = arguments.sort;
    model.look(arguments.pid);
    loop {
        let snapshot = look(arguments, model);
        let deadline = Instant::now() + arguments.interval;
        loop {
            screen.draw(&text(arguments, &snapshot, sort, Some(screen.size()))).map_err(|error| format!("terminal: {error}"))?;
            match screen.key(deadline) {
                Key::Quit => return Ok(()),
                Key::Sort => sort = sort.next(),
                Key::None | Key::Refresh => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "x", "nan", "1e9"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
