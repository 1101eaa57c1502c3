// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues.
//!
//! A queue with a descriptor (`FI_WAIT_FD`) has its endpoints make progress by themselves, so that it becomes readable while the program sleeps; `fi_trywait` silences it, and says whether one may sleep.

use crate::abi::{Fid, Outcome, Table, TableRef, class, control, error, give, none, sized};
use crate::bound::{EpShared, failure_code};
use crate::flags;
use crate::progress::Polled;
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_memory::event::Bell;
use bellwire_memory::token::{Claim, Token};
use bellwire_tag::{Completion, Notes};
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `struct fi_cq_attr`, as far as it is looked at.
#[repr(C)]
pub(crate) struct CqAttr {
    size: usize,
    flags: u64,
    format: c_int,
    wait_obj: c_int,
    signaling_vector: c_int,
    wait_cond: c_int,
    wait_set: *mut c_void,
}

/// `struct fi_cq_tagged_entry`; the other formats are its beginnings.
#[repr(C)]
struct Entry {
    context: *mut c_void,
    flags: u64,
    length: usize,
    buffer: *mut c_void,
    data: u64,
    tag: u64,
}

/// `struct fi_cq_err_entry`, as old as any.
#[repr(C)]
struct ErrorEntry {
    entry: Entry,
    excess: usize,
    error: c_int,
    provider_error: c_int,
    error_data: *mut c_void,
    error_data_size: usize,
}

const WAIT_NONE: c_int = 0;
const WAIT_FD: c_int = 3;

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
    bell: Option<Bell>,
    /// Bytes of an entry.
    size: usize,
    can_wait: bool,
    signal: AtomicBool,
}

/// `struct fid_cq`, and ours behind it.
#[repr(C)]
pub(crate) struct CqObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<CqShared>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<7> = Table::new([
    read as *const (),
    readfrom as *const (),
    readerr as *const (),
    sread as *const (),
    sreadfrom as *const (),
    signal as *const (),
    strerror as *const (),
]);

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
fn entry(c: &Completion) -> Entry {
    Entry {
        context: core::ptr::with_exposed_provenance_mut(c.context),
        flags: flags_of(c.notes),
        length: c.length,
        buffer: core::ptr::with_exposed_provenance_mut(c.buffer),
        data: c.data,
        tag: c.tag,
    }
}

impl CqShared {
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

    fn is_empty(&self) -> bool {
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
    unsafe fn poll(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        // SAFETY: the caller's.
        let n = unsafe { self.take(to, count, sources) }?;
        if n != 0 || (count == 0 && !self.is_empty()) {
            return Ok(n);
        }
        self.polled.poll(|| self.queue.enter(Claim::Bias).entries.len() >= count.max(1));
        // SAFETY: the caller's.
        unsafe { self.take(to, count, sources) }
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

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(_domain: *mut Fid, attr: *mut CqAttr, to: *mut *mut CqObject, context: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F2.
        let (format, wait) = match unsafe { attr.as_mut() } {
            None => (1, WAIT_NONE),
            Some(attr) => {
                // FI_AFFINITY is a wish that needs nothing done.
                if attr.flags & !(1 << 29) != 0 {
                    return Err(error::BAD_FLAGS);
                }
                if !(0..=4).contains(&attr.format) || !matches!(attr.wait_obj, WAIT_NONE | 1 | WAIT_FD | 5) || !matches!(attr.wait_cond, 0 | 1) {
                    return Err(error::ENOSYS);
                }
                if attr.format == 0 {
                    attr.format = 1;
                }
                if attr.size == 0 {
                    attr.size = crate::hints::QUEUE_SIZE;
                }
                (attr.format, attr.wait_obj)
            }
        };
        let bell = if wait == WAIT_FD { Some(Bell::create().map_err(|_| error::ENOMEM)?) } else { None };
        let size = [8, 8, 24, 40, 48][format as usize];
        let shared = CqShared {
            queue: Token::new(Queue::default()),
            polled: Polled::default(),
            bell,
            size,
            can_wait: wait != WAIT_NONE,
            signal: AtomicBool::new(false),
        };
        let fid = Fid { class: class::CQ, context, ops: TableRef::to(&FID) };
        give(CqObject { fid, ops: TableRef::to(&OPS), shared: Arc::new(shared) }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        if Arc::strong_count(unsafe { &(*fid.cast::<CqObject>()).shared }) != 1 {
            return Err(error::EBUSY);
        }
        // SAFETY: F1.
        unsafe { crate::abi::drop_object::<CqObject>(fid) };
        Ok(())
    })
}

/// # Safety
/// F1.
#[inline]
unsafe fn of<'a>(fid: *mut Fid) -> &'a CqShared {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<CqObject>()).shared }
}

