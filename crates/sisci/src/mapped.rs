// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an owner is told of the maps of its segment in other processes: whether there are any, for
//! an owner removes a segment that nobody has mapped; and of stores that interrupt.

use crate::error::Error;
use crate::message::{Notice, Stored};
use crate::rendezvous::{Deadline, wait_for};
use crate::service::Peer;
use bellwire_memory::{MemoryError, fd_passing};
use rustix::event::PollFlags;
use rustix::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an owner that reads nothing keeps a user that maps or unmaps.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Count {
    maps: usize,
    told: bool,
}

/// The maps of a connection.
#[derive(Default)]
pub(crate) struct Mapped(Mutex<Count>);

impl Mapped {
    fn lock(&self) -> MutexGuard<'_, Count> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps there are.
    pub fn count(&self) -> usize {
        self.lock().maps
    }

    /// A map was made. `tell` says to the owner whether there are any; `false`: it was not told.
    pub fn made(&self, tell: impl FnOnce(bool) -> bool) {
        let mut count = self.lock();
        count.maps += 1;
        count.tell(tell);
    }

    /// A map is gone; `tell` as above.
    pub fn gone(&self, tell: impl FnOnce(bool) -> bool) {
        let mut count = self.lock();
        count.maps -= 1;
        count.tell(tell);
    }
}

impl Count {
    /// Tells the owner what has changed. What it was not told, it is told with the next change.
    fn tell(&mut self, tell: impl FnOnce(bool) -> bool) {
        let is_mapped = self.maps > 0;
        if is_mapped != self.told && tell(is_mapped) {
            self.told = is_mapped;
        }
    }
}

/// Tells an owner of this host of a store; the bytes are there.
///
/// # Errors
/// [`Error::WouldBlock`] if it does not read, even after a while if this call `waits`;
/// [`Error::NotConnected`].
pub(crate) fn tell_stored(owner: &Peer, stored: &Stored, waits: bool) -> Result<(), Error> {
    if waits && !wait_for(owner.socket.as_fd(), PollFlags::OUT, Deadline::after(Some(PATIENCE))) {
        return Err(Error::WouldBlock);
    }
    match fd_passing::send(owner.socket.as_fd(), &stored.bytes(), &[]) {
        Ok(()) => Ok(()),
        Err(MemoryError::WouldBlock) => Err(Error::WouldBlock),
        Err(_) => Err(Error::NotConnected),
    }
}

/// Tells an owner of this host whether there are maps. `false`: it does not read.
pub(crate) fn tell_peer(owner: &Peer, is_mapped: bool) -> bool {
    let notice = if is_mapped { Notice::Mapped } else { Notice::Unmapped };
    wait_for(owner.socket.as_fd(), PollFlags::OUT, Deadline::after(Some(PATIENCE))) && fd_passing::send(owner.socket.as_fd(), &[notice as u8], &[]).is_ok()
}
