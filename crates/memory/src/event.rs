// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bells wake sleepers. Ringing costs a system call, so a peer that is awake is not rung.
//!
//! - [`Bell`]: an eventfd within one process, between its own threads. Never handed to anybody.
//! - [`BellSet`]: what a NIC sleeps on for its peers: one bell per peer, behind one descriptor.
//! - [`PeerBell`]: a peer's bell, to ring.
//!
//! A bell between processes is a pipe, and each ringer opens it anew: the flags of *that* open
//! file are nobody else's. (An eventfd has one open file for both sides. A hostile peer can make it
//! blocking and fill it, and there is no way to write to it that certainly does not wait.) It is
//! opened for both directions, so that a peer that has closed its end raises no SIGPIPE.
//!
//! Invariants
//! - B1: each peer has a pipe of its own, so a peer that reads, fills or closes it stops its own
//!   rings and no other's.
//! - B2: a write wakes the sleeper whatever is in the pipe (edge-triggered), so the sleeper need
//!   not read it; the ringer empties a pipe that is full. Kernels in which only a write into an
//!   empty pipe wakes (5.5 to 5.13) are found by trying, and there the sleeper reads.
//! - B3: no call here waits, whatever a peer does with its descriptors.

use crate::error::MemoryError;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, open};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::collections::BTreeMap;

/// Bytes of a bell's pipe: one page, the least there is.
const PIPE_BYTES: usize = 4096;
/// Bells looked at by one call of the kernel.
const BELLS_PER_LOOK: usize = 32;

/// A bell within this process.
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
}

impl Bell {
    /// A new bell: silent, non-blocking, close-on-exec.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn create() -> Result<Self, MemoryError> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(MemoryError::from_call("eventfd"))?;
        Ok(Self { eventfd })
    }

    /// Wakes the sleeper on the bell. A bell that already rings stays so.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    #[cold]
    pub fn ring(&self) -> Result<(), MemoryError> {
        loop {
            match write(&self.eventfd, &1u64.to_ne_bytes()) {
                // EAGAIN: the counter is full, so it rings.
                Ok(_) | Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(MemoryError::os("write(eventfd)", errno)),
            }
        }
    }

    /// Silences the bell; says whether it was ringing. (Then look for work: everything published
    /// before the ring is visible.)
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn clear(&self) -> Result<bool, MemoryError> {
        let mut count = [0u8; 8];
        loop {
            match read(&self.eventfd, &mut count) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(MemoryError::os("read(eventfd)", errno)),
            }
        }
    }

    /// The descriptor: readable while the bell rings.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// A peer's bell, to ring.
#[derive(Debug)]
pub struct PeerBell {
    pipe: OwnedFd,
}

impl PeerBell {
    /// The bell that a peer has sent.
    ///
    /// # Errors
    /// [`MemoryError::NotBell`] if it is anything but a pipe that we may open;
    /// [`MemoryError::NoProc`].
    pub fn from_fd(descriptor: OwnedFd) -> Result<Self, MemoryError> {
        // Looked at before it is opened: to open a device may do something, to open a pipe does
        // not.
        let stat = fstat(&descriptor).map_err(|_| MemoryError::NotBell)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            return Err(MemoryError::NotBell);
        }
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match open(path, flags, Mode::empty()) {
            Ok(pipe) => Ok(Self { pipe }),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(MemoryError::NoProc),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Err(MemoryError::os("open(/proc/self/fd)", Errno::MFILE)),
            Err(_) => Err(MemoryError::NotBell),
        }
    }

    /// Wakes the peer. Never waits (B3).
    ///
    /// # Errors
    /// [`MemoryError::Os`]: nothing that a peer can bring about.
    #[cold]
    pub fn ring(&self) -> Result<(), MemoryError> {
        for _ in 0..4 {
            match write(&self.pipe, &[0]) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                // Full of rings (B2): make room. A peer that fills it as fast as this does not want
                // to be rung.
                Err(Errno::AGAIN) => empty(self.pipe.as_fd()),
                Err(errno) => return Err(MemoryError::os("write(pipe)", errno)),
            }
        }
        Ok(())
    }
}

