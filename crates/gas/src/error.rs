// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of global memory.

use std::fmt;

use bellwire_memory::MemoryError;
pub use bellwire_peer::Death;

/// Someone has left the job while this process waited for all: its exit status, as far as it was
/// told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Which process.
    pub process: u32,
    /// Its exit status.
    pub status: i32,
}

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
    /// The way to processes with which no memory is shared.
    Nic(String),
    /// Something has happened to the job, or to a request that was under way.
    Trouble(Trouble),
    /// A process has left the job.
    Left(Left),
    /// More processes than address space on one host.
    TooMany(u32),
    /// This process has global memory, or has had it.
    Twice,
    /// The program's statics are not where those of a program without PIE are.
    NotFixed,
    /// A process that should have handed over the memory, or come for it, did not.
    NoRendezvous(&'static str),
    /// A process has said something of its memory that cannot be.
    Misfit(u32),
    /// A global pointer with a process that does not exist.
    NoSuchProcess(u64),
    /// A function that is not in the program's table.
    NoSuchFunction(u64),
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
            Self::Nic(what) => f.write_str(what),
            Self::Trouble(trouble) => write!(f, "{trouble}"),
            Self::Left(left) => write!(f, "process {} has left the job", left.process),
            Self::TooMany(n) => write!(f, "{n} processes on one host are too many: {} at most", crate::layout::PROCESSES_MAX),
            Self::Twice => f.write_str("global memory has been started in this process before: it is there once"),
            Self::NotFixed => f.write_str("the program's data is not at low addresses: link it without PIE (-no-pie)"),
            Self::NoRendezvous(what) => f.write_str(what),
            Self::Misfit(process) => write!(f, "process {process} has its memory where it cannot be mapped"),
            Self::NoSuchProcess(process) => write!(f, "there is no process {process}"),
            Self::NoSuchFunction(number) => write!(f, "the program has no function {number}"),
            Self::NoMemoryThere => f.write_str("no memory is there"),
            Self::Refused => f.write_str("it is on a stack or in memory of mmap, which this system does not let other processes reach (ptrace is restricted): use static or allocated memory"),
            Self::BadSetting(name) => write!(f, "{name} has to be a number of MiB that fits the address space"),
        }
    }
}

impl std::error::Error for Error {}

/// How a global place was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// A read or get.
    Get = 1,
    /// A write or put.
    Put,
    /// A store.
    Store,
    /// An atomic operation.
    Atomic,
}

/// Why a place of another process could not be used, as that process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// Nothing is there.
    NoMemoryThere = 1,
    /// The kernel does not let it.
    Refused,
    /// Something else.
    Other,
}

impl Why {
    /// Of an error.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NoMemoryThere => Self::NoMemoryThere,
            Error::Refused => Self::Refused,
            _ => Self::Other,
        }
    }

    /// From a number that a peer has sent.
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::NoMemoryThere,
            2 => Self::Refused,
            _ => Self::Other,
        }
    }
}

impl From<Why> for Error {
    fn from(why: Why) -> Self {
        match why {
            Why::NoMemoryThere => Self::NoMemoryThere,
            Why::Refused => Self::Refused,
            Why::Other => Self::Os("process_vm_readv", rustix::io::Errno::IO),
        }
    }
}

impl Access {
    /// As a number that travels, with the reason.
    pub(crate) fn to_bits(self, why: Why) -> u16 {
        self as u16 | (why as u16) << 8
    }

    /// From a number that a peer has sent.
    pub(crate) fn from_bits(bits: u16) -> Option<(Self, Why)> {
        let access = match bits as u8 {
            1 => Self::Get,
            2 => Self::Put,
            3 => Self::Store,
            4 => Self::Atomic,
            _ => return None,
        };
        Some((access, Why::from_bits((bits >> 8) as u8)))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "a read",
            Self::Put => "a write",
            Self::Store => "a store",
            Self::Atomic => "an atomic operation",
        })
    }
}

/// A failure that ends a job whose processes talk by messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// A process cannot be reached, and why.
    NoConnection(u32, Death),
    /// The connection to a process ended without a farewell, and why.
    Gone(u32, Death),
    /// A process has sent what cannot be.
    Misbehaved(u32),
    /// A place of a process cannot be used.
    Refused {
        /// Whose.
        process: u32,
        /// How it was to be used.
        access: Access,
        /// Why not.
        why: Why,
        /// Where.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(process, death) => write!(f, "process {process} of the job cannot be reached: {death} (see BELLWIRE_ADDRESS)"),
            Self::Gone(process, death) => write!(f, "process {process} of the job is gone: {death}"),
            Self::Misbehaved(process) => {
                write!(f, "process {process} has sent what no process of this job sends: is it the same program, with the same library?")
            }
            Self::Refused { process, access, why, address, bytes } => {
                write!(f, "{access} of {bytes} bytes at a global pointer to process {process}, address {address:#x}: {}", Error::from(*why))
            }
        }
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<bellwire_via::Error> for Error {
    fn from(error: bellwire_via::Error) -> Self {
        Self::Nic(error.to_string())
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
