// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a completion queue is to its endpoints and to its calls (`cq.rs`), and the shape of
//! completions in the public interface.

use crate::abi::{Outcome, error, wait};
use crate::flags;
use crate::polled::{EpShared, Polled, STEPS, Source};
use crate::watched::{News, Seen};
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_tag::{Completion, Failure, Notes, Outlet, Queue, Waker};
use core::ffi::{c_int, c_void};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// A queue of an endpoint, of those that a completion queue reads.
pub(crate) struct Part {
    ep: Arc<EpShared>,
    queue: Queue,
    outlet: Arc<Outlet>,
}

impl Source for Part {
    fn ep(&self) -> &Arc<EpShared> {
        &self.ep
    }
}

/// What a queue is to its endpoints and its calls. Completions wait in the endpoints.
pub(crate) struct CqShared {
    pub polled: Polled<Part>,
    /// Tell whether the endpoints' queues are empty, without their locks.
    outlets: Mutex<Vec<Arc<Outlet>>>,
    /// Completions that endpoints had when they were closed.
    left: Mutex<VecDeque<Completion>>,
    has_left: AtomicBool,
    waker: Option<Arc<Waker>>,
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

/// The program's buffer for what it reads.
struct Buffer {
    to: *mut u8,
    sources: *mut u64,
    /// Bytes of an entry; entries that there is room for, and those written.
    size: usize,
    room: usize,
    written: usize,
}

impl Buffer {
    /// Writes a completion.
    ///
    /// # Safety
    /// F2: there is room for as many entries of the queue's format, which is a beginning of
    /// [`Entry`], and of sources; fewer are written.
    #[inline(always)]
    unsafe fn put(&mut self, c: &Completion, prefix: usize) {
        let mut entry = entry(c);
        entry.length += prefix;
        // SAFETY: the caller's.
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
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CqShared {
    /// A queue of a format that there is.
    pub(crate) fn new(format: usize, wait: c_int) -> Outcome<Self> {
        let waker = if wait == wait::FD { Some(Arc::new(Waker::create().map_err(|_| error::ENOMEM)?)) } else { None };
        Ok(Self {
            polled: Polled::default(),
            outlets: Mutex::default(),
            left: Mutex::default(),
            has_left: AtomicBool::new(false),
            waker,
            size: *SIZES.get(format).ok_or(error::ENOSYS)?,
            wait,
            signal: AtomicBool::new(false),
        })
    }

    /// Bytes of an entry.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.size
    }

    /// What a program sleeps on, if there is such a thing.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.as_deref()
    }

    /// A place for the completions of an endpoint; [`bind`](Self::bind) follows.
    pub(crate) fn outlet(&self) -> Arc<Outlet> {
        Arc::new(Outlet::new(self.waker.clone()))
    }

    /// From now on completions of an endpoint are read from its `queue`.
    pub(crate) fn bind(&self, ep: &Arc<EpShared>, queue: Queue, outlet: &Arc<Outlet>) {
        lock(&self.outlets).push(Arc::clone(outlet));
        self.polled.push(Part { ep: Arc::clone(ep), queue, outlet: Arc::clone(outlet) });
    }

    /// An endpoint is closed: its completions can still be read.
    pub(crate) fn unbind(&self, ep: &Arc<EpShared>) {
        let gone = self.polled.remove(ep);
        let mut left = lock(&self.left);
        for part in &gone {
            let with_prefix = |c: Completion| Completion { length: c.length + part.ep.prefix_of(&c), ..c };
            left.extend(part.ep.endpoint.take_completions(part.queue).into_iter().map(with_prefix));
        }
        self.note_left(&left);
        drop(left);
        lock(&self.outlets).retain(|outlet| !gone.iter().any(|part| Arc::ptr_eq(&part.outlet, outlet)));
    }

    fn note_left(&self, left: &VecDeque<Completion>) {
        // Relaxed: only says whether to look.
        self.has_left.store(!left.is_empty(), Ordering::Relaxed);
    }

    fn has_left(&self) -> bool {
        // Relaxed: as in `note_left`.
        self.has_left.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_left() && lock(&self.outlets).iter().all(|outlet| outlet.is_empty())
    }

