// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanging pages of a program with several threads where the kernel gives this user no
//! `userfaultfd` that stops system calls.
//!
//! A process of a moment, which shares the memory of this one, stops every other thread as a
//! debugger does (`ptrace`), exchanges the pages, and lets all go. A thread that was stopped has
//! left the kernel, so no system call is half done either. The exchange itself is one step: if the
//! helper is killed, the pages are the old ones or the new ones, and the kernel lets all threads
//! go. If the program is killed, the kernel ends the helper.
//!
//! Threads notice nothing but the time. A system call that the stop has interrupted begins again,
//! mostly by the kernel; a few (`epoll_wait`) would fail with `EINTR`, and the helper has those
//! begin again itself (`freeze/again.rs`), unless a signal that the thread hears of is pending,
//! too. Their timeouts then begin anew.
//!
//! The helper runs on the caller's thread-local memory while the caller waits: it takes no lock and
//! no memory, and uses the stopped threads' memory for nothing. It gives up, and nothing is
//! exchanged, if a thread cannot be stopped: a debugger has it, the system forbids it (Yama at 2 or
//! 3, a filter of system calls), the kernel made it (`io_uring`), it waits for a child of `vfork`,
//! or the time is over. After the latter it is not tried again, since the call that registers has
//! waited for [`PATIENCE`] and up to [`GRACE`].
//!
//! The longest stop is that for the most [`BYTES`], whose new pages are there before it: about 20
//! ms where 4 GB are copied in a second.

use super::exchange::{PAGE, exchange_alone};
use super::tracing::{SEIZE, Scope};
use crate::atomic::{AtomicU32, Ordering};
use crate::mappings::{Mapping, list};
use crate::signals::Blocked;
use again::{begin_again, is_ignored};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_void};
use core::ptr::null_mut;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ops::Range;

mod again;

/// Bytes for which all threads are stopped: fewer are not worth it, more would keep them too long.
const BYTES: core::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;
/// Threads of a program, at most.
const THREADS_MAX: usize = 512;
/// How long threads may take until they have stopped, ns. On a busy machine they wait for a
/// processor.
const PATIENCE: u64 = 100_000_000;
/// After that, how long they may take until they are let go, ns: a system call that was interrupted
/// may have to begin again.
const GRACE: u64 = 2_000_000_000;
/// Between two looks whether a thread has stopped, ns.
const PAUSE: i64 = 20_000;
const STACK: usize = 256 << 10;
/// After as many failures in a row it is not tried any more.
const FAILURES_MAX: u32 = 3;

/// The numbers of ptrace(2).
const EVENT_STOP: c_int = 128;
const INTERRUPT: c_long = 0x4207;
const DETACH: c_long = 17;
const SET_TRACER: c_long = 0x5961_6d61;
/// Those of futex(2), between threads that share their memory.
const WAIT: c_long = 128;
const WAKE: c_long = 129;

static FAILURES: AtomicU32 = AtomicU32::new(0);

/// Whether pages may be exchanged so.
pub(super) fn may_freeze(pages: &Range<usize>) -> bool {
    // Relaxed: a count.
    cfg!(target_arch = "x86_64") && BYTES.contains(&pages.len()) && FAILURES.load(Ordering::Relaxed) < FAILURES_MAX
}

/// Puts a second mapping of the memory at `base` in the place of the pages, with their content.
/// `false`: everything is as it was.
///
/// # Safety
/// The pages are private or shared, readable and writable; this thread uses them for nothing.
/// `base` is mapped for as many bytes, shared, and nobody uses it yet.
pub(super) unsafe fn exchange_frozen(pages: &Range<usize>, base: usize) -> bool {
    // SAFETY: the caller's, for `base`.
    unsafe { bring_in(base, pages.len()) };
    let end = Order::new(pages, base).map_or(End::Refused, |order| order.carry_out());
    // Relaxed: a count.
    let failures = match end {
        End::Done => 0,
        End::Refused => FAILURES.load(Ordering::Relaxed).saturating_add(1),
        End::Late => FAILURES_MAX,
    };
    FAILURES.store(failures, Ordering::Relaxed);
    end == End::Done
}