/// Lets a peer of another user have the end of a pipe of [`pipe_of_bell`] as a [`PeerBell`], which
/// it opens anew. Without a descriptor of it nobody can.
///
/// # Errors
/// [`MemoryError::Os`]: the kernel has no modes for pipes.
pub fn open_to_other_users(ringing: BorrowedFd<'_>) -> Result<(), MemoryError> {
    fchmod(ringing, Mode::from_raw_mode(0o666)).map_err(|e| MemoryError::os("fchmod(pipe)", e))
}

/// Takes what is in a bell's pipe; a hostile peer may have made the pipe larger, then what is left
/// waits for the next time.
fn empty(pipe: BorrowedFd<'_>) {
    let mut rings = [0u8; PIPE_BYTES];
    let _ = read(pipe, &mut rings);
}

/// The bells that peers ring for one NIC, behind one descriptor to sleep on.
#[derive(Debug)]
pub struct BellSet {
    set: OwnedFd,
    pipes: BTreeMap<u64, OwnedFd>,
    /// Only a write into an empty pipe wakes (B2).
    reads: bool,
}

impl BellSet {
    /// An empty set.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no descriptors left.
    pub fn create() -> Result<Self, MemoryError> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(MemoryError::from_call("epoll_create1"))?;
        let mut bells = Self { set, pipes: BTreeMap::new(), reads: true };
        bells.reads = !bells.every_write_wakes()?;
        Ok(bells)
    }

    /// Whether a write into a pipe that is not empty is an event.
    fn every_write_wakes(&mut self) -> Result<bool, MemoryError> {
        let (listener, ringer) = pipe_of_bell()?;
        self.add(0, listener)?;
        let mut wakes = true;
        // Twice: the second finds the pipe filled.
        for _ in 0..2 {
            write(&ringer, &[0]).map_err(MemoryError::from_call("write(pipe)"))?;
            wakes &= self.take_events(&mut [NO_EVENT; 1]) == 1;
        }
        self.remove(0);
        Ok(wakes)
    }

    /// Puts the listening end of a new bell in, under a name of its own.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn add(&mut self, name: u64, listener: OwnedFd) -> Result<(), MemoryError> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.set, &listener, epoll::EventData::new_u64(name), flags).map_err(MemoryError::from_call("epoll_ctl"))?;
        self.pipes.insert(name, listener);
        Ok(())
    }

    /// Takes a bell out.
    pub fn remove(&mut self, name: u64) {
        if let Some(pipe) = self.pipes.remove(&name) {
            // Also needed before closing: a forked child may keep the description open.
            let _ = epoll::delete(&self.set, &pipe);
        }
    }

    /// Silences the bells; says whether one was ringing. Never waits. (Then look for work:
    /// everything published before the ring is visible.)
    pub fn clear(&self) -> bool {
        let mut rang = false;
        let mut events = [NO_EVENT; BELLS_PER_LOOK];
        // Bounded: peers that ring without end do not keep us here.
        for _ in 0..8 {
            let n = self.take_events(&mut events);
            rang |= n != 0;
            if self.reads {
                for e in &events[..n] {
                    self.pipes.get(&e.data.u64()).inspect(|pipe| empty(pipe.as_fd()));
                }
            }
            if n < events.len() {
                break;
            }
        }
        rang
    }

    /// Whether a bell that rings already wakes nobody when it is rung again (B2): then
    /// [`clear`](Self::clear) before the last look before each sleep.
    pub fn must_be_cleared(&self) -> bool {
        self.reads
    }

    fn take_events(&self, events: &mut [epoll::Event]) -> usize {
        epoll::wait(&self.set, events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0)
    }

    /// The descriptor: readable when a bell has rung since the last [`clear`](Self::clear). To
    /// sleep on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

const NO_EVENT: epoll::Event = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// A new bell for one peer: the end to listen to, for a [`BellSet`], and the end to be sent to the
/// peer and closed here.
///
/// # Errors
/// [`MemoryError::Os`]: no descriptors left.
pub fn pipe_of_bell() -> Result<(OwnedFd, OwnedFd), MemoryError> {
    let (listener, ringer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(MemoryError::from_call("pipe2"))?;
    // Only to be modest: any size serves.
    let _ = fcntl_setpipe_size(&ringer, PIPE_BYTES);
    Ok((listener, ringer))
}

#[cfg(all(test, not(loom), not(miri)))]
#[path = "event/tests.rs"]
mod tests;