    /// Takes what is there, up to `count` entries, polling if there is nothing; 0: nothing.
    ///
    /// # Safety
    /// F2 for as many entries.
    #[inline]
    pub(crate) unsafe fn poll(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        let mut buffer = Buffer { to: to.cast(), sources, size: self.size, room: count, written: 0 };
        let mut has_failure = false;
        if self.has_left() {
            // SAFETY: the caller's.
            has_failure = unsafe { self.take_left(&mut buffer) };
        }
        let parts = self.polled.lock();
        let mut gives_way = None;
        for part in parts.iter() {
            if buffer.written == buffer.room && buffer.room != 0 {
                break;
            }
            let (ep, room) = (&*part.ep, buffer.room - buffer.written);
            // SAFETY: F2, the caller's; at most `room` are put.
            let read = ep.endpoint.read_completions(part.queue, room, STEPS, |c| unsafe { buffer.put(c, ep.prefix_of(c)) });
            ep.trigger();
            if let Ok(read) = read {
                has_failure |= read.has_failure;
                if !read.has_moved && ep.endpoint.should_give_way() {
                    gives_way = Some(&part.ep);
                }
            }
        }
        if buffer.written != 0 {
            return Ok(buffer.written);
        }
        if has_failure && count != 0 {
            return Err(error::AVAILABLE);
        }
        if let Some(ep) = gives_way {
            // Not with the lock: others poll meanwhile.
            let ep = Arc::clone(ep);
            drop(parts);
            ep.endpoint.give_way();
        }
        Ok(0)
    }

    /// Takes what endpoints that are closed have left. `true`: the next is a failure.
    ///
    /// # Safety
    /// F2, as of [`Buffer::put`].
    #[cold]
    unsafe fn take_left(&self, buffer: &mut Buffer) -> bool {
        let mut left = lock(&self.left);
        while buffer.written < buffer.room
            && let Some(c) = left.front().filter(|c| c.failure.is_none())
        {
            // SAFETY: the caller's.
            unsafe { buffer.put(c, 0) };
            left.pop_front();
        }
        self.note_left(&left);
        left.front().is_some_and(|c| c.failure.is_some())
    }

    /// Takes the first completion if it is a failure.
    pub(crate) fn take_failure(&self) -> Option<Completion> {
        if self.has_left() {
            let mut left = lock(&self.left);
            if left.front().is_some_and(|c| c.failure.is_some()) {
                let failure = left.pop_front();
                self.note_left(&left);
                return failure;
            }
        }
        self.polled.lock().iter().find_map(|part| part.ep.endpoint.take_failure(part.queue))
    }

    /// Ends a wait, of now or of the next time.
    pub(crate) fn signal(&self) {
        // Release: the thread that wakes sees all that was done before; pairs with the Acquire in
        // `take_signal`.
        self.signal.store(true, Ordering::Release);
        self.polled.wake();
        self.waker().into_iter().for_each(Waker::ring);
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
        if !self.is_empty() {
            return false;
        }
        self.waker().into_iter().for_each(Waker::silence);
        // The endpoints look once more after they have been armed.
        self.polled.lock().iter().all(|part| part.ep.endpoint.arm(part.queue).unwrap_or(true))
    }
}

impl News for CqShared {
    fn poll(&self) {
        self.polled.poll(|| !self.is_empty());
    }

    fn has_news(&self, _: &mut Seen) -> bool {
        self.has_news()
    }

    fn endpoints(&self, add: &mut dyn FnMut(&Arc<EpShared>)) {
        self.polled.each(add);
    }
}

/// A failure as a number of the public interface.
pub(crate) fn failure_code(f: Failure) -> c_int {
    match f {
        Failure::Truncated => error::TRUNCATED,
        Failure::Canceled => error::ECANCELED,
        Failure::ConnectionLost(_) => error::ECONNRESET,
        Failure::Unreachable(_) => error::EHOSTUNREACH,
        Failure::RemoteAccess => error::EACCES,
        Failure::NoMessage => error::ENOMSG,
        _ => error::EOPNOTSUPP,
    }
}
