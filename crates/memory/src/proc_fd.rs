// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a descriptor is, told by `/proc/self`: a peer may send any descriptor where another was
//! agreed on.
//!
//! The kernel makes the link text of descriptors without a file (`anon_inode:[eventfd]`); a path of
//! a real file begins with `/`, so it cannot be forged. Called by `pidfd` and `event`, at set-up
//! only.

use crate::error::MemoryError;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Whether the descriptor is the anonymous file called `anon_inode:[kind]`.
pub(crate) fn is_anonymous(fd: BorrowedFd<'_>, kind: &str) -> Result<bool, MemoryError> {
    use std::os::unix::ffi::OsStrExt;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(|_| MemoryError::NoProc)?;
    let inner = link.as_os_str().as_bytes().strip_prefix(b"anon_inode:[").and_then(|rest| rest.strip_suffix(b"]"));
    Ok(inner == Some(kind.as_bytes()))
}

/// The number in the line `key:` of the descriptor's information.
pub(crate) fn number(fd: BorrowedFd<'_>, key: &str) -> Result<Option<i64>, MemoryError> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).map_err(|_| MemoryError::NoProc)?;
    Ok(parse_number(&text, key))
}

fn parse_number(text: &str, key: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "pos:\t0\nflags:\t02000002\nPid:\t1234\nNSpid:\t1234\t7\n";
        assert_eq!(parse_number(text, "Pid"), Some(1234));
        assert_eq!(parse_number("Pid:\t-1\n", "Pid"), Some(-1));
        assert_eq!(parse_number("NSpid:\t1\n", "Pid"), None);
        assert_eq!(parse_number("Pid:\n", "Pid"), None);
    }
}
