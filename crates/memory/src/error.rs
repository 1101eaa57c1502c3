// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors between this process, the kernel and a peer, as one small `Copy` enum.
//!
//! Each variant has somebody to blame ([`MemoryError::blame`]): the caller, this machine's limits,
//! or the peer. The engine decides by it whether to return an error or to break a link. The texts
//! are for people and say what to do.

use core::fmt;
use rustix::io::Errno;

/// The party that has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The arguments of the call.
    Caller,
    /// A limit or a missing facility of this machine, container or account.
    LocalLimit,
    /// What the peer sent; the link to it should be broken.
    Peer,
    /// Nobody: the state of the world (try again, or somebody has gone).
    Nobody,
}

/// An error of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// Not enough memory for the pages asked for; nothing was taken.
    NoMemory {
        /// Bytes asked for, including the margin that is kept free.
        wanted: u64,
        /// Bytes that this process could have taken.
        available: u64,
    },
    /// A length of zero, or one that does not fit the address space.
    BadLength {
        /// Bytes asked for.
        len: usize,
    },
    /// The operation would have waited.
    WouldBlock,
    /// The other end of the socket has been closed.
    PeerClosed,
    /// Somebody else listens under this name.
    AddressInUse,
    /// Nobody listens under this name.
    ConnectionRefused,
    /// A socket name that is empty or too long.
    BadName {
        /// Bytes given.
        len: usize,
        /// Bytes possible.
        max: usize,
    },
    /// More descriptors than one message carries.
    TooManyDescriptors {
        /// Descriptors given.
        given: usize,
        /// Descriptors possible.
        max: usize,
    },
    /// The peer sent a longer message, or more descriptors, than the protocol allows.
    Truncated,
    /// The descriptor that the peer sent is not memory made by `memfd_create` (of ordinary pages).
    NotMemory,
    /// The memory that the peer sent could still change its size.
    NotSealed {
        /// The `F_SEAL_*` bits that are missing.
        missing: u32,
    },
    /// The memory that the peer sent has a size out of bounds.
    WrongSize {
        /// Its size in bytes.
        len: u64,
        /// Least bytes allowed.
        min: u64,
        /// Most bytes allowed.
        max: u64,
    },
    /// The descriptor that the peer sent is not a pidfd.
    NotPidfd,
    /// The process that the pidfd names is not in this process's pid namespace.
    ForeignPid,
    /// The descriptor that the peer sent as its bell is not a pipe that can be opened.
    NotBell,
    /// A range outside the memory it is taken from.
    OutOfBounds {
        /// First byte of the range.
        offset: u64,
        /// Bytes in the range.
        len: u64,
        /// Bytes there are.
        size: u64,
    },
    /// A write to memory that this process may only read.
    ReadOnly,
    /// `/proc` is not mounted, or hides what is needed.
    NoProc,
    /// Any other refusal of the kernel.
    Os {
        /// The system call.
        call: &'static str,
        /// What it returned.
        errno: Errno,
    },
}

impl MemoryError {
    /// The error for `errno` returned by `call`: the cases that callers tell apart get their own
    /// variants.
    pub fn os(call: &'static str, errno: Errno) -> Self {
        match errno {
            // EWOULDBLOCK is the same number on Linux.
            Errno::AGAIN => Self::WouldBlock,
            Errno::PIPE | Errno::CONNRESET => Self::PeerClosed,
            Errno::ADDRINUSE => Self::AddressInUse,
            Errno::CONNREFUSED => Self::ConnectionRefused,
            _ => Self::Os { call, errno },
        }
    }

    /// A closure for `map_err` around `call`.
    pub(crate) fn from_call(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::os(call, errno)
    }

    /// The party that has to change something.
    pub fn blame(&self) -> Blame {
        match self {
            Self::BadLength { .. }
            | Self::AddressInUse
            | Self::BadName { .. }
            | Self::TooManyDescriptors { .. }
            | Self::OutOfBounds { .. }
            | Self::ReadOnly => Blame::Caller,
            Self::NoMemory { .. } | Self::ForeignPid | Self::NoProc | Self::Os { .. } => Blame::LocalLimit,
            Self::Truncated | Self::NotMemory | Self::NotSealed { .. } | Self::WrongSize { .. } | Self::NotPidfd | Self::NotBell => Blame::Peer,
            Self::WouldBlock | Self::PeerClosed | Self::ConnectionRefused => Blame::Nobody,
        }
    }
}