/// Has the kernel provide the pages now, while all threads run.
///
/// # Safety
/// `base` is mapped and writable for as many bytes, and nobody uses it yet.
unsafe fn bring_in(base: usize, length: usize) {
    for offset in (0..length).step_by(PAGE) {
        // SAFETY: the caller's.
        unsafe { core::ptr::with_exposed_provenance_mut::<u8>(base + offset).write_volatile(0) };
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// Nothing was exchanged, at once.
    Refused,
    /// Nothing was exchanged, after all the time that there is for it.
    Late,
}

/// A thread that the helper traces.
#[derive(Clone, Copy)]
struct Traced {
    thread: c_int,
    has_stopped: bool,
    /// The signal that it was about to get when it stopped.
    signal: c_int,
}

/// What the helper is to do; it alone uses `work` while it runs.
struct Order {
    may_begin: AtomicU32,
    /// How far it is: [`NOTHING`] and so on.
    stage: AtomicU32,
    work: UnsafeCell<Work>,
}

const NOTHING: u32 = 0;
/// Not all threads stopped in time.
const LATE: u32 = 1;
/// The step that exchanges the pages has begun.
const EXCHANGING: u32 = 2;
const DONE: u32 = 3;

struct Work {
    process: c_int,
    caller: c_int,
    tasks: OwnedFd,
    pages: Range<usize>,
    base: usize,
    names: [u64; 512],
    threads: [Traced; THREADS_MAX],
    count: usize,
}

impl Order {
    fn new(pages: &Range<usize>, base: usize) -> Option<Box<Self>> {
        // SAFETY: calls that return numbers. (The C library has `gettid` since 2.30 only.)
        let (process, caller) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid) as c_int) };
        let tasks = open("/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let work = Work {
            process,
            caller,
            tasks,
            pages: pages.clone(),
            base,
            names: [0; 512],
            threads: [Traced { thread: 0, has_stopped: false, signal: 0 }; THREADS_MAX],
            count: 0,
        };
        Some(Box::new(Self { may_begin: AtomicU32::new(0), stage: AtomicU32::new(NOTHING), work: UnsafeCell::new(work) }))
    }

    fn carry_out(&self) -> End {
        let is_named = Scope::read() == Scope::Named;
        let _mask = Blocked::new();
        // SAFETY: a new mapping, of nothing.
        let Ok(stack) = (unsafe { mmap_anonymous(null_mut(), STACK, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }) else {
            return End::Refused;
        };
        // Without a signal at its end, no handler of the program hears of it, nor does its `wait`.
        let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES;
        let order = core::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: errno is this thread's; the helper writes it, too.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: the helper has a stack of its own, and is gone before this returns: the order and
        // the stack stay for as long.
        unsafe {
            let helper = libc::clone(helper, stack.byte_add(STACK), flags, order);
            if helper > 0 {
                // With Yama at 1 a process is traced by its ancestors alone, and by whom it names.
                // A debugger that the program has named must be named again.
                if is_named {
                    libc::syscall(libc::SYS_prctl, SET_TRACER, c_long::from(helper), 0, 0, 0);
                }
                // Release: to the acquire in `helper`.
                self.may_begin.store(1, Ordering::Release);
                libc::syscall(libc::SYS_futex, self.may_begin.as_ptr(), WAKE, 1, 0, 0, 0);
                // Another thread may have waited for any child at all: then it has ended as well.
                while libc::syscall(libc::SYS_wait4, c_long::from(helper), 0, c_long::from(libc::__WALL), 0) < 0 && *libc::__errno_location() == libc::EINTR {}
                if is_named {
                    libc::syscall(libc::SYS_prctl, SET_TRACER, 0, 0, 0, 0);
                }
            }
            *libc::__errno_location() = errno;
            let _ = munmap(stack, STACK);
        }
        // Acquire: to the releases of the helper.
        match self.stage.load(Ordering::Acquire) {
            DONE => End::Done,
            LATE => End::Late,
            // SAFETY: the helper has ended.
            EXCHANGING if unsafe { &*self.work.get() }.is_exchanged() => End::Done,
            // It could not be done, or somebody has killed the helper.
            _ => End::Refused,
        }
    }

    /// Returns when the caller has said that it may begin; `false`: the caller has ended.
    fn wait_to_begin(&self, caller: c_int) -> bool {
        // SAFETY: calls with numbers, and with a word that outlives this.
        unsafe {
            libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            // Acquire: to the release in `carry_out`.
            while self.may_begin.load(Ordering::Acquire) == 0 {
                if libc::syscall(libc::SYS_getppid) != c_long::from(caller) {
                    return false;
                }
                libc::syscall(libc::SYS_futex, self.may_begin.as_ptr(), WAIT, 0, 0, 0, 0);
            }
        }
        true
    }
}

