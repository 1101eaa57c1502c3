// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong.

use std::fmt;

use bellwire_memory::MemoryError;

/// Why global memory cannot be had, or an access cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The launcher.
    Job(bellwire_job::Error),
    /// Shared memory, descriptors, sockets.
    Memory(MemoryError),
    /// A call of the system: its name, and what it said.
    Os(&'static str, rustix::io::Errno),
    /// Some processes are on another host.
    OtherHosts {
        /// Processes of the job.
        processes: u32,
        /// Those on this host.
        here: u32,
    },
    /// More processes than address space on one host.
    TooMany(u32),
    /// The program's statics are not where those of a program without PIE are.
    NotFixed,
    /// A process that should have handed over the memory, or come for it, did not.
    NoRendezvous(&'static str),
    /// A process has said something of its memory that cannot be.
    Misfit(u32),
    /// A global pointer with a process that does not exist.
    NoSuchProcess(u64),
    /// Nothing is at that address of that process.
    NoMemoryThere,
    /// The kernel does not let this process reach what is not shared in another.
    Refused,
    /// A number in the environment.
    BadSetting(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(error) => write!(f, "{error}"),
            Self::Memory(error) => write!(f, "{error}"),
            Self::Os(call, errno) => write!(f, "{call}: {errno}"),
            Self::OtherHosts { processes, here } => write!(f, "the job has {processes} processes, {here} of them on this host: global memory between hosts is not there yet"),
            Self::TooMany(n) => write!(f, "{n} processes on one host are too many: {} at most", crate::layout::PROCESSES_MAX),
            Self::NotFixed => f.write_str("the program's data is not at low addresses: link it without PIE (-no-pie)"),
            Self::NoRendezvous(what) => f.write_str(what),
            Self::Misfit(process) => write!(f, "process {process} has its memory where it cannot be mapped"),
            Self::NoSuchProcess(process) => write!(f, "there is no process {process}"),
            Self::NoMemoryThere => f.write_str("no memory is there"),
            Self::Refused => f.write_str("it is on a stack or in memory of mmap, which this system does not let other processes reach (ptrace is restricted): use static or allocated memory"),
            Self::BadSetting(name) => write!(f, "{name} has to be a number of MiB that fits the address space"),
        }
    }
}

impl std::error::Error for Error {}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<bellwire_job::Error> for Error {
    fn from(error: bellwire_job::Error) -> Self {
        Self::Job(error)
    }
}

impl Error {
    /// For `map_err`: names the call.
    pub(crate) fn from_call(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::Os(call, errno)
    }
}
