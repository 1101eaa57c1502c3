// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's state under a token, for the program and for a thread that serves others while the
//! program computes.
//!
//! Calls that wait are here: they serve others meanwhile, ask their caller now and then whether to
//! go on, and sleep when nothing comes.
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

use crate::ask::{Kind, There};
use crate::core::{Core, wait};
use crate::failure::{Failure, Stop};
use crate::memory::Memory;

/// Looks that find nothing before a waiting call asks its caller, and before it sleeps.
const LOOKS_BESIDE: u32 = 64;
const LOOKS: u32 = 256;
/// Its longest sleep.
const SLICE_MS: u32 = 1;

/// Between two looks at what the program does.
const TICK: Duration = Duration::from_millis(1);
/// Longest sleep of the thread, after which it looks again whether the program polls.
const WAIT_MS: u32 = 5;
/// Messages that the thread takes before it looks again.
const TURN: usize = 64;

/// What a look has come to.
enum Look<R> {
    Done(R),
    Moved,
    Nothing(Option<u32>),
}

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

    /// Tries until there is a result, serving others meanwhile. `rank`: of a process that has to be
    /// there for that; else those that have not answered. `beside` hears now and then of whom this
    /// waits for, and may end it. After an error no answer is written any more.
    ///
    /// # Errors
    /// A failure, or what `beside` returns.
    #[inline]
    pub fn until<R, E>(
        &self,
        rank: Option<u32>,
        mut beside: impl FnMut(Option<u32>) -> Result<(), E>,
        mut attempt: impl FnMut(&mut Core<M>) -> Result<Option<R>, Failure>,
    ) -> Result<R, Stop<E>> {
        let mut vain = 0u32;
        let mut look = || {
            let looked = self.with(|core| {
                if let Some(result) = attempt(core)? {
                    return Ok(Look::Done(result));
                }
                Ok(if core.poll::<Off>()? { Look::Moved } else { Look::Nothing(rank.or_else(|| core.waits_for())) })
            });
            match looked.map_err(Stop::Failure)? {
                Look::Done(result) => return Ok(Some(result)),
                Look::Moved => vain = 0,
                Look::Nothing(awaited) => {
                    vain += 1;
                    if vain.is_multiple_of(LOOKS_BESIDE) {
                        beside(awaited).map_err(Stop::Beside)?;
                    }
                    if vain > LOOKS {
                        self.wait().map_err(Stop::Failure)?;
                        vain -= LOOKS_BESIDE / 2;
                    }
                }
            }
            Ok(None)
        };
        loop {
            match look() {
                Ok(None) => {}
                Ok(Some(result)) => return Ok(result),
                Err(stop) => {
                    self.with(Core::abandon);
                    return Err(stop);
                }
            }
        }
    }

    /// Sends bytes to a place. The memory is the caller's again when this returns: sends that
    /// gather it have completed by then. `beside`: as of [`until`](Self::until).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// The bytes are readable during the call.
    pub unsafe fn send<E>(
        &self,
        kind: Kind,
        to: There,
        (from, bytes): (*const u8, usize),
        mut beside: impl FnMut(Option<u32>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        // SAFETY: the caller's; given back below.
        let lent = self.with(|core| unsafe { core.lend(from, bytes) });
        let mut done = 0;
        // SAFETY: the caller's; lent memory until the call below has found that nothing is lent.
        let send = |core: &mut Core<M>| Ok(unsafe { core.try_send::<Off>(kind, to, (from, bytes), lent, &mut done)? }.then_some(()));
        let sent = self.until(Some(to.rank), &mut beside, send);
        let Some(handle) = lent else { return sent };
        let has_left = sent.and_then(|()| {
            self.until(Some(to.rank), &mut beside, |core| match core.lent() {
                0 => Ok(Some(())),
                _ => core.check(to.rank).map(|()| None),
            })
        });
        self.with(|core| {
            if has_left.is_err() {
                core.end_with(to.rank);
            }
            core.unlend(from, handle);
        });
        has_left
    }

    /// Sleeps until something comes, or for a while.
    fn wait(&self) -> Result<(), Failure> {
        if let Some(vi) = wait(&self.inner.nic, self.inner.receives, SLICE_MS.into())? {
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
