// SPDX-License-Identifier: MIT OR Apache-2.0
use super::super::exchange::tests::{LENGTH, threads_count};
use super::super::tracing::{Status, may_trace};
use super::*;
use crate::atomic::{AtomicBool, AtomicU64};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Two helpers at a time would hinder each other.
static ONE: Mutex<()> = Mutex::new(());

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: c_int) {
    // Relaxed: a count.
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Threads that count in the pages lose nothing; one that sleeps in `epoll_wait` hears of
/// nothing; signals arrive, each once.
#[test]
fn threads_notice_nothing() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
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
        let done = stop_threads(&over, wakes.as_fd());
        assert_eq!(sleeping.join().unwrap(), Ok(1), "epoll_wait failed");
        (sending.join().unwrap(), done)
    });
    eprintln!("threads were stopped in {done} rounds");
    assert!(done > 0, "threads could not be stopped in any round");
    assert_eq!(SIGNALS.load(Ordering::Relaxed), sent);
}

/// Stops all threads again and again; then says that it is over, and wakes those that sleep. In how
/// many rounds they could be stopped.
fn stop_threads(over: &AtomicBool, wakes: BorrowedFd<'_>) -> u64 {
    let mut done = 0;
    // SAFETY: `threads_count`'s pages; no locks are held.
    threads_count(|pages, base| unsafe {
        let is_done = exchange_frozen(pages, base);
        done += u64::from(is_done);
        is_done
    });
    // Relaxed: a flag.
    over.store(true, Ordering::Relaxed);
    rustix::io::write(wakes, &1_u64.to_ne_bytes()).unwrap();
    done
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

/// Signals that the program ignores, and one that the sleeping thread has blocked, wake nobody,
/// though the kernel has them wait while threads are traced.
#[test]
fn signals_that_nobody_hears_wake_nobody() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (over, sleeper, wakes) = (AtomicBool::new(false), AtomicU64::new(0), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    std::thread::scope(|scope| {
        let ignoring = scope.spawn(|| {
            // Relaxed: a number. SAFETY: a call that returns one.
            sleeper.store(unsafe { libc::gettid() } as u64, Ordering::Relaxed);
            sleep_until_woken(wakes.as_raw_fd())
        });
        let blocking = scope.spawn(|| {
            let _mask = Blocked::new();
            // SAFETY: a signal to this thread, which has it blocked.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGUSR1) };
            let woken = sleep_until_woken(wakes.as_raw_fd());
            // Taken back.
            let (set, now) = (1_u64 << (libc::SIGUSR1 - 1), [0_u64; 2]);
            // SAFETY: a set of signals and a time of this thread's.
            unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, &raw const set, 0, &raw const now, 8) };
            woken
        });
        scope.spawn(|| {
            // Relaxed: a flag, and a number.
            while !over.load(Ordering::Relaxed) {
                let thread = sleeper.load(Ordering::Relaxed);
                for signal in [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH] {
                    // SAFETY: signals to a thread of this process, which ignores them.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
                }
            }
        });
        let done = stop_threads(&over, wakes.as_fd());
        assert_eq!([ignoring, blocking].map(|thread| thread.join().unwrap()), [Ok(1); 2], "epoll_wait failed");
        assert!(done > 0, "threads could not be stopped in any round");
    });
}

/// A thread that another process traces, as a debugger does: nothing is done, and all go on.
#[test]
fn gives_up() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A process that kills the children of a thread as soon as it sees them, until it is killed.
fn killer_of_children(thread: c_int) -> c_int {
    // SAFETY: a fork; the C library makes memory usable in the child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a call that returns a number.
        let (parent, own) = unsafe { (libc::getppid(), libc::getpid()) };
        let list = format!("/proc/{parent}/task/{thread}/children");
        loop {
            // SAFETY: it kills nothing but children of this test's, and ends with its parent.
            unsafe {
                let found = std::fs::read_to_string(&list).unwrap_or_default();
                for child in found.split_ascii_whitespace().filter_map(|n| n.parse().ok()).filter(|n| *n != own) {
                    libc::kill(child, libc::SIGKILL);
                }
                if libc::getppid() != parent {
                    libc::_exit(0);
                }
            }
        }
    }
    child
}

