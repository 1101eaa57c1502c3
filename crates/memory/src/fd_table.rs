// SPDX-License-Identifier: MIT OR Apache-2.0
//! Room in this process's table of descriptors.
//!
//! Linux doubles the table when a descriptor does not fit, and in a process with threads it then
//! waits for every processor of the machine to have passed a quiet point (`expand_fdtable`,
//! `synchronize_rcu`): tens of milliseconds where processors idle, seconds where all of them are
//! busy, within whatever call wanted the descriptor. Making room once, best before there are
//! threads, keeps that out of the calls that make connections.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Resource, getrlimit};

/// Has the table hold descriptors below `count`, or below this process's limit if that is less;
/// `any` is an open descriptor. That there is no room shows later, where it is needed.
pub fn reserve(any: BorrowedFd<'_>, count: u32) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(u64::from(count));
    // The copy is closed at once; the table stays. If the place is taken, the table is large
    // enough.
    if let Ok(last) = i32::try_from(limit.saturating_sub(1)) {
        drop(rustix::io::fcntl_dupfd_cloexec(any.as_fd(), last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_size() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_table_grows_and_nothing_stays_open() {
        let wanted = 1024.min(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
        let null = std::fs::File::open("/dev/null").unwrap();
        reserve(null.as_fd(), 1024);
        assert!(table_size() >= wanted, "{}", table_size());
        assert!(std::fs::read_link(format!("/proc/self/fd/{}", wanted - 1)).is_err());
        // Beyond the limit: as much as is allowed.
        reserve(null.as_fd(), u32::MAX);
    }
}