impl From<(&'static str, Errno)> for MemoryError {
    fn from((call, errno): (&'static str, Errno)) -> Self {
        Self::os(call, errno)
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoMemory { wanted, available } => {
                write!(f, "not enough memory: {wanted} bytes wanted, {available} available to this process; raise its memory limit (cgroup) or ask for less")
            }
            Self::BadLength { len } => write!(f, "a length of {len} bytes cannot be mapped; ask for at least one byte and less than the address space"),
            Self::WouldBlock => f.write_str("not ready yet; wait until the descriptor is ready and try again"),
            Self::PeerClosed => f.write_str("the peer has closed its end; connect again"),
            Self::AddressInUse => f.write_str("another socket listens under this name; choose another name or stop the other program"),
            Self::ConnectionRefused => f.write_str("nobody listens under this name; start the peer first"),
            Self::BadName { len, max } => write!(f, "a socket name of {len} bytes; use 1 to {max}"),
            Self::TooManyDescriptors { given, max } => write!(f, "{given} descriptors in one message; send at most {max}"),
            Self::Truncated => f.write_str("the peer sent a longer message or more descriptors than allowed; break the link to it"),
            Self::NotMemory => f.write_str("the peer sent a descriptor that is not a memfd of ordinary pages; break the link to it"),
            Self::NotSealed { missing } => {
                write!(f, "the peer sent memory without the seals {missing:#x}, so it could still be resized; break the link to it")
            }
            Self::WrongSize { len, min, max } => write!(f, "the peer sent memory of {len} bytes, allowed are {min} to {max}; break the link to it"),
            Self::NotPidfd => f.write_str("the peer sent a descriptor that is not a pidfd; break the link to it"),
            Self::ForeignPid => f.write_str("the peer's process cannot be seen from this pid namespace; share the pid namespace to learn of its death at once"),
            Self::NotBell => f.write_str("the peer sent a descriptor that is not a pipe; break the link to it"),
            Self::OutOfBounds { offset, len, size } => write!(f, "bytes {offset} to {offset}+{len} lie outside memory of {size} bytes"),
            Self::ReadOnly => f.write_str("this memory is mapped for reading only; only its owner may write it"),
            Self::NoProc => f.write_str("/proc/self is not readable; mount proc in this container"),
            Self::Os { call, errno } => write!(f, "{call} failed: {errno}{}", advice(errno)),
        }
    }
}

/// The usual remedy, for the most frequent refusals.
fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => "; raise the limit of open files of this process (ulimit -n)",
        Errno::NFILE => "; the system has too many open files",
        Errno::NOMEM => "; the process has too many mappings or too little memory (vm.max_map_count, memory limit)",
        Errno::PERM | Errno::ACCESS => "; a security policy (seccomp, LSM) or the peer's user forbids it",
        Errno::FBIG => "; shared memory counts as a file here: raise the limit of file sizes (ulimit -f unlimited)",
        Errno::NOSYS => "; this kernel or sandbox does not have the call",
        Errno::TOOMANYREFS => "; too many descriptors are in flight (raise ulimit -n)",
        _ => "",
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os { errno, .. } => Some(errno),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_kernel_has_its_cause() {
        let cause = |error: &MemoryError| std::error::Error::source(error).map(ToString::to_string);
        assert_eq!(cause(&MemoryError::os("mmap", Errno::NOMEM)), Some(Errno::NOMEM.to_string()));
        assert_eq!(cause(&MemoryError::NotMemory), None);
    }

    #[test]
    fn cases_that_callers_tell_apart() {
        assert_eq!(MemoryError::os("send", Errno::WOULDBLOCK), MemoryError::WouldBlock);
        assert_eq!(MemoryError::from(("bind", Errno::ADDRINUSE)), MemoryError::AddressInUse);
        assert_eq!(MemoryError::os("connect", Errno::CONNREFUSED), MemoryError::ConnectionRefused);
        assert_eq!(MemoryError::os("send", Errno::PIPE), MemoryError::PeerClosed);
        assert_eq!(MemoryError::os("mmap", Errno::NOMEM), MemoryError::Os { call: "mmap", errno: Errno::NOMEM });
    }

    #[test]
    fn texts_say_what_to_do() {
        let text = MemoryError::NoMemory { wanted: 4096, available: 7 }.to_string();
        assert!(text.contains("4096") && text.contains('7') && text.contains("limit"), "{text}");
        let text = MemoryError::Os { call: "memfd_create", errno: Errno::MFILE }.to_string();
        assert!(text.contains("memfd_create") && text.contains("ulimit"), "{text}");
    }

    #[test]
    fn lies_are_the_peers() {
        assert_eq!(MemoryError::NotSealed { missing: 6 }.blame(), Blame::Peer);
        assert_eq!(MemoryError::WouldBlock.blame(), Blame::Nobody);
    }
}
