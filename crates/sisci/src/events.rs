// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of an object: kept for a call that waits, or handed to the program's callback, which runs
//! on a thread of this object alone. A callback may take its time, and may call anything: it keeps
//! up nothing but its own object's callbacks.

use crate::error::Error;
use crate::thread;
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a callback wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// No further calls.
    Cancel,
    /// To be called again.
    Continue,
}

/// Events that are kept for a waiter; later ones are dropped.
const KEPT_MAX: usize = 1024;

/// A thread that runs a callback.
#[derive(Debug)]
pub(crate) struct Runner {
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Runner {
    pub fn new(thread: JoinHandle<()>) -> Self {
        Self { thread: Mutex::new(Some(thread)) }
    }

    /// Waits until the callback does not run any more, unless it is the caller.
    pub fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Kept<E> {
    events: VecDeque<E>,
    to: Option<Sender<E>>,
    closed: bool,
}

/// The events of one object.
pub(crate) struct Events<E> {
    kept: Mutex<Kept<E>>,
    signal: Condvar,
    runner: Option<Runner>,
}

impl<E: Send + 'static> Events<E> {
    pub fn new(callback: Option<Box<dyn FnMut(E) -> Action + Send>>) -> Result<Self, Error> {
        let (mut to, mut runner) = (None, None);
        if let Some(mut callback) = callback {
            let (sender, receiver) = channel();
            let thread = thread::spawn(c"bellwire-call", move || while receiver.recv().is_ok_and(|event| callback(event) == Action::Continue) {})?;
            (to, runner) = (Some(sender), Some(Runner::new(thread)));
        }
        Ok(Self { kept: Mutex::new(Kept { events: VecDeque::new(), to, closed: false }), signal: Condvar::new(), runner })
    }

    fn lock(&self) -> MutexGuard<'_, Kept<E>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn post(&self, event: E) {
        let mut kept = self.lock();
        if let Some(to) = &kept.to {
            // It fails after Cancel.
            let _ = to.send(event);
        } else if self.runner.is_none() && kept.events.len() < KEPT_MAX {
            kept.events.push_back(event);
            self.signal.notify_one();
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Cancelled`] if the object is removed;
    /// [`Error::IllegalOperation`] if a callback takes the events.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<E, Error> {
        if self.runner.is_some() {
            return Err(Error::IllegalOperation);
        }
        let deadline = timeout.map(|t| Instant::now() + t);
        let mut kept = self.lock();
        loop {
            if kept.closed {
                return Err(Error::Cancelled);
            }
            if let Some(event) = kept.events.pop_front() {
                return Ok(event);
            }
            kept = match deadline {
                None => self.signal.wait(kept).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::Timeout);
                    }
                    self.signal.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Sends waiters away, and waits until no callback runs.
    pub fn close(&self) {
        let mut kept = self.lock();
        kept.closed = true;
        kept.to = None;
        self.signal.notify_all();
        drop(kept);
        if let Some(runner) = &self.runner {
            runner.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn kept_called_and_cancelled() {
        let events = Events::<u32>::new(None).unwrap();
        events.post(1);
        assert_eq!(events.wait(None), Ok(1));
        assert_eq!(events.wait(Some(Duration::ZERO)), Err(Error::Timeout));
        events.close();
        assert_eq!(events.wait(None), Err(Error::Cancelled));

        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&seen);
        let callback = move |e| {
            into.lock().unwrap().push(e);
            if e == 2 { Action::Cancel } else { Action::Continue }
        };
        let events = Events::<u32>::new(Some(Box::new(callback))).unwrap();
        (1..5).for_each(|e| events.post(e));
        assert_eq!(events.wait(None), Err(Error::IllegalOperation));
        events.close();
        assert_eq!(*seen.lock().unwrap(), [1, 2]);
    }
}
