// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting one process of a job.
//!
//! Invariant S1: between fork and exec a child has one thread, and memory as it was: only system
//! calls are made there, on values that were prepared before; nothing is allocated.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::plan::{Output, Plan};

/// A process of the job, as the launcher holds it.
#[derive(Debug)]
pub(crate) struct Process {
    pub child: Child,
    pub pid: Pid,
    /// Before its first instruction.
    pub started: Instant,
    /// Readable when it has ended.
    pub pidfd: OwnedFd,
    /// The launcher's end of PMI-1.
    pub pmi: UnixStream,
    /// Its output, where the launcher reads it: standard output and error.
    pub streams: [Option<OwnedFd>; 2],
}

/// Why a process did not start, and the exit status that shells give it.
pub(crate) struct NotStarted {
    pub why: String,
    pub status: i32,
}

/// Starts process `rank`; `limit` is what it may have of open files. To be called by a thread that
/// stays: the child is killed when that ends.
pub(crate) fn spawn(plan: &Plan, rank: u32, stdin: Stdio, limit: Rlimit) -> Result<Process, NotStarted> {
    let own = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| NotStarted { why: format!("cannot start rank {rank}: {what}: {error}"), status: 1 }
    };
    let (pmi, theirs) = UnixStream::pair().map_err(own("a socket"))?;
    pmi.set_nonblocking(true).map_err(own("a socket"))?;
    let (program, arguments) = plan.options.program.split_first().ok_or_else(|| own("no program")(io::ErrorKind::InvalidInput.into()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin).process_group(0);
    if let Some(folder) = &plan.options.folder {
        command.current_dir(folder);
    }
    for (name, value) in plan.environment(rank, theirs.as_raw_fd()) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    match &plan.options.output {
        Output::Merged { .. } => drop(command.stdout(Stdio::piped()).stderr(Stdio::piped())),
        Output::Files(folder) => {
            let width = plan.options.size.saturating_sub(1).to_string().len();
            let file = |kind: &str| {
                let path = folder.join(format!("rank-{rank:0width$}.{kind}"));
                File::create(&path).map_err(|error| own(&path.display().to_string())(error))
            };
            command.stdout(file("out")?).stderr(file("err")?);
        }
    }
    prepare(&mut command, theirs, plan.cpus.as_ref().and_then(|cpus| cpus.get(rank as usize)), limit);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| not_started(plan, &error))?;
    let streams = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    for stream in streams.iter().flatten() {
        let result = fcntl_getfl(stream).and_then(|flags| fcntl_setfl(stream, flags | OFlags::NONBLOCK));
        result.map_err(|errno| own("a pipe")(errno.into()))?;
    }
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| own("pidfd_open (Linux 5.3)")(errno.into()))?;
    Ok(Process { child, pid, started, pidfd, pmi, streams })
}

/// Arranges what the child does before it becomes the program.
fn prepare(command: &mut Command, pmi: UnixStream, cpus: Option<&Vec<usize>>, limit: Rlimit) {
    let launcher = getpid();
    let set = cpus.map(|cpus| {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    });
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The launcher may have gone before that was set.
        if getppid() != Some(launcher) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        if let Some(set) = &set {
            sched_setaffinity(None, set)?;
        }
        setrlimit(Resource::Nofile, limit)?;
        // This one is for the program.
        fcntl_setfd(pmi.as_fd(), FdFlags::empty())?;
        Ok(())
    };
    // SAFETY: S1: system calls only; the closure owns what it uses.
    unsafe { command.pre_exec(before_exec) };
}

/// A failure to start, in words for its reader.
fn not_started(plan: &Plan, error: &io::Error) -> NotStarted {
    let program = plan.options.program.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = plan.options.folder.as_ref().filter(|folder| !folder.is_dir());
    let (hint, status) = match error.kind() {
        io::ErrorKind::NotFound => match folder {
            Some(folder) => (format!("there is no folder {}", folder.display()), 127),
            None if program.contains('/') => ("there is no such file, or its interpreter is missing".to_owned(), 127),
            None => (format!("it is not in PATH; a program of this folder is ./{program}"), 127),
        },
        io::ErrorKind::PermissionDenied => ("it may not be executed (chmod +x), or is a folder".to_owned(), 126),
        _ => (error.to_string(), 126),
    };
    NotStarted { why: format!("cannot start \"{program}\": {hint}"), status }
}
