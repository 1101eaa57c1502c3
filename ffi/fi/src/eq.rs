// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queues: what control operations came to, and what programs write there themselves.

use crate::abi::{Fid, Table, TableRef, class, close_unused, control, deadline, error, give, none, sized, tell_wait, wait};
use crate::attributes::Info;
use crate::info;
use crate::polled::{EpShared, Polled};
use crate::reasons;
use crate::traced::setup;
use crate::waitset::{self, WaitShared};
use crate::watched::{News, Seen, Watched};
use bellwire_memory::event::Bell;
use core::ffi::{c_char, c_int, c_void};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `struct fi_eq_attr`.
#[repr(C)]
pub(crate) struct EqAttr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_set: *mut Fid,
}

/// `struct fi_eq_err_entry`.
#[repr(C)]
pub(crate) struct EqErrorEntry {
    pub fid: *mut Fid,
    pub context: *mut c_void,
    pub data: u64,
    pub error: c_int,
    pub provider_error: c_int,
    pub error_data: *mut c_void,
    pub error_data_size: usize,
}

/// `FI_CONNREQ` and its like.
pub(crate) const CONNREQ: u32 = 1;
pub(crate) const CONNECTED: u32 = 2;
pub(crate) const SHUTDOWN: u32 = 3;
pub(crate) const AV_COMPLETE: u32 = 5;

/// Bytes of `struct fi_eq_cm_entry` before its data.
const CONNECTION_BYTES: usize = 16;

/// An event, and its entry as bytes; or an error.
enum Event {
    Plain(u32, Vec<u8>),
    /// A connection, an endpoint's and perhaps a request's information, and data of the peer's
    /// program: as much of that as there is room for.
    Connection(u32, Vec<u8>),
    Failed {
        fid: usize,
        context: usize,
        data: u64,
        code: c_int,
        /// Why, if there is more to say than the code does.
        reason: c_int,
        said: Box<[u8]>,
    },
}

/// Most events that wait: programs may write any number.
const EVENTS_MAX: usize = 1 << 16;

pub(crate) struct EqShared {
    events: Mutex<VecDeque<Event>>,
    came: Condvar,
    /// Endpoints whose connections are told of here.
    pub polled: Polled,
    /// Rung while there are events.
    bell: Option<Bell>,
    /// What was said with the error that was read last: the program has a pointer to it until it
    /// reads the next.
    said: Mutex<Box<[u8]>>,
}

impl Drop for EqShared {
    fn drop(&mut self) {
        // Requests that nobody has read.
        self.lock().drain(..).for_each(Event::discard);
    }
}

impl Event {
    /// Whose event it is, if it is an endpoint's.
    fn of(&self) -> Option<usize> {
        match self {
            Self::Connection(_, bytes) => Some(usize::from_ne_bytes(*bytes.first_chunk()?)),
            Self::Failed { fid, .. } => Some(*fid),
            Self::Plain(..) => None,
        }
    }

    /// Nobody reads it any more.
    fn discard(self) {
        if let Self::Connection(CONNREQ, bytes) = self
            && let Some(at) = bytes.get(8..).and_then(|b| b.first_chunk())
        {
            info::free(core::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(*at)));
        }
    }
}

impl News for EqShared {
    fn poll(&self) {
        self.poll();
    }

    fn has_news(&self, _: &mut Seen) -> bool {
        !self.is_empty()
    }

    fn endpoints(&self, add: &mut dyn FnMut(&Arc<EpShared>)) {
        self.polled.each(add);
    }
}

impl EqShared {
    fn new(bell: Option<Bell>) -> Self {
        Self { events: Mutex::default(), came: Condvar::new(), polled: Polled::default(), bell, said: Mutex::default() }
    }

