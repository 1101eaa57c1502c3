// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing to standard output and error from threads of their own, so that a reader who takes
//! nothing stops the output, not the launcher.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

/// From here on, processes have to wait with their output.
const FULL_BYTES: usize = 4 << 20;

/// The state shared with the writing thread.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    is_closed: bool,
    /// Nobody reads any more.
    has_failed: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Rung when there is room again, or nobody reads.
    bell: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of the launcher's.
#[derive(Debug)]
pub(crate) struct Sink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Writes to a copy of this descriptor.
    pub(crate) fn open(to: impl AsFd) -> io::Result<Self> {
        let mut file = File::from(to.as_fd().try_clone_to_owned()?);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), bell });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(move || write(&theirs, &mut file))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// To be written; dropped if nobody reads.
    pub(crate) fn push(&self, bytes: Vec<u8>) {
        let mut queue = self.shared.lock();
        if !bytes.is_empty() && !queue.has_failed {
            queue.bytes += bytes.len();
            queue.pieces.push_back(bytes);
            self.shared.changed.notify_all();
        }
    }

    /// Whether there is too much to be written already.
    pub(crate) fn is_full(&self) -> bool {
        self.shared.lock().bytes >= FULL_BYTES
    }

    /// Whether writing has failed: the reader of a pipe has gone, or a disk is full.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.lock().has_failed
    }

    /// Becomes readable when one of the above may have changed.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.shared.bell
    }

    /// Makes the bell quiet.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
    }
}

/// Writes what is left, however long the reader takes.
impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(shared: &Shared, file: &mut File) {
    let ring = || {
        let _ = rustix::io::write(&shared.bell, &1u64.to_ne_bytes());
    };
    loop {
        let piece = {
            let mut queue = shared.lock();
            loop {
                if let Some(piece) = queue.pieces.pop_front() {
                    break piece;
                }
                if queue.is_closed {
                    return;
                }
                queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let result = file.write_all(&piece);
        let mut queue = shared.lock();
        let was_full = queue.bytes >= FULL_BYTES;
        queue.bytes -= piece.len();
        if result.is_err() {
            *queue = Queue { has_failed: true, is_closed: queue.is_closed, ..Queue::default() };
        }
        if result.is_err() || (was_full && queue.bytes < FULL_BYTES) {
            ring();
        }
    }
}