/// The helper is killed at any moment: the pages are the old ones or the new ones, as it is told,
/// and all threads go on.
#[test]
fn the_helper_is_killed() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a call that returns a number.
    let killer = killer_of_children(unsafe { libc::gettid() });
    let (mut done, mut not) = (0, 0);
    threads_count(|pages, base| {
        // SAFETY: `threads_count`'s pages; no locks are held.
        let is_done = unsafe { exchange_frozen(pages, base) };
        let own = core::ptr::with_exposed_provenance_mut::<u64>(base + pages.len() - 8);
        let theirs = core::ptr::with_exposed_provenance::<u64>(pages.end - 8);
        // SAFETY: mapped; nobody uses the last word of either.
        unsafe {
            own.write_volatile(7);
            assert_eq!(theirs.read_volatile() == 7, is_done, "what lies there is not what was said");
            own.write_volatile(0);
        }
        done += u32::from(is_done);
        not += u32::from(!is_done);
        is_done
    });
    // SAFETY: this test's own child.
    unsafe {
        libc::kill(killer, libc::SIGKILL);
        libc::waitpid(killer, null_mut(), 0);
    }
    eprintln!("{not} helpers were killed in time, {done} were not");
    assert!(not > 0, "no helper was killed");
}

/// With filters of system calls that refuse `ptrace`, or end the process that calls it, memory is
/// left alone, and the program goes on.
#[test]
fn filters_of_system_calls() {
    const FILTER: &str = "BELLWIRE_TEST_FILTER";
    const KILL: u32 = 0x8000_0000;
    const TRAP: u32 = 0x0003_0000;
    const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;
    let Some(action) = std::env::var(FILTER).ok().and_then(|a| a.parse::<u32>().ok()) else {
        for action in [REFUSE, KILL, TRAP] {
            let test = "adopt::freeze::tests::filters_of_system_calls";
            let status = Command::new(std::env::current_exe().unwrap()).args(["--exact", test]).env(FILTER, action.to_string()).status().unwrap();
            assert!(status.success(), "filter {action:#x}: {status}");
        }
        return;
    };
    assert!(may_trace(&Status::read().unwrap()) || Status::read().unwrap().filters != 0);
    filter_ptrace(action);
    let status = Status::read().unwrap();
    assert!(status.filters != 0);
    assert!(!may_trace(&status) && !may_trace(&status), "the second answer is the first one, kept");
    if action == REFUSE {
        // SAFETY: `threads_count`'s pages; no locks are held.
        threads_count(|pages, base| unsafe {
            assert!(!exchange_frozen(pages, base));
            false
        });
    }
}

/// From now on this thread, and those that it starts, meet `action` when they call `ptrace`.
fn filter_ptrace(action: u32) {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let filter = [
        libc::sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: libc::SYS_ptrace as u32 },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: action },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0x7fff_0000 },
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: a filter of the shape that the kernel reads.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// How long all threads stand still, for the most bytes; of interest beside the bound.
#[test]
#[ignore = "a figure"]
fn the_longest_stop() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let length = *BYTES.end();
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    let (mut stops, over) = (Vec::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let longest = scope.spawn(|| {
            let (mut before, mut longest) = (now(), 0);
            // Relaxed: a flag.
            while !over.load(Ordering::Relaxed) {
                let new = now();
                longest = longest.max(new - before);
                before = new;
            }
            longest
        });
        for _ in 0..5 {
            // SAFETY: new mappings, which nobody else uses.
            unsafe {
                let at = mmap_anonymous(null_mut(), length, rights, MapFlags::PRIVATE).unwrap();
                bring_in(at.expose_provenance(), length);
                let base = mmap_anonymous(null_mut(), length, rights, MapFlags::SHARED).unwrap();
                let began = now();
                assert!(exchange_frozen(&(at.addr()..at.addr() + length), base.expose_provenance()));
                stops.push((now() - began) / 1000);
                munmap(at, length).unwrap();
                munmap(base, length).unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
        eprintln!("{length} bytes: calls {stops:?} us; a thread stood for {} us at most", longest.join().unwrap() / 1000);
    });
}

#[test]
fn places_in_files() {
    let maps = "1000-3000 rw-s 00002000 00:01 77 /memfd:x (deleted)\n3000-4000 rw-p 00000000 00:00 0 \n";
    assert_eq!(place(maps, 0x2008), Some(("00:01", 77, 0x3008)));
    assert_eq!(place(maps, 0x3000), None, "private memory");
    assert_eq!(place(maps, 0x4000), None, "nothing");
}