    /// Polls the endpoints, if there is nothing yet.
    fn poll(&self) {
        if self.is_empty() {
            self.polled.poll(|| !self.is_empty());
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) -> bool {
        let mut events = self.lock();
        let fits = events.len() < EVENTS_MAX;
        if fits {
            events.push_back(event);
            self.came.notify_all();
            if let Some(bell) = &self.bell {
                let _ = bell.ring();
            }
        }
        fits
    }

    /// An operation of an object is done: `data` says how much of it.
    pub(crate) fn tell(&self, kind: u32, fid: *mut Fid, context: *mut c_void, data: u64) {
        // `struct fi_eq_entry`.
        let words = [fid.expose_provenance() as u64, context.expose_provenance() as u64, data];
        self.push(Event::Plain(kind, words.iter().flat_map(|w| w.to_ne_bytes()).collect()));
    }

    /// Something became of a connection; a request comes with the information that is the program's
    /// to free.
    pub(crate) fn tell_connection(&self, kind: u32, fid: usize, info: *mut Info, data: &[u8]) {
        let words = [fid as u64, info.expose_provenance() as u64];
        self.push(Event::Connection(kind, words.iter().flat_map(|w| w.to_ne_bytes()).chain(data.iter().copied()).collect()));
    }

    /// A connection was refused, with data of the peer's program.
    pub(crate) fn tell_refusal(&self, fid: usize, code: c_int, reason: c_int, said: &[u8]) {
        self.push(Event::Failed { fid, context: 0, data: 0, code, reason, said: said.into() });
    }

    /// An endpoint is closed: nobody hears of it any more, for the next one may have its address.
    pub(crate) fn forget(&self, fid: *mut Fid) {
        let mut events = self.lock();
        let (gone, kept) = core::mem::take(&mut *events).into_iter().partition(|event| event.of() == Some(fid.addr()));
        *events = kept;
        self.taken(&events);
        VecDeque::into_iter(gone).for_each(Event::discard);
    }

    pub(crate) fn has_descriptor(&self) -> bool {
        self.bell.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether one may sleep on the descriptor now.
    pub(crate) fn try_wait(&self) -> bool {
        self.polled.poll(|| !self.is_empty());
        self.is_empty()
    }

    /// Silences the descriptor when nothing is left.
    fn taken(&self, events: &VecDeque<Event>) {
        if let Some(bell) = self.bell.as_ref().filter(|_| events.is_empty()) {
            let _ = bell.clear();
        }
    }

    /// A part of it has failed.
    pub(crate) fn tell_failure(&self, fid: *mut Fid, context: *mut c_void, data: u64, code: c_int) {
        self.push(Event::Failed { fid: fid.expose_provenance(), context: context.expose_provenance(), data, code, reason: 0, said: Box::default() });
    }
}

/// `struct fid_eq`, and ours behind it.
#[repr(C)]
pub(crate) struct EqObject {
    fid: Fid,
    ops: TableRef,
    pub shared: Arc<EqShared>,
    /// The set that it is waited for by.
    _set: Option<Arc<WaitShared>>,
}

static FID: Table<6> = Table::new([close as *const (), none as *const (), control_call as *const (), none as *const (), none as *const (), none as *const ()]);
static OPS: Table<5> = Table::new([read as *const (), readerr as *const (), write as *const (), sread as *const (), strerror as *const ()]);

/// `fi_eq_open`.
pub(crate) unsafe extern "C" fn open(_fabric: *mut Fid, attr: *const EqAttr, to: *mut *mut EqObject, context: *mut c_void) -> c_int {
    setup("fi_eq_open", [0; 2], || {
        let mut set = None;
        // SAFETY: F2.
        if let Some(attr) = unsafe { attr.as_ref() } {
            if !matches!(attr.wait_obj, wait::NONE | wait::UNSPEC | wait::SET | wait::FD | wait::YIELD) {
                return Err(error::ENOSYS);
            }
            // FI_WRITE: the program writes too. FI_AFFINITY needs nothing done.
            if attr.flags & !(crate::flags::WRITE | 1 << 29) != 0 {
                return Err(error::BAD_FLAGS);
            }
            // SAFETY: F1.
            set = unsafe { waitset::named(attr.wait_obj, attr.wait_set) }?;
        }
        let fid = Fid { class: class::EQ, context, ops: TableRef::to(&FID) };
        // SAFETY: F2.
        let has_descriptor = unsafe { attr.as_ref() }.is_some_and(|attr| attr.wait_obj == wait::FD);
        let bell = if has_descriptor { Some(Bell::create().map_err(|_| error::ENOMEM)?) } else { None };
        let shared = Arc::new(EqShared::new(bell));
        set.iter().for_each(|set| set.add(Watched::new(&shared)));
        give(EqObject { fid, ops: TableRef::to(&OPS), shared, _set: set }, to)
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: F1.
    control(|| unsafe { close_unused(fid, |eq: &EqObject| &eq.shared) })
}

/// `FI_GETWAIT`, `FI_GETWAITOBJ`.
unsafe extern "C" fn control_call(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    control(|| {
        // SAFETY: F1.
        let bell = unsafe { of(fid) }.bell.as_ref();
        // SAFETY: F2.
        unsafe { tell_wait(command, argument, if bell.is_some() { wait::FD } else { wait::UNSPEC }, bell) }
    })
}

/// # Safety
/// F1.
unsafe fn of<'a>(fid: *mut Fid) -> &'a EqShared {
    // SAFETY: the caller's.
    unsafe { &(*fid.cast::<EqObject>()).shared }
}

/// Takes, or with FI_PEEK shows, the first event.
///
/// # Safety
/// F2.
unsafe fn take(events: &mut VecDeque<Event>, kind: *mut u32, to: *mut c_void, length: usize, flags: u64) -> crate::abi::Outcome<usize> {
    let n = match events.front() {
        None => return Err(error::EAGAIN),
        Some(Event::Failed { .. }) => return Err(error::AVAILABLE),
        Some(Event::Plain(of, bytes)) => {
            if bytes.len() > length || (to.is_null() && !bytes.is_empty()) {
                return Err(error::TOO_SMALL);
            }
            // SAFETY: the caller's.
            unsafe {
                if !kind.is_null() {
                    *kind = *of;
                }
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
            }
            bytes.len()
        }
        Some(Event::Connection(of, bytes)) => {
            if length < CONNECTION_BYTES || to.is_null() {
                return Err(error::TOO_SMALL);
            }
            let n = bytes.len().min(length);
            // SAFETY: the caller's.
            unsafe {
                if !kind.is_null() {
                    *kind = *of;
                }
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), n);
            }
            n
        }
    };
    if flags & crate::flags::PEEK == 0 {
        events.pop_front();
    }
    Ok(n)
}

unsafe extern "C" fn read(fid: *mut Fid, kind: *mut u32, to: *mut c_void, length: usize, flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let eq = unsafe { of(fid) };
        eq.poll();
        let mut events = eq.lock();
        // SAFETY: F2.
        let outcome = unsafe { take(&mut events, kind, to, length, flags) };
        eq.taken(&events);
        outcome
    })
}

