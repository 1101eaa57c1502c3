// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's state under a token, for the program and for a thread that serves others while the
//! program computes.
//!
//! The thread looks each millisecond whether the program polls. As long as it does, the thread
//! stays away; else it sleeps in `VipCQWait`, and does what comes.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::token::{Claim, Token};
use bellwire_vipl_calls::probe::Off;
use bellwire_vipl_calls::{Handle, Nic};

use crate::core::{Core, wait};
use crate::failure::Failure;
use crate::memory::Memory;

/// Between two looks at what the program does.
const TICK: Duration = Duration::from_millis(1);
/// Longest sleep of the thread, after which it looks again whether the program polls.
const WAIT_MS: u32 = 5;
/// Messages that the thread takes before it looks again.
const TURN: usize = 64;

struct Inner<M> {
    core: Token<Core<M>>,
    nic: Arc<Nic>,
    receives: Handle,
    /// Times that the program has looked for messages.
    looks: AtomicU32,
    is_over: AtomicBool,
}

/// See the module.
pub struct Station<M> {
    inner: Arc<Inner<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Memory> Station<M> {
    /// Begins to serve. The process is connected.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn new(core: Core<M>) -> std::io::Result<Self> {
        let (nic, receives) = (Arc::clone(&core.nic), core.receives);
        let inner = Arc::new(Inner { core: Token::new(core), nic, receives, looks: AtomicU32::new(0), is_over: AtomicBool::new(false) });
        let of = Arc::clone(&inner);
        // A whole stack: what libvipl takes of it is its own affair.
        let thread = std::thread::Builder::new().name("bellwire-gas-vi".into()).spawn(move || serve(&of))?;
        Ok(Self { inner, thread: Some(thread) })
    }

    /// Uses the state. The program looks: the thread stays away.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Core<M>) -> R) -> R {
        // Relaxed: one thread counts; the other one only compares.
        self.inner.looks.store(self.inner.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        f(&mut self.inner.core.enter(Claim::Bias))
    }

    /// Sleeps until something comes, for so many milliseconds at most.
    ///
    /// # Errors
    /// [`Failure::Library`].
    pub fn wait(&self, milliseconds: u32) -> Result<(), Failure> {
        if let Some(vi) = wait(&self.inner.nic, self.inner.receives, milliseconds.into())? {
            self.with(|core| core.found(vi));
        }
        Ok(())
    }
}

impl<M> Drop for Station<M> {
    fn drop(&mut self) {
        // Relaxed: the thread only has to see it some time; joining orders the rest.
        self.inner.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn serve<M: Memory>(inner: &Inner<M>) {
    // Relaxed: only compared.
    let mut seen = inner.looks.load(Ordering::Relaxed);
    // Relaxed: see `drop`.
    while !inner.is_over.load(Ordering::Relaxed) {
        // Relaxed: only compared.
        let now = inner.looks.load(Ordering::Relaxed);
        if now != std::mem::replace(&mut seen, now) {
            std::thread::park_timeout(TICK);
            continue;
        }
        let Ok(found) = wait(&inner.nic, inner.receives, WAIT_MS.into()) else { return };
        let mut core = inner.core.enter(Claim::Visit);
        if let Some(vi) = found {
            core.found(vi);
        }
        for _ in 0..TURN {
            if !core.poll::<Off>().unwrap_or(false) {
                break;
            }
        }
    }
}
