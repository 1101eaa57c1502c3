// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanging pages of a program with several threads where the kernel gives this user no
//! `userfaultfd` that stops system calls.
//!
//! A process of a moment, which shares the memory of this one, stops every other thread as a
//! debugger does (`ptrace`), exchanges the pages, and lets all go. A thread that was stopped has
//! left the kernel, so no system call is half done either. The exchange itself is one step: if the
//! helper is killed, the pages are the old ones or the new ones.
//!
//! Threads notice nothing but the time. A system call that the stop has interrupted begins again,
//! mostly by the kernel; a few (`epoll_wait`) would fail with `EINTR`, and the helper has those
//! begin again itself, unless a signal is pending, too. Their timeouts then begin anew.
//!
//! The helper runs on the caller's thread-local memory while the caller waits: it takes no lock and
//! no memory, and uses the stopped threads' memory for nothing. It gives up, and nothing is
//! exchanged, if a thread cannot be stopped: a debugger has it, the system forbids it (Yama at 2 or
//! 3, a filter of system calls), it waits for a child of `vfork`, or the time is over.

use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::bytes;
use bellwire_memory::signals::Blocked;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_long, c_void};
use core::ptr::null_mut;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed, munmap};
use std::ops::Range;

/// Bytes for which all threads are stopped: fewer are not worth it, more would keep them too long.
const BYTES: core::ops::RangeInclusive<usize> = 64 << 10..=256 << 20;
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
const SEIZE: c_long = 0x4206;
const INTERRUPT: c_long = 0x4207;
const PEEK_SIGNALS: c_long = 0x4209;
const DETACH: c_long = 17;
const SET_TRACER: c_long = 0x5961_6d61;

static FAILURES: AtomicU32 = AtomicU32::new(0);

/// Whether pages may be exchanged so.
pub(crate) fn may_freeze(pages: &Range<usize>) -> bool {
    // Relaxed: a count.
    cfg!(target_arch = "x86_64") && BYTES.contains(&pages.len()) && FAILURES.load(Ordering::Relaxed) < FAILURES_MAX
}

/// Puts a second mapping of the memory at `base` in the place of the pages, with their content.
/// `false`: everything is as it was.
///
/// # Safety
/// The pages are private or shared, readable and writable; this thread uses them for nothing.
/// `base` is mapped for as many bytes, shared, and nobody uses it yet.
pub(crate) unsafe fn exchange_frozen(pages: &Range<usize>, base: usize) -> bool {
    let done = Order::new(pages, base).is_some_and(|order| order.carry_out());
    // Relaxed: a count.
    let failures = if done { 0 } else { FAILURES.load(Ordering::Relaxed).saturating_add(1) };
    FAILURES.store(failures, Ordering::Relaxed);
    done
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
    may_begin: AtomicBool,
    is_done: AtomicBool,
    work: UnsafeCell<Work>,
}

struct Work {
    caller: c_int,
    tasks: OwnedFd,
    from: *mut u8,
    to: *mut u8,
    length: usize,
    names: [u64; 512],
    threads: [Traced; THREADS_MAX],
    count: usize,
}

impl Order {
    fn new(pages: &Range<usize>, base: usize) -> Option<Box<Self>> {
        // SAFETY: a call that returns a number.
        let caller = unsafe { libc::gettid() };
        let tasks = open("/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let work = Work {
            caller,
            tasks,
            from: core::ptr::with_exposed_provenance_mut(pages.start),
            to: core::ptr::with_exposed_provenance_mut(base),
            length: pages.len(),
            names: [0; 512],
            threads: [Traced { thread: 0, has_stopped: false, signal: 0 }; THREADS_MAX],
            count: 0,
        };
        Some(Box::new(Self { may_begin: AtomicBool::new(false), is_done: AtomicBool::new(false), work: UnsafeCell::new(work) }))
    }