extern "C" fn helper(order: *mut c_void) -> c_int {
    // SAFETY: `carry_out` waits for this process to end.
    let order = unsafe { &*order.cast::<Order>() };
    // SAFETY: the caller does not use it until the helper has ended.
    let work = unsafe { &mut *order.work.get() };
    if !order.wait_to_begin(work.process) {
        return 0;
    }
    // Release: to the acquire in `carry_out`, here and below.
    let stage = match work.stop_all() {
        Stopped::All => {
            order.stage.store(EXCHANGING, Ordering::Release);
            // SAFETY: the caller's promises, and all others have stopped.
            if unsafe { exchange_alone(&work.pages, work.base) } { DONE } else { NOTHING }
        }
        Stopped::Late => LATE,
        Stopped::Not => NOTHING,
    };
    order.stage.store(stage, Ordering::Release);
    work.let_go();
    0
}

/// Whether all threads have stopped.
enum Stopped {
    All,
    /// One cannot be.
    Not,
    /// One did not, in time.
    Late,
}

impl Work {
    /// Stops all threads but the caller. All have stopped when a whole list of them had only
    /// threads that had stopped before it was read: there is nobody left who could start another.
    fn stop_all(&mut self) -> Stopped {
        let until = now() + PATIENCE;
        loop {
            match self.seize_new() {
                None => return Stopped::Not,
                Some(0) => return Stopped::All,
                Some(_) => {}
            }
            while self.threads[..self.count].iter().any(|t| !t.has_stopped) {
                if !self.look_for_stops() {
                    return Stopped::Not;
                }
                if now() > until {
                    return Stopped::Late;
                }
            }
        }
    }

    /// Seizes threads that are not yet; how many.
    fn seize_new(&mut self) -> Option<usize> {
        let (mut found, tasks) = (0, self.tasks.as_raw_fd());
        // SAFETY: a position in a list of names.
        if unsafe { libc::lseek(tasks, 0, libc::SEEK_SET) } != 0 {
            return None;
        }
        loop {
            // SAFETY: the buffer is this process's own, and as long as it says.
            let read = unsafe { libc::syscall(libc::SYS_getdents64, c_long::from(tasks), self.names.as_mut_ptr(), size_of_val(&self.names)) };
            let read = usize::try_from(read).ok()?;
            if read == 0 {
                return Some(found);
            }
            let mut at = 0;
            while at < read {
                let (length, thread) = entry(&self.names, at, read)?;
                at += length;
                let Some(thread) = thread else { continue };
                if thread != self.caller && !self.threads[..self.count].iter().any(|t| t.thread == thread) {
                    found += usize::from(self.seize(thread)?);
                }
            }
        }
    }

    /// `Some(false)`: the thread has ended meanwhile.
    fn seize(&mut self, thread: c_int) -> Option<bool> {
        let place = self.threads.get_mut(self.count)?;
        if trace(SEIZE, thread, 0, 0) != 0 {
            return (errno() == libc::ESRCH).then_some(false);
        }
        *place = Traced { thread, has_stopped: false, signal: 0 };
        self.count += 1;
        (trace(INTERRUPT, thread, 0, 0) == 0 || errno() == libc::ESRCH).then_some(true)
    }

