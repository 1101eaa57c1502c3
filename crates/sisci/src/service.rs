// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's thread: it takes callers, and learns that peers have left or died. It sleeps in
//! `epoll` and never runs code of the program.

use crate::error::Error;
use crate::message::{MESSAGE_MAX, Notice, Stored};
use crate::thread;
use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_memory::fd_passing::{self, Socket};
use bellwire_memory::{MemoryError, pidfd};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that the thread watches.
pub(crate) trait Source: Send + Sync {
    /// One of its descriptors is readable. It must be read or removed: a descriptor that stays
    /// readable is told again.
    fn ready(&self, token: u64);
}

/// A connection and the process at its other end. The process is watched too: its death is seen
/// even if a forked child keeps the connection open.
#[derive(Debug)]
pub(crate) struct Peer {
    pub socket: Socket,
    pidfd: Option<OwnedFd>,
}

impl Peer {
    /// `pid` 0: of another pid namespace; then the connection tells alone.
    pub fn new(socket: Socket, pid: i32) -> Self {
        Self { socket, pidfd: pidfd::open(pid).ok() }
    }

    /// Whether the process has ended.
    pub fn is_dead(&self) -> bool {
        self.pidfd.as_ref().is_some_and(|p| pidfd::has_exited(p.as_fd()).unwrap_or(false))
    }

    /// Says something, if there is room; a peer that does not read is told nothing.
    pub fn say(&self, notice: Notice) {
        let _ = fd_passing::send(self.socket.as_fd(), &[notice as u8], &[]);
    }

    /// What the peer has said, if anything.
    pub fn hear(&self) -> Heard {
        let mut bytes = [0; MESSAGE_MAX];
        // A peer that closes before it has read all is told of by an error first, and what it has
        // said before comes after that.
        for _ in 0..2 {
            match fd_passing::receive(self.socket.as_fd(), &mut bytes) {
                Ok(received) => {
                    let bytes = &bytes[..received.len];
                    let said = Notice::parse(bytes).map(Heard::Said).or_else(|| Stored::parse(bytes).map(Heard::Stored));
                    return said.unwrap_or(Heard::End);
                }
                // Is the process dead, with its socket open in a forked child?
                Err(MemoryError::WouldBlock) if !self.is_dead() => return Heard::Nothing,
                Err(_) => {}
            }
        }
        Heard::End
    }

    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        core::iter::once(self.socket.as_fd()).chain(self.pidfd.as_ref().map(AsFd::as_fd))
    }
}

/// The result of listening to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    Said(Notice),
    Stored(Stored),
    /// It has ended without a word, or said nonsense.
    End,
}

/// The thread's list.
pub(crate) struct Service {
    epoll: OwnedFd,
    sources: Mutex<BTreeMap<u64, Arc<dyn Source>>>,
    next: AtomicU64,
}

impl Service {
    /// Starts the thread, which runs as long as the process.
    pub fn start() -> Result<Arc<Self>, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|_| Error::NoSpace)?;
        let service = Arc::new(Self { epoll, sources: Mutex::new(BTreeMap::new()), next: AtomicU64::new(1) });
        let runner = Arc::clone(&service);
        thread::spawn(c"bellwire-sisci", move || runner.run())?;
        Ok(service)
    }

    fn list(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<dyn Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a descriptor for a source.
    pub fn add(&self, fd: BorrowedFd<'_>, source: Arc<dyn Source>) -> Result<u64, Error> {
        let token = self.reserve(source);
        self.watch(fd, token).inspect_err(|_| drop(self.list().remove(&token)))?;
        Ok(token)
    }

    /// Watches a peer for a source.
    pub fn add_peer(&self, peer: &Peer, source: Arc<dyn Source>) -> Result<u64, Error> {
        let token = self.reserve(source);
        for fd in peer.fds() {
            self.watch(fd, token).inspect_err(|_| self.remove_peer(token, peer))?;
        }
        Ok(token)
    }

    fn reserve(&self, source: Arc<dyn Source>) -> u64 {
        // Relaxed: a number that nobody else gets.
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        self.list().insert(token, source);
        token
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Error> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN).map_err(|_| Error::NoSpace)
    }

    /// Stops watching. The source may still be in [`Source::ready`].
    pub fn remove(&self, token: u64, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
        // Dropped after the list is free again: a source may close what it has.
        let source = self.list().remove(&token);
        drop(source);
    }

    /// Stops watching a peer.
    pub fn remove_peer(&self, token: u64, peer: &Peer) {
        for fd in peer.fds() {
            let _ = epoll::delete(&self.epoll, fd);
        }
        let source = self.list().remove(&token);
        drop(source);
    }

    fn run(&self) {
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 64];
        loop {
            // An interrupted wait is one without events.
            let n = epoll::wait(&self.epoll, &mut events, None).unwrap_or(0);
            for event in &events[..n] {
                let token = event.data.u64();
                let source = self.list().get(&token).cloned();
                if let Some(source) = source {
                    source.ready(token);
                }
            }
        }
    }
}
