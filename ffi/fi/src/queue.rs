// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a completion queue is to those who fill it and to its calls (`cq.rs`): completions that wait, and their shape in the public interface.

use crate::abi::{Outcome, error, wait};
use crate::bound::{EpShared, failure_code};
use crate::flags;
use crate::progress::Polled;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::event::Bell;
use bellwire_memory::token::{Claim, Token};
use bellwire_tag::{Completion, Notes};
use core::ffi::{c_int, c_void};
use std::collections::VecDeque;
use std::sync::Arc;

/// `struct fi_cq_tagged_entry`; the other formats are its beginnings.
#[repr(C)]
pub(crate) struct Entry {
    pub context: *mut c_void,
    pub flags: u64,
    pub length: usize,
    pub buffer: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Completion>,
    /// The descriptor is to be made readable by the next entry; it is.
    is_armed: bool,
    has_rung: bool,
}

/// What a queue is to those who fill it.
pub(crate) struct CqShared {
    queue: Token<Queue>,
    pub polled: Polled,
    pub bell: Option<Bell>,
    /// Bytes of an entry.
    size: usize,
    /// How it can be waited for.
    pub wait: c_int,
    signal: AtomicBool,
}

/// Flags of a completion as the public interface has them.
#[inline]
fn flags_of(notes: Notes) -> u64 {
    const OF: [u64; 13] = [
        flags::MSG,
        flags::TAGGED,
        flags::RMA,
        flags::ATOMIC,
        flags::SEND,
        flags::RECV,
        flags::READ,
        flags::WRITE,
        flags::REMOTE_READ,
        flags::REMOTE_WRITE,
        flags::REMOTE_CQ_DATA,
        flags::MULTI_RECV,
        flags::CLAIM,
    ];
    let mut bits = notes.bits();
    let mut of = 0;
    while bits != 0 {
        of |= OF[bits.trailing_zeros() as usize];
        bits &= bits - 1;
    }
    of
}

#[inline]
pub(crate) fn entry(c: &Completion) -> Entry {
    Entry {
        context: core::ptr::with_exposed_provenance_mut(c.context),
        flags: flags_of(c.notes),
        length: c.length,
        buffer: core::ptr::with_exposed_provenance_mut(c.buffer),
        data: c.data,
        tag: c.tag,
    }
}

/// Bytes of an entry, by the format.
const SIZES: [usize; 5] = [8, 8, 24, 40, 48];

impl CqShared {
    /// A queue of a format that there is.
    pub(crate) fn new(format: usize, wait: c_int) -> Outcome<Self> {
        let bell = if wait == wait::FD { Some(Bell::create().map_err(|_| error::ENOMEM)?) } else { None };
        let size = *SIZES.get(format).ok_or(error::ENOSYS)?;
        Ok(Self { queue: Token::new(Queue::default()), polled: Polled::default(), bell, size, wait, signal: AtomicBool::new(false) })
    }

    /// Adds a completion.
    #[inline]
    pub(crate) fn push(&self, c: &Completion) {
        let mut queue = self.queue.enter(Claim::Bias);
        queue.entries.push_back(*c);
        if queue.is_armed {
            queue.is_armed = false;
            queue.has_rung = true;
            if let Some(bell) = &self.bell {
                let _ = bell.ring();
            }
        }
    }

    pub(crate) fn has_descriptor(&self) -> bool {
        self.bell.is_some()
    }

    pub(crate) fn bind(&self, ep: &Arc<EpShared>) {
        self.polled.add(ep);
    }

    /// Whether there is an entry, after a poll.
    pub(crate) fn has_entry(&self) -> bool {
        self.polled.poll(|| !self.is_empty());
        !self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.enter(Claim::Bias).entries.is_empty()
    }

    /// Takes what is there, up to `count` entries; 0: nothing.
    ///
    /// # Safety
    /// F2 for as many entries.
    #[inline]
    unsafe fn take(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        let mut queue = self.queue.enter(Claim::Bias);
        let mut n = 0;
        while n < count {
            match queue.entries.front() {
                None => break,
                Some(c) if c.failure.is_some() => {
                    if n == 0 {
                        return Err(error::AVAILABLE);
                    }
                    break;
                }
                Some(c) => {
                    let entry = entry(c);
                    // SAFETY: F2: `count` entries of the queue's format, which is a beginning of this one.
                    unsafe {
                        core::ptr::copy_nonoverlapping((&raw const entry).cast::<u8>(), to.cast::<u8>().add(n * self.size), self.size);
                        if !sources.is_null() {
                            *sources.add(n) = c.source;
                        }
                    }
                    queue.entries.pop_front();
                    n += 1;
                }
            }
        }
        Ok(n)
    }

    /// As [`take`](Self::take), polling if nothing is there.
    ///
    /// # Safety
    /// F2.
    #[inline]
    pub(crate) unsafe fn poll(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        // SAFETY: the caller's.
        let n = unsafe { self.take(to, count, sources) }?;
        if n != 0 {
            return Ok(n);
        }
        self.polled.poll(|| self.queue.enter(Claim::Bias).entries.len() >= count.max(1));
        // SAFETY: the caller's.
        unsafe { self.take(to, count, sources) }
    }

    /// Takes the first entry if it is a failure.
    pub(crate) fn take_failure(&self) -> Option<(Completion, c_int)> {
        let mut queue = self.queue.enter(Claim::Bias);
        let c = *queue.entries.front()?;
        let failure = c.failure?;
        queue.entries.pop_front();
        Some((c, failure_code(failure)))
    }

    /// Ends a wait, of now or of the next time.
    pub(crate) fn signal(&self) {
        // Release: what was done before is seen by who wakes; pairs with the Acquire in `take_signal`.
        self.signal.store(true, Ordering::Release);
        self.polled.wake();
        if let Some(bell) = &self.bell {
            self.queue.enter(Claim::Visit).has_rung = true;
            let _ = bell.ring();
        }
    }

    pub(crate) fn take_signal(&self) -> bool {
        // Acquire: pairs with the Release in `signal`.
        self.signal.swap(false, Ordering::Acquire)
    }

    /// Whether a sleeper has something to look at.
    pub(crate) fn has_news(&self) -> bool {
        // Relaxed: a look; `take_signal` decides.
        !self.is_empty() || self.signal.load(Ordering::Relaxed)
    }

    /// Whether one may sleep on the descriptor now.
    pub(crate) fn try_wait(&self) -> bool {
        self.polled.poll(|| !self.is_empty());
        let mut queue = self.queue.enter(Claim::Bias);
        if !queue.entries.is_empty() {
            return false;
        }
        if core::mem::take(&mut queue.has_rung)
            && let Some(bell) = &self.bell
        {
            let _ = bell.clear();
        }
        queue.is_armed = true;
        true
    }
}
