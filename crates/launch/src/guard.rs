// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard: a process that waits until the launcher closes a pipe, by whatever end, and then
//! kills every process with the job's mark in its environment.
//!
//! So a process that a rank has started ends with the job even if it has left its process group or
//! session, unless it has also cleared its environment. The guard is in a session of its own and
//! has an empty environment, so that neither a terminal's signals nor an outer job's guard end it
//! early; should it be killed all the same, the launcher sweeps itself.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal, setsid};

use crate::MARK;

/// Processes that do not die of KILL (the kernel holds them) are not waited for any longer.
const SWEEP_MAX: Duration = Duration::from_secs(5);
/// So many sweeps in a row must find nothing: a process has no environment for a moment while it
/// becomes another program.
const CLEAN_SWEEPS: u32 = 2;
const BETWEEN_SWEEPS: Duration = Duration::from_millis(2);
/// An environment is read up to here; the mark is put near its end by some shells.
const ENVIRONMENT_MAX_BYTES: usize = 8 << 20;
/// The kernel gives a page of an environment at a time.
const PIECE_BYTES: usize = 4096;

/// The launcher's hold on its guard.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    id: String,
}

impl Guard {
    /// Starts the guard of a job.
    pub(crate) fn start(command: &[OsString], id: &str) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut guard = Command::new(program);
        guard.args(arguments).arg(id).env_clear().current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: guard.spawn()?, id: id.to_owned() })
    }

    /// Ends what is left of the job. Returns when it is gone.
    pub(crate) fn finish(mut self) {
        drop(self.child.stdin.take());
        if !self.child.wait().is_ok_and(|status| status.success()) {
            sweep(&self.id);
        }
    }
}

/// What the guard's process does: waits for the end of its standard input, and sweeps.
pub fn main(id: &str) {
    // It is a leader already if a terminal's shell made it one; then nothing is to be left.
    let _ = setsid();
    let mut bytes = [0; 64];
    while !matches!(io::stdin().read(&mut bytes), Ok(0)) {}
    sweep(id);
}

/// The job's variable as it stands in an environment, with the zero bytes around it.
fn mark(id: &str) -> Vec<u8> {
    [b"\0", MARK.as_bytes(), b"=", id.as_bytes(), b"\0"].concat()
}

/// Kills all processes of a job, except this one, until there are none.
fn sweep(id: &str) {
    let mark = mark(id);
    let end = Instant::now() + SWEEP_MAX;
    let mut buffer = Vec::new();
    let mut clean = 0;
    loop {
        clean = if sweep_once(&mark, &mut buffer) { 0 } else { clean + 1 };
        if clean == CLEAN_SWEEPS || Instant::now() >= end {
            return;
        }
        // A killed process needs a moment; processes that it started meanwhile are found next time.
        std::thread::sleep(BETWEEN_SWEEPS);
    }
}

/// Whether any was found.
fn sweep_once(mark: &[u8], buffer: &mut Vec<u8>) -> bool {
    let mut found = false;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process_id(&entry.file_name()).filter(|pid| *pid != getpid()) else { continue };
        if !is_marked(pid, mark, buffer) {
            continue;
        }
        // The descriptor holds the process; asked again, it is the one that was meant.
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_marked(pid, mark, buffer) {
            found |= pidfd_send_signal(&fd, Signal::KILL).is_ok();
        }
    }
    found
}

fn process_id(name: &OsStr) -> Option<Pid> {
    Pid::from_raw(std::str::from_utf8(name.as_bytes()).ok()?.parse().ok()?)
}

/// Whether the mark is in a process's environment. Processes of others cannot be read, and are not
/// ours. The dead have none.
///
/// The buffer is one for all: a host may have thousands of processes, and their environments are
/// read while the user waits for the end of the job.
fn is_marked(pid: Pid, mark: &[u8], buffer: &mut Vec<u8>) -> bool {
    let Ok(file) = File::open(format!("/proc/{}/environ", pid.as_raw_pid())) else { return false };
    // Every variable with a zero byte on both sides.
    buffer.resize(1, 0);
    loop {
        let length = buffer.len();
        buffer.resize(length + PIECE_BYTES, 0);
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer[length..])).unwrap_or(0);
        buffer.truncate(length + read);
        if read == 0 || buffer.len() > ENVIRONMENT_MAX_BYTES {
            return buffer.windows(mark.len()).any(|window| window == mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marked_go_and_others_stay() {
        let id = format!("test-{}", std::process::id());
        let sleep = |id: &str| Command::new("sleep").arg("60").env(MARK, id).spawn().unwrap();
        let (mut ours, mut other) = (sleep(&id), sleep(&format!("{id}0")));
        // The environment is there a moment after spawn returns: exec closes the pipe that spawn
        // waits for before it.
        let mark = mark(&id);
        while !is_marked(Pid::from_child(&ours), &mark, &mut Vec::new()) {
            std::thread::yield_now();
        }
        sweep(&id);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