    fn carry_out(&self) -> bool {
        let _mask = Blocked::new();
        // SAFETY: a new mapping, of nothing.
        let Ok(stack) = (unsafe { mmap_anonymous(null_mut(), STACK, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }) else {
            return false;
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
                // With Yama a process is traced by its ancestors alone, and by whom it names.
                libc::syscall(libc::SYS_prctl, SET_TRACER, c_long::from(helper), 0, 0, 0);
                // Release: to the acquire in `helper`.
                self.may_begin.store(true, Ordering::Release);
                // Another thread may have waited for any child at all: then it has ended as well.
                while libc::syscall(libc::SYS_wait4, c_long::from(helper), 0, c_long::from(libc::__WALL), 0) < 0 && *libc::__errno_location() == libc::EINTR {}
                libc::syscall(libc::SYS_prctl, SET_TRACER, 0, 0, 0, 0);
            }
            *libc::__errno_location() = errno;
            let _ = munmap(stack, STACK);
        }
        // Acquire: to the release in `helper`.
        self.is_done.load(Ordering::Acquire)
    }
}

extern "C" fn helper(order: *mut c_void) -> c_int {
    // SAFETY: `carry_out` waits for this process to end.
    let order = unsafe { &*order.cast::<Order>() };
    // Acquire: to the release in `carry_out`.
    while !order.may_begin.load(Ordering::Acquire) {
        // SAFETY: a call without arguments.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: only the helper uses it from here on.
    let work = unsafe { &mut *order.work.get() };
    // SAFETY: the caller's promises, and all others have stopped.
    let is_done = work.stop_all() && unsafe { work.exchange() };
    // Release: to the acquire in `carry_out`.
    order.is_done.store(is_done, Ordering::Release);
    work.let_go();
    0
}

impl Work {
    /// Stops all threads but the caller. `true`: a whole list of them had only threads that had
    /// stopped before it was read, so there is nobody who could start another.
    fn stop_all(&mut self) -> bool {
        let until = now() + PATIENCE;
        loop {
            let Some(found) = self.seize_new() else { return false };
            if found == 0 {
                return true;
            }
            if !self.wait_for_stops(until) {
                return false;
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

    fn wait_for_stops(&mut self, until: u64) -> bool {
        while self.threads[..self.count].iter().any(|t| !t.has_stopped) {
            if !self.look_for_stops() || now() > until {
                return false;
            }
        }
        true
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
                if status >> 16 == EVENT_STOP {
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

    /// # Safety
    /// As [`exchange_frozen`], and no other thread of the process runs.
    unsafe fn exchange(&self) -> bool {
        // SAFETY: the caller's. An old length of zero makes a second mapping of shared pages.
        unsafe {
            bytes::copy(self.to, self.from.cast_const(), self.length);
            mremap_fixed(self.to.cast(), 0, self.length, MremapFlags::MAYMOVE, self.from.cast()).is_ok()
        }
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

/// Has a system call of a stopped thread begin again that failed with `EINTR` because of the stop,
/// and would not have otherwise. It has done nothing yet.
#[cfg(target_arch = "x86_64")]
fn begin_again(thread: c_int) {
    const GET_REGISTERS: c_long = 12;
    const SET_REGISTERS: c_long = 13;
    /// Bytes of the instruction `syscall`.
    const CALL: u64 = 2;
    // SAFETY: numbers.
    let mut registers: libc::user_regs_struct = unsafe { core::mem::zeroed() };
    if trace(GET_REGISTERS, thread, 0, (&raw mut registers).expose_provenance()) != 0 {
        return;
    }
    let call = registers.orig_rax as c_long;
    if registers.rax as i64 == -i64::from(libc::EINTR) && BEGIN_AGAIN.contains(&call) && !has_signal(thread) {
        registers.rax = registers.orig_rax;
        registers.rip = registers.rip.wrapping_sub(CALL);
        trace(SET_REGISTERS, thread, 0, (&raw const registers).expose_provenance());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn begin_again(_thread: c_int) {}

/// Calls that fail with `EINTR` when a thread is stopped, only before they have done anything, and
/// mean the same when they are called again.
#[cfg(target_arch = "x86_64")]
const BEGIN_AGAIN: [c_long; 14] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// Whether a signal waits for the thread, or for the process.
#[cfg(target_arch = "x86_64")]
fn has_signal(thread: c_int) -> bool {
    #[repr(C)]
    struct Which {
        from: u64,
        flags: u32,
        count: i32,
    }
    [0, 1].into_iter().any(|flags| {
        let which = Which { from: 0, flags, count: 1 };
        let mut found = [0_u64; 16];
        trace(PEEK_SIGNALS, thread, (&raw const which).addr(), (&raw mut found).expose_provenance()) != 0
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::exchange::tests::{LENGTH, threads_count};
    use bellwire_memory::atomic::AtomicU64;
    use rustix::event::{EventfdFlags, eventfd};

    static SIGNALS: AtomicU64 = AtomicU64::new(0);

    extern "C" fn on_signal(_: c_int) {
        // Relaxed: a count.
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    /// Threads that count in the pages lose nothing; one that sleeps in `epoll_wait` hears of
    /// nothing; signals arrive, each once.
    #[test]
    fn threads_notice_nothing() {
        // SAFETY: a handler that adds to a number; system calls begin again after it.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, null_mut()), 0);
        }
        let (over, wakes) = (AtomicBool::new(false), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let (sent, done) = std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| sleep_until_woken(wakes.as_raw_fd()));
            let sending = scope.spawn(|| {
                // SAFETY: calls that return numbers.
                let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
                let mut sent = 0;
                // Relaxed: a flag, and a count of this thread's.
                while !over.load(Ordering::Relaxed) {
                    // SAFETY: a signal to this thread, which handles it before the call returns.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, own, libc::SIGUSR2) };
                    sent += 1;
                }
                sent
            });
            let mut done = 0;
            // SAFETY: `threads_count`'s pages; no locks are held.
            threads_count(|pages, base| unsafe {
                let is_done = exchange_frozen(pages, base);
                done += u64::from(is_done);
                is_done
            });
            over.store(true, Ordering::Relaxed);
            rustix::io::write(&wakes, &1_u64.to_ne_bytes()).unwrap();
            assert_eq!(sleeping.join().unwrap(), Ok(1), "epoll_wait failed");
            (sending.join().unwrap(), done)
        });
        eprintln!("threads were stopped in {done} rounds");
        assert!(done > 0, "threads could not be stopped in any round");
        assert_eq!(SIGNALS.load(Ordering::Relaxed), sent);
    }

    fn sleep_until_woken(fd: c_int) -> Result<c_int, c_int> {
        // SAFETY: descriptors and events of this function's own.
        unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
            let woken = libc::epoll_wait(epoll, &raw mut event, 1, -1);
            let error = errno();
            libc::close(epoll);
            if woken < 0 { Err(error) } else { Ok(woken) }
        }
    }

    /// A thread that another process traces, as a debugger does: nothing is done, and all go on.
    #[test]
    fn gives_up() {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new mappings; the child of the fork makes system calls alone.
        unsafe {
            let at = mmap_anonymous(null_mut(), LENGTH, rights, MapFlags::PRIVATE).unwrap();
            let base = mmap_anonymous(null_mut(), LENGTH, rights, MapFlags::SHARED).unwrap();
            at.cast::<u64>().write(7);
            let stopped = libc::syscall(libc::SYS_gettid) as c_int;
            let child = libc::fork();
            if child == 0 {
                trace(SEIZE, stopped, 0, 0);
                loop {
                    libc::pause();
                }
            }
            let tracer = || std::fs::read_to_string("/proc/thread-self/status").unwrap().lines().any(|l| l == format!("TracerPid:\t{child}"));
            while !tracer() {
                std::thread::yield_now();
            }
            let pages = at.addr()..at.addr() + LENGTH;
            let new = base.addr();
            let done = std::thread::scope(|scope| scope.spawn(|| exchange_frozen(&pages, new)).join().unwrap());
            assert!(!done, "a thread that another process traces was stopped");
            assert_eq!(at.cast::<u64>().read(), 7);
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, null_mut(), 0);
            munmap(at, LENGTH).unwrap();
            munmap(base, LENGTH).unwrap();
        }
    }

    #[test]
    fn names_of_threads() {
        let mut names = [0_u64; 512];
        names[2] = u64::from_ne_bytes([24, 0, 4, b'4', b'2', 0, 0, 0]);
        names[5] = u64::from_ne_bytes([24, 0, 4, b'.', b'.', 0, 0, 0]);
        names[8] = u64::from_ne_bytes([3, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(entry(&names, 0, 72), Some((24, Some(42))));
        assert_eq!(entry(&names, 24, 72), Some((24, None)));
        assert_eq!(entry(&names, 48, 72), None, "shorter than its head");
        assert_eq!(entry(&names, 48, 60), None, "beyond the end");
    }
}
