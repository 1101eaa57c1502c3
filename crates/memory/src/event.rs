// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doorbell's bell: an eventfd that wakes a sleeping process.
//!
//! A NIC creates one, sleeps on it (epoll), and hands it to its peers; a peer rings it after publishing something, if the sleeper has armed its word.
//! Ringing costs a system call, so nobody rings for a peer that is awake.
//!
//! Both ends share one open file, flags included, so a hostile peer may read the counter (steal a ring), fill it, or clear `O_NONBLOCK`.
//! - [`Bell::clear`] cannot be made to wait: it asks for no waiting in the call itself.
//! - [`Bell::ring`] of a peer's bell looks at the flag and at the room first. Between look and write a peer that spins on exactly that could still
//!   stop the ringer until it reads its own counter (the kernel has no non-waiting write for eventfds). Where peers are not trusted, ring from the
//!   helper thread.
//! - Rings stolen by one peer from another are prevented by giving each peer a bell of its own; a bell costs one descriptor.

use crate::error::MemoryError;
use crate::proc_fd;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2, read, write};

/// A bell: one's own, to sleep on, or a peer's, to ring.
///
/// ```
/// use bellwire_memory::event::Bell;
///
/// let bell = Bell::create()?;
/// assert!(!bell.clear()?);
/// bell.ring()?;
/// bell.ring()?; // rings already
/// assert!(bell.clear()?);
/// assert!(!bell.clear()?);
/// # Ok::<(), bellwire_memory::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Bell {
    eventfd: OwnedFd,
    of_peer: bool,
}

impl Bell {
    /// A new bell of this process: silent, non-blocking, close-on-exec.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn create() -> Result<Self, MemoryError> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(MemoryError::from_call("eventfd"))?;
        Ok(Self { eventfd, of_peer: false })
    }

    /// A peer's bell, received from it.
    ///
    /// # Errors
    /// [`MemoryError::NotBell`] if it is anything but a non-blocking eventfd; [`MemoryError::NoProc`].
    pub fn from_fd(descriptor: OwnedFd) -> Result<Self, MemoryError> {
        if !proc_fd::is_anonymous(descriptor.as_fd(), "eventfd")? {
            return Err(MemoryError::NotBell);
        }
        let bell = Self { eventfd: descriptor, of_peer: true };
        bell.check_non_blocking()?;
        Ok(bell)
    }

    /// Wakes whoever sleeps on the bell. A bell that already rings stays so.
    ///
    /// # Errors
    /// [`MemoryError::NotBell`] if the peer has made its bell blocking since; [`MemoryError::Os`].
    #[cold]
    pub fn ring(&self) -> Result<(), MemoryError> {
        if self.of_peer {
            self.check_non_blocking()?;
            if !self.has_room()? {
                return Ok(());
            }
        }
        loop {
            match write(&self.eventfd, &1u64.to_ne_bytes()) {
                // EAGAIN: the counter is full, so it rings.
                Ok(_) | Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(MemoryError::os("write(eventfd)", errno)),
            }
        }
    }

    /// Silences the bell; says whether it was ringing. Never waits. (Then look for work: what was published before the ring is visible.)
    ///
    /// # Errors
    /// [`MemoryError::NotBell`] if a peer has made it blocking and the kernel is too old (before 5.8) to read without waiting; [`MemoryError::Os`].
    pub fn clear(&self) -> Result<bool, MemoryError> {
        let mut count = [0u8; 8];
        loop {
            // Offset -1: the file has no position.
            let result = match preadv2(&self.eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => {
                    self.check_non_blocking()?;
                    read(&self.eventfd, &mut count)
                }
                result => result,
            };
            match result {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(MemoryError::os("read(eventfd)", errno)),
            }
        }
    }

    /// The descriptor: readable while the bell rings; to sleep on, or to hand to a peer.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }

    fn check_non_blocking(&self) -> Result<(), MemoryError> {
        let flags = fcntl_getfl(&self.eventfd).map_err(MemoryError::from_call("fcntl(F_GETFL)"))?;
        if flags.contains(OFlags::NONBLOCK) { Ok(()) } else { Err(MemoryError::NotBell) }
    }

    fn has_room(&self) -> Result<bool, MemoryError> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.eventfd, PollFlags::OUT)];
        match poll(&mut fds, Some(&at_once)) {
            Ok(_) => Ok(fds[0].revents().contains(PollFlags::OUT)),
            // A signal: the write that follows does not wait either, by its flag.
            Err(Errno::INTR) => Ok(true),
            Err(errno) => Err(MemoryError::os("poll", errno)),
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use rustix::fs::fcntl_setfl;

    #[test]
    fn rings_until_cleared() {
        let bell = Bell::create().unwrap();
        assert!(!bell.clear().unwrap());
        bell.ring().unwrap();
        bell.ring().unwrap();
        assert!(bell.clear().unwrap());
        assert!(!bell.clear().unwrap());
    }

    #[test]
    fn a_full_counter_is_a_ring() {
        let bell = Bell::create().unwrap();
        let theirs = Bell::from_fd(bell.fd().try_clone_to_owned().unwrap()).unwrap();
        write(bell.fd(), &(u64::MAX - 1).to_ne_bytes()).unwrap();
        bell.ring().unwrap();
        theirs.ring().unwrap();
        assert!(bell.clear().unwrap());
        theirs.ring().unwrap();
        assert!(bell.clear().unwrap());
    }

    #[test]
    fn a_peer_that_makes_it_blocking_stops_nobody() {
        let bell = Bell::create().unwrap();
        let theirs = Bell::from_fd(bell.fd().try_clone_to_owned().unwrap()).unwrap();
        fcntl_setfl(bell.fd(), OFlags::empty()).unwrap();
        assert!(matches!(bell.clear(), Ok(false) | Err(MemoryError::NotBell)));
        assert_eq!(theirs.ring(), Err(MemoryError::NotBell));
        assert!(Bell::from_fd(bell.fd().try_clone_to_owned().unwrap()).is_err());
    }

    #[test]
    fn other_descriptors_are_refused() {
        let (_reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        assert_eq!(Bell::from_fd(writer).map(|_| ()), Err(MemoryError::NotBell));
        assert_eq!(Bell::from_fd(crate::pidfd::own().unwrap()).map(|_| ()), Err(MemoryError::NotBell));
    }
}
