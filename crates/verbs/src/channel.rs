// SPDX-License-Identifier: MIT OR Apache-2.0
//! A descriptor and a queue behind it: completion channels and asynchronous events. The descriptor
//! is readable while the queue holds something, for `poll`, `epoll` and the like.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Events of one kind, for programs that sleep on a descriptor.
#[derive(Debug)]
pub struct Channel<T> {
    /// For programs: readable while something is there.
    fd: OwnedFd,
    /// For threads that wait here: a number of them to be woken. They read, so that signals
    /// interrupt them, or do not, as programs have asked for.
    bell: OwnedFd,
    queue: Mutex<VecDeque<T>>,
    sleepers: Mutex<u32>,
}

fn lock<U>(mutex: &Mutex<U>) -> MutexGuard<'_, U> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Channel<T> {
    /// An empty one. The program may set the descriptor's flags as it likes.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> rustix::io::Result<Self> {
        // Miri knows no semaphores; nobody sleeps there.
        let counts = if cfg!(miri) { EventfdFlags::empty() } else { EventfdFlags::SEMAPHORE };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | counts)?;
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC)?, bell, queue: Mutex::new(VecDeque::new()), sleepers: Mutex::new(0) })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        lock(&self.queue)
    }

    /// Adds an event.
    pub fn push(&self, event: T) {
        let mut queue = self.queue();
        queue.push_back(event);
        if queue.len() == 1 {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
        drop(queue);
        let mut sleepers = lock(&self.sleepers);
        if *sleepers != 0 {
            *sleepers -= 1;
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until something may have come.
    ///
    /// # Errors
    /// A signal came whose handler interrupts calls.
    pub fn sleep(&self) -> rustix::io::Result<()> {
        *lock(&self.sleepers) += 1;
        // An event that came before that has rung nobody; a later one rings.
        let outcome = if self.is_empty() { rustix::io::read(&self.bell, &mut [0; 8]).map(drop) } else { Err(rustix::io::Errno::AGAIN) };
        if outcome.is_err() {
            // A ring that is on its way is another's: it looks once too often.
            let mut sleepers = lock(&self.sleepers);
            *sleepers = sleepers.saturating_sub(1);
        }
        match outcome {
            Err(rustix::io::Errno::AGAIN) => Ok(()),
            other => other,
        }
    }

    /// Takes the oldest event.
    pub fn pop(&self) -> Option<T> {
        let mut queue = self.queue();
        let event = queue.pop_front()?;
        self.settle(&queue);
        Some(event)
    }

    /// Drops the events of which that is true; how many.
    pub fn discard(&self, mut which: impl FnMut(&T) -> bool) -> usize {
        let mut queue = self.queue();
        let before = queue.len();
        queue.retain(|e| !which(e));
        if before != queue.len() {
            self.settle(&queue);
        }
        before - queue.len()
    }

    /// After something was taken: the descriptor is silent if nothing is left.
    fn settle(&self, queue: &VecDeque<T>) {
        if queue.is_empty() {
            // It is readable, since there was something: this does not block.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.queue().is_empty()
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the program has asked for calls that do not wait.
    pub fn is_nonblocking(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.fd).is_ok_and(|f| f.contains(rustix::fs::OFlags::NONBLOCK))
    }
}
