// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a completion queue is to those who fill it and to its calls (`cq.rs`): completions that wait, and their shape in the public interface.

use crate::abi::{Outcome, error, wait};
use crate::bound::{EpShared, failure_code};
use crate::flags;
use crate::progress::Polled;
use bellwire_memory::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// Entries in it; written by who holds the queue.
    count: AtomicUsize,
    pub polled: Polled,
    pub bell: Option<Bell>,
    /// Bytes of an entry.
    size: usize,
    /// How it can be waited for.
    pub wait: c_int,
    signal: AtomicBool,
}

/// Flags of the public interface by the bits of [`Notes`].
const FLAGS: [u64; 13] = [
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
/// Bits of [`Notes`] that one look into a table translates.
const LOOKED_UP: u32 = 7;

/// The flags of all that [`LOOKED_UP`] bits from `first` on can be.
const fn flags_from(first: usize) -> [u64; 1 << LOOKED_UP] {
    let mut table = [0; 1 << LOOKED_UP];
    let mut bits = 0;
    while bits < table.len() {
        let mut i = 0;
        while i < LOOKED_UP as usize && first + i < FLAGS.len() {
            if bits >> i & 1 != 0 {
                table[bits] |= FLAGS[first + i];
            }
            i += 1;
        }
        bits += 1;
    }
    table
}

static LOW: [u64; 1 << LOOKED_UP] = flags_from(0);
static HIGH: [u64; 1 << LOOKED_UP] = flags_from(LOOKED_UP as usize);

/// Flags of a completion as the public interface has them.
#[inline]
fn flags_of(notes: Notes) -> u64 {
    let mask = (1 << LOOKED_UP) - 1;
    LOW[usize::from(notes.bits() & mask)] | HIGH[usize::from(notes.bits() >> LOOKED_UP & mask)]
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

/// Where a read of a queue has completions written while it polls, in place of the queue: into the program's own buffer.
pub(crate) struct Direct {
    queue: *const CqShared,
    to: *mut u8,
    sources: *mut u64,
    /// Bytes of an entry; entries that there is room for, and those written.
    size: usize,
    room: usize,
    written: usize,
}

impl Direct {
    /// Takes a completion for `cq`, if this is where it is read and there is room.
    #[inline(always)]
    pub(crate) fn take(&mut self, cq: &CqShared, c: &Completion) -> bool {
        if !core::ptr::eq(self.queue, cq) || self.written == self.room {
            return false;
        }
        if c.failure.is_some() {
            // What comes behind it is read behind it.
            self.room = self.written;
            return false;
        }
        let entry = entry(c);
        // SAFETY: F2, as `CqShared::poll` was promised: `room` entries of the queue's format, which is a beginning of this one.
        unsafe {
            let to = self.to.add(self.written * self.size);
            if self.size == size_of::<Entry>() {
                to.cast::<Entry>().write_unaligned(entry);
            } else {
                core::ptr::copy_nonoverlapping((&raw const entry).cast::<u8>(), to, self.size);
            }
            if !self.sources.is_null() {
                *self.sources.add(self.written) = c.source;
            }
        }
        self.written += 1;
        true
    }

    /// Whether there is something to read.
    #[inline(always)]
    pub(crate) fn has_some(&self) -> bool {
        // SAFETY: whoever reads the queue has it: it stays while this does.
        self.written != 0 || !unsafe { &*self.queue }.is_empty()
    }

    /// Whether the buffer is full. One without room never is: who reads nothing wants progress.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.written == self.room && self.room != 0
    }
}

impl CqShared {
    /// A queue of a format that there is.
    pub(crate) fn new(format: usize, wait: c_int) -> Outcome<Self> {
        let bell = if wait == wait::FD { Some(Bell::create().map_err(|_| error::ENOMEM)?) } else { None };
        let size = *SIZES.get(format).ok_or(error::ENOSYS)?;
        Ok(Self {
            queue: Token::new(Queue::default()),
            count: AtomicUsize::new(0),
            polled: Polled::default(),
            bell,
            size,
            wait,
            signal: AtomicBool::new(false),
        })
    }

    /// Adds a completion.
    #[inline]
    pub(crate) fn push(&self, c: &Completion) {
        let mut queue = self.queue.enter(Claim::Bias);
        queue.entries.push_back(*c);
        self.note_count(&queue);
        if queue.is_armed {
            queue.is_armed = false;
            queue.has_rung = true;
            if let Some(bell) = &self.bell {
                let _ = bell.ring();
            }
        }
    }

    /// Whoever has changed the entries says how many there are.
    #[inline]
    fn note_count(&self, queue: &Queue) {
        // Relaxed: only says whether to look, and who looks enters the queue.
        self.count.store(queue.entries.len(), Ordering::Relaxed);
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
        // Relaxed: as in `note_count`.
        self.count.load(Ordering::Relaxed) == 0
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
        self.note_count(&queue);
        Ok(n)
    }

    /// As [`take`](Self::take), polling if nothing is there. What comes meanwhile is written where it is read, and is in the queue only if there is no room.
    ///
    /// # Safety
    /// F2.
    #[inline]
    pub(crate) unsafe fn poll(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        if !self.is_empty() {
            // SAFETY: the caller's.
            let n = unsafe { self.take(to, count, sources) }?;
            if n != 0 {
                return Ok(n);
            }
        }
        let mut direct = Direct { queue: self, to: to.cast(), sources, size: self.size, room: count, written: 0 };
        self.polled.poll_into(&mut direct);
        if direct.written != 0 || self.is_empty() {
            return Ok(direct.written);
        }
        // SAFETY: the caller's.
        unsafe { self.take(to, count, sources) }
    }

    /// Takes the first entry if it is a failure.
    pub(crate) fn take_failure(&self) -> Option<(Completion, c_int)> {
        let mut queue = self.queue.enter(Claim::Bias);
        let c = *queue.entries.front()?;
        let failure = c.failure?;
        queue.entries.pop_front();
        self.note_count(&queue);
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
