// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process is for the kernel at the moment, and whether it may stop its own threads as a
//! debugger does (`freeze.rs`). It is found out without doing that: a filter of system calls may
//! end a process that only tries.

use crate::atomic::{AtomicU32, Ordering};
use crate::signals::Blocked;
use core::ffi::{c_int, c_long};

/// A number of ptrace(2).
pub(super) const SEIZE: c_long = 0x4206;

/// Of `/proc/thread-self/status`: filters are of a thread, and the helper has those of its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// The process that traces this one, a debugger; 0: none.
    pub(super) tracer: u32,
    /// Memory that is pinned: the kernel, or a device, uses these pages whatever is mapped.
    pub(super) pinned_kib: u64,
    /// Memory that the program has locked (`mlock`).
    pub(super) locked_kib: u64,
    /// Filters of system calls. Kernels before 5.9 tell only that there are some.
    pub(super) filters: u32,
}

impl Status {
    /// `None`: it cannot be read.
    pub(super) fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/status").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let number = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.split_ascii_whitespace().next()?.parse::<u64>().ok());
        // A kernel that is built without a part has no line for it.
        let is_filtered = number("Seccomp:").is_some_and(|mode| mode != 0);
        let filters = number("Seccomp_filters:").map_or(u64::from(is_filtered), |n| n.max(u64::from(is_filtered)));
        let kib = |name| number(name).unwrap_or(0);
        Some(Self { tracer: number("TracerPid:")? as u32, pinned_kib: kib("VmPin:"), locked_kib: kib("VmLck:"), filters: filters as u32 })
    }
}

/// The processes that Yama, a module of the kernel's, lets a process trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Other processes of its user; or there is no such module.
    Own,
    /// Its children, and those that name it.
    Named,
    /// Any, if it has the capability; an attempt shows whether it does.
    Privileged,
    /// Nothing.
    Nothing,
}

impl Scope {
    pub(super) fn read() -> Self {
        Self::parse(std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().as_deref())
    }

    fn parse(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            None | Some("0") => Self::Own,
            Some("1") => Self::Named,
            Some("2") => Self::Privileged,
            Some(_) => Self::Nothing,
        }
    }
}

/// Whether stopping threads may be tried.
pub(super) fn may_trace(status: &Status) -> bool {
    // A debugger has the threads already, and would get to see the helper as one of them.
    status.tracer == 0 && Scope::read() != Scope::Nothing && (status.filters == 0 || filters_allow(status.filters))
}

/// The number of filters that was last tried, and in the lowest bit the answer.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Whether a process with this one's filters of system calls survives what the helper does.
fn filters_allow(filters: u32) -> bool {
    // Relaxed: a number that stands for itself. Filters are added, and never taken away.
    let tried = TRIED.load(Ordering::Relaxed);
    if tried >> 1 == filters {
        return tried & 1 != 0;
    }
    let answer = try_in_child();
    TRIED.store(filters << 1 | u32::from(answer), Ordering::Relaxed);
    answer
}

/// A child with memory of its own makes the helper's calls, on nothing. If a filter ends it, this
/// process is not touched, which shares no memory with it. It leaves no core file.
fn try_in_child() -> bool {
    let _mask = Blocked::new();
    // As `fork`, but for the handlers of `pthread_atfork`, and without a signal at its end.
    // SAFETY: the child runs `calls` alone, which takes no lock and no memory, and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    if child == 0 {
        let code = c_int::from(!calls());
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) };
    }
    let mut status: c_int = -1;
    // SAFETY: `status` is this function's.
    while child > 0 && unsafe { libc::syscall(libc::SYS_wait4, child, &raw mut status, c_long::from(libc::__WALL), 0) } < 0 {
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            break;
        }
    }
    child > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// The helper's calls, on nothing that exists. Whether `ptrace` gave the answer of a kernel that
/// knows it.
fn calls() -> bool {
    // SAFETY: calls with numbers, none of which names memory, a process or a descriptor of anybody.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, 0, 0, 0, 0);
        libc::syscall(libc::SYS_getppid);
        libc::syscall(libc::SYS_lseek, -1, 0, 0);
        libc::syscall(libc::SYS_getdents64, -1, 0, 0);
        libc::syscall(libc::SYS_wait4, -1, 0, c_long::from(libc::WNOHANG), 0);
        libc::syscall(libc::SYS_nanosleep, 0, 0);
        libc::syscall(libc::SYS_futex, 0, 0, 0, 0, 0, 0);
        libc::syscall(libc::SYS_mremap, 0, 0, 0, 0, 0);
        libc::syscall(libc::SYS_ptrace, SEIZE, 0, 0, 0) != 0 && *libc::__errno_location() == libc::ESRCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_status() {
        let text = "Name:\tx\nTracerPid:\t17\nVmLck:\t       8 kB\nVmPin:\t      12 kB\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        assert_eq!(Status::parse(text), Some(Status { tracer: 17, pinned_kib: 12, locked_kib: 8, filters: 3 }));
        let plain = |filters| Some(Status { tracer: 0, pinned_kib: 0, locked_kib: 0, filters });
        assert_eq!(Status::parse("TracerPid:\t0\nSeccomp:\t2\n"), plain(1), "an older kernel");
        assert_eq!(Status::parse("TracerPid:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n"), plain(0));
        assert_eq!(Status::parse(""), None);
        let own = Status::read().unwrap();
        assert!(own.filters != 0 || own.pinned_kib != 0 || own.tracer != 0 || may_trace(&own) == (Scope::read() != Scope::Nothing));
    }

    #[test]
    fn scopes() {
        let parsed = [None, Some("0\n"), Some("1\n"), Some("2\n"), Some("3\n"), Some("?")].map(Scope::parse);
        assert_eq!(parsed, [Scope::Own, Scope::Own, Scope::Named, Scope::Privileged, Scope::Nothing, Scope::Nothing]);
    }

    #[test]
    fn without_filters_the_child_says_yes() {
        if Status::read().unwrap().filters == 0 {
            assert!(try_in_child());
        }
    }
}