unsafe extern "C" fn sread(fid: *mut Fid, kind: *mut u32, to: *mut c_void, length: usize, timeout: c_int, flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let eq = unsafe { of(fid) };
        let end = deadline(timeout);
        loop {
            eq.poll();
            let mut events = eq.lock();
            // SAFETY: F2.
            match unsafe { take(&mut events, kind, to, length, flags) } {
                Err(error::EAGAIN) => {}
                outcome => {
                    eq.taken(&events);
                    return outcome;
                }
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(error::EAGAIN);
            }
            if !eq.polled.is_empty() {
                drop(events);
                eq.polled.sleep(end, || !eq.is_empty());
                continue;
            }
            match left {
                None => drop(eq.came.wait(events).unwrap_or_else(PoisonError::into_inner)),
                Some(left) => drop(eq.came.wait_timeout(events, left).unwrap_or_else(PoisonError::into_inner)),
            }
        }
    })
}

unsafe extern "C" fn readerr(fid: *mut Fid, to: *mut EqErrorEntry, flags: u64) -> isize {
    sized(|| {
        // SAFETY: F1.
        let eq = unsafe { of(fid) };
        eq.poll();
        let mut events = eq.lock();
        let Some(Event::Failed { fid, context, data, code, reason, said }) = events.front() else { return Err(error::EAGAIN) };
        // SAFETY: F2.
        let to = unsafe { to.as_mut() }.ok_or(error::EINVAL)?;
        (to.fid, to.context) = (core::ptr::with_exposed_provenance_mut(*fid), core::ptr::with_exposed_provenance_mut(*context));
        (to.data, to.error, to.provider_error) = (*data, *code, if *reason != 0 { *reason } else { *code });
        if to.error_data.is_null() || to.error_data_size == 0 {
            let mut last = eq.said.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone_from(said);
            (to.error_data, to.error_data_size) = (last.as_mut_ptr().cast(), last.len());
        } else {
            to.error_data_size = to.error_data_size.min(said.len());
            // SAFETY: F2: room for as many bytes.
            unsafe { core::ptr::copy_nonoverlapping(said.as_ptr(), to.error_data.cast(), to.error_data_size) };
        }
        if flags & crate::flags::PEEK == 0 {
            events.pop_front();
        }
        eq.taken(&events);
        Ok(size_of::<EqErrorEntry>())
    })
}

unsafe extern "C" fn write(fid: *mut Fid, kind: u32, from: *const c_void, length: usize, _flags: u64) -> isize {
    sized(|| {
        if from.is_null() && length != 0 {
            return Err(error::EINVAL);
        }
        // SAFETY: F2.
        let bytes = if length == 0 { Vec::new() } else { unsafe { core::slice::from_raw_parts(from.cast::<u8>(), length) }.to_vec() };
        // SAFETY: F1.
        let eq = unsafe { of(fid) };
        if !eq.push(Event::Plain(kind, bytes)) {
            return Err(error::EAGAIN);
        }
        eq.polled.wake();
        Ok(length)
    })
}

unsafe extern "C" fn strerror(fid: *mut Fid, number: c_int, data: *const c_void, buffer: *mut c_char, length: usize) -> *const c_char {
    let _ = (fid, data);
    let text = match number {
        error::ECONNREFUSED => c"the peer refused the connection",
        _ => reasons::text(number).unwrap_or(c"an address or a region that cannot be"),
    };
    // SAFETY: F2.
    unsafe { reasons::tell(text, buffer, length) }
}