    /// Notes which threads have stopped or ended, and sleeps if none has. `false`: one is no longer
    /// traced.
    fn look_for_stops(&mut self) -> bool {
        let (mut at, mut has_changed) = (0, false);
        while at < self.count {
            if self.threads[at].has_stopped {
                at += 1;
                continue;
            }
            let (thread, mut status) = (self.threads[at].thread, 0);
            // SAFETY: `status` is this function's.
            let waited = unsafe { libc::syscall(libc::SYS_wait4, c_long::from(thread), &raw mut status, c_long::from(libc::__WALL | libc::WNOHANG), 0) };
            if waited < 0 {
                return false;
            } else if waited == 0 {
                at += 1;
                continue;
            } else if libc::WIFSTOPPED(status) {
                let is_signal = status >> 16 == 0;
                self.threads[at].signal = if is_signal { libc::WSTOPSIG(status) } else { 0 };
                self.threads[at].has_stopped = true;
                // The kernel shows a signal to a tracer though the program ignores it.
                if status >> 16 == EVENT_STOP || (is_signal && is_ignored(self.threads[at].signal)) {
                    begin_again(thread);
                }
            } else {
                // It has ended.
                self.count -= 1;
                self.threads[at] = self.threads[self.count];
            }
            has_changed = true;
        }
        if !has_changed {
            let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE };
            // SAFETY: a time of this function's.
            unsafe { libc::nanosleep(&raw const pause, null_mut()) };
        }
        true
    }

    /// Whether the engine's memory lies in the place of the pages.
    fn is_exchanged(&self) -> bool {
        let Ok(maps) = list() else { return false };
        let places = [self.pages.start, self.base].map(|at| place(&maps, at));
        places[0].is_some() && places[0] == places[1]
    }

    /// Lets all go, each when it has stopped. The end of this process lets go of those that do not.
    fn let_go(&mut self) {
        let until = now() + GRACE;
        loop {
            for t in self.threads[..self.count].iter().filter(|t| t.has_stopped) {
                trace(DETACH, t.thread, 0, t.signal as usize);
            }
            let mut kept = 0;
            for at in 0..self.count {
                if !self.threads[at].has_stopped {
                    self.threads[kept] = self.threads[at];
                    kept += 1;
                }
            }
            self.count = kept;
            if kept == 0 || !self.look_for_stops() || now() > until {
                return;
            }
        }
    }
}

/// The file that is mapped at an address, by a list of mappings, with its device, and the place in
/// it.
fn place(maps: &str, at: usize) -> Option<(&str, u64, u64)> {
    maps.lines().filter_map(Mapping::parse).find_map(|mapping| mapping.place(at))
}

/// An entry of a folder: its length, and the number that is its name.
fn entry(names: &[u64; 512], at: usize, end: usize) -> Option<(usize, Option<c_int>)> {
    /// A number, a position, the length, a kind.
    const NAME_AT: usize = 8 + 8 + 2 + 1;
    let byte = |i: usize| (i < end).then(|| names[i / 8].to_ne_bytes()[i % 8]);
    let length = usize::from(u16::from_ne_bytes([byte(at + 16)?, byte(at + 17)?]));
    if length < NAME_AT {
        return None;
    }
    let mut number: c_int = 0;
    for i in at + NAME_AT..at + length {
        match byte(i)? {
            0 => break,
            digit @ b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(c_int::from(digit - b'0'))?,
            _ => return Some((length, None)),
        }
    }
    Some((length, Some(number)))
}

fn trace(request: c_long, thread: c_int, address: usize, data: usize) -> c_long {
    // SAFETY: `address` and `data` are numbers, or point to what a request reads or fills, of the
    // shape that it has; the thread is one of this memory's.
    unsafe { libc::syscall(libc::SYS_ptrace, request, c_long::from(thread), address, data) }
}

fn errno() -> c_int {
    // SAFETY: errno of the thread whose thread-local memory this is; it waits.
    unsafe { *libc::__errno_location() }
}

fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a time of this function's.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
