// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running other libraries' benchmark programs: pinned, on loopback, with a time limit, ended by
//! their own process ids.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::cleanup::Group;
use crate::error::Error;
use crate::pin::{Pinning, spawn_among};
use crate::route::Route;

/// How long a peer's program may take.
pub const TIME_MAX: Duration = Duration::from_secs(8);

/// The full path of `program` if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| is_executable(file))
}

/// Whether this is a file that may be started.
pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// `bellwire`, which starts jobs and programs of verbs: beside this executable, else in PATH.
pub fn launcher(own: &Path) -> PathBuf {
    beside(own, "bellwire")
}

/// A program of this project: beside this executable, else in PATH.
pub fn beside(own: &Path, program: &str) -> PathBuf {
    let beside = own.with_file_name(program);
    if is_executable(&beside) { beside } else { program.into() }
}

/// A program that was started; ended when dropped.
struct Running {
    child: Child,
    _group: Option<Group>,
}

impl Running {
    fn start(command: &mut Command, cpus: &[usize]) -> Result<Self, Error> {
        // A process group of its own, so that what a launcher starts can be ended with it.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = spawn_among(cpus, command).map_err(|error| error.within(&name))?;
        let _group = Pid::from_raw(child.id() as i32).map(Group::watch);
        Ok(Running { child, _group })
    }

    /// Sleeps until the program has ended or `deadline` has come; whether it ended.
    fn await_end(&mut self, deadline: Instant) -> Result<bool, Error> {
        let Some(pid) = Pid::from_raw(self.child.id() as i32) else { return Ok(false) };
        let fd = match pidfd_open(pid, PidfdFlags::empty()) {
            // Ended already.
            Err(rustix::io::Errno::SRCH) => return Ok(true),
            result => result?,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        Ok(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time))? > 0)
    }

    /// What it printed, once it has ended well.
    fn output(mut self, deadline: Instant) -> Result<String, Error> {
        if !self.await_end(deadline)? {
            return Err(Error::failed("took too long"));
        }
        let status = self.child.wait()?;
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        if status.success() {
            return Ok(text);
        }
        let mut complaint = String::new();
        if let Some(mut err) = self.child.stderr.take() {
            let _ = err.read_to_string(&mut complaint);
        }
        let line = complaint_in(&complaint).or_else(|| complaint_in(&text)).unwrap_or_default();
        Err(Error::failed(format!("{status}: {line}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Launchers end their ranks when asked politely; what does not end then is ended hard.
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::TERM);
            if !self.await_end(Instant::now() + Duration::from_millis(500)).unwrap_or(false) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line that says why a program failed: the first that speaks of an error, else the first that
/// is not empty.
fn complaint_in(text: &str) -> Option<&str> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let speaks = |line: &&str| ["error", "fail", "refused"].iter().any(|word| line.to_ascii_lowercase().contains(word));
    lines().find(speaks).or_else(|| lines().next())
}

/// Runs one program to its end.
///
/// # Errors
/// If it does not start, fails or takes too long.
pub fn run(command: &mut Command) -> Result<String, Error> {
    run_within(command, TIME_MAX)
}

/// As [`run`], with a time limit of its own.
///
/// # Errors
/// As [`run`].
pub fn run_within(command: &mut Command, limit: Duration) -> Result<String, Error> {
    Running::start(command, &[])?.output(Instant::now() + limit)
}

/// Runs to its end a program that starts its second process itself, both on the processors of
/// `pinning`.
///
/// # Errors
/// As [`run`].
pub fn run_among(command: &mut Command, pinning: Pinning) -> Result<String, Error> {
    Running::start(command, &pinning.cpus())?.output(Instant::now() + TIME_MAX)
}

/// Where the two programs of a peer run, and how they reach each other.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// Processors.
    pub pinning: Pinning,
    /// The way between them.
    pub route: &'p Route,
}

/// Runs a server and, once it listens on `port`, a client, each on a processor of its own; what the
/// client printed.
///
/// # Errors
/// If one does not start, fails or takes too long.
pub fn run_pair(server: &mut Command, client: &mut Command, port: u16, pinning: Pinning) -> Result<String, Error> {
    run_pair_within(server, client, port, pinning, TIME_MAX)
}

/// As [`run_pair`], with a time limit of its own.
///
/// # Errors
/// As [`run_pair`].
pub fn run_pair_within(server: &mut Command, client: &mut Command, port: u16, pinning: Pinning, limit: Duration) -> Result<String, Error> {
    let deadline = Instant::now() + limit;
    let mut serving = Running::start(server, pinning.cpu(false).as_slice())?;
    while !is_listening(serving.child.id(), port) {
        if matches!(serving.child.try_wait(), Ok(Some(_))) {
            return Err(serving.output(deadline).err().unwrap_or_else(|| Error::failed("the server ended early")));
        }
        if Instant::now() > deadline {
            return Err(Error::failed("the server does not listen"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = Running::start(client, pinning.cpu(true).as_slice())?.output(deadline)?;
    // The server's fate does not matter once the client has its figures; dropping it ends it,
    // normally it has ended already.
    let _ = serving.await_end(Instant::now() + Duration::from_millis(300));
    Ok(text)
}

/// A TCP port that was free a moment ago.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Whether somebody listens on this port where process `pid` stands. Looking does not disturb the
/// server, as connecting would.
fn is_listening(pid: u32, port: u16) -> bool {
    let table = |name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    ["tcp", "tcp6"].into_iter().any(|name| table(name).is_ok_and(|text| table_has_listener(&text, port)))
}

fn table_has_listener(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&end)) && state == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:3419 00000000:0000 0A 00000000:00000000\n   \
                     1: 0100007F:341A 0100007F:9999 01 00000000:00000000\n";
        assert!(table_has_listener(table, 0x3419));
        assert!(!table_has_listener(table, 0x341A));
        assert!(!table_has_listener(table, 0x9999));
    }

    #[test]
    fn a_real_listener_is_seen() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        assert!(is_listening(std::process::id(), listener.local_addr().unwrap().port()));
    }

    #[test]
    fn output_and_failure() {
        assert_eq!(run(Command::new("sh").args(["-c", "echo 7"])).unwrap(), "7\n");
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(run(&mut Command::new("/nonexistent/program")).is_err());
    }

    #[test]
    fn the_reason_is_found_among_other_lines() {
        assert_eq!(complaint_in("+-----+\n| Test |\n  UCX  ERROR connect() failed \n"), Some("UCX  ERROR connect() failed"));
        assert_eq!((complaint_in("\n what\n"), complaint_in("")), (Some("what"), None));
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let mut running = Running::start(Command::new("sleep").arg("30"), &[]).unwrap();
        let start = Instant::now();
        assert!(!running.await_end(start + Duration::from_millis(10)).unwrap());
        drop(running);
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn programs_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-here"), None);
    }
}