/// `FI_GETWAIT`, `FI_GETWAITOBJ`.
unsafe extern "C" fn control_call(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F1.
        let cq = unsafe { of(fid) };
        let value = match (command, &cq.bell) {
            (5, Some(bell)) => bell.fd().as_raw_fd(),
            (16, Some(_)) => WAIT_FD,
            (16, None) => c_int::from(cq.can_wait),
            _ => return Err(error::ENOSYS),
        };
        if argument.is_null() {
            return Err(error::EINVAL);
        }
        // SAFETY: F2.
        unsafe { *argument.cast::<c_int>() = value };
        Ok(())
    })
}

unsafe extern "C" fn read(fid: *mut Fid, to: *mut c_void, count: usize) -> isize {
    // SAFETY: F1, F2.
    sized(|| unsafe { read_now(fid, to, count, core::ptr::null_mut()) })
}

unsafe extern "C" fn readfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: F1, F2.
    sized(|| unsafe { read_now(fid, to, count, sources) })
}

/// # Safety
/// F1, F2.
#[inline]
unsafe fn read_now(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
    // SAFETY: the caller's.
    match unsafe { of(fid).poll(to, count, sources) }? {
        0 => Err(error::EAGAIN),
        n => Ok(n),
    }
}

unsafe extern "C" fn readerr(fid: *mut Fid, to: *mut ErrorEntry, _flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let mut queue = unsafe { of(fid) }.queue.enter(Claim::Bias);
        let Some((c, failure)) = queue.entries.front().and_then(|c| Some((*c, c.failure?))) else { return Err(error::EAGAIN) };
        // SAFETY: F2.
        let to = unsafe { to.as_mut() }.ok_or(error::EINVAL)?;
        (to.entry, to.excess, to.error, to.provider_error) = (entry(&c), c.excess, failure_code(failure), failure_code(failure));
        // A room for data of ours stays empty; without one, there is nothing to point to.
        to.error_data_size = 0;
        queue.entries.pop_front();
        Ok(1)
    })
}

unsafe extern "C" fn sread(fid: *mut Fid, to: *mut c_void, count: usize, cond: *const c_void, timeout: c_int) -> isize {
    // SAFETY: F1, F2.
    unsafe { sreadfrom(fid, to, count, core::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(fid: *mut Fid, to: *mut c_void, count: usize, sources: *mut u64, _cond: *const c_void, timeout: c_int) -> isize {
    sized(|| {
        // SAFETY: F1.
        let cq = unsafe { of(fid) };
        if !cq.can_wait {
            return Err(error::ENOSYS);
        }
        let end = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        loop {
            // SAFETY: F2.
            let n = unsafe { cq.poll(to, count, sources) }?;
            if n != 0 {
                return Ok(n);
            }
            // Acquire: pairs with the Release in `signal`.
            if cq.signal.swap(false, Ordering::Acquire) || end.is_some_and(|end| Instant::now() >= end) {
                return Err(error::EAGAIN);
            }
            // Relaxed: a look; the swap above decides.
            cq.polled.sleep(end, || !cq.is_empty() || cq.signal.load(Ordering::Relaxed));
        }
    })
}

/// Ends a wait, of now or of the next time.
unsafe extern "C" fn signal(fid: *mut Fid) -> c_int {
    control(|| {
        // SAFETY: F1.
        let cq = unsafe { of(fid) };
        // Release: what was done before is seen by who wakes.
        cq.signal.store(true, Ordering::Release);
        cq.polled.wake();
        if let Some(bell) = &cq.bell {
            cq.queue.enter(Claim::Visit).has_rung = true;
            let _ = bell.ring();
        }
        Ok(())
    })
}

unsafe extern "C" fn strerror(_: *mut Fid, number: c_int, _: *const c_void, buffer: *mut c_char, length: usize) -> *const c_char {
    let text: &core::ffi::CStr = match number {
        error::TRUNCATED => c"the message is longer than the receive",
        error::ECANCELED => c"canceled",
        error::ECONNRESET => c"the connection to the peer is lost",
        error::EHOSTUNREACH => c"the peer cannot be reached",
        error::EACCES => c"the peer has no such memory, or does not permit this",
        error::ENOMSG => c"no message",
        _ => c"not supported by the peer",
    };
    if !buffer.is_null() && length != 0 {
        let n = text.to_bytes().len().min(length - 1);
        // SAFETY: F2.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer, n);
            *buffer.add(n) = 0;
        }
    }
    text.as_ptr()
}
