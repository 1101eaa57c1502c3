// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process descriptors: how a process learns of its peer's death within milliseconds.
//!
//! Each side sends a pidfd of itself when a link is made; the other adds it to its epoll set. It
//! becomes readable when the process ends, however it ends, even if a forked child keeps every
//! socket open. Its holder cannot be deceived by the reuse of a process id.
//!
//! A peer may send any descriptor: [`process_id`] says whether it is a pidfd and of whom, to be
//! compared with [`crate::fd_passing::peer_credentials`].

use crate::error::MemoryError;
use crate::proc_fd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

/// A pidfd of this process, close-on-exec.
///
/// # Errors
/// [`MemoryError::Os`]: no descriptors left, or a kernel before 5.3, or a sandbox without the call.
pub fn own() -> Result<OwnedFd, MemoryError> {
    pidfd_open(getpid(), PidfdFlags::empty()).map_err(MemoryError::from_call("pidfd_open"))
}

/// A pidfd of process `pid`.
///
/// # Errors
/// [`MemoryError::PeerClosed`] if there is no such process; [`MemoryError::ForeignPid`] for an
/// invalid number (0: the peer's process is not in this pid namespace); [`MemoryError::Os`] as for
/// [`own`].
pub fn open(pid: i32) -> Result<OwnedFd, MemoryError> {
    let pid = if pid > 0 { Pid::from_raw(pid) } else { None }.ok_or(MemoryError::ForeignPid)?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| match errno {
        Errno::SRCH => MemoryError::PeerClosed,
        errno => MemoryError::os("pidfd_open", errno),
    })
}

/// Whether the process has ended (a zombie has). Never waits.
///
/// # Errors
/// [`MemoryError::Os`] if the kernel refuses to poll.
pub fn has_exited(pidfd: BorrowedFd<'_>) -> Result<bool, MemoryError> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&at_once)) {
            Ok(_) => return Ok(fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(MemoryError::os("poll", errno)),
        }
    }
}

/// The id, in this process's pid namespace, of the process that a descriptor received from a peer
/// names; `None` if it has ended and been waited for.
///
/// # Errors
/// [`MemoryError::NotPidfd`] if it is something else; [`MemoryError::ForeignPid`] if the process is
/// not in this namespace (its end is still told by [`has_exited`], but whose it is must be
/// believed); [`MemoryError::NoProc`].
pub fn process_id(descriptor: BorrowedFd<'_>) -> Result<Option<i32>, MemoryError> {
    if !proc_fd::is_anonymous(descriptor, "pidfd")? {
        return Err(MemoryError::NotPidfd);
    }
    match proc_fd::number(descriptor, "Pid")? {
        Some(0) => Err(MemoryError::ForeignPid),
        Some(-1) => Ok(None),
        Some(pid) => i32::try_from(pid).map(Some).map_err(|_| MemoryError::NotPidfd),
        None => Err(MemoryError::NotPidfd),
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn this_process_lives() {
        let me = own().unwrap();
        assert!(!has_exited(me.as_fd()).unwrap());
        assert_eq!(process_id(me.as_fd()).unwrap(), Some(getpid().as_raw_nonzero().get()));
    }

    #[test]
    fn other_descriptors_are_refused() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(process_id(reader.as_fd()), Err(MemoryError::NotPidfd));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert_eq!(process_id(file.as_fd()), Err(MemoryError::NotPidfd), "its text has a Pid line too");
        let bell = crate::event::Bell::create().unwrap();
        assert_eq!(process_id(bell.fd()), Err(MemoryError::NotPidfd));
    }

    #[test]
    fn numbers_that_are_no_process() {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).map(|_| ()), Err(MemoryError::ForeignPid));
        }
        assert_eq!(open(i32::MAX).map(|_| ()), Err(MemoryError::PeerClosed));
    }

    #[test]
    fn a_child_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let fd = open(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(!has_exited(fd.as_fd()).unwrap());
        child.kill().unwrap();
        while !has_exited(fd.as_fd()).unwrap() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_exited(fd.as_fd()).unwrap());
        assert_eq!(process_id(fd.as_fd()).unwrap(), None);
    }
}
